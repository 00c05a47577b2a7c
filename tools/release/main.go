// Command release builds a release of Liqo into a folder, and pushes its images and its chart to a registry.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"liqo.io/liqo/tools/release/oci"
	"liqo.io/liqo/tools/release/plan"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("want a command: build or push")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	dist := flags.String("dist", "dist", "folder of the release")
	registry := flags.String("registry", "", "registry of the images, HOST/PATH")
	switch args[0] {
	case "push":
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(*dist, sumsFile)); err != nil {
			return fmt.Errorf("%s has no whole release: run make release first: %w", *dist, err)
		}
		for _, layout := range []string{imageLayout, chartLayout} {
			err := oci.Push(ctx, filepath.Join(*dist, layout), *registry, func(reference string, digest v1.Hash) {
				fmt.Printf("%s@%s\n", reference, digest)
			})
			if err != nil {
				return err
			}
		}
		return nil
	case "build":
		r := release{}
		flags.StringVar(&r.repository, "repository", ".", "folder of the sources")
		flags.StringVar(&r.version, "version", "", "version, such as v1.2.3")
		flags.StringVar(&r.downloads, "downloads", "", "URL of the folder that users download the files from")
		flags.StringVar(&r.work, "work", "", "folder for programs; it is kept, so that the next run is faster")
		flags.BoolVar(&r.snapshot, "snapshot", false, "build what is not committed, too")
		platforms := flags.String("platforms", "", "only these, OS/ARCH separated by commas")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		r.dist, r.registry = *dist, *registry
		var err error
		if r.work, err = filepath.Abs(r.work); err != nil { // Go runs in folders of modules
			return err
		}
		if r.platforms, err = plan.Select(*platforms); err != nil {
			return err
		}
		return r.build(ctx)
	default:
		return fmt.Errorf("command %q: want build or push", args[0])
	}
}
