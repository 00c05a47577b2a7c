package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"liqo.io/playground/cloud"
	"liqo.io/playground/cluster"
	"liqo.io/playground/fakekubelet"
	"liqo.io/playground/network"
	"liqo.io/playground/node"
)

// internals returns the hidden commands that the playground starts for its own use.
func (e *env) internals() []*cobra.Command {
	list := []*cobra.Command{nodeInit(), forward(), cloudController(), fakeKubelet()}
	for _, cmd := range list {
		cmd.Hidden = true
	}
	return list
}

func nodeInit() *cobra.Command {
	return &cobra.Command{
		Use: "node-init FILE", Short: "Be the first process of a node", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return node.Init(args[0]) },
	}
}

func forward() *cobra.Command {
	var internet, listen, to string
	cmd := &cobra.Command{
		Use: "forward", Short: "Lead from a port of this machine to an address of a node", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if word, err := io.ReadAll(os.Stdin); err != nil || string(word) != cluster.ForwardWord {
				return errors.New("waiting for the start: whoever starts this forwarder has gone")
			}
			listener, err := net.Listen("tcp4", listen)
			if err != nil {
				return fmt.Errorf("opening the port: %w", err)
			}
			return network.Internet{Path: internet}.Forward(cmd.Context(), listener, to, slog.Default())
		},
	}
	cmd.Flags().StringVar(&internet, "internet", "", "file of the network namespace")
	cmd.Flags().StringVar(&listen, "listen", "", "address and port of this machine")
	cmd.Flags().StringVar(&to, "to", "", "address and port inside the namespace")
	return cmd
}

func cloudController() *cobra.Command {
	var config cloud.Config
	var pool string
	cmd := &cobra.Command{
		Use: "cloud-controller", Short: "Give load balancers their addresses and claims their volumes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if pool != "" {
				prefix, err := netip.ParsePrefix(pool)
				if err != nil {
					return fmt.Errorf("reading --address-pool: %w", err)
				}
				config.AddressPool = []netip.Prefix{prefix}
			}
			return cloud.Run(cmd.Context(), config)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&config.Kubeconfig, "kubeconfig", "", "kubeconfig of an administrator")
	flags.StringVar(&config.ClusterName, "cluster-name", "", "for the log")
	flags.StringVar(&pool, "address-pool", "", "network the addresses are from; without one, load balancers have no address")
	flags.StringVar(&config.VolumeRoot, "volume-root", "", "folder of the volumes, the same on all nodes")
	return cmd
}

func fakeKubelet() *cobra.Command {
	var config fakekubelet.Config
	var pods string
	cmd := &cobra.Command{
		Use: "fake-kubelet", Short: "Be the kubelet of make-believe nodes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			prefix, err := netip.ParsePrefix(pods)
			if err != nil {
				return fmt.Errorf("reading --pod-cidr: %w", err)
			}
			config.PodCIDR = prefix
			return fakekubelet.Run(cmd.Context(), config)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&config.Kubeconfig, "kubeconfig", "", "kubeconfig of an administrator")
	flags.IntVar(&config.Nodes, "nodes", 0, "number of nodes")
	flags.StringVar(&config.NamePrefix, "name-prefix", "", "nodes are PREFIX-0, PREFIX-1, ...")
	flags.IntVar(&config.Pods, "pods", 0, "pods that each node takes; 110 if zero")
	flags.StringVar(&pods, "pod-cidr", "", "network the pods' addresses are from")
	return cmd
}
