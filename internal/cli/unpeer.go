package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
)

func unpeerCommand(a *app) *cobra.Command {
	var timeout time.Duration
	var wait, deleteNamespaces bool
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
		Example: example(`
			# Give the resources of milan back
			%[1]s unpeer --remote-kubeconfig milan.yaml
			# The same without access to milan
			%[1]s unpeer milan
			# And leave nothing of the peering in either cluster
			%[1]s unpeer --remote-kubeconfig milan.yaml --delete-namespaces`),
		Args:              atMostOne("the name of the provider"),
		ValidArgsFunction: a.firstOf(peersOf),
	}
	flags := command.Flags()
	remote := remoteFlags(flags)
	a.addDryRun(flags)
	a.addDeleteVolumes(flags)
	flags.DurationVar(&timeout, "timeout", 2*time.Minute, "Maximum time for the whole command")
	flags.BoolVar(&wait, "wait", true, "Wait until all objects are deleted. Without it, the command only waits for the steps that later steps depend on")
	flags.BoolVar(&deleteNamespaces, "delete-namespaces", false, "Delete the tenant namespaces too")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			if err := aloneWith(cmd, args[0]); err != nil {
				return err
			}
			return leaveProvider(a, cmd, args[0], &leaveOptions{timeout: timeout, wait: wait, deleteNamespaces: deleteNamespaces})
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		p, err := a.pair(ctx, remote)
		if remoteFlagGiven(cmd) == "" && noOtherCluster(err) {
			return leaveProvider(a, cmd, "", &leaveOptions{timeout: timeout, wait: wait, deleteNamespaces: deleteNamespaces})
		}
		if err != nil {
			return orForce(err)
		}
		if err := p.halfDone(p.unpeer(ctx, wait, deleteNamespaces)); err != nil || deleteNamespaces {
			return err
		}
		return p.tellLeft(ctx, withNamespaces(cmd, args))
	}
	command.AddCommand(unpeerOutOfBandCommand(a), unpeerInBandCommand(a))
	return command
}

func (p *pair) unpeer(ctx context.Context, wait, deleteNamespaces bool) error {
	namespace, err := findTenantNamespace(ctx, p.local, p.remote.id)
	if err != nil {
		return err
	}
	if deleteNamespaces {
		if err := p.oneWay(ctx); err != nil {
			return err
		}
	}
	if err := checkUnpeer(ctx, p.local, p.remote.id, namespace); err != nil {
		return err
	}
	if namespace != "" {
		if err := releaseResources(ctx, p.local, p.remote.id, namespace); err != nil {
			return err
		}
	}
	if !p.endsBoth {
		if stays, err := networkStays(ctx, p.local, namespace, p.remote.id); err != nil || stays {
			return err
		}
	}
	// The controllers of both clusters would create a network that was requested again. The withdrawal needs the identity, which unauthenticate deletes.
	if err := p.withdraw(ctx); err != nil {
		return err
	}
	if err := p.unauthenticate(ctx, wait); err != nil {
		return err
	}
	if err := p.unpeerNetwork(ctx, wait); err != nil {
		return err
	}
	if !deleteNamespaces {
		return nil
	}
	return both(
		func() error { return deleteTenantNamespace(ctx, p.local, p.remote.id, wait) },
		func() error { return deleteTenantNamespace(ctx, p.remote, p.local.id, wait) },
	)
}

// unpeerNetwork removes the network between the clusters. It runs last, because an in-band peering is removed through the network. The
// network stays if there is also a peering in the other direction.
func (p *pair) unpeerNetwork(ctx context.Context, wait bool) error {
	shared, err := p.bothWays(ctx)
	if err != nil {
		return err
	}
	local, remote, err := p.remains(ctx, false)
	if err != nil {
		return err
	}
	if len(local.inOrder())+len(remote.inOrder()) == 0 {
		return nil
	}
	if shared {
		p.local.Info("The network stays: cluster %s uses resources of %s too", p.remote.id, p.local.id)
		return nil
	}
	return p.takeDown(ctx, local, remote, wait)
}

// oneWay fails if the remote cluster is also a consumer of the local one, because both peerings share the tenant namespaces.
func (p *pair) oneWay(ctx context.Context) error {
	var tenants authv1beta1.TenantList
	if err := p.local.List(ctx, &tenants, client.MatchingLabels{api.LabelRemoteClusterID: p.remote.id}); err != nil {
		return p.local.error(fmt.Errorf("listing Tenants of cluster %s: %w", p.remote.id, err))
	}
	if len(tenants.Items) > 0 {
		return fmt.Errorf("cluster %s also uses resources of %s (Tenant %s in namespace %s), and both directions share the tenant namespaces: "+
			"unpeer the other direction first, or leave --delete-namespaces out", p.remote.id, p.local.id, tenants.Items[0].Name, tenants.Items[0].Namespace)
	}
	return nil
}

// releaseResources deletes the ResourceSlices of a provider, and then the remaining VirtualNodes. If the ForeignCluster requests the peering,
// releaseResources withdraws the request first.
func releaseResources(ctx context.Context, c *cluster, provider, namespace string) error {
	if err := replaceWish(ctx, c, provider, corev1beta1.PeeringYes, corev1beta1.PeeringNo); err != nil {
		return err
	}
	if err := giveUpNodes(ctx, c, provider, namespace); err != nil {
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
			return c.error(fmt.Errorf("listing %s in namespace %s: %w", kube.KindsOf(what.list), namespace, err))
		}
		objects, err := objectsOf(what.list)
		if err != nil {
			return err
		}
		if err := c.deleteAll(ctx, objects, true); err != nil {
			return err
		}
	}
	return nil
}

func objectsOf(list client.ObjectList) ([]client.Object, error) {
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	out := make([]client.Object, 0, len(items))
	for _, item := range items {
		if object, ok := item.(client.Object); ok {
			out = append(out, object)
		}
	}
	return out, nil
}

// unauthenticate revokes the identity. It first deletes the objects in the local cluster, so that the replication can still clean up in the
// remote cluster. Then it deletes the Tenant.
func (p *pair) unauthenticate(ctx context.Context, wait bool) error {
	namespace, err := findTenantNamespace(ctx, p.local, p.remote.id)
	if err != nil {
		return err
	}
	if namespace != "" {
		if err := forgetIdentity(ctx, p.local, p.remote.id, namespace, wait); err != nil {
			return err
		}
	}
	namespace, err = findTenantNamespace(ctx, p.remote, p.local.id)
	if err != nil || namespace == "" {
		return err
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.local.id}}
	if !p.isPeeringUser() { // only an administrator of the remote cluster decides about data that it still has of this cluster
		if err := giveUp(ctx, p.remote, tenant.DeepCopy()); err != nil {
			return err
		}
	}
	return p.remote.deleteAll(ctx, []client.Object{
		tenant,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: authv1beta1.NonceSecret}},
	}, wait)
}

func forgetIdentity(ctx context.Context, c *cluster, provider, namespace string, wait bool) error {
	var slices authv1beta1.ResourceSliceList
	if err := c.List(ctx, &slices, client.InNamespace(namespace), client.MatchingLabels{api.LabelRemoteID: provider}); err != nil {
		return c.error(fmt.Errorf("listing ResourceSlices in namespace %s: %w", namespace, err))
	}
	if len(slices.Items) > 0 {
		return c.error(fmt.Errorf("ResourceSlice %s in namespace %s still uses resources of cluster %s: delete it first, or run liqoctl unpeer",
			slices.Items[0].Name, namespace, provider))
	}
	requests, err := networkRequests(ctx, c, namespace)
	if err != nil {
		return err
	}
	if ours := requestsTo(provider, requests); len(ours) > 0 {
		return c.error(fmt.Errorf("%s still requests a network from cluster %s, which would delete its side of the network without this identity: run liqoctl unpeer, which withdraws the request first",
			c.name(ours[0]), provider))
	}
	// The NamespaceMap is deleted with the last VirtualNode. Its copy in the provider can only be deleted while the Identity exists.
	mapping := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: provider}}
	step := c.Start("Waiting until cluster %s has deleted the remote namespaces", provider)
	err = c.gone(ctx, step, mapping)
	step.End()
	if err != nil {
		return err
	}
	identity := authv1beta1.IdentityControlPlanePrefix + provider
	return c.deleteAll(ctx, []client.Object{
		&authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: identity}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: authv1beta1.KubeconfigSecretPrefix + identity}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: authv1beta1.SignedNonceSecret}},
	}, wait)
}

func deleteTenantNamespace(ctx context.Context, c *cluster, remoteID string, wait bool) error {
	name, err := findTenantNamespace(ctx, c, remoteID)
	if err != nil || name == "" {
		return err
	}
	return c.deleteAll(ctx, []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}}, wait)
}

// bothWays reports whether the remote cluster is also a consumer of the local one. Both peerings then share one network.
func (p *pair) bothWays(ctx context.Context) (bool, error) {
	var tenants authv1beta1.TenantList
	if err := listOfPeer(ctx, p.local, &tenants, "", p.remote.id); err != nil {
		return false, err
	}
	return len(tenants.Items) > 0, nil
}
