package object

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/deletevolumes"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/undo"
)

// DeleteCommand returns the command that deletes single objects of a peering.
func DeleteCommand(a *session.Session) *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:   "delete",
		Short: "Delete individual resources",
		Long:  "Delete the objects of a peering one by one.",
		Example: cmdline.Example(`
			# End the tunnel to milan
			%[1]s delete gatewayclient milan`),
	}, deleteObjectCommand(a, session.KindConfiguration), deleteObjectCommand(a, session.KindServer), deleteObjectCommand(a, session.KindClient), deleteObjectCommand(a, session.KindPublicKey),
		deleteObjectCommand(a, session.KindVirtualNode), deleteObjectCommand(a, session.KindSlice), deletePeeringUserCommand(a))
}

func deleteObjectCommand(a *session.Session, kind session.Kind) *cobra.Command {
	var wait, ignore bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:     kind.Name + " NAME",
		Aliases: kind.Aliases,
		Short:   kind.Short,
		Long:    kind.Short + ". The command searches all namespaces, unless --namespace names one. If the command\ntimed out, run it again to continue the wait.",
		Example: cmdline.Example("%[1]s delete " + kind.Name + " milan"),
		Args:    cmdline.ExactlyOne("the name of the " + kind.Name),
		RunE: session.WithTimeout(&timeout, func(ctx context.Context, args []string) error {
			local, within, err := a.InstalledWithin(ctx)
			if err != nil {
				return err
			}
			object, err := session.FindObject(ctx, local, kind, within, args[0])
			if err != nil {
				return session.MayBeGone(local, ignore, err)
			}
			provider, labels := "", object.GetLabels()
			switch node := object.(type) {
			case *offloadingv1beta1.VirtualNode:
				provider = node.Spec.ClusterID
			case *authv1beta1.ResourceSlice:
				if provider = labels[api.LabelRemoteID]; labels[api.LabelReplicated] == api.True {
					return fmt.Errorf("%s is a request of cluster %s: only that cluster can delete it. To grant it nothing more, run: liqoctl cordon resourceslice %s --remote-cluster-id %s",
						local.Name(object), labels[api.LabelOriginID], object.GetName(), labels[api.LabelOriginID])
				}
			}
			if provider != "" { // the deletion drains the virtual node as an unpeer does, so the same check applies
				if err := undo.Check(ctx, local, provider, object.GetNamespace()); err != nil {
					return err
				}
				node := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}}
				if err := deletevolumes.Allow(ctx, local, node); err != nil { // the VirtualNode of a ResourceSlice has the name of the ResourceSlice
					return err
				}
			}
			if err := local.DeleteAll(ctx, []client.Object{object}, wait); err != nil {
				return err
			}
			if !wait {
				local.Did("%s deleted", local.Name(object))
			}
			return nil
		}),
		ValidArgsFunction: a.CompleteNames(kind),
	}
	a.AddDryRun(command.Flags())
	if kind.Name == session.KindVirtualNode.Name || kind.Name == session.KindSlice.Name {
		deletevolumes.AddFlag(a, command.Flags())
	}
	session.AddIgnoreNotFound(command.Flags(), &ignore)
	command.Flags().BoolVar(&wait, "wait", true, "Wait until the resource is deleted")
	command.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "Maximum time to wait")
	return command
}
