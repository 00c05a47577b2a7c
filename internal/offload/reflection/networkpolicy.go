package reflection

import (
	networkingv1 "k8s.io/api/networking/v1"

	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// NetworkPolicyKind is the Kind.Name of NetworkPolicies.
const NetworkPolicyKind = "NetworkPolicy"

// NetworkPolicies returns the Kind that reflects the NetworkPolicies of offloaded namespaces.
func NetworkPolicies(workers int, options func() kinds.NetworkPolicyOptions) Kind {
	kind := copies(NetworkPolicyKind, workers, options().CopyOptions, &networkingv1.NetworkPolicy{}, &networkingv1.NetworkPolicy{}, func(f Facts) offload.Step {
		o := options()
		return offload.NextCopy(object(f.Local), object(f.Remote[0]), f.Mapping, f.RemoteSynced, offload.CopyRules{
			Options: o.CopyOptions,
			Copy: func(local offload.Object, namespace string) offload.Copy {
				policy, ok := local.(*networkingv1.NetworkPolicy)
				if !ok {
					return offload.Copy{Why: "it is no NetworkPolicy"}
				}
				want, why, problem := kinds.NetworkPolicy(policy, namespace, o)
				if want == nil {
					return offload.Copy{Why: why, Problem: problem}
				}
				return offload.Copy{Want: want, Problem: problem}
			},
			Merge: merge(kinds.MergeNetworkPolicy),
		})
	})
	kind.DependsOnAllMappings = true
	return kind
}
