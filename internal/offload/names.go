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

// maxNamespaceName is the longest name of a namespace (RFC 1123 label).
const maxNamespaceName = 63

// hashLength is how many hexadecimal digits tell two truncated names apart.
const hashLength = 8

// RemoteNamespace returns how the twin of a local namespace is called in the clusters it extends to, seen from consumer (a
// cluster ID). The result is always a valid namespace name when the inputs are: a DefaultName beyond 63 characters is cut and ends in a
// hash of the whole name, so that two long names never meet.
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

// boundedName returns name, or a shorter one that ends in its hash when it is too long for a namespace.
func boundedName(name string) string {
	if len(name) <= maxNamespaceName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "-" + hex.EncodeToString(sum[:])[:hashLength]
	// A name must not have a hyphen at the seam only for looks: "a--0123" is valid, yet reads like a mistake.
	return strings.TrimRight(name[:maxNamespaceName-len(suffix)], "-") + suffix
}

// ReservedNamespace tells whether no consumer may have a namespace of that name, even while it does not exist: those of Kubernetes,
// those of the installation, and those that hold (or would hold) the objects of a peering.
func ReservedNamespace(name, liqoNamespace string) bool {
	return name == liqoNamespace || name == api.StorageNamespace || name == "default" ||
		strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, api.TenantNamespacePrefix)
}

// NamespacePolicy is which namespaces consumers may have here beside those that exist: a name that is free now may be wanted later by this cluster
// itself, and nobody needs thousands.
type NamespacePolicy struct {
	// LiqoNamespace is where Liqo is installed.
	LiqoNamespace string
	// Refused are names that no consumer gets, as patterns of path.Match: * stands for anything.
	Refused []string
	// Limit is how many one consumer gets, 0 for any number.
	Limit int
}

// Refuses tells whether no consumer gets a namespace of that name.
func (p *NamespacePolicy) Refuses(name string) bool {
	return ReservedNamespace(name, p.LiqoNamespace) || slices.ContainsFunc(p.Refused, func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return matched || err != nil // what it should say is not known
	})
}

// RBAC of the consumers' virtual kubelets, shipped by the chart.
const (
	// ClusterRoleRemote is bound to a consumer in each of its twin namespaces.
	ClusterRoleRemote = "liqo-virtual-kubelet-remote"
	// ClusterRoleLocal is bound to the ServiceAccount of every virtual kubelet.
	ClusterRoleLocal = "liqo-virtual-kubelet-local"
	// ClusterRoleOffloaded is bound, in each offloaded namespace, to the virtual kubelets that it extends to. It holds what nobody should
	// have in a namespace that is not offloaded: reading its Secrets, and acting as its service accounts.
	ClusterRoleOffloaded = "liqo-virtual-kubelet-offloaded"
)

// Labels of what is made at run time; an installation is found, and removed, by them.
const (
	// LabelManagedBy is ManagedBy on RBAC objects, ServiceAccounts and Deployments.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "liqo"

	labelPartOf    = "app.kubernetes.io/part-of"
	labelName      = "app.kubernetes.io/name"
	labelComponent = "app.kubernetes.io/component"
)
