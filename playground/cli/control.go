package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"liqo.io/playground/node"
)

func (e *env) stop() *cobra.Command {
	return group("stop", "Stop a node or one of its programs until it is started again",
		e.nodeCommand("stop", "Shut a node down; its disk stays", func(cmd *cobra.Command, name string) error {
			machine, err := e.machine()
			if err != nil {
				return err
			}
			return machine.StopNode(cmd.Context(), name, true)
		}),
		e.componentCommand("stop", "Stop a program of a node; it stays down until it is started", node.StopIt))
}

func (e *env) kill() *cobra.Command {
	return group("kill", "Kill a node or one of its programs",
		e.nodeCommand("kill", "Pull a node's plug; its disk stays", func(cmd *cobra.Command, name string) error {
			machine, err := e.machine()
			if err != nil {
				return err
			}
			return machine.StopNode(cmd.Context(), name, false)
		}),
		e.componentCommand("kill", "Kill a program of a node; it is started again by itself", node.KillIt))
}

func (e *env) start() *cobra.Command {
	return group("start", "Start a node or one of its programs that was stopped",
		e.nodeCommand("start", "Start a node with the disk it had", func(cmd *cobra.Command, name string) error {
			machine, err := e.machine()
			if err != nil {
				return err
			}
			return machine.StartNode(cmd.Context(), name)
		}),
		e.componentCommand("start", "Start a program of a node that was stopped", node.StartIt))
}

func (e *env) nodeCommand(verb, short string, run func(cmd *cobra.Command, name string) error) *cobra.Command {
	return &cobra.Command{
		Use: "node NODE", Short: short, Args: cobra.ExactArgs(1),
		Example: fmt.Sprintf("  playground %s node rome-2", verb),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nodeNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd, args[0]) },
	}
}

func (e *env) componentCommand(name, short string, verb node.Verb) *cobra.Command {
	var nodeName string
	cmd := &cobra.Command{
		Use: "component NAME --node NODE", Short: short, Args: cobra.ExactArgs(1),
		Example: fmt.Sprintf("  playground %s component kube-apiserver --node rome-1", name),
		ValidArgs: []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "containerd", "kube-proxy",
			"cloud-controller", "fake-kubelet"},
		RunE: func(_ *cobra.Command, args []string) error {
			machine, err := e.machine()
			if err != nil {
				return err
			}
			return machine.Component(verb, args[0], nodeName)
		},
	}
	cmd.Flags().StringVar(&nodeName, "node", "", "name of the node")
	complete(cmd, "node", nodeNames)
	require(cmd, "node")
	return cmd
}
