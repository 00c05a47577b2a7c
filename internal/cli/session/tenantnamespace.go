package session

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/kube"
)

// PodSecurity returns the labels of a namespace that admit all pods, such as those of virtual kubelets and gateways, whatever the cluster's default Pod Security level is.
func PodSecurity() map[string]string {
	return map[string]string{
		"pod-security.kubernetes.io/enforce": "privileged",
		"pod-security.kubernetes.io/audit":   "privileged",
		"pod-security.kubernetes.io/warn":    "privileged",
	}
}

// FindTenantNamespace returns the tenant namespace of the peering with a cluster: the namespace with both labels, whatever its name is. The
// result is empty if there is none.
func FindTenantNamespace(ctx context.Context, c *Cluster, remoteID string) (string, error) {
	var list corev1.NamespaceList
	err := c.List(ctx, &list, client.MatchingLabels{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: remoteID})
	switch {
	case err == nil && len(list.Items) > 1:
		return "", c.Err(fmt.Errorf("namespaces %s and %s are both labelled %s=%s: remove the label from the one that is not the tenant namespace",
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
	return "", c.Err(fmt.Errorf("finding the tenant namespace of cluster %s: %w", remoteID, err))
}

// EnsureTenantNamespace returns the tenant namespace of the peering with a cluster, and creates it if there is none.
func EnsureTenantNamespace(ctx context.Context, c *Cluster, remoteID string) (string, error) {
	name, err := FindTenantNamespace(ctx, c, remoteID)
	if err != nil {
		return "", err
	}
	if name != "" {
		return name, nil
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.TenantNamespace(remoteID)}}
	changed, err := c.Ensure(ctx, namespace, func() error {
		if other := namespace.Labels[api.LabelRemoteClusterID]; other != "" && other != remoteID {
			return fmt.Errorf("namespace %s carries label %s=%s, want %s: correct the label, or delete the namespace if it is not in use",
				namespace.Name, api.LabelRemoteClusterID, other, remoteID)
		}
		kube.AddLabels(namespace, PodSecurity())
		kube.AddLabels(namespace, map[string]string{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: remoteID, api.LabelManaged: api.True})
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

// RequireTenantNamespace returns the tenant namespace of a peering. It fails if there is none.
func RequireTenantNamespace(ctx context.Context, c *Cluster, remoteID string) (string, error) {
	name, err := FindTenantNamespace(ctx, c, remoteID)
	if err == nil && name == "" {
		known, _ := PeerIDs(ctx, c) // only for a suggestion in the error
		err = c.Err(cmdline.DidYouMean(fmt.Errorf("there is no tenant namespace for cluster %s (no namespace is labelled %s=%s): peer with it first, or check the cluster ID",
			remoteID, api.LabelRemoteClusterID, remoteID), remoteID, known))
	}
	return name, err
}

// FindNamespaces finds the tenant namespaces of the peering. It leaves here or there empty if that namespace does not exist.
func (p *Pair) FindNamespaces(ctx context.Context) error {
	return Both(
		func() (err error) { p.Here, err = FindTenantNamespace(ctx, p.Local, p.Remote.ID); return },
		func() (err error) { p.There, err = FindTenantNamespace(ctx, p.Remote, p.Local.ID); return },
	)
}

// EnsureNamespaces finds or creates the tenant namespaces of the peering. It does nothing if both are known.
func (p *Pair) EnsureNamespaces(ctx context.Context) error {
	if p.Here != "" && p.There != "" {
		return nil
	}
	return Both(
		func() (err error) { p.Here, err = EnsureTenantNamespace(ctx, p.Local, p.Remote.ID); return },
		func() (err error) { p.There, err = EnsureTenantNamespace(ctx, p.Remote, p.Local.ID); return },
	)
}

// ListOfPeer lists the objects of a peer, in order of their names. The list is empty if the cluster does not have the kind.
func ListOfPeer(ctx context.Context, c *Cluster, list client.ObjectList, namespace, peer string) error {
	err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{api.LabelRemoteClusterID: peer})
	if err != nil && !kube.Absent(err) {
		return c.Err(fmt.Errorf("listing %s in %s: %w", kube.KindsOf(list), NamespaceText(namespace), err))
	}
	return nil
}

// TenantOf returns the Tenant of a consumer.
func TenantOf(ctx context.Context, c *Cluster, consumer string) (*authv1beta1.Tenant, error) {
	namespace, err := RequireTenantNamespace(ctx, c, consumer)
	if err != nil {
		return nil, err
	}
	var list authv1beta1.TenantList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Tenants in namespace %s: %w", namespace, err)
	}
	for i := range list.Items {
		if tenant := &list.Items[i]; tenant.Spec.ClusterID == consumer {
			return tenant, nil
		}
	}
	return nil, fmt.Errorf("there is no Tenant of cluster %s in namespace %s: run liqoctl generate tenant --remote-cluster-id %s on %s, and apply its output here", consumer, namespace, c.ID, consumer)
}
