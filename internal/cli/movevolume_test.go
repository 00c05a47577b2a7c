package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/internal/storage/move"
)

// movedWorld is a cluster with a claim whose data is on its own node. Controllers and pods have done their work whenever the command reads.
type movedWorld struct {
	t      *testing.T
	client client.WithWatch
	// writes counts the writes of the command. The one after the limit fails, as if the command was killed, if there is a limit.
	writes, limit int
	cancel        func()
	// reports are the checksums that the pods report, by role.
	reports map[string]string
	out     bytes.Buffer
	said    bytes.Buffer
	created int
	// refused, if not empty, is a part of the names of objects that an admission policy refuses.
	refused string
	// unavailable, if not nil, is the answer to each request for a pod's creation.
	unavailable error
	// listed counts the lists of all objects of a kind in the cluster.
	listed map[string]int
}

func newMovedWorld(t *testing.T) *movedWorld {
	t.Helper()
	w := &movedWorld{t: t, reports: map[string]string{"sender": "abc", "receiver": "abc"}}
	ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	class, waits := "liqo", storagev1.VolumeBindingWaitForFirstConsumer
	volume := volumeOf("u1", "shop", "data", "").DeepCopyObject().(*corev1.PersistentVolume)
	volume.Spec.ClaimRef.UID, volume.Spec.PersistentVolumeReclaimPolicy = "u1", corev1.PersistentVolumeReclaimDelete
	volume.Status.Phase = corev1.VolumeBound
	w.client = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome-1"}, Status: ready},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{
			api.LabelType: api.TypeVirtualNode, api.LabelRemoteClusterID: "milan", offloadingv1beta1.LabelStorageAvailable: api.True,
		}}, Status: ready},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: storage.Provisioner, VolumeBindingMode: &waits},
		&offloadingv1beta1.NamespaceOffloading{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName},
			Spec:       offloadingv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: offloadingv1beta1.PodsLocalAndRemote},
		},
		mapOf("milan", "shop"), volume,
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "u1", Labels: map[string]string{"app": "db"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, VolumeName: "pvc-u1", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		},
	).Build()
	return w
}

func (w *movedWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// settle does what Kubernetes, the controllers of Liqo and the pods do.
func (w *movedWorld) settle(ctx context.Context) {
	w.t.Helper()
	var pods corev1.PodList
	w.must(w.client.List(ctx, &pods))
	for i := range pods.Items {
		pod := &pods.Items[i]
		if role := pod.Labels["storage.liqo.io/move-role"]; role == "store" {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		} else if role != "" {
			text, err := json.Marshal(move.Result{Checksum: w.reports[role], Files: 3, Bytes: 1 << 20})
			w.must(err)
			pod.Status.Phase = corev1.PodSucceeded
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(text)}}}}
		}
		w.must(w.client.Status().Update(ctx, pod))
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "data"}, claim); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	if claim.UID != "" && claim.Spec.VolumeName == "" && claim.Annotations[storage.AnnotationMove] == "" {
		w.bind(ctx, claim)
	}
	var volumes corev1.PersistentVolumeList
	w.must(w.client.List(ctx, &volumes))
	for i := range volumes.Items {
		volume := &volumes.Items[i]
		if ref := volume.Spec.ClaimRef; ref.UID == claim.UID || ref.UID == "" && claim.Spec.VolumeName == volume.Name {
			continue
		}
		if volume.Status.Phase = corev1.VolumeReleased; volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			w.must(w.client.Delete(ctx, volume))
			continue
		}
		w.must(w.client.Status().Update(ctx, volume))
	}
	if claim.Spec.VolumeName != "" && claim.Status.Phase != corev1.ClaimBound {
		claim.Status.Phase = corev1.ClaimBound
		w.must(w.client.Status().Update(ctx, claim))
	}
}

// bind gives a claim the volume that its annotation asks for.
func (w *movedWorld) bind(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
	w.t.Helper()
	provider := claim.Annotations[storage.AnnotationSelectedNode]
	if provider == "rome-1" {
		provider = ""
	}
	volume := volumeOf(string(claim.UID), claim.Namespace, claim.Name, provider).DeepCopyObject().(*corev1.PersistentVolume)
	volume.Spec.ClaimRef.UID, volume.Spec.PersistentVolumeReclaimPolicy = claim.UID, corev1.PersistentVolumeReclaimDelete
	w.must(w.client.Create(ctx, volume))
	claim.Spec.VolumeName = volume.Name
	w.must(w.client.Update(ctx, claim))
}

// allow counts a write of the command, and fails it if the command is to be dead by now.
func (w *movedWorld) allow(ctx context.Context) error {
	if w.limit > 0 && w.writes == w.limit {
		w.cancel()
		return ctx.Err()
	}
	w.writes++
	return nil
}

// run runs the command until it ends, or is killed after some writes (0 for never).
func (w *movedWorld) run(node string, limit int, change func(*move.Request)) error {
	w.t.Helper()
	var err error
	synctest.Test(w.t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.writes, w.limit, w.cancel, w.listed = 0, limit, cancel, map[string]int{}
		c := interceptor.NewClient(w.client, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if err := w.allow(ctx); err != nil {
					return err
				}
				if _, pod := obj.(*corev1.Pod); pod && w.unavailable != nil {
					return w.unavailable
				}
				if w.refused != "" && strings.Contains(obj.GetName(), w.refused) {
					return apierrors.NewForbidden(corev1.Resource("pods"), obj.GetName(), errors.New("exceeded quota"))
				}
				w.created++
				obj.SetUID(types.UID(fmt.Sprint("n", w.created)))
				return c.Create(ctx, obj, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if err := w.allow(ctx); err != nil {
					return err
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				if err := w.allow(ctx); err != nil {
					return err
				}
				return c.Delete(ctx, obj, opts...)
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, claim := obj.(*corev1.PersistentVolumeClaim); claim {
					w.settle(context.WithoutCancel(ctx)) // the command begins to read
				}
				return c.Get(ctx, key, obj, opts...)
			},
		})
		lists := interceptor.NewClient(c, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				options := (&client.ListOptions{}).ApplyOptions(opts)
				_, volumes := list.(*corev1.PersistentVolumeList)
				if options.Namespace == "" && (volumes || options.LabelSelector == nil) {
					w.listed[kube.KindsOf(list)]++
				}
				return c.List(ctx, list, opts...)
			},
		})
		request := &move.Request{
			Namespace: "shop", Name: "data", Node: node, Image: "volume-mover", StorageNamespace: "liqo-storage",
			Credentials: map[string][]byte{"RESTIC_PASSWORD": []byte("secret")},
		}
		if change != nil {
			change(request)
		}
		shown := console.New(&w.out, &w.said, false)
		v := &volumeMove{
			cluster: &cluster{WithWatch: lists, Console: shown}, request: request, report: newMoveReport(shown, true, time.Now),
			logs: func(context.Context, string, string) ([]byte, error) { return nil, nil },
		}
		if w.unavailable != nil {
			ctx, cancel = context.WithTimeout(ctx, time.Minute)
			defer cancel()
		}
		err = v.run(ctx)
		v.report.end()
	})
	return err
}

// at fails unless the claim is bound to a volume in a cluster, with its label, and the namespaces have nothing else.
func (w *movedWorld) at(provider string, volumes int) {
	w.t.Helper()
	ctx := context.Background()
	w.settle(ctx)
	var claims corev1.PersistentVolumeClaimList
	var all corev1.PersistentVolumeList
	w.must(w.client.List(ctx, &claims))
	w.must(w.client.List(ctx, &all))
	if len(claims.Items) != 1 || claims.Items[0].Name != "data" || claims.Items[0].Labels["app"] != "db" ||
		claims.Items[0].Annotations[storage.AnnotationMove] != "" {
		w.t.Fatalf("claims %+v", claims.Items)
	}
	for _, volume := range all.Items {
		if volume.Name == claims.Items[0].Spec.VolumeName && volume.Labels[api.LabelRemoteClusterID] != provider {
			w.t.Errorf("the data is in %q, want %q", volume.Labels[api.LabelRemoteClusterID], provider)
		}
		if volume.Annotations[storage.AnnotationMove] != "" {
			w.t.Errorf("volume %s has a record of the move", volume.Name)
		}
	}
	if len(all.Items) != volumes {
		w.t.Errorf("%d volumes, want %d", len(all.Items), volumes)
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}, &corev1.ServiceList{}} {
		w.must(w.client.List(ctx, list))
		if objects, err := objectsOf(list); err != nil || len(objects) > 0 {
			w.t.Errorf("left: %T %v, %v", list, objects, err)
		}
	}
}

// TestMoveVolume moves a claim to a provider and back, kills the command after each of its writes, and runs it again: it ends well, leaves nothing, and
// tells the progress as lines of JSON.
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

// TestMoveVolumeComparesChecksums: a copy that is not equal ends the command, with the data in place; a later run may succeed, or give the move up.
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

// TestMoveVolumeThatAdmissionRefuses: a quota that refuses a pod ends the command with both ways on, and both of them work.
func TestMoveVolumeThatAdmissionRefuses(t *testing.T) {
	for target, provider := range map[string]string{"milan": "milan", "rome-1": ""} {
		w := newMovedWorld(t)
		w.refused = "-sender"
		err := w.run("milan", 0, nil)
		for _, part := range []string{"liqo-move-u1-sender", "exceeded quota", "run the command again", "give the move up"} {
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
	if err == nil || !strings.Contains(err.Error(), "the time is over") || !strings.Contains(err.Error(), "etcd has no leader") {
		t.Errorf("%v", err)
	}
	w.unavailable = nil
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
			return w.client.Delete(t.Context(), mapOf("milan", "shop"))
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
	if want := "Copying: 3.0 MiB of 10.0 MiB, 1.0 MiB/s, 7s left"; r.last.text() != want {
		t.Errorf("%q, want %q", r.last.text(), want)
	}
	r.progress(step, &movedLine{MessageType: "verify", BytesDone: 100})
	if want := "Verifying: 100 B"; r.last.text() != want {
		t.Errorf("%q, want %q", r.last.text(), want)
	}
	restored := movedLine{BytesRestored: 5, BytesSkipped: 6}
	if restored.amount() != 11 {
		t.Errorf("%+v", restored)
	}
}
