package moving

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/storage/move"
)

// moverImage is the name of the image of the pods that copy data. Its registry and tag are those of the installation.
const moverImage = "volume-mover"

// moveVolumeOptions holds the flags of move volume.
type moveVolumeOptions struct {
	claim      string
	node       string
	keepSource bool
	live       bool
	image      string
	output     string
	timeout    time.Duration
	// amounts are the quantities of the pods, by flag.
	amounts map[string]*string
}

// amountFlags are the flags for the resources of the pods, with the requests or limits that they set.
var amountFlags = []struct {
	flag, usage string
	resource    corev1.ResourceName
	limit       bool
}{
	{"containers-cpu-requests", "CPU that each pod requests, for example 500m", corev1.ResourceCPU, false},
	{"containers-cpu-limits", "Limit of the CPU of each pod, for example 1", corev1.ResourceCPU, true},
	{"containers-ram-requests", "Memory that each pod requests, for example 200M", corev1.ResourceMemory, false},
	{"containers-ram-limits", "Limit of the memory of each pod, for example 1Gi", corev1.ResourceMemory, true},
}

// resticFlags are flags of earlier versions, which ran images of the restic project. They keep their defaults, so that scripts that read the help
// text still work.
var resticFlags = map[string]string{"restic-server-image": "restic/rest-server:0.11.0", "restic-image": "restic/restic:0.14.0"}

// Command returns the command that moves things between clusters.
func Command(a *session.Session) *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:   "move",
		Short: "Move volumes to other clusters",
		Long:  "Move the data of claims of Liqo to another node, in this or another cluster.",
		Example: cmdline.Example(`
			# The pods of this claim follow it to milan
			%[1]s move volume data --namespace shop --target-node milan`),
	}, moveVolumeCommand(a))
}

func moveVolumeCommand(a *session.Session) *cobra.Command {
	o := moveVolumeOptions{amounts: map[string]*string{}}
	command := &cobra.Command{
		Use:     "volume PVC",
		Aliases: []string{"pvc"},
		Short:   "Move the data of a claim to another node",
		Long: "Move the data of a PersistentVolumeClaim of StorageClass liqo to a node of this cluster, or to a virtual node. No pod may mount it,\n" +
			"except with --live.\n" +
			"The command replaces the claim by one of the same name, copies the data through the network between the clusters, and compares the\n" +
			"checksums of both volumes. Then it deletes the old data.\n\n" +
			"Pods that use the claim stay pending during the move. If the command ends early, run it again: it resumes where it stopped. To cancel\n" +
			"an unfinished move, move the claim to the node that still has the data.\n\n" +
			"--live copies the data while pods use it. Then it scales their Deployment or StatefulSet down, copies the changes, and restores the\n" +
			"number of replicas at the target. A Deployment stops with all its pods. Of a StatefulSet with a claim for each pod, --live can only\n" +
			"move the claim of the last pod.",
		Example: cmdline.Example(`
			# From this cluster to milan
			%[1]s move volume data --namespace shop --target-node milan
			# And back, to a node of this cluster; the data in milan stays too
			%[1]s move volume data --namespace shop --target-node worker-1 --keep-source
			# While the database runs; it is stopped for some seconds
			%[1]s move volume data-db-0 --namespace shop --target-node milan --live`),
		Args:              cmdline.ExactlyOne("the name of the PersistentVolumeClaim"),
		ValidArgsFunction: a.CompleteFirst(func(ctx context.Context, c *session.Cluster) ([]string, error) { return claimNames(ctx, a, c) }),
	}
	o.add(a, command)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		o.claim = args[0]
		request, err := o.request()
		if err != nil {
			return err
		}
		ctx, alive, cancel := untilIdle(cmd.Context(), o.timeout)
		defer cancel()
		local, _, err := a.InstalledWithin(ctx)
		if err != nil {
			return err
		}
		for name := range resticFlags {
			if cmd.Flags().Changed(name) {
				local.Warn("--%s has no effect: the pods run one image of Liqo, see --image", name)
			}
		}
		if request.Namespace, err = session.ApplicationNamespace(a); err != nil {
			return err
		}
		return moveVolume(ctx, local, request, o.output != "", alive)
	}
	return command
}

// untilIdle returns a context that ends after a time in which alive was not called.
func untilIdle(parent context.Context, timeout time.Duration) (ctx context.Context, alive, cancel func()) {
	ctx, end := context.WithCancelCause(parent)
	timer := time.AfterFunc(timeout, func() { end(context.DeadlineExceeded) })
	return ctx, func() { timer.Reset(timeout) }, func() {
		timer.Stop()
		end(nil)
	}
}

// add registers the flags.
func (o *moveVolumeOptions) add(a *session.Session, command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.node, "target-node", "", "Node to move the data to: one of this cluster, or a virtual node; --node is the same")
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "node" {
			name = "target-node"
		}
		return pflag.NormalizedName(name)
	})
	flags.BoolVar(&o.keepSource, "keep-source", false, "Keep the old data too, in a volume with reclaim policy Retain")
	flags.BoolVar(&o.live, "live", false, "Copy while pods use the claim, and stop their Deployment or StatefulSet only for the last changes")
	flags.StringVar(&o.image, "image", "", "Image of the pods (default: "+moverImage+" of the registry that Liqo was installed from, with the same tag; required if that installation is pinned by digest)")
	flags.StringVarP(&o.output, "output", "o", "", "Print the progress as lines of JSON: json")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "Maximum time without progress; copying data counts as progress")
	for _, f := range amountFlags {
		o.amounts[f.flag] = flags.String(f.flag, "", f.usage)
	}
	for name, image := range resticFlags {
		flags.String(name, image, "No effect, accepted for compatibility: the pods run the image of --image")
	}
	a.AddDryRun(flags)
	cmdline.Required(command, "target-node")
	session.CompleteOneOf(command, "output", "json")
	session.CompleteFlag(command, "target-node", a.Complete(nodeNames))
}

// request checks the flags.
func (o *moveVolumeOptions) request() (*move.Request, error) {
	out := &move.Request{Name: o.claim, Node: o.node, KeepSource: o.keepSource, Live: o.live, NewUID: uuid.NewUUID(), Image: o.image}
	if o.output != "" && !strings.EqualFold(o.output, "json") {
		return nil, cmdline.OneOf("output", o.output, "json")
	}
	for _, f := range amountFlags {
		text := *o.amounts[f.flag]
		if text == "" {
			continue
		}
		quantity, err := resource.ParseQuantity(text)
		if err != nil || quantity.Sign() < 0 {
			return nil, fmt.Errorf("--%s: %q is not a quantity of at least 0: write it as in a pod, for example 2, 500m or 4Gi", f.flag, text)
		}
		list := &out.Resources.Requests
		if f.limit {
			list = &out.Resources.Limits
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[f.resource] = quantity
	}
	for name, request := range out.Resources.Requests {
		if limit, limited := out.Resources.Limits[name]; limited && limit.Cmp(request) < 0 {
			return nil, fmt.Errorf("the pods request %s of %s, which is more than their limit %s: raise the limit", request.String(), name, limit.String())
		}
	}
	return out, nil
}

// claimNames returns the claims of the namespace of the flags, or of the context.
func claimNames(ctx context.Context, a *session.Session, c *session.Cluster) ([]string, error) {
	within, err := session.ApplicationNamespace(a)
	if err != nil {
		return nil, err
	}
	var list corev1.PersistentVolumeClaimList
	err = c.List(ctx, &list, client.InNamespace(within))
	return session.NamesOf(list.Items, func(claim corev1.PersistentVolumeClaim) string { return claim.Name }), err
}

// nodeNames returns all nodes.
func nodeNames(ctx context.Context, c *session.Cluster) ([]string, error) {
	var list corev1.NodeList
	err := c.List(ctx, &list)
	return session.NamesOf(list.Items, func(node corev1.Node) string { return node.Name }), err
}
