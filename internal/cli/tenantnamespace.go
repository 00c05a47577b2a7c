package cli

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/kube"
)

// podSecurity holds the labels that admit the pods of virtual kubelets and gateways, whatever the cluster's default Pod Security level is.
var podSecurity = map[string]string{
	"pod-security.kubernetes.io/enforce": "privileged",
	"pod-security.kubernetes.io/audit":   "privileged",
	"pod-security.kubernetes.io/warn":    "privileged",
}

// findTenantNamespace returns the tenant namespace of the peering with a cluster: the namespace with both labels, whatever its name is. The
// result is empty if there is none.
func findTenantNamespace(ctx context.Context, c *cluster, remoteID string) (string, error) {
	var list corev1.NamespaceList
	err := c.List(ctx, &list, client.MatchingLabels{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: remoteID})
	switch {
	case err == nil && len(list.Items) > 1:
		return "", c.error(fmt.Errorf("namespaces %s and %s are both labelled %s=%s: remove the label from the one that is not the tenant namespace",
			list.Items[0].Name, list.Items[1].Name, api.LabelRemoteClusterID, remoteID))
	case err == nil && len(list.Items) == 1:
		return list.Items[0].Name, nil
	case err == nil:
		return "", nil
	}
	// A peering user may not list namespaces. It may only read its own tenant namespace.
	var namespace corev1.Namespace
	if getErr := c.Get(ctx, client.ObjectKey{Name: api.TenantNamespace(remoteID)}, &namespace); getErr == nil {
		return namespace.Name, nil
	}
	return "", c.error(fmt.Errorf("finding the tenant namespace of cluster %s: %w", remoteID, err))
}

// ensureTenantNamespace returns the tenant namespace of the peering with a cluster, and creates it if there is none.
func ensureTenantNamespace(ctx context.Context, c *cluster, remoteID string) (string, error) {
	name, err := findTenantNamespace(ctx, c, remoteID)
	if err != nil {
		return "", err
	}
	if name != "" {
		return name, nil
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.TenantNamespace(remoteID)}}
	changed, err := c.ensure(ctx, namespace, func() error {
		if other := namespace.Labels[api.LabelRemoteClusterID]; other != "" && other != remoteID {
			return fmt.Errorf("namespace %s carries label %s=%s, want %s: correct the label, or delete the namespace if nobody needs it",
				namespace.Name, api.LabelRemoteClusterID, other, remoteID)
		}
		addTo(namespace.GetLabels, namespace.SetLabels, podSecurity)
		setLabel(namespace, api.LabelTenantNamespace, api.True)
		setLabel(namespace, api.LabelRemoteClusterID, remoteID)
		setLabel(namespace, api.LabelManaged, api.True)
		return nil
	})
	if err != nil {
		return "", err
	}
	if changed {
		c.Did("Tenant namespace %s correctly ensured", namespace.Name)
	}
	return namespace.Name, nil
}

// requireTenantNamespace returns the tenant namespace of a peering. It fails if there is none.
func requireTenantNamespace(ctx context.Context, c *cluster, remoteID string) (string, error) {
	name, err := findTenantNamespace(ctx, c, remoteID)
	if err == nil && name == "" {
		known, _ := peerIDs(ctx, c) // only for a suggestion in the error
		err = c.error(didYouMean(fmt.Errorf("there is no tenant namespace for cluster %s (no namespace is labelled %s=%s): peer with it first, or check the cluster ID",
			remoteID, api.LabelRemoteClusterID, remoteID), remoteID, known))
	}
	return name, err
}

// findNamespaces finds the tenant namespaces of the peering. It leaves here or there empty if that namespace does not exist.
func (p *pair) findNamespaces(ctx context.Context) error {
	return both(
		func() (err error) { p.here, err = findTenantNamespace(ctx, p.local, p.remote.id); return },
		func() (err error) { p.there, err = findTenantNamespace(ctx, p.remote, p.local.id); return },
	)
}

// ensureNamespaces finds or creates the tenant namespaces of the peering. It does nothing if both are known.
func (p *pair) ensureNamespaces(ctx context.Context) error {
	if p.here != "" && p.there != "" {
		return nil
	}
	return both(
		func() (err error) { p.here, err = ensureTenantNamespace(ctx, p.local, p.remote.id); return },
		func() (err error) { p.there, err = ensureTenantNamespace(ctx, p.remote, p.local.id); return },
	)
}

// listOfPeer lists the objects of a peer, in order of their names. The list is empty if the cluster does not have the kind.
func listOfPeer(ctx context.Context, c *cluster, list client.ObjectList, namespace, peer string) error {
	err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{api.LabelRemoteClusterID: peer})
	if err != nil && !absent(err) {
		return c.error(fmt.Errorf("listing %s in %s: %w", kube.KindsOf(list), namespaceText(namespace), err))
	}
	return nil
}
