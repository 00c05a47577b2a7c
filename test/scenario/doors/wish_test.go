package doors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/test/scenario/story"
)

// wish: rome's administrator applies a ForeignCluster and a Secret, as with GitOps, and runs no command. The value No ends the peering, and so does the
// deletion of the ForeignCluster. A token can be used for one peering only.
func wish(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	fc := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: milan.ID}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: api.Namespace, Name: corev1beta1.TokenSecretPrefix + milan.ID, Labels: map[string]string{api.LabelRemoteClusterID: milan.ID},
	}}
	given := func(flag string) string {
		fields := strings.Fields(shell(s, milan, "liqoctl generate peer-command --only-command --consumer-cluster-id "+rome.ID))
		at := slices.Index(fields, flag)
		if at < 0 || at+1 >= len(fields) {
			s.Fatalf("there is no %s in %v", flag, fields)
		}
		return fields[at+1]
	}
	state := func(within time.Duration, status corev1beta1.ConditionStatus, reason string) {
		s.Helper()
		s.Eventually(within, fmt.Sprintf("the peering to be %s, %s", status, reason), func(ctx context.Context) error {
			if err := rome.Get(ctx, client.ObjectKeyFromObject(fc), fc); err != nil {
				return err
			}
			for _, condition := range fc.Status.Conditions {
				if condition.Type == corev1beta1.OutgoingPeering && condition.Status == status && condition.Reason == reason {
					return nil
				}
			}
			return fmt.Errorf("conditions %+v", fc.Status.Conditions)
		})
	}
	change := func(wish corev1beta1.PeeringWish) {
		s.Helper()
		s.Must(rome.Get(s.Context(), client.ObjectKeyFromObject(fc), fc))
		before := fc.DeepCopy()
		fc.Spec.OutgoingPeeringEnabled = wish
		s.Must(rome.Patch(s.Context(), fc, client.MergeFrom(before)))
	}
	tenant := func() client.Object {
		return &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace(rome.ID), Name: rome.ID}}
	}
	node := func() client.Object { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: milan.ID}} }

	s.Step("rome asks for milan, and is told what is missing", func() {
		fc.Spec = corev1beta1.ForeignClusterSpec{ClusterID: milan.ID, OutgoingPeeringEnabled: corev1beta1.PeeringYes, ForeignAuthURL: given("--auth-url")}
		s.Must(rome.Create(s.Context(), fc))
		state(soon, corev1beta1.StatusError, "TokenMissing")
	})
	s.Step("the token makes the peering", func() {
		secret.Data = map[string][]byte{corev1beta1.TokenSecretKey: []byte(given("--auth-token"))}
		s.Must(rome.Create(s.Context(), secret))
		s.NodeReady(milan.ID, true, start)
		state(soon, corev1beta1.StatusEstablished, "PeeringEstablished")
	})
	guests := inviteGuests(s, rome, milan)
	guests.talk()
	guests.leave()
	s.Step("No ends it in both clusters", func() {
		change(corev1beta1.PeeringNo)
		s.Gone(rome, node(), start)
		s.Gone(milan, tenant(), soon)
		state(start, corev1beta1.StatusNone, "NotPeered")
	})
	s.Step("the token is spent, another one is good for another peering", func() {
		change(corev1beta1.PeeringYes)
		state(soon, corev1beta1.StatusError, "InvitationRefused")
		before := secret.DeepCopy()
		secret.Data[corev1beta1.TokenSecretKey] = []byte(given("--auth-token"))
		s.Must(rome.Patch(s.Context(), secret, client.MergeFrom(before)))
		s.NodeReady(milan.ID, true, start)
	})
	s.Step("so does the deletion of the ForeignCluster", func() {
		s.Must(rome.Delete(s.Context(), fc.DeepCopy()))
		s.Gone(rome, fc.DeepCopy(), start)
		s.Gone(milan, tenant(), soon)
		s.Gone(rome, node(), soon)
		s.Must(rome.Delete(s.Context(), secret))
		strangers(s, rome, milan)
	})
	s.Others("secrets " + api.Namespace + "/" + invite.KeySecret)
}
