package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"liqo.io/playground/node"
)

func (e *env) load() *cobra.Command {
	var name, nodeName string
	cmd := &cobra.Command{
		Use:   "image-archive FILE... --name NAME",
		Short: "Load images into the nodes of a cluster",
		Long: `Load images from archives, as "playground build-image" or "docker save" write them, into all nodes of a cluster or one of them.
Pods find them without pulling, unless their imagePullPolicy is Always.`,
		Example: "  playground load image-archive app.tar --name rome\n  playground load image-archive app.tar db.tar --name rome --node rome-2",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			machine, err := e.machine()
			if err != nil {
				return err
			}
			nodes, err := machine.Nodes(name)
			if err != nil {
				return err
			}
			if nodeName != "" {
				if _, err := machine.NodeDir(name, nodeName); err != nil {
					return err
				}
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			var group errgroup.Group
			for _, n := range nodes {
				if nodeName != "" && n.Name != nodeName {
					continue
				}
				group.Go(func() error {
					for _, file := range files {
						if err := loadInto(cmd, self, name, n.Name, file); err != nil {
							return fmt.Errorf("loading %s into %s: %w", file, n.Name, err)
						}
						e.report("loaded %s into %s", file, n.Name)
					}
					return nil
				})
			}
			return group.Wait()
		},
	}
	named(cmd, &name, true)
	cmd.Flags().StringVar(&nodeName, "node", "", "only this node")
	complete(cmd, "node", nodeNames)
	return group("load", "Load images into nodes", cmd)
}

// loadInto imports an image archive into a node. It starts another process to enter the node, because node.Exec moves its process permanently
// into the node's control group, and one command may load images into several nodes.
func loadInto(cmd *cobra.Command, self, name, nodeName, file string) error {
	archive, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	load := exec.CommandContext(cmd.Context(), self, "exec", "--name", name, "--node", nodeName, "--",
		"ctr", "--namespace=k8s.io", "images", "import", "--local", "-")
	load.Stdin = archive
	if out, err := load.CombinedOutput(); err != nil {
		return errors.New(strings.TrimSpace(string(out)))
	}
	return nil
}

func (e *env) exec() *cobra.Command {
	var name, nodeName string
	cmd := &cobra.Command{
		Use:   "exec (--name NAME | --node NODE) -- COMMAND [ARGUMENT...]",
		Short: "Run a command inside a node",
		Long: `Run a command in all namespaces and in the control group of a node: the control plane node unless another one is named. The exit code is
that of the command. kubectl, ctr and the other programs are in PATH; kubectl is set up on the control plane node.`,
		Example: `  playground exec --name rome -- kubectl get pods -A
  playground exec --node rome-2 -- ip route
  playground exec --node rome-2 -- ctr containers ls`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			machine, err := e.machine()
			if err != nil {
				return err
			}
			dir, err := machine.NodeDir(name, nodeName)
			if err != nil {
				return err
			}
			err = node.Exec(dir, args, node.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
			var failed *exec.ExitError
			if errors.As(err, &failed) && failed.ExitCode() > 0 {
				return exited{failed.ExitCode()}
			}
			return err
		},
	}
	cmd.Flags().SetInterspersed(false)
	named(cmd, &name, false)
	cmd.Flags().StringVar(&nodeName, "node", "", "name of the node (default: the cluster's control plane)")
	complete(cmd, "node", nodeNames)
	cmd.MarkFlagsOneRequired("name", "node")
	return cmd
}

func either(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Concat(clusterNames(), nodeNames()), cobra.ShellCompDirectiveNoFileComp
}

func (e *env) partition() *cobra.Command {
	return &cobra.Command{
		Use:   "partition A B",
		Short: "Cut all traffic between two clusters or nodes",
		Long: `Cut all traffic between A and B, each the name of a cluster or of a node; connections that are established freeze too. This machine still reaches
all of them. With the same cluster twice, its nodes are cut off from each other.`,
		Example:           "  playground partition rome milan\n  playground partition rome-2 milan",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: either,
		RunE: func(_ *cobra.Command, args []string) error {
			machine, err := e.machine()
			if err != nil {
				return err
			}
			return machine.Partition(args[0], args[1], false)
		},
	}
}

func (e *env) heal() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:               "heal (A B | --all)",
		Short:             "End the partition between two clusters or nodes, or all partitions",
		Example:           "  playground heal rome milan\n  playground heal --all",
		ValidArgsFunction: either,
		Args: func(_ *cobra.Command, args []string) error {
			if all != (len(args) == 0) || !all && len(args) != 2 {
				return errors.New("want either two names or --all")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			machine, err := e.machine()
			if err != nil {
				return err
			}
			if all {
				return machine.HealAll()
			}
			return machine.Partition(args[0], args[1], true)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "end all partitions")
	return cmd
}
