package reflection

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// Kinds returns the names of all reflected kinds.
func Kinds() []string {
	return []string{
		PodKind, ServiceKind, EndpointSliceKind, IngressKind, ConfigMapKind, SecretKind, EventKind, NetworkPolicyKind, PodDisruptionBudgetKind,
		PersistentVolumeClaimKind,
	}
}

// plain returns a Kind whose copies have the same type as the originals and depend on no other objects. problem returns what the user should know
// about a copy, and may be nil.
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
