package reflection

import (
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload/kinds"
)

// IngressKind is the Kind.Name of Ingresses.
const IngressKind = "Ingress"

// Ingresses returns the Kind that reflects the Ingresses of offloaded namespaces.
func Ingresses(workers int, options func() kinds.IngressOptions) Kind {
	kind := plain(IngressKind, workers, &networkingv1.Ingress{}, func() kinds.CopyOptions { return options().CopyOptions },
		func(local *networkingv1.Ingress, namespace string) (*networkingv1.Ingress, string) {
			return kinds.Ingress(local, namespace, options())
		}, kinds.MergeIngress, func(local *networkingv1.Ingress) error {
			return kinds.UncopiedAnnotationsOfIngress(local, options().CopyOptions)
		})
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
