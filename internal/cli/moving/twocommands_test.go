package moving

import (
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/storage/move"
)

// TestAnOutdatedDecisionDeletesNoClaim: if another command has changed the claim since this one has read it, the claim stays, and this command reads and decides
// again.
func TestAnOutdatedDecisionDeletesNoClaim(t *testing.T) {
	w := newMovedWorld(t)
	v := &volumeMove{Cluster: &session.Cluster{Console: console.New(io.Discard, io.Discard, false), WithWatch: w.client}}
	claim, other := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: "shop", Name: "data"}
	w.must(w.client.Get(t.Context(), key, claim))
	w.must(w.client.Get(t.Context(), key, other))
	if err := v.unchanged(t.Context(), claim); err != nil {
		t.Error(err)
	}
	other.Labels = map[string]string{"changed": "yes"}
	w.must(w.client.Update(t.Context(), other))
	if err := v.unchanged(t.Context(), claim); !apierrors.IsConflict(err) {
		t.Errorf("the state mixes two versions: %v", err)
	}
	step := move.Step{Action: move.Delete, Object: claim, Unchanged: true}
	if err := v.write(t.Context(), &step); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	if err := w.client.Get(t.Context(), key, claim); err != nil {
		t.Fatalf("the claim is gone: %v", err)
	}
	if err := v.write(t.Context(), &step); err != nil {
		t.Error(err)
	}
	if err := w.client.Get(t.Context(), key, claim); !apierrors.IsNotFound(err) {
		t.Errorf("the claim stays: %v", err)
	}
}
