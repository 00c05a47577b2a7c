// Package cli implements the command line of the playground.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/signal"
	"reflect"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"liqo.io/playground/build"
	"liqo.io/playground/cgroup"
	"liqo.io/playground/cluster"
	"liqo.io/playground/host"
	"liqo.io/playground/image"
)

// env is the environment that all commands share.
type env struct {
	sources fs.FS
	out     io.Writer
	// log receives progress and error messages for the user.
	log io.Writer
	mu  sync.Mutex
}

// Main runs the command line of this process and returns its exit code.
func Main(sources fs.FS) int {
	// Nodes and forwarders outlive this command. They must not inherit the open files of this command's caller, such as the lock of flock(1).
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		fmt.Fprintln(os.Stderr, "playground: marking open files:", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	e := &env{sources: sources, out: os.Stdout, log: os.Stderr}
	return e.end(e.root().ExecuteContext(ctx))
}

// exited is the error of a command inside a node that failed. That command has already printed its own error message, so end prints none.
// Failures of other programs, such as the compiler or nft, are ordinary errors that end prints.
type exited struct{ code int }

func (e exited) Error() string { return fmt.Sprintf("the command has ended with code %d", e.code) }

// end prints the error and returns the exit code.
func (e *env) end(err error) int {
	var command exited
	switch {
	case err == nil:
		return 0
	case errors.As(err, &command):
		return command.code
	}
	fmt.Fprintln(e.log, "playground:", err)
	return 1
}

func (e *env) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "playground",
		Short: "Real Kubernetes clusters on one Linux machine",
		Long: `playground runs real Kubernetes clusters on one Linux machine, without Docker: each node is a set of namespaces with its own
control plane programs, kubelet and containerd. Clusters may have the same pod and service addresses; their nodes share one
network, the "internet", and everything can be stopped, killed, cut off and healed.

It needs root, runc, nftables and a static busybox, and Go to build the programs once.`,
		Example: `  playground create cluster --name rome --nodes 2
  playground get kubeconfig --name rome > rome.kubeconfig
  playground delete cluster --all`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(e.build(), e.create(), e.delete(), e.get(), e.load(), e.exec(), e.partition(), e.heal(),
		e.stop(), e.kill(), e.start(), image.Command(build.CacheDir, e.report))
	root.AddCommand(e.internals()...)
	return root
}

// group returns a command that only contains subcommands.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(children...)
	return cmd
}

// machine checks that clusters can run on this machine and returns it.
func (e *env) machine() (cluster.Machine, error) {
	if err := host.Require(); err != nil {
		return cluster.Machine{}, err
	}
	hierarchies, err := cgroup.Find()
	if err != nil {
		return cluster.Machine{}, err
	}
	home, err := cluster.Home()
	return cluster.Machine{Home: home, Hierarchies: hierarchies, Report: e.report}, err
}

func (e *env) report(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fmt.Fprintf(e.log, format+"\n", args...)
}

// set builds all missing programs and images, and returns their folder. With verbose, it also reports what is in the cache already.
func (e *env) set(ctx context.Context, metricsServer, verbose bool) (string, error) {
	if err := host.RequireBuild(); err != nil {
		return "", err
	}
	cache, err := build.CacheDir()
	if err != nil {
		return "", err
	}
	builder := build.Builder{
		Cache: cache, Sources: e.sources,
		Start: func(name string) { e.report("building %s ...", name) },
		Wait:  func(holder string) { e.report("waiting for %s, which builds ...", holder) },
		Report: func(s build.Step) {
			switch {
			case !s.Cached:
				e.report("built %s in %.1f s", s.Name, s.Duration.Seconds())
			case verbose:
				e.report("%s is in the cache", s.Name)
			}
		},
	}
	return builder.Set(ctx, metricsServer)
}

// json prints a value. A nil slice is an empty list, not null.
func (e *env) json(value any) error {
	if list := reflect.ValueOf(value); list.Kind() == reflect.Slice && list.IsNil() {
		value = []any{}
	}
	encoder := json.NewEncoder(e.out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// output adds the flag --output (-o).
func output(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVarP(into, "output", "o", "", `"json" for programs (default: a table for people)`)
	complete(cmd, "output", func() []string { return []string{"json"} })
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *into != "" && *into != "json" {
			return fmt.Errorf("output %q: want json", *into)
		}
		return nil
	}
}

// complete registers shell completion for a flag.
func complete(cmd *cobra.Command, flag string, values func() []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values(), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag is defined just before
	}
}

// clusterNames and nodeNames are for shell completion, which cannot show errors, so they ignore all errors.
func clusterNames() []string {
	home, err := cluster.Home()
	if err != nil {
		return nil
	}
	states, _ := cluster.Machine{Home: home}.List()
	var names []string
	for _, s := range states {
		names = append(names, s.Name)
	}
	return names
}

func nodeNames() []string {
	home, err := cluster.Home()
	if err != nil {
		return nil
	}
	states, _ := cluster.Machine{Home: home}.List()
	var names []string
	for _, s := range states {
		for _, n := range s.List() {
			names = append(names, n.Name)
		}
	}
	return names
}

// named adds the flag --name for the name of a cluster.
func named(cmd *cobra.Command, into *string, required bool) {
	cmd.Flags().StringVar(into, "name", "", "name of the cluster")
	complete(cmd, "name", clusterNames)
	if required {
		require(cmd, "name")
	}
}

func require(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagRequired(flag); err != nil {
		panic(err) // the flag is defined just before
	}
}

func since(t time.Time) string { return fmt.Sprintf("%.1f s", time.Since(t).Seconds()) }
