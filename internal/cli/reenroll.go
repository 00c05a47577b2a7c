package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// reenroll replaces the credential of a granted Identity by that of another enrollment, if the provider seems not to accept it any more. The controller
// manager enrolls with the invitation: it reaches the provider, also through a tunnel, and replaces the credential only if the provider refuses it and accepts
// the new one. The Identity stays, because deleting it would withdraw what this cluster uses of the provider.
func reenroll(ctx context.Context, c *session.Cluster, granted *authv1beta1.Identity, invitation *corev1.Secret) error {
	provider := granted.Spec.ClusterID
	if needed, err := needsReenrollment(ctx, c, granted); err != nil || !needed {
		return err
	}
	kind, before := peering.KindOf(&granted.Spec.AuthParams), granted.Spec.AuthParams.DeepCopy()
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: granted.Namespace, Name: granted.Name}}
	doing := fmt.Sprintf("Enrolling this cluster in %s again, because its %s is not accepted any more", provider, kind)
	if granted.Annotations[peering.AnnotationReenroll] != "" || refusedInvitation(granted) != "" { // the outcome of an earlier attempt says nothing about this one
		if err := c.Reach(ctx, &session.Goal{
			Object: identity, Doing: doing,
			Fill: func() { delete(identity.Annotations, peering.AnnotationReenroll) },
			Met: func() session.Verdict {
				if why := refusedInvitation(identity); why != "" {
					return session.NotYet("the controller manager has not reconciled it (%s)", why)
				}
				return session.Yes()
			},
		}); err != nil {
			return err
		}
	}
	g := &session.Goal{Object: identity, Doing: doing}
	g.Fill = func() {
		metav1.SetMetaDataAnnotation(&identity.ObjectMeta, peering.AnnotationReenroll, peering.ReenrollmentOf(before, invitation))
	}
	g.Met = func() session.Verdict {
		switch {
		case !equality.Semantic.DeepEqual(before, &identity.Spec.AuthParams):
			g.Done = fmt.Sprintf("Cluster %s has admitted this cluster again: the %s is replaced", provider, kind)
			return session.Yes()
		case identity.Annotations[peering.AnnotationReenroll] == "":
			g.Done = fmt.Sprintf("Cluster %s accepts the %s, which stays", provider, kind)
			return session.Yes()
		case refusedInvitation(identity) != "":
			return session.Never("%s", refusedInvitation(identity))
		}
		return session.NotYet("cluster %s has not admitted this cluster again%s", provider, session.Unmet(identity.Status.Conditions))
	}
	return c.Reach(ctx, g)
}

// needsReenrollment reports whether the provider seems not to accept the credential of a granted Identity any more.
func needsReenrollment(ctx context.Context, c *session.Cluster, granted *authv1beta1.Identity) (bool, error) {
	provider := granted.Spec.ClusterID
	foreign := &corev1beta1.ForeignCluster{}
	err := c.Get(ctx, client.ObjectKey{Name: provider}, foreign)
	if client.IgnoreNotFound(err) != nil {
		return false, c.Err(fmt.Errorf("reading ForeignCluster %s: %w", provider, err))
	}
	if err != nil {
		foreign = nil
	}
	return peering.NeedsReenrollment(granted, foreign, time.Now()), nil
}

// refusedInvitation returns why the invitation for an Identity does not work; it is empty if nothing is known against it.
func refusedInvitation(identity *authv1beta1.Identity) string {
	ready := meta.FindStatusCondition(identity.Status.Conditions, kube.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue || !strings.HasPrefix(ready.Reason, "Invitation") {
		return ""
	}
	return ready.Message
}
