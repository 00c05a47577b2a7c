package reflect

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// Kinds returns the names of all kinds that are reflected.
func Kinds() []string {
	return []string{PodKind, ServiceKind, EndpointSliceKind, IngressKind, ConfigMapKind, SecretKind, EventKind, NetworkPolicyKind, PodDisruptionBudgetKind}
}

// plain returns the Kind of objects whose copies are of the same type and depend on nothing else. problem is what the user should know of a copy; may
// be nil.
func plain[T client.Object](name string, workers int, empty T, options func() kinds.CopyOptions, forward func(local T, namespace string) (T, string), differ func(have, want T) (T, kinds.Change),
	problem func(local T) error) Kind {
	return copies(name, workers, options(), empty, empty, func(f Facts) offload.Step {
		return offload.NextCopy(object(f.Local), object(f.Remote[0]), f.Mapping, f.RemoteSynced, offload.CopyRules{
			Options: options(),
			Copy: func(local offload.Object, namespace string) offload.Copy {
				obj, ok := local.(T)
				if !ok {
					return offload.Copy{Why: "it is no " + name}
				}
				want, why := forward(obj, namespace)
				if why != "" {
					c := offload.Copy{Why: why}
					if secret, ok := local.(*corev1.Secret); ok {
						c.Problem = kinds.SecretProblem(secret, options())
					}
					return c
				}
				if problem == nil {
					return offload.Copy{Want: want}
				}
				return offload.Copy{Want: want, Problem: problem(obj)}
			},
			Merge: merge(differ),
		})
	})
}
