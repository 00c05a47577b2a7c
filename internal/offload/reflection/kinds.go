package reflection

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// Values of Kind.Name.
const (
	ConfigMapKind             = "ConfigMap"
	SecretKind                = "Secret"
	IngressKind               = "Ingress"
	NetworkPolicyKind         = "NetworkPolicy"
	PersistentVolumeClaimKind = "PersistentVolumeClaim"
)

// Kinds returns the names of all reflected kinds.
func Kinds() []string {
	return []string{
		PodKind, ServiceKind, EndpointSliceKind, IngressKind, ConfigMapKind, SecretKind, EventKind, NetworkPolicyKind, PodDisruptionBudgetKind,
		PersistentVolumeClaimKind,
	}
}

// plain returns a Kind whose copies have the same type as the originals and depend on no other objects. forward returns the copy of an object, or the reason why
// there is none, and what the user should know about it.
func plain[T client.Object](name string, workers int, empty T, options func() kinds.CopyOptions, forward func(local T, namespace string) (T, string, error),
	differ func(have, want T) (T, kinds.Change)) Kind {
	return copies(name, workers, options(), empty, empty, func(f Facts) offload.Step {
		return offload.NextCopy(object(f.Local), object(f.Remote[0]), f.Mapping, f.RemoteSynced, offload.CopyRules{
			Options: options(),
			Copy: func(local offload.Object, namespace string) offload.Copy {
				obj, ok := local.(T)
				if !ok {
					return offload.Copy{Why: "it is no " + name}
				}
				want, why, problem := forward(obj, namespace)
				if why != "" {
					return offload.Copy{Why: why, Problem: problem}
				}
				return offload.Copy{Want: want, Problem: problem}
			},
			Merge: merge(differ),
		})
	})
}

// ConfigMaps returns the Kind that reflects the ConfigMaps of offloaded namespaces.
func ConfigMaps(workers int, options func() kinds.CopyOptions) Kind {
	kind := plain(ConfigMapKind, workers, &corev1.ConfigMap{}, options, func(local *corev1.ConfigMap, namespace string) (*corev1.ConfigMap, string, error) {
		want, why := kinds.ConfigMap(local, namespace, options())
		return want, why, nil
	}, kinds.MergeConfigMap)
	o := options()
	kind.RemoteName = func(name string) string { return kinds.ConfigMapName(name, o) }
	kind.LocalName = func(name string) string { return kinds.LocalConfigMapName(name, o) }
	return kind
}

// Secrets returns the Kind that reflects the Secrets of offloaded namespaces.
func Secrets(workers int, options func() kinds.CopyOptions) Kind {
	return plain(SecretKind, workers, &corev1.Secret{}, options, func(local *corev1.Secret, namespace string) (*corev1.Secret, string, error) {
		want, why := kinds.Secret(local, namespace, options())
		if want == nil {
			return nil, why, kinds.SecretProblem(local, options())
		}
		return want, "", nil
	}, kinds.MergeSecret)
}

// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch

// Services returns the Kind that reflects the Services of offloaded namespaces.
func Services(workers int, options func() kinds.ServiceOptions) Kind {
	kind := plain(ServiceKind, workers, &corev1.Service{}, func() kinds.CopyOptions { return options().CopyOptions },
		func(local *corev1.Service, namespace string) (*corev1.Service, string, error) {
			o := options()
			want, why := kinds.Service(local, namespace, o)
			return want, why, kinds.ServiceProblem(local, o)
		}, kinds.MergeService)
	kind.EmitEvents, kind.DependsOnAllMappings = true, true // an ExternalName may refer to a Service in another namespace
	kind.Local.Strip, kind.Remote[0].Strip = stripServiceStatus, stripServiceStatus
	return kind
}

// stripServiceStatus drops the status, which is never copied in either direction.
func stripServiceStatus(obj client.Object) {
	if service, ok := obj.(*corev1.Service); ok {
		service.Status = corev1.ServiceStatus{}
	}
}

// Ingresses returns the Kind that reflects the Ingresses of offloaded namespaces.
func Ingresses(workers int, options func() kinds.IngressOptions) Kind {
	kind := plain(IngressKind, workers, &networkingv1.Ingress{}, func() kinds.CopyOptions { return options().CopyOptions },
		func(local *networkingv1.Ingress, namespace string) (*networkingv1.Ingress, string, error) {
			o := options()
			want, why := kinds.Ingress(local, namespace, o)
			if want == nil {
				return nil, why, nil
			}
			return want, "", kinds.UncopiedAnnotationsOfIngress(local, o.CopyOptions)
		}, kinds.MergeIngress)
	kind.EmitEvents = true
	kind.Local.Strip, kind.Remote[0].Strip = stripIngressStatus, stripIngressStatus
	return kind
}

// stripIngressStatus drops the status, which is never copied in either direction.
func stripIngressStatus(obj client.Object) {
	if ingress, ok := obj.(*networkingv1.Ingress); ok {
		ingress.Status = networkingv1.IngressStatus{}
	}
}

// NetworkPolicies returns the Kind that reflects the NetworkPolicies of offloaded namespaces.
func NetworkPolicies(workers int, options func() kinds.NetworkPolicyOptions) Kind {
	kind := plain(NetworkPolicyKind, workers, &networkingv1.NetworkPolicy{}, func() kinds.CopyOptions { return options().CopyOptions },
		func(local *networkingv1.NetworkPolicy, namespace string) (*networkingv1.NetworkPolicy, string, error) {
			return kinds.NetworkPolicy(local, namespace, options())
		}, kinds.MergeNetworkPolicy)
	kind.DependsOnAllMappings = true
	return kind
}

// PersistentVolumeClaims returns the Kind for the claims of offloaded namespaces, and for the claims of the same names that this consumer created in
// the provider. next decides about a claim; package storage contains these decisions.
func PersistentVolumeClaims(workers int, o kinds.CopyOptions, next func(Facts) offload.Step) Kind {
	return copies(PersistentVolumeClaimKind, workers, o, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}, next)
}
