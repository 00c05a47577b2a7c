package session

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/kube"
)

// TestEnsureOfObjectsBeingDeleted: a command does not change an object that is being deleted, except the mark of a peer that is gone for good.
func TestEnsureOfObjectsBeingDeleted(t *testing.T) {
	now := metav1.Now()
	leaving := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "leaving", DeletionTimestamp: &now, Finalizers: []string{"example.com/held"}}}
	c := fakeCluster(leaving)
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "leaving"}}
	change := func() error { kube.AddLabels(object, map[string]string{"changed": "true"}); return nil }
	if changed, err := c.Ensure(t.Context(), object, change); changed || err == nil || !strings.Contains(err.Error(), "Secret leaving in namespace tenant is being deleted") {
		t.Errorf("changed: %t, %v", changed, err)
	}
	if changed, err := c.EnsureAny(t.Context(), object, change); !changed || err != nil {
		t.Errorf("of any object: changed: %t, %v", changed, err)
	}
}

// TestTroubleOfAGoal: the error of a failed wait has the reason that the object does not show, if there is one.
func TestTroubleOfAGoal(t *testing.T) {
	for trouble, want := range map[string]string{
		"":                     "waiting for Secret missing in namespace tenant: it is invalid",
		"its pod has no image": "waiting for Secret missing in namespace tenant: it is invalid; its pod has no image",
	} {
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "missing"}}
		c := fakeCluster()
		c.WithWatch = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(object.DeepCopy()).
			WithIndex(object, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).Build()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := c.Reach(ctx, &Goal{
			Object: object, Doing: "Waiting", Met: func() Verdict { return Never("it is invalid") }, Trouble: func() string { return trouble },
		})
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func fakeCluster(objects ...client.Object) *Cluster {
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objects...).Build()
	return &Cluster{WithWatch: c, Console: console.New(io.Discard, io.Discard, false), ID: "rome"}
}

// TestInOrder: the steps of a command run in their order, without those that are not wanted, until one fails.
func TestInOrder(t *testing.T) {
	var ran []string
	does := func(name string, err error) func(context.Context) error {
		return func(context.Context) error { ran = append(ran, name); return err }
	}
	broken := errors.New("broken")
	if err := InOrder(t.Context(), does("a", nil), When(false, does("b", nil)), When(true, does("c", broken)), does("d", nil)); !errors.Is(err, broken) {
		t.Error(err)
	}
	if !slices.Equal(ran, []string{"a", "c"}) {
		t.Errorf("ran %v", ran)
	}
}
