package offload

import (
	"fmt"
	"path"
	"strings"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// ProtectedNamespaces defines the namespaces of this cluster that are never offloaded, even if an administrator requests it. A provider can read the
// Secrets of an offloaded namespace, and its virtual kubelet acts as the namespace's ServiceAccounts. The chart's policy liqo-protected-namespaces
// enforces the same rules in the API server.
type ProtectedNamespaces struct {
	// LiqoNamespace is the namespace where Liqo is installed.
	LiqoNamespace string
	// Patterns are further names, as patterns of path.Match: * matches any sequence of characters.
	Patterns []string
}

// Why returns the reason why a namespace with that name and these labels is never offloaded, "" if it may be offloaded.
func (p *ProtectedNamespaces) Why(name string, labels map[string]string) string {
	switch {
	case name == p.LiqoNamespace:
		return "Liqo is installed there, its Secrets hold the private keys of this cluster"
	case strings.HasPrefix(name, api.TenantNamespacePrefix), labels[api.LabelTenantNamespace] == api.True:
		return "it is the tenant namespace of a peering, its Secrets hold the private keys of the peering"
	case strings.HasPrefix(name, "kube-"):
		return "it belongs to Kubernetes, its ServiceAccounts control this cluster"
	case name == api.StorageNamespace:
		return "it belongs to the storage of Liqo"
	}
	for _, pattern := range p.Patterns {
		if matched, err := path.Match(pattern, name); matched || err != nil { // an invalid pattern protects every namespace
			return "chart value offloading.protectedNamespaces of this cluster contains " + pattern
		}
	}
	return ""
}

// ProtectedMessage returns the message for a user who asks to offload a protected namespace; why is the result of Why.
func ProtectedMessage(name, why string) string {
	return fmt.Sprintf("namespace %s can not be offloaded: %s; move the workloads that should run elsewhere to another namespace and offload that", name, why)
}

// Protected returns the protected namespaces among those of the NamespaceOffloadings: the reason by namespace name. labelsOf returns the labels of a
// namespace.
func (p *ProtectedNamespaces) Protected(offloadings []offloadingv1beta1.NamespaceOffloading, labelsOf func(namespace string) map[string]string) map[string]string {
	protected := map[string]string{}
	for i := range offloadings {
		namespace := offloadings[i].Namespace
		if why := p.Why(namespace, labelsOf(namespace)); why != "" {
			protected[namespace] = why
		}
	}
	return protected
}
