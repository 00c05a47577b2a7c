// Command controller-manager runs in every cluster with Liqo. It peers with other clusters, offers resources to them, and
// reconciles the objects of offloaded workloads.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/app"
	"liqo.io/liqo/internal/install/definitions"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/internal/version"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "controller-manager: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	flags := flag.NewFlagSet("controller-manager", flag.ExitOnError)
	verbose := flags.Bool("verbose", false, "also log the conditions for which objects wait")
	applyCRDs := flags.Bool("apply-crds", false, "only update the custom resource definitions to this version, and exit")
	var opts app.ControllerManagerOptions
	var discovery app.DiscoveryOptions
	opts.AddFlags(flags)
	discovery.AddFlags(flags)
	if err := flags.Parse(os.Args[1:]); err != nil {
		return fmt.Errorf("reading flags: %w", err)
	}
	level := slog.LevelInfo
	if *verbose {
		level = slog.LevelDebug
	}
	app.NewLog(level).Info("Starting the controller manager", "version", version.Version, "clusterID", opts.ClusterID)

	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("reading the configuration of the API server: %w", err)
	}
	remote.RefuseRedirects(cfg)
	if *applyCRDs {
		return definitions.Apply(ctrl.SetupSignalHandler(), cfg)
	}
	if discovery.Enabled {
		return app.Discovery(ctrl.SetupSignalHandler(), cfg, &opts, &discovery)
	}
	return app.ControllerManager(ctrl.SetupSignalHandler(), cfg, &opts)
}
