package reflection

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch

// Services returns the Kind that reflects the Services of offloaded namespaces.
func Services(workers int, options func() kinds.ServiceOptions) Kind {
	kind := copies(ServiceKind, workers, options().CopyOptions, &corev1.Service{}, &corev1.Service{}, func(f Facts) offload.Step {
		o := options()
		return offload.NextCopy(object(f.Local), object(f.Remote[0]), f.Mapping, f.RemoteSynced, offload.CopyRules{
			Options: o.CopyOptions,
			Copy: func(local offload.Object, namespace string) offload.Copy {
				service, ok := local.(*corev1.Service)
				if !ok {
					return offload.Copy{Why: "it is no Service"}
				}
				want, why := kinds.Service(service, namespace, o)
				if want == nil {
					return offload.Copy{Why: why, Problem: kinds.ServiceProblem(service, o)}
				}
				return offload.Copy{Want: want, Problem: kinds.ServiceProblem(service, o)}
			},
			Merge: merge(kinds.MergeService),
		})
	})
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
