package cli

import (
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"liqo.io/playground/component"
	"liqo.io/playground/node"
)

func (e *env) get() *cobra.Command {
	return group("get", "Print clusters, nodes, partitions, kubeconfigs, or where the programs are",
		e.getClusters(), e.getNodes(), e.getPartitions(), e.getKubeconfig(), e.getBinaries(), e.getImages())
}

func (e *env) getClusters() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "clusters", Aliases: []string{"cluster"}, Short: "Print all clusters", Args: cobra.NoArgs,
		Example: "  playground get clusters\n  playground get clusters -o json",
		RunE: func(*cobra.Command, []string) error {
			machine, err := e.machine()
			if err != nil {
				return err
			}
			states, err := machine.List()
			if err != nil {
				return err
			}
			if format == "json" {
				return e.json(states)
			}
			table := tabwriter.NewWriter(e.out, 0, 8, 3, ' ', 0)
			fmt.Fprintln(table, "NAME\tNODES\tPODS\tSERVICES\tLOAD BALANCERS\tAPI SERVER\tFROM THIS MACHINE\tSTATE")
			for _, s := range states {
				state, nodes := "complete", s.Nodes
				if !s.Complete {
					state = "incomplete"
				}
				if s.ControlPlaneOnly {
					nodes = s.FakeNodes
				}
				fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, nodes, s.PodCIDR, s.ServiceCIDR, s.LoadBalancers(), s.Server(), s.ForwardServer(), state)
			}
			return table.Flush()
		},
	}
	output(cmd, &format)
	return cmd
}

func (e *env) getNodes() *cobra.Command {
	var format, name string
	cmd := &cobra.Command{
		Use: "nodes", Aliases: []string{"node"}, Short: "Print the nodes of one or all clusters, and their programs", Args: cobra.NoArgs,
		Example: "  playground get nodes\n  playground get nodes --name rome -o json",
		RunE: func(*cobra.Command, []string) error {
			machine, err := e.machine()
			if err != nil {
				return err
			}
			nodes, err := machine.Nodes(name)
			if err != nil {
				return err
			}
			if format == "json" {
				return e.json(nodes)
			}
			table := tabwriter.NewWriter(e.out, 0, 8, 3, ' ', 0)
			fmt.Fprintln(table, "NAME\tCLUSTER\tADDRESS\tSTATE\tPROGRAMS\tLOGS")
			for _, n := range nodes {
				state, running, total := "stopped", 0, 0
				if n.Running {
					state = "running"
				}
				for _, p := range n.Programs {
					if p.State != node.Done {
						total++
					}
					if p.State == node.Running {
						running++
					}
				}
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d/%d\t%s\n", n.Name, n.Cluster, n.Address, state, running, total, filepath.Join(n.Dir, "log"))
			}
			return table.Flush()
		},
	}
	named(cmd, &name, false)
	output(cmd, &format)
	return cmd
}

func (e *env) getPartitions() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "partitions", Short: "Print the pairs of nodes that are cut off from each other", Args: cobra.NoArgs,
		Example: "  playground get partitions -o json",
		RunE: func(*cobra.Command, []string) error {
			machine, err := e.machine()
			if err != nil {
				return err
			}
			pairs, err := machine.Partitions()
			if err != nil {
				return err
			}
			if format == "json" {
				return e.json(pairs)
			}
			for _, p := range pairs {
				fmt.Fprintln(e.out, p[0], p[1])
			}
			return nil
		},
	}
	output(cmd, &format)
	return cmd
}

func (e *env) getKubeconfig() *cobra.Command {
	var name string
	var internal bool
	cmd := &cobra.Command{
		Use: "kubeconfig --name NAME", Short: "Print an administrator's kubeconfig of a cluster", Args: cobra.NoArgs,
		Long: `Print an administrator's kubeconfig. It works for programs of this machine, through a port of 127.0.0.1; with --internal it works
for nodes and pods of any cluster, at the address of the control plane node.`,
		Example: "  playground get kubeconfig --name rome > rome.kubeconfig\n  playground get kubeconfig --name rome --internal",
		RunE: func(*cobra.Command, []string) error {
			machine, err := e.machine()
			if err != nil {
				return err
			}
			data, err := machine.Kubeconfig(name, internal)
			if err != nil {
				return err
			}
			_, err = e.out.Write(data)
			return err
		},
	}
	named(cmd, &name, true)
	cmd.Flags().BoolVar(&internal, "internal", false, "for use by nodes and pods")
	return cmd
}

func (e *env) getBinaries() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "binaries", Short: "Print the folder that holds etcd, kube-apiserver, kubectl and the other programs", Args: cobra.NoArgs,
		Long: `Print the folder that holds etcd, kube-apiserver, kubectl and the other programs, and build them if they are missing. The programs also run
outside any node, so the folder can be the BinaryAssetsDirectory of controller-runtime's envtest.`,
		Example: "  export KUBEBUILDER_ASSETS=$(playground get binaries)\n  playground get binaries -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := e.set(cmd.Context(), false, false)
			if err != nil {
				return err
			}
			dir := filepath.Join(set, "bin")
			if format == "json" {
				return e.json(map[string]string{"directory": dir, "kubernetes": component.KubernetesVersion, "etcd": component.EtcdVersion})
			}
			_, err = fmt.Fprintln(e.out, dir)
			return err
		},
	}
	output(cmd, &format)
	return cmd
}

func (e *env) getImages() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "images", Short: "Print the names of the images every node has", Args: cobra.NoArgs,
		Example: "  playground get images",
		RunE: func(*cobra.Command, []string) error {
			names := []string{component.PauseImage, component.CoreDNSImage, component.TestServerImage, component.ShellImage}
			if format == "json" {
				return e.json(names)
			}
			for _, name := range names {
				fmt.Fprintln(e.out, name)
			}
			return nil
		},
	}
	output(cmd, &format)
	return cmd
}
