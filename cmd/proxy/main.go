// Command proxy gives peers access to this cluster's API server, and to nothing else, through the tunnel between the clusters.
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
	err := app.Proxy(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}
