package object

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
)

// creation holds the flags of a command that creates an object in the tenant namespace of a peer.
type creation struct {
	peer    string
	wait    bool
	timeout time.Duration
	output  cmdline.Output
}

// add registers the flags. role is what the help calls the peer. wait is the help of --wait, empty for a command without it.
func (f *creation) add(a *session.Session, command *cobra.Command, role string, timeout time.Duration, wait string) {
	flags := command.Flags()
	session.AddClusterFlag(command, &f.peer, role)
	session.BeginsPeering(command)
	f.output.Add(flags, "Only print the object, do not create it")
	a.AddDryRun(flags)
	if wait == "" {
		flags.DurationVar(&f.timeout, "timeout", timeout, "Maximum time for the whole command")
		return
	}
	flags.BoolVar(&f.wait, "wait", false, wait)
	flags.DurationVar(&f.timeout, "timeout", timeout, "Maximum time to wait")
}

// create creates or updates the object, or only prints it if the user wants that. create sets the namespace and the label of the peer; fill sets the other
// fields.
func (f *creation) create(ctx context.Context, c *session.Cluster, object client.Object, fill func()) error {
	set := func() {
		kube.AddLabels(object, map[string]string{api.LabelRemoteClusterID: f.peer})
		fill()
	}
	object.SetNamespace(api.TenantNamespace(f.peer))
	if f.output.Format != "" {
		set()
		return session.PrintObject(c, object, f.output.Format)
	}
	namespace, err := session.EnsureTenantNamespace(ctx, c, f.peer)
	if err != nil {
		return err
	}
	object.SetNamespace(namespace)
	return createOrUpdate(ctx, c, object, set)
}

// waits reports whether the command waits after it created the object.
func (f *creation) waits() bool { return f.wait && f.output.Format == "" }

// createOrUpdate creates the object, or updates it to what the user wants. It reports which of the two it did, or that nothing had to be changed.
func createOrUpdate(ctx context.Context, c *session.Cluster, object client.Object, fill func()) error {
	existed := false
	changed, err := c.Ensure(ctx, object, func() error {
		existed = object.GetResourceVersion() != ""
		fill()
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case !existed:
		c.Did("%s created", c.Name(object))
	case changed:
		c.Did("%s existed already and was changed", c.Name(object))
	default:
		c.Info("%s exists already", c.Name(object))
	}
	return nil
}

// nameOr returns the name that the user passed as an argument, or else the default name.
func nameOr(args []string, usual string) string {
	if len(args) > 0 {
		return args[0]
	}
	return usual
}

// generation holds the flags of a command that prints an object for a peer.
type generation struct {
	namespace string
	timeout   time.Duration
	output    cmdline.Output
}

// add registers the flags.
func (f *generation) add(command *cobra.Command) {
	flags := command.Flags()
	cmdline.AddTimeout(flags, &f.timeout)
	flags.StringVarP(&f.output.Format, "output", "o", "yaml", "How to print the object: json or yaml")
	flags.StringVar(&f.namespace, "remote-tenant-namespace", "", "Namespace of the object in the peer (default: liqo-tenant- and the ID of this cluster)")
}

// print prints an object of this cluster for its tenant namespace in the peer.
func (f *generation) print(c *session.Cluster, object client.Object) error {
	kube.AddLabels(object, map[string]string{api.LabelRemoteClusterID: c.ID})
	object.SetNamespace(cmp.Or(f.namespace, api.TenantNamespace(c.ID)))
	return session.PrintObject(c, object, f.output.Format)
}
