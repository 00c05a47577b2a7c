package offload

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// maxNamespaceName is the maximum length of a namespace's name (RFC 1123 label).
const maxNamespaceName = 63

// HashLength is the number of hexadecimal digits of the hash that makes truncated names unique.
const HashLength = 8

// RemoteNamespace returns the name of the remote namespace of a local namespace, in every cluster it extends to. consumer is the ID of the local
// cluster. The result is a valid namespace name if the inputs are valid. A DefaultName beyond 63 characters is truncated and ends in a hash of the
// whole name, so that two long names do not collide.
func RemoteNamespace(spec *offloadingv1beta1.NamespaceOffloadingSpec, local, consumer string) string {
	switch spec.NamespaceMappingStrategy {
	case offloadingv1beta1.EnforceSameName:
		return local
	case offloadingv1beta1.SelectedName:
		return spec.RemoteNamespaceName
	default:
		return boundedName(local + "-" + consumer)
	}
}

// boundedName returns name, or, if it is too long for a namespace, a truncated name that ends in the hash of name.
func boundedName(name string) string {
	if len(name) <= maxNamespaceName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "-" + hex.EncodeToString(sum[:])[:HashLength]
	// Hyphens before the suffix are trimmed only for readability: "a--0123" is valid, yet looks like a mistake.
	return strings.TrimRight(name[:maxNamespaceName-len(suffix)], "-") + suffix
}

// ReservedNamespace reports whether consumers may never have a namespace of that name, even if it does not exist. Reserved are the namespaces of
// Kubernetes, those of the installation, and all names of tenant namespaces.
func ReservedNamespace(name, liqoNamespace string) bool {
	return name == liqoNamespace || name == api.StorageNamespace || name == "default" ||
		strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, api.TenantNamespacePrefix)
}

// NamespacePolicy limits the namespaces that consumers may get in this cluster, besides the rule that existing namespaces are taken. A name that is
// free now may be needed later by this cluster itself, and no consumer needs thousands of namespaces.
type NamespacePolicy struct {
	// LiqoNamespace is the namespace where Liqo is installed.
	LiqoNamespace string
	// Chosen are the names that consumers may choose, as patterns of path.Match: * matches any sequence of characters. A name of mapping strategy
	// DefaultName is not chosen: it ends in the consumer's ID.
	Chosen []string
	// Refused are names that no consumer gets, as patterns of path.Match.
	Refused []string
	// Limit is the maximum number of namespaces per consumer, 0 for no limit.
	Limit int
}

// Refuses reports whether policy forbids a consumer that remote namespace.
func (p *NamespacePolicy) Refuses(t NamespacePair, consumer string) bool {
	refused := slices.ContainsFunc(p.Refused, func(pattern string) bool {
		matched, err := path.Match(pattern, t.Remote)
		return matched || err != nil // an invalid pattern refuses every name
	})
	return refused || ReservedNamespace(t.Remote, p.LiqoNamespace) || !p.accepts(t, consumer)
}

// accepts reports whether a remote namespace has a name that the consumer did not choose, or one that consumers may choose.
func (p *NamespacePolicy) accepts(t NamespacePair, consumer string) bool {
	return t.Remote == boundedName(t.Local+"-"+consumer) || slices.ContainsFunc(p.Chosen, func(pattern string) bool {
		matched, err := path.Match(pattern, t.Remote)
		return matched && err == nil
	})
}

// ClusterRoles of virtual kubelets, installed by the chart.
const (
	// ClusterRoleRemote is bound to a consumer in each of its remote namespaces.
	ClusterRoleRemote = "liqo-virtual-kubelet-remote"
	// ClusterRoleLocal is bound to the ServiceAccount of every virtual kubelet.
	ClusterRoleLocal = "liqo-virtual-kubelet-local"
	// ClusterRoleOffloaded is bound, in each offloaded namespace, to the virtual kubelets of the clusters it extends to. It holds rights that must
	// not extend to other namespaces: reading Secrets, and acting as service accounts.
	ClusterRoleOffloaded = "liqo-virtual-kubelet-offloaded"
)

// Labels of objects that are created at run time. Tools find and remove the objects of an installation by them.
const (
	// LabelManagedBy is the key of the label with value ManagedBy, on RBAC objects, ServiceAccounts and Deployments.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "liqo"
	// LabelPartOf is the key of another label with value ManagedBy, on the same objects.
	LabelPartOf = "app.kubernetes.io/part-of"
)
