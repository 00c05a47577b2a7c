// Command liqoctl installs Liqo, peers clusters and offloads namespaces. As kubectl-liqo it is a kubectl plugin.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"liqo.io/liqo/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal is not caught, so that it ends the program at once.
	context.AfterFunc(ctx, stop)
	code := cli.Main(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	stop()
	os.Exit(code)
}
