package moving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/storage/move"
	"liqo.io/liqo/test/clitest"
)

// TestMoveVolume moves a claim to a provider and back, kills the command after each of its writes, and runs it again: it ends well, leaves nothing,
// and tells the progress as lines of JSON.
func TestMoveVolume(t *testing.T) {
	whole := newMovedWorld(t)
	if err := whole.run("milan", 0, nil); err != nil {
		t.Fatal(err)
	}
	whole.at("milan", 1)
	writes := whole.writes
	for kind, times := range whole.listed {
		if times > 1 && kind != "NamespaceMaps" {
			t.Errorf("the command lists all %s %d times", kind, times)
		}
	}
	if len(whole.listed) < 3 {
		t.Errorf("lists of all objects: %v", whole.listed)
	}
	lines := strings.Split(strings.TrimSpace(whole.out.String()), "\n")
	var last moveProgress
	for _, line := range lines {
		last = moveProgress{}
		if err := json.Unmarshal([]byte(line), &last); err != nil || last.Phase == "" {
			t.Errorf("line %q: %v", line, err)
		}
	}
	if last.Phase != "done" || last.Checksum != "abc" || last.Files != 3 || last.Bytes != 1<<20 {
		t.Errorf("the last line is %+v", last)
	}
	if err := whole.run("rome-1", 0, nil); err != nil {
		t.Fatal(err)
	}
	whole.at("", 1)
	for limit := 1; limit < writes; limit++ {
		w := newMovedWorld(t)
		if err := w.run("milan", limit, nil); err == nil {
			t.Fatalf("killed after %d of %d writes: no error", limit, writes)
		}
		if err := w.run("milan", 0, nil); err != nil {
			t.Fatalf("killed after %d writes: %v", limit, err)
		}
		w.at("milan", 1)
	}
	if err := whole.run("rome-1", 0, nil); err != nil || whole.writes != 0 {
		t.Errorf("a claim that is there already: %d writes, %v", whole.writes, err)
	}
}

// TestMoveVolumeKeepsTheSource: with --keep-source the old data stays in a volume with policy Retain.
func TestMoveVolumeKeepsTheSource(t *testing.T) {
	w := newMovedWorld(t)
	if err := w.run("milan", 0, func(r *move.Request) { r.KeepSource = true }); err != nil {
		t.Fatal(err)
	}
	w.at("milan", 2)
}

// TestMoveVolumeComparesChecksums: a copy that is not equal ends the command, with the data in place; a later run may succeed, or abandon the move.
func TestMoveVolumeComparesChecksums(t *testing.T) {
	for _, target := range []string{"milan", "rome-1"} {
		w := newMovedWorld(t)
		w.reports["receiver"] = "abd"
		err := w.run("milan", 0, nil)
		if err == nil || !strings.Contains(err.Error(), "checksum abd") || !strings.Contains(err.Error(), "the data is kept") {
			t.Fatalf("%v", err)
		}
		w.reports["receiver"] = "abc"
		if err := w.run(target, 0, nil); err != nil {
			t.Fatal(err)
		}
		w.at(map[string]string{"milan": "milan", "rome-1": ""}[target], 1)
	}
}

// TestMoveVolumeIsRehearsed: what admission refuses is refused before the first change, with and without --dry-run.
func TestMoveVolumeIsRehearsed(t *testing.T) {
	for _, part := range []string{"-store", "-sender", "-receiver", "liqo-move-u1"} {
		w := newMovedWorld(t)
		w.refused = part
		for _, w.dryRun = range []bool{true, false} {
			err := w.run("milan", 0, nil)
			if err == nil || !strings.Contains(err.Error(), "in a dry run, the API server refuses objects of the move") || !strings.Contains(err.Error(), part) || w.writes != 0 && !w.dryRun {
				t.Errorf("%s: %d writes, %v", part, w.writes, err)
			}
		}
		w.refused = ""
		if err := w.run("milan", 0, nil); err != nil {
			t.Fatal(err)
		}
		w.at("milan", 1)
	}
}

// TestMoveVolumeThatAnEndRefuses: a check that does not run at an end, in the provider or in this cluster, ends the command before the first change, and leaves no pod.
func TestMoveVolumeThatAnEndRefuses(t *testing.T) {
	for _, row := range []struct{ stuck, from, to, where string }{
		{"-check-target", "rome-1", "milan", "node milan"}, {"-check-source", "rome-1", "milan", "a node with the data"},
		{"-check-target", "milan", "rome-1", "node rome-1"}, {"-check-store", "milan", "rome-1", "node rome-1"},
	} {
		w := newMovedWorld(t)
		provider := map[string]string{"rome-1": "", "milan": "milan"}
		if row.from == "milan" {
			w.must(w.run("milan", 0, nil))
		}
		before, after := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}
		w.must(w.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "data"}, before))
		w.stuck = row.stuck
		err := w.run(row.to, 0, nil)
		if err == nil || !strings.Contains(err.Error(), "does not run on "+row.where) || !strings.Contains(err.Error(), "Nothing was changed") {
			t.Errorf("%+v: %v", row, err)
		}
		if w.must(w.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "data"}, after)); after.UID != before.UID || after.Status.Phase != corev1.ClaimBound {
			t.Errorf("%+v: %+v", row, after)
		}
		w.at(provider[row.from], 1)
		w.stuck = ""
		w.must(w.run(row.to, 0, nil))
		w.at(provider[row.to], 1)
	}
}

// TestMoveVolumeThatAdmissionRefuses: a quota that refuses a pod after the move has begun ends the command with both ways on, and both of them work.
func TestMoveVolumeThatAdmissionRefuses(t *testing.T) {
	for target, provider := range map[string]string{"milan": "milan", "rome-1": ""} {
		w := newMovedWorld(t)
		w.refused, w.midway = "-sender", true
		err := w.run("milan", 0, nil)
		for _, part := range []string{"liqo-move-u1-sender", "exceeded quota", "run the command again", "cancel the move"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("no %q in: %v", part, err)
			}
		}
		w.refused = ""
		if err := w.run(target, 0, nil); err != nil {
			t.Fatal(err)
		}
		w.at(provider, 1)
	}
}

// TestMoveVolumeNamesTheLastError: where the API server fails until the time is over, the command ends with its last answer.
func TestMoveVolumeNamesTheLastError(t *testing.T) {
	w := newMovedWorld(t)
	w.unavailable = apierrors.NewServiceUnavailable("etcd has no leader")
	err := w.run("milan", 0, nil)
	if err == nil || !strings.Contains(err.Error(), "timed out") || !strings.Contains(err.Error(), "etcd has no leader") {
		t.Errorf("%v", err)
	}
	w.unavailable = nil
	if err := w.run("milan", 0, nil); err != nil {
		t.Fatal(err)
	}
	w.at("milan", 1)
}

// TestMoveVolumeWithAnEarlierVirtualKubelet: it never vouches for the claim in its provider. So the command ends with the cure before it replaces the claim, and
// resumes once the virtual kubelet is upgraded.
func TestMoveVolumeWithAnEarlierVirtualKubelet(t *testing.T) {
	for target, provider := range map[string]string{"milan": "milan", "rome-1": ""} {
		w := newMovedWorld(t)
		w.earlier = true
		err := w.run("milan", 0, nil)
		for _, part := range []string{"virtual kubelet of node milan", "has the name data", "liqoctl upgrade", "cancel the move"} {
			if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "timed out") {
				t.Errorf("no %q in: %v", part, err)
			}
		}
		claim := &corev1.PersistentVolumeClaim{}
		if w.must(w.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "data"}, claim)); claim.UID != "u1" || claim.DeletionTimestamp != nil {
			t.Errorf("the claim was replaced: %+v", claim)
		}
		w.earlier = target == "rome-1" // a move can be cancelled without an upgrade
		if err := w.run(target, 0, nil); err != nil {
			t.Fatal(err)
		}
		w.at(provider, 1)
	}
}

// TestMoveVolumeToAClaimOfSomebodyElse: the command names the claim. If it was deleted just now, the command goes on.
func TestMoveVolumeToAClaimOfSomebodyElse(t *testing.T) {
	w := newMovedWorld(t)
	w.foreign = 1000
	if err := w.run("milan", 0, nil); err == nil || !strings.Contains(err.Error(), "cluster milan was not created by this move. Liqo does not touch that claim") {
		t.Errorf("%v", err)
	}
	w.foreign = 3
	if err := w.run("milan", 0, nil); err != nil || w.foreign > 0 {
		t.Errorf("%v, still %d times", err, w.foreign)
	}
	w.at("milan", 1)
}

// TestMoveVolumeDryRunOfARejectedClaim: a dry run of a move whose claim in the target is rejected fails as the command does. It succeeds once the claim is gone.
func TestMoveVolumeDryRunOfARejectedClaim(t *testing.T) {
	w := newMovedWorld(t)
	w.foreign = 1000
	if err := w.run("milan", 0, nil); err == nil {
		t.Fatal("the move of a rejected claim succeeded")
	}
	w.dryRun = true
	if err := w.run("milan", 0, nil); err == nil || !strings.Contains(err.Error(), "cluster milan was not created by this move. Liqo does not touch that claim") {
		t.Errorf("dry run: %v", err)
	}
	w.foreign = 3
	w.said.Reset()
	if err := w.run("milan", 0, nil); err != nil || w.foreign > 0 {
		t.Errorf("dry run after the claim is gone: %v, still %d times", err, w.foreign)
	}
	if said := w.said.String(); strings.Count(said, "Then the command would replace the claim") != 1 {
		t.Errorf("the dry run prints: %s", said)
	}
	w.dryRun = false
	if err := w.run("milan", 0, nil); err != nil {
		t.Fatal(err)
	}
	w.at("milan", 1)
}

// TestMoveCredentials: each move has passwords of its own, too long to be guessed, and the store has only the hash of the one that it checks.
func TestMoveCredentials(t *testing.T) {
	one, err := moveCredentials()
	if err != nil {
		t.Fatal(err)
	}
	another, err := moveCredentials()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{move.KeyPassword, move.KeyUserPassword} {
		if len(one[key]) != 64 || bytes.Equal(one[key], another[key]) {
			t.Errorf("%s has %d characters", key, len(one[key]))
		}
	}
	user, hash, _ := strings.Cut(strings.TrimSpace(string(one[move.KeyHTPasswd])), ":")
	if user != string(one[move.KeyUser]) || bcrypt.CompareHashAndPassword([]byte(hash), one[move.KeyUserPassword]) != nil {
		t.Errorf("%s does not admit the user", one[move.KeyHTPasswd])
	}
}

// TestMoveVolumeNamesObstacles: each reason why pods can't run on the target is refused before anything is written.
func TestMoveVolumeNamesObstacles(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *movedWorld) error
		want   string
	}{
		"not offloaded": {func(w *movedWorld) error {
			return w.client.Delete(t.Context(), &offloadingv1beta1.NamespaceOffloading{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName},
			})
		}, "liqoctl offload namespace shop"},
		"not to this cluster": {func(w *movedWorld) error {
			return w.client.Delete(t.Context(), clitest.MapOf("milan", "shop"))
		}, "no pod of namespace shop is offloaded to cluster milan"},
		"no classes": {func(w *movedWorld) error {
			var node corev1.Node
			w.must(w.client.Get(t.Context(), client.ObjectKey{Name: "milan"}, &node))
			node.Labels[offloadingv1beta1.LabelStorageAvailable] = "false"
			return w.client.Update(t.Context(), &node)
		}, "cluster milan offers no storage class"},
		"mounted": {func(w *movedWorld) error {
			return w.client.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}, Spec: corev1.PodSpec{
				Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
				}}},
			}})
		}, "mounted by pods db-0"},
	} {
		w := newMovedWorld(t)
		w.must(c.change(w))
		if err := w.run("milan", 0, nil); err == nil || !strings.Contains(err.Error(), c.want) || w.writes != 0 {
			t.Errorf("%s: %d writes, %v", name, w.writes, err)
		}
	}
}

// TestMoveVolumeToAClusterWithoutRoom: what this cluster has for the volumes of a move is read before the first change, and nothing is written if it is too little.
func TestMoveVolumeToAClusterWithoutRoom(t *testing.T) {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "standard"}, Provisioner: "kubernetes.io/no-provisioner"}
	class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": api.True}
	half := resource.MustParse("512Mi")
	replace := func(w *movedWorld) error {
		return errors.Join(w.client.Delete(t.Context(), class.DeepCopy()), w.client.Create(t.Context(), class.DeepCopy()))
	}
	small := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "small"}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "standard", Capacity: corev1.ResourceList{corev1.ResourceStorage: half}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		},
	}
	for name, row := range map[string]struct {
		change func(w *movedWorld) error
		want   string
	}{
		"no class":  {func(w *movedWorld) error { return w.client.Delete(t.Context(), class.DeepCopy()) }, "no StorageClass of this cluster is the default"},
		"no driver": {replace, "None of its PersistentVolumes is Available on that node"},
		"a small volume": {func(w *movedWorld) error {
			return errors.Join(replace(w), w.client.Create(t.Context(), small.DeepCopy()))
		}, "there is no volume of 1Gi for the data (PersistentVolume pvc-"},
		"a small disk": {func(w *movedWorld) error {
			return w.client.Create(t.Context(), &storagev1.CSIStorageCapacity{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "c"}, StorageClassName: "standard", Capacity: &half, NodeTopology: &metav1.LabelSelector{},
			})
		}, "CSIStorageCapacity c in namespace kube-system has capacity 512Mi"},
	} {
		w := newMovedWorld(t)
		w.must(w.run("milan", 0, nil))
		w.must(row.change(w))
		if err := w.run("rome-1", 0, nil); err == nil || !strings.Contains(err.Error(), row.want) || w.writes != 0 {
			t.Errorf("%s: %d writes, %v", name, w.writes, err)
		}
	}
}

// TestMoveProgress: people see amounts, the rate and the time that is left.
func TestMoveProgress(t *testing.T) {
	now := time.Unix(0, 0)
	var said bytes.Buffer
	shown := console.New(&said, &said, true)
	r := newMoveReport(shown, false, func() time.Time { return now })
	defer r.end()
	step := &move.Step{Phase: move.Copying, Why: "pod x to end: it is Pending"}
	r.progress(step, nil)
	for i := range int64(3) {
		r.progress(step, &movedLine{MessageType: "status", BytesDone: (i + 1) << 20, TotalBytes: 10 << 20})
		now = now.Add(time.Second)
	}
	if want := "2/4 copying: 3.0Mi of 10.0Mi, 1.0Mi/s, 7s left"; r.last.text() != want {
		t.Errorf("%q, want %q", r.last.text(), want)
	}
	r.progress(step, &movedLine{MessageType: "verify", BytesDone: 100})
	if want := "2/4 verifying: 100 bytes"; r.last.text() != want {
		t.Errorf("%q, want %q", r.last.text(), want)
	}
	r.step(&move.Step{Phase: move.Restoring, Why: "pod y to end"})
	r.step(step)
	if want := "3/4 copying: waiting for pod x to end: it is Pending"; r.last.text() != want { // the copy is made once more
		t.Errorf("%q, want %q", r.last.text(), want)
	}
	r.step(&move.Step{Phase: move.Returning, Why: "pod z to be deleted"})
	if want := "Returning: waiting for pod z to be deleted"; r.last.text() != want {
		t.Errorf("%q, want %q", r.last.text(), want)
	}
	restored := movedLine{BytesRestored: 5, BytesSkipped: 6}
	if restored.amount() != 11 {
		t.Errorf("%+v", restored)
	}
}

// TestMoveTimeout: the time counts from the last progress, so that a large volume does not reach it and a pod that never starts does.
func TestMoveTimeout(t *testing.T) {
	w := newMovedWorld(t)
	w.stuck = "-store"
	err := w.run("milan", 0, func(*move.Request) { w.timeout = 10 * time.Minute })
	if err == nil || !strings.Contains(err.Error(), "timed out (--timeout)") || !strings.Contains(err.Error(), "-store to be ready") {
		t.Errorf("%v", err)
	}
	if w.took < 10*time.Minute || w.took > 12*time.Minute {
		t.Errorf("the command ended after %s", w.took)
	}
	w.stuck = ""
	w.must(w.run("milan", 0, nil))
	w.at("milan", 1)
	synctest.Test(t, func(t *testing.T) {
		ctx, alive, cancel := untilIdle(t.Context(), time.Minute)
		defer cancel()
		for range 5 {
			time.Sleep(50 * time.Second)
			alive()
		}
		if ctx.Err() != nil {
			t.Errorf("it ended while there was progress: %v", context.Cause(ctx))
		}
		time.Sleep(70 * time.Second)
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Errorf("it did not end without progress: %v", context.Cause(ctx))
		}
	})
}
