package moving

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/internal/storage/move"
	"liqo.io/liqo/test/clitest"
)

// own lets the claim be the one of pod db-0 of a StatefulSet.
func (w *movedWorld) own() {
	w.t.Helper()
	one := int32(1)
	w.must(w.client.Create(w.t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "s1"},
		Spec:       appsv1.StatefulSetSpec{Replicas: &one, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: dataVolumes()}}},
	}))
	w.settle(w.t.Context())
}

func dataVolumes() []corev1.Volume {
	return []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
}

// control creates and deletes the pod of the StatefulSet, as its controller does.
func (w *movedWorld) control(ctx context.Context) {
	w.t.Helper()
	set := &appsv1.StatefulSet{}
	switch err := w.client.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "db"}, set); {
	case apierrors.IsNotFound(err):
		return
	case err != nil:
		w.t.Fatal(err)
	}
	yes := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "p1", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: set.UID, Controller: &yes},
	}}, Spec: corev1.PodSpec{Volumes: dataVolumes()}}
	if *set.Spec.Replicas == 0 {
		w.must(client.IgnoreNotFound(w.client.Delete(ctx, pod)))
	} else if err := w.client.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
}

// createAhead creates the volume that a live move asks for before the claim is replaced.
func (w *movedWorld) createAhead(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
	w.t.Helper()
	node, uid, found := strings.Cut(claim.Annotations[storage.AnnotationAhead], "/")
	if !found {
		return
	}
	if node == "rome-1" {
		node = ""
	}
	volume := clitest.VolumeOf(uid, claim.Namespace, claim.Name, node).DeepCopyObject().(*corev1.PersistentVolume)
	volume.Spec.ClaimRef.UID, volume.Spec.PersistentVolumeReclaimPolicy = types.UID(uid), corev1.PersistentVolumeReclaimRetain
	if err := w.client.Create(ctx, volume); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
}

// exec is what a pod does that is requested to finish.
func (w *movedWorld) exec(ctx context.Context, namespace, name string, command ...string) (string, error) {
	if err := w.allow(ctx); err != nil {
		return "", err
	}
	pod := &corev1.Pod{}
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		return "", err
	}
	switch strings.Join(command, " ") {
	case "/volume-mover finish":
		if w.deaf == nil {
			w.told[pod.UID] = true
		}
		return "", w.deaf
	case "/volume-mover result":
		if !w.told[pod.UID] {
			w.t.Errorf("pod %s is to report before it was told to finish", name)
		}
		if w.together != nil {
			w.together.Done()
			w.together.Wait()
		}
		if w.silent && w.answer != "" {
			return w.answer, nil
		}
		if w.silent {
			return "", errors.New("container not found")
		}
		text, err := json.Marshal(move.Result{Checksum: w.reports[pod.Labels["storage.liqo.io/move-role"]], Files: 3, Bytes: 1 << 20})
		return string(text), err
	}
	w.t.Errorf("pod %s is to run %q", name, command)
	return "", nil
}

// runs fails unless the StatefulSet has its replica and no trace of the move, and then removes it with its pod.
func (w *movedWorld) runs() {
	w.t.Helper()
	ctx := w.t.Context()
	set := &appsv1.StatefulSet{}
	w.must(w.client.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "db"}, set))
	if *set.Spec.Replicas != 1 || set.Annotations[move.AnnotationStopped] != "" {
		w.t.Errorf("%d replicas, annotations %v", *set.Spec.Replicas, set.Annotations)
	}
	w.must(w.client.Delete(ctx, set))
	w.must(client.IgnoreNotFound(w.client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}})))
}

func live(r *move.Request) { r.Live, r.NewUID = true, "ahead" }

// TestMoveVolumeLive moves a claim while its StatefulSet runs, kills the command after each of its writes, and runs it again, or gives the move up:
// the StatefulSet has its replica in the end, and nothing is left.
func TestMoveVolumeLive(t *testing.T) {
	whole := newMovedWorld(t)
	whole.own()
	if err := whole.run("milan", 0, live); err != nil {
		t.Fatal(err)
	}
	writes := whole.writes
	whole.runs()
	whole.at("milan", 1)
	lines := whole.out.String()
	for _, part := range []string{"stopping StatefulSet db in namespace shop: spec.replicas 0 instead of 1", "copying what has changed", "starting StatefulSet db"} {
		if !strings.Contains(lines, part) {
			t.Errorf("no %q in %s", part, lines)
		}
	}
	for limit := 1; limit < writes; limit++ {
		target, provider := "milan", "milan"
		if limit%2 == 0 {
			target, provider = "rome-1", ""
		}
		t.Logf("killed after %d of %d writes, then to %s", limit, writes, target)
		w := newMovedWorld(t)
		w.own()
		if err := w.run("milan", limit, live); err == nil {
			t.Fatalf("killed after %d of %d writes: no error", limit, writes)
		}
		err := w.run(target, 0, live)
		if err != nil && strings.Contains(err.Error(), "is complete except for the release of the old data") {
			provider = "milan"
			err = w.run("milan", 0, live)
		}
		if err != nil {
			t.Fatalf("killed after %d writes, then to %s: %v", limit, target, err)
		}
		w.runs()
		w.at(provider, 1)
	}
}

// TestMoveVolumeLiveWithSilentPods: what pods don't report when they are asked, or not as they should, is taken from their status.
func TestMoveVolumeLiveWithSilentPods(t *testing.T) {
	for _, answer := range []string{"", "no checksum"} {
		w := newMovedWorld(t)
		w.own()
		w.silent, w.answer = true, answer
		if err := w.run("milan", 0, live); err != nil {
			t.Fatalf("%q: %v", answer, err)
		}
		w.runs()
		w.at("milan", 1)
	}
}

// TestMoveVolumeLiveWithDeafPods: pods that can't be told to finish are replaced by others, which copy everything.
func TestMoveVolumeLiveWithDeafPods(t *testing.T) {
	w := newMovedWorld(t)
	w.own()
	w.deaf = errors.New("connection refused")
	if err := w.run("milan", 0, live); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(w.out.String(), "starting pod") || len(w.told) > 0 {
		t.Errorf("%s", w.out.String())
	}
	w.runs()
	w.at("milan", 1)
}

// TestMoveVolumeLiveAsksBothPodsAtOnce: the application is stopped while the pods report, so the command does not wait for one report before it asks for the
// other.
func TestMoveVolumeLiveAsksBothPodsAtOnce(t *testing.T) {
	w := newMovedWorld(t)
	w.own()
	err := w.run("milan", 0, func(r *move.Request) {
		live(r)
		w.together = &sync.WaitGroup{} // of the time in which the command runs
		w.together.Add(2)
	})
	if err != nil {
		t.Fatal(err)
	}
	w.runs()
	w.at("milan", 1)
}
