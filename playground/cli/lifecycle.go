package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"liqo.io/playground/cluster"
	"liqo.io/playground/component"
)

func (e *env) build() *cobra.Command {
	var metricsServer bool
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build all programs and images now, or find them in the cache",
		Long: `Build all programs and images that clusters run, from the Go module proxy, each once per version. The cache is $PLAYGROUND_CACHE,
else $XDG_CACHE_HOME/liqo-playground, else ~/.cache/liqo-playground. "create cluster" does the same when something is missing.`,
		Example: "  playground build\n  playground build --metrics-server",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			began := time.Now()
			set, err := e.set(cmd.Context(), metricsServer, true)
			if err != nil {
				return err
			}
			e.report("everything is in %s, after %s", set, since(began))
			return nil
		},
	}
	cmd.Flags().BoolVar(&metricsServer, "metrics-server", false, "build metrics-server too")
	return cmd
}

func (e *env) create() *cobra.Command {
	var want component.Cluster
	var pods, services string
	var patience time.Duration
	var ifNotExists bool
	cmd := &cobra.Command{
		Use:   "cluster --name NAME",
		Short: "Create a cluster and wait until it is ready",
		Long: `Create a cluster and wait until its API server, its nodes and its DNS are ready. If that fails, nothing is left of it.
A creation that was cut short is carried on by the same command.`,
		Example: `  playground create cluster --name rome
  playground create cluster --name milan --nodes 3 --metrics-server
  playground create cluster --name big --control-plane-only --fake-nodes 100`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			began := time.Now()
			var err error
			if want.PodCIDR, err = netip.ParsePrefix(pods); err != nil {
				return fmt.Errorf("reading --pod-cidr: %w", err)
			}
			if want.ServiceCIDR, err = netip.ParsePrefix(services); err != nil {
				return fmt.Errorf("reading --service-cidr: %w", err)
			}
			machine, err := e.machine()
			if err != nil {
				return err
			}
			set, err := e.set(cmd.Context(), want.MetricsServer, false)
			if err != nil {
				return err
			}
			err = machine.Create(cmd.Context(), want, set, patience)
			if errors.Is(err, cluster.ErrExists) && ifNotExists {
				return e.existing(cmd.Context(), machine, want.Name)
			}
			if err != nil {
				return err
			}
			e.report("cluster %s is ready after %s: playground get kubeconfig --name %s", want.Name, since(began), want.Name)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&want.Name, "name", "", "name of the cluster; its nodes are NAME-1, NAME-2, ...")
	require(cmd, "name")
	flags.IntVar(&want.Nodes, "nodes", 1, "number of nodes; the first is the control plane too")
	flags.StringVar(&pods, "pod-cidr", "10.244.0.0/16", "addresses of pods; may be the same in every cluster")
	flags.StringVar(&services, "service-cidr", "10.96.0.0/16", "addresses of services; may be the same in every cluster")
	flags.StringVar(&want.CNI, "cni", component.PointToPoint, "how pods are joined to their node: "+component.PointToPoint+" or "+component.Bridge)
	flags.BoolVar(&want.ControlPlaneOnly, "control-plane-only", false, "run only etcd, API server, controller manager and scheduler: no pod ever runs")
	flags.IntVar(&want.FakeNodes, "fake-nodes", 0, "with --control-plane-only: number of make-believe nodes, whose pods are Ready at once")
	flags.BoolVar(&want.MetricsServer, "metrics-server", false, "install metrics-server")
	flags.BoolVar(&want.Audit, "audit", false, "log every write to the API server, without bodies, to audit.log in the node's log folder")
	flags.BoolVar(&want.NoLoadBalancers, "no-load-balancers", false, "give Services of type LoadBalancer no address")
	flags.BoolVar(&want.NoClientSigner, "no-client-signer", false, "sign no certificates for users (signer kubernetes.io/kube-apiserver-client)")
	flags.StringVar(&want.PodSecurity, "pod-security", "", "level of Pod Security for namespaces that say nothing: baseline or restricted")
	flags.StringVar(&want.APIServerName, "api-server-name", "", "one more name or address in the certificate of the API server")
	flags.DurationVar(&patience, "wait", 2*time.Minute, "how long it may take, not counting the building of programs")
	flags.BoolVar(&ifNotExists, "if-not-exists", false, "it is no error if the cluster is there already and is healthy")
	return group("create", "Create a cluster", cmd)
}

func (e *env) existing(ctx context.Context, machine cluster.Machine, name string) error {
	state, err := machine.Get(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := machine.Healthy(ctx, state); err != nil {
		return fmt.Errorf("cluster %q exists, but is not healthy: %w; see playground get nodes --name %s, start what has stopped, or delete the cluster", name, err, name)
	}
	e.report("cluster %s exists and is healthy", name)
	return nil
}

func (e *env) delete() *cobra.Command {
	var name string
	var all, ifExists bool
	cmd := &cobra.Command{
		Use:   "cluster (--name NAME | --all)",
		Short: "Delete a cluster with everything it has",
		Long: `Delete a cluster: its processes, mounts, namespaces, control groups, interfaces and disks. With the last one goes what clusters
share, and the machine's settings are put back.`,
		Example: "  playground delete cluster --name rome\n  playground delete cluster --all",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			machine, err := e.machine()
			if err != nil {
				return err
			}
			known, err := machine.Names()
			if err != nil {
				return err
			}
			names := []string{name}
			if all {
				names = known
			} else if err := deletable(name, known); err != nil && !ifExists {
				return err
			}
			var group errgroup.Group
			for _, name := range names {
				group.Go(func() error {
					if err := machine.Delete(cmd.Context(), name); err != nil {
						return err
					}
					if slices.Contains(known, name) {
						e.report("cluster %s is gone", name)
					} else {
						e.report("there is no cluster %s", name)
					}
					return nil
				})
			}
			return group.Wait()
		},
	}
	named(cmd, &name, false)
	cmd.Flags().BoolVar(&all, "all", false, "delete all clusters")
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "it is no error if there is no such cluster")
	cmd.MarkFlagsOneRequired("name", "all")
	cmd.MarkFlagsMutuallyExclusive("name", "all")
	return group("delete", "Delete a cluster", cmd)
}

// deletable returns an error if the named cluster is not among the known clusters.
func deletable(name string, known []string) error {
	switch {
	case slices.Contains(known, name):
		return nil
	case len(known) == 0:
		return fmt.Errorf("there is no cluster %q, nor any other (--if-exists makes that no error)", name)
	}
	return fmt.Errorf("there is no cluster %q, there are: %s (--if-exists makes that no error)", name, strings.Join(known, ", "))
}
