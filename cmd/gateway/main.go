// Command gateway runs in the containers of gateway pods. Depending on its first argument, it prepares the network namespace, owns
// the tunnel to a peer, or decides how the tunnel is used.
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
	err := app.Gateway(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}
