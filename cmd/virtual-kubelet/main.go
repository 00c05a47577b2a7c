// Command virtual-kubelet represents a provider as a virtual node of this cluster and runs the pods of that node in the provider.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"liqo.io/liqo/internal/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := app.VirtualKubelet(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "virtual-kubelet:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}
