package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/deletevolumes"
	"liqo.io/liqo/internal/cli/handshake"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
	"liqo.io/liqo/internal/cli/undo"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/kube"
)

func unpeerCommand(a *session.Session) *cobra.Command {
	var o leaveOptions
	command := &cobra.Command{
		Use:        "unpeer [NAME]",
		Short:      "Undo a peering and release the resources of the provider",
		SuggestFor: []string{"delete peer", "delete peering", "delete foreigncluster"},
		Long: "Undo peer: drain and remove the virtual nodes of the remote cluster, delete the objects of the peering in both clusters, and remove\n" +
			"the network between them. Pods that ran there are created again where their namespace and selectors allow it. If the command was\n" +
			"interrupted, run it again: it resumes where it stopped.\n\n" +
			"The command changes nothing while the local cluster does not reach the API server of the remote one, because pods there would keep\n" +
			"running while new ones start here. So it first asks the virtual nodes whether this API server responds. Without an answer it waits 30\n" +
			"seconds, within which the control plane detects that. It fails while no pod of the local controller manager is available, because then nothing checks\n" +
			"it. If the remote cluster is gone for good, run force unpeer instead.\n\n" +
			"Without remote kubeconfig, the control plane of the local cluster reports the end of the peering to the provider: see\n" +
			"unpeer out-of-band. NAME is optional if there is only one provider.",
		Example: cmdline.Example(`
			# Give the resources of milan back
			%[1]s unpeer --remote-kubeconfig milan.yaml
			# The same without access to milan
			%[1]s unpeer milan
			# And leave nothing of the peering in either cluster
			%[1]s unpeer --remote-kubeconfig milan.yaml --delete-namespaces`),
		Args:              cmdline.AtMostOne("the name of the provider"),
		ValidArgsFunction: a.CompleteFirst(peersOf),
	}
	flags := command.Flags()
	remote := session.RemoteFlags(flags)
	o.add(a, flags)
	flags.BoolVar(&o.deleteNamespaces, "delete-namespaces", false, "Delete the tenant namespaces too, unless they hold claims, or workloads that are not Liqo's")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			if err := aloneWith(cmd, args[0]); err != nil {
				return err
			}
			return leaveProvider(a, cmd, args[0], &o)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		p, err := a.Pair(ctx, remote)
		if remoteFlagGiven(cmd) == "" && noOtherCluster(err) {
			return leaveProvider(a, cmd, "", &o)
		}
		if err != nil {
			return orForce(err)
		}
		if err := halfDone(p, runUnpeer(ctx, p, o.wait, o.deleteNamespaces)); err != nil || o.deleteNamespaces {
			return err
		}
		return reportLeft(ctx, p, withNamespaces(cmd, args))
	}
	command.AddCommand(unpeerOutOfBandCommand(a), unpeerInBandCommand(a))
	return command
}

func runUnpeer(ctx context.Context, p *session.Pair, wait, deleteNamespaces bool) error {
	namespace, err := session.FindTenantNamespace(ctx, p.Local, p.Remote.ID)
	if err != nil {
		return err
	}
	if deleteNamespaces {
		if err := requireOneWay(ctx, p); err != nil {
			return err
		}
		if err := requireRemovableBoth(ctx, p, namespace); err != nil {
			return err
		}
	}
	if err := undo.CheckBoth(ctx, p, namespace); err != nil {
		return err
	}
	if namespace != "" {
		if err := releaseResources(ctx, p.Local, p.Remote.ID, namespace); err != nil {
			return err
		}
	}
	if !p.EndsBoth {
		if stays, err := networkStays(ctx, p.Local, namespace, p.Remote.ID); err != nil || stays {
			return err
		}
	}
	// As long as the network is requested, the controllers of both clusters would create it again. The withdrawal of the request needs the identity, so it
	// comes before endAuthentication.
	if err := tunnel.WithdrawRequest(ctx, p); err != nil {
		return err
	}
	if err := endAuthentication(ctx, p, wait); err != nil {
		return err
	}
	if err := unpeerNetwork(ctx, p, wait); err != nil {
		return err
	}
	if !deleteNamespaces {
		return nil
	}
	return session.Both(
		func() error { return deleteTenantNamespace(ctx, p.Local, p.Remote.ID, wait) },
		func() error { return deleteTenantNamespace(ctx, p.Remote, p.Local.ID, wait) },
	)
}

// unpeerNetwork removes the network between the clusters. It runs last, because an in-band peering is removed through the network. The
// network stays if there is also a peering in the other direction.
func unpeerNetwork(ctx context.Context, p *session.Pair, wait bool) error {
	shared, err := hasBothWays(ctx, p)
	if err != nil {
		return err
	}
	local, remote, err := tunnel.RemainsOfBoth(ctx, p, false)
	if err != nil {
		return err
	}
	if len(local.InOrder())+len(remote.InOrder()) == 0 {
		return nil
	}
	if shared {
		p.Local.Info("The network stays: cluster %s uses resources of %s too", p.Remote.ID, p.Local.ID)
		return nil
	}
	return tunnel.TakeDown(ctx, local, remote, wait)
}

// requireOneWay fails if the remote cluster is also a consumer of the local one, because both peerings share the tenant namespaces.
func requireOneWay(ctx context.Context, p *session.Pair) error {
	var tenants authv1beta1.TenantList
	if err := p.Local.List(ctx, &tenants, client.MatchingLabels{api.LabelRemoteClusterID: p.Remote.ID}); err != nil {
		return p.Local.Err(fmt.Errorf("listing Tenants of cluster %s: %w", p.Remote.ID, err))
	}
	if len(tenants.Items) > 0 {
		return fmt.Errorf("cluster %s also uses resources of %s (Tenant %s in namespace %s), and both directions share the tenant namespaces: "+
			"unpeer the other direction first, or leave --delete-namespaces out", p.Remote.ID, p.Local.ID, tenants.Items[0].Name, tenants.Items[0].Namespace)
	}
	return nil
}

// releaseResources deletes the ResourceSlices of a provider, and then the remaining VirtualNodes. If the ForeignCluster requests the peering,
// releaseResources withdraws the request first.
func releaseResources(ctx context.Context, c *session.Cluster, provider, namespace string) error {
	if err := handshake.ReplaceWish(ctx, c, provider, corev1beta1.PeeringYes, corev1beta1.PeeringNo); err != nil {
		return err
	}
	if err := deletevolumes.AllowOfNodes(ctx, c, provider, namespace); err != nil {
		return err
	}
	// A ResourceSlice is gone as soon as its VirtualNode is being deleted. The pods have left the provider only when the VirtualNode is
	// gone too.
	for _, what := range []struct {
		list  client.ObjectList
		label string
	}{
		{&authv1beta1.ResourceSliceList{}, api.LabelRemoteID},
		{&offloadingv1beta1.VirtualNodeList{}, api.LabelRemoteClusterID},
	} {
		if err := c.List(ctx, what.list, client.InNamespace(namespace), client.MatchingLabels{what.label: provider}); err != nil {
			return c.Err(fmt.Errorf("listing %s in namespace %s: %w", kube.KindsOf(what.list), namespace, err))
		}
		objects, err := kube.Items(what.list)
		if err != nil {
			return err
		}
		if err := c.DeleteAll(ctx, objects, true); err != nil {
			return err
		}
	}
	return nil
}

// endAuthentication revokes the identity. It first deletes the objects in the local cluster, so that the replication can still clean up in the
// remote cluster. Then it deletes the Tenant.
func endAuthentication(ctx context.Context, p *session.Pair, wait bool) error {
	namespace, err := session.FindTenantNamespace(ctx, p.Local, p.Remote.ID)
	if err != nil {
		return err
	}
	if namespace != "" {
		if err := forgetIdentity(ctx, p.Local, p.Remote.ID, namespace, wait); err != nil {
			return err
		}
	}
	namespace, err = session.FindTenantNamespace(ctx, p.Remote, p.Local.ID)
	if err != nil || namespace == "" {
		return err
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.Local.ID}}
	if !session.IsPeeringUser(p) { // only an administrator of the remote cluster decides about data that it still has of this cluster
		if err := deletevolumes.Allow(ctx, p.Remote, tenant.DeepCopy()); err != nil {
			return err
		}
	}
	return p.Remote.DeleteAll(ctx, []client.Object{
		tenant,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: authv1beta1.NonceSecret}},
	}, wait)
}

func forgetIdentity(ctx context.Context, c *session.Cluster, provider, namespace string, wait bool) error {
	var slices authv1beta1.ResourceSliceList
	if err := c.List(ctx, &slices, client.InNamespace(namespace), client.MatchingLabels{api.LabelRemoteID: provider}); err != nil {
		return c.Err(fmt.Errorf("listing ResourceSlices in namespace %s: %w", namespace, err))
	}
	if len(slices.Items) > 0 {
		return c.Err(fmt.Errorf("ResourceSlice %s in namespace %s still uses resources of cluster %s: delete it first, or run liqoctl unpeer",
			slices.Items[0].Name, namespace, provider))
	}
	requests, err := tunnel.Requests(ctx, c, namespace)
	if err != nil {
		return err
	}
	if ours := tunnel.RequestsTo(provider, requests); len(ours) > 0 {
		return c.Err(fmt.Errorf("%s still requests a network from cluster %s, which would delete its side of the network without this identity: run liqoctl unpeer, which withdraws the request first",
			c.Name(ours[0]), provider))
	}
	// The NamespaceMap is deleted with the last VirtualNode. Its copy in the provider can only be deleted while the Identity exists.
	mapping := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: provider}}
	step := c.Start("Waiting until cluster %s has deleted the remote namespaces", provider)
	err = c.WaitGone(ctx, step, mapping)
	step.End()
	if err != nil {
		return err
	}
	identity := authv1beta1.IdentityControlPlanePrefix + provider
	return c.DeleteAll(ctx, []client.Object{
		&authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: identity}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: authv1beta1.KubeconfigSecretPrefix + identity}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: authv1beta1.SignedNonceSecret}},
	}, wait)
}

func deleteTenantNamespace(ctx context.Context, c *session.Cluster, remoteID string, wait bool) error {
	name, err := session.FindTenantNamespace(ctx, c, remoteID)
	if err != nil || name == "" {
		return err
	}
	if err := requireRemovable(ctx, c, name); err != nil {
		return err
	}
	return c.DeleteAll(ctx, []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}}, wait)
}

// requireRemovable fails if a tenant namespace must not be deleted, because it holds claims, or workloads that are not Liqo's.
func requireRemovable(ctx context.Context, c *session.Cluster, namespace string) error {
	if namespace == "" {
		return nil
	}
	why, err := installer.WhyKept(ctx, c, namespace)
	if err == nil && why != "" {
		err = errors.New(why)
	}
	return c.Err(err)
}

// requireRemovableBoth is requireRemovable for the tenant namespaces of both clusters, before the first change. Its error says how to unpeer without deleting
// them.
func requireRemovableBoth(ctx context.Context, p *session.Pair, here string) error {
	there, err := session.FindTenantNamespace(ctx, p.Remote, p.Local.ID)
	if err != nil {
		return err
	}
	return withoutNamespaces(errors.Join(requireRemovable(ctx, p.Local, here), requireRemovable(ctx, p.Remote, there)))
}

// withoutNamespaces adds to the error about a tenant namespace how to unpeer without its deletion.
func withoutNamespaces(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\nNothing was changed. Without --delete-namespaces, the command removes the peering and keeps the tenant namespaces", err)
}

// hasBothWays reports whether the remote cluster is also a consumer of the local one. Both peerings then share one network.
func hasBothWays(ctx context.Context, p *session.Pair) (bool, error) {
	var tenants authv1beta1.TenantList
	if err := session.ListOfPeer(ctx, p.Local, &tenants, "", p.Remote.ID); err != nil {
		return false, err
	}
	return len(tenants.Items) > 0, nil
}
