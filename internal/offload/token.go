package offload

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

// NextToken decides what to do about the Secret, in the provider, with the tokens of a Pod. The argument secret may be nil, and needs only the keys
// of its data. Call NextToken before Next, since a starting Pod waits for its tokens. The Secret in a create or patch step still lacks the tokens. If
// no step is due, found is false; due, if not zero, is the time until the next step.
//
// Tokens are created before the ShadowPod of a Pod, replaced before they expire, and deleted when the Pod has finished or no longer exists. A Pod
// that is being deleted keeps its tokens.
func NextToken(local *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, secret *corev1.Secret, env Env) (step Step, due time.Duration, found bool) {
	ours := secret != nil && podrules.OwnsTokens(secret, env.Pod)
	if !env.RemoteSynced || !env.RefusedSince.IsZero() || env.Mapping.Namespace == "" {
		return Step{}, 0, false
	}
	if local == nil || api.PodFinished(local) {
		if !ours || secret.DeletionTimestamp != nil {
			return Step{}, 0, false
		}
		return Step{Action: DeleteRemote, Object: secret, Why: "the pod of the tokens is gone, or has finished", Confirm: true}, 0, true
	}
	wanted := podrules.Tokens(local, env.Pod)
	running := podrules.Offloaded(local)
	switch {
	case len(wanted) == 0 || local.DeletionTimestamp != nil || env.Mapping.State != Mapped:
	case running && shadow == nil || shadow != nil && !podrules.OwnsShadowPod(shadow, env.Pod) || !running && shadow != nil && !kinds.MadeFor(shadow, local):
		// Next refuses or aborts this pod, so its tokens are not renewed.
	case secret == nil:
		return Step{Action: CreateRemote, Object: podrules.TokensSecret(local, env.Mapping.Namespace, env.Pod), Why: "the pod needs tokens", Again: true}, 0, true
	case !ours && !running && shadow == nil:
		return refuse(local, "Secret "+secret.Name+" exists in the provider and holds no tokens of this virtual node's pods: create the pod under another name, or annotate it with "+
			podrules.AnnotationAPIServerSupport+": "+podrules.APIServerDisabled), 0, true
	case !ours:
	case secret.DeletionTimestamp != nil:
		return Step{Why: "the Secret of the tokens is being deleted"}, 0, !running && shadow == nil
	case secret.Name != podrules.TokenSecret(local.Name) && !running && shadow == nil:
		// A pod that is offloaded from now on reads the Secret with the new name.
		return Step{Action: DeleteRemote, Object: secret, Why: "the tokens are in a Secret with the name of an earlier release", Confirm: true}, 0, true
	default:
		if due = podrules.TokensDue(secret, local, wanted, env.Now); due > 0 {
			return Step{}, due, false
		}
		fresh, out := podrules.TokensSecret(local, secret.Namespace, env.Pod), secret.DeepCopy()
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		maps.Copy(out.Labels, fresh.Labels)
		maps.Copy(out.Annotations, fresh.Annotations)
		out.Data = fresh.Data
		return Step{Action: PatchRemote, Object: out, Old: secret, Why: "the tokens are due for renewal, or belong to another pod", Again: !running}, 0, true
	}
	return Step{}, 0, false
}
