package offload

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	offv1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
)

// NextToken decides what to do about the Secret, in the provider, with the tokens of a Pod: secret, of which the keys are enough, or nil. It comes before
// Next, since a Pod that starts waits for it. What is created or patched still lacks the tokens. False means that there is nothing to do; due, if
// not zero, is when there will be.
//
// Tokens are made for a Pod before its ShadowPod, replaced in time, and removed when the Pod has ended or is gone. One that is being deleted keeps
// what it has.
func NextToken(local *corev1.Pod, shadow *offv1.ShadowPod, secret *corev1.Secret, env Env) (step Step, due time.Duration, found bool) {
	ours := secret != nil && kinds.OwnsTokens(secret, env.Pod)
	if !env.RemoteSynced || !env.RefusedSince.IsZero() || env.Mapping.Namespace == "" {
		return Step{}, 0, false
	}
	if local == nil || kinds.Finished(local) {
		if !ours || secret.DeletionTimestamp != nil {
			return Step{}, 0, false
		}
		return Step{Action: DeleteRemote, Object: secret, Why: "the pod of the tokens is gone, or has finished", Confirm: true}, 0, true
	}
	wanted := kinds.Tokens(local, env.Pod)
	running := kinds.Offloaded(local)
	switch {
	case len(wanted) == 0 || local.DeletionTimestamp != nil || env.Mapping.State != Mapped:
	case running && shadow == nil || shadow != nil && !kinds.OwnsShadowPod(shadow, env.Pod) || !running && shadow != nil && !kinds.MadeFor(shadow, local):
		// It is refused or aborted. One that the provider holds back is none of these: its tokens end while it waits.
	case secret == nil:
		return Step{Action: CreateRemote, Object: kinds.TokensSecret(local, env.Mapping.Namespace, env.Pod), Why: "the pod needs tokens", Again: true}, 0, true
	case !ours && !running && shadow == nil:
		return refuse(local, "a Secret "+secret.Name+" exists in the provider and holds no tokens of this node's pods: rename the pod, or annotate it with "+
			kinds.AnnotationAPIServerSupport+": "+kinds.APIServerDisabled), 0, true
	case !ours:
	case secret.DeletionTimestamp != nil:
		return Step{Why: "the tokens are on their way out"}, 0, !running && shadow == nil
	case secret.Name != kinds.TokenSecret(local.Name) && !running && shadow == nil:
		// A pod that is offloaded now reads the new name.
		return Step{Action: DeleteRemote, Object: secret, Why: "the tokens are in a Secret that an earlier release named", Confirm: true}, 0, true
	default:
		if due = kinds.TokensDue(secret, local, wanted, env.Now); due > 0 {
			return Step{}, due, false
		}
		fresh, out := kinds.TokensSecret(local, secret.Namespace, env.Pod), secret.DeepCopy()
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		maps.Copy(out.Labels, fresh.Labels)
		maps.Copy(out.Annotations, fresh.Annotations)
		out.Data = fresh.Data
		return Step{Action: PatchRemote, Object: out, Old: secret, Why: "the tokens are due, or another pod's", Again: !running}, 0, true
	}
	return Step{}, 0, false
}
