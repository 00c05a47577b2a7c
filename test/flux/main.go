// Command flux replaces Flux in tests of the examples, because Flux's controllers are not built here. It reads manifests from its standard input, as
// "kubectl kustomize" prints them, installs or upgrades each HelmRelease with Helm's library, and prints the other manifests for "kubectl apply".
//
//	flux -chart DIR [-set NAME=VALUE,...] <manifests
//
// It takes the chart from a folder instead of the HelmRepository, and uses the cluster of $KUBECONFIG.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	chart := flag.String("chart", "", "folder of the chart of all HelmReleases")
	set := flag.String("set", "", "more values of the chart, NAME=VALUE separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, *chart, *set, os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
