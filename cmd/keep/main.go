// Command keep supervises the program given by its arguments, and restarts it whenever it ends.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"liqo.io/liqo/internal/keep"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := keep.Running(ctx, os.Args[1:], slog.New(slog.NewJSONHandler(os.Stderr, nil))); err != nil {
		fmt.Fprintln(os.Stderr, "keep:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}
