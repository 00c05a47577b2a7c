package moving

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/storage"
)

// TestMoveVolumeWithoutProtection: without the policy, the command changes nothing. If the API server does not enforce the policy, the claim keeps its volume, and
// the move can be cancelled.
func TestMoveVolumeWithoutProtection(t *testing.T) {
	for _, missing := range []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: storage.PolicyMovingClaims}},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: storage.PolicyMovingClaims}},
	} {
		w := newMovedWorld(t)
		w.must(w.client.Delete(t.Context(), missing))
		err := w.run("milan", 0, nil)
		for _, part := range []string{"PersistentVolumeClaim data in namespace shop can't be moved", "this cluster has no ValidatingAdmissionPolicy", "liqoctl upgrade", "storage.enabled=true"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("no %q in: %v", part, err)
			}
		}
		if w.writes != 0 {
			t.Errorf("%d writes", w.writes)
		}
	}
	w := newMovedWorld(t)
	w.ignored = true
	err := w.run("milan", 0, nil)
	for _, part := range []string{"so the claim is not replaced: in a dry run, it permits another claim", "Its volume and its data are unchanged", "cancel the move"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("no %q in: %v", part, err)
		}
	}
	claim := &corev1.PersistentVolumeClaim{}
	w.must(w.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "data"}, claim))
	if claim.UID != "u1" || claim.Spec.VolumeName != "pvc-u1" || claim.DeletionTimestamp != nil {
		t.Errorf("%+v", claim)
	}
	w.must(w.run("rome-1", 0, nil))
	w.at("", 1)
}
