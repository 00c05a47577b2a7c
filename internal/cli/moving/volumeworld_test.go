package moving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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
	"liqo.io/liqo/internal/cli/preview"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/internal/storage/move"
	"liqo.io/liqo/test/clitest"
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
	// refused, if not empty, is a part of the names of objects that an admission policy refuses. midway means that it does so after the move has begun.
	refused string
	midway  bool
	// stuck, if not empty, is a part of the names of pods that stay Pending.
	stuck string
	// unavailable, if not nil, is the answer to each request for a pod's creation.
	unavailable error
	// told are the pods that were told to finish. deaf is the answer to each request that tells one.
	told map[types.UID]bool
	deaf error
	// silent pods report by their status only. answer is what they print instead of an error.
	silent bool
	answer string
	// together, if not nil, is done once both pods were asked for their reports. No pod reports before.
	together *sync.WaitGroup
	// earlier means that the virtual kubelet is one of an earlier release, which vouches for nothing.
	earlier bool
	// foreign is how many more times the virtual kubelet finds a claim of somebody else in milan.
	foreign int
	// ignored means that the API server does not enforce policy liqo-moving-claims.
	ignored bool
	// down, if not nil, reports whether node rome-1 is not Ready now. It is asked whenever the command begins to read.
	down func() bool
	// dryRun has the command run with --dry-run.
	dryRun bool
	// timeout, if not 0, is the time without progress after which the command ends. took is how long the command ran.
	timeout, took time.Duration
	// listed counts the lists of all objects of a kind in the cluster. mu guards it and writes: the command sends several requests at the same time.
	mu     sync.Mutex
	listed map[string]int
}

func newMovedWorld(t *testing.T) *movedWorld {
	t.Helper()
	w := &movedWorld{t: t, reports: map[string]string{"sender": "abc", "receiver": "abc"}, told: map[types.UID]bool{}}
	ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	class, waits := "liqo", storagev1.VolumeBindingWaitForFirstConsumer
	volume := clitest.VolumeOf("u1", "shop", "data", "").DeepCopyObject().(*corev1.PersistentVolume)
	volume.Spec.ClaimRef.UID, volume.Spec.PersistentVolumeReclaimPolicy = "u1", corev1.PersistentVolumeReclaimDelete
	volume.Status.Phase = corev1.VolumeBound
	w.client = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome-1"}, Status: ready},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{
			api.LabelType: api.TypeVirtualNode, api.LabelRemoteClusterID: "milan", offloadingv1beta1.LabelStorageAvailable: api.True,
		}}, Status: ready},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: storage.Provisioner, VolumeBindingMode: &waits},
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "standard", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": api.True}}, Provisioner: "example.org/disk",
		},
		&offloadingv1beta1.NamespaceOffloading{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName},
			Spec:       offloadingv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: offloadingv1beta1.PodsLocalAndRemote},
		},
		clitest.MapOf("milan", "shop"), volume, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: storage.PolicyMovingClaims}},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: storage.PolicyMovingClaims}},
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
		if w.stuck != "" && strings.Contains(pod.Name, w.stuck) {
			continue
		}
		if role := pod.Labels["storage.liqo.io/move-role"]; role == "store" {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		} else if role != "" && strings.HasSuffix(pod.Spec.Containers[0].Command[1], "-live") && !w.told[pod.UID] {
			pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		} else if role != "" {
			text, err := json.Marshal(move.Result{Checksum: w.reports[role], Files: 3, Bytes: 1 << 20})
			w.must(err)
			pod.Status.Phase = corev1.PodSucceeded
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "mover", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(text)}}}}
		}
		w.must(w.client.Status().Update(ctx, pod))
	}
	w.control(ctx)
	w.fail(ctx)
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
		if volume.Spec.ClaimRef == nil { // an administrator created it
			continue
		}
		if ref := volume.Spec.ClaimRef; claim.UID != "" && ref.UID == claim.UID || ref.UID == "" && claim.Spec.VolumeName == volume.Name {
			if claim.Spec.VolumeName == "" { // the volume was created before its claim
				claim.Spec.VolumeName = volume.Name
				w.must(w.client.Update(ctx, claim))
			}
			if volume.Name == claim.Spec.VolumeName && claim.Status.Phase != corev1.ClaimBound {
				claim.Status.Phase, volume.Status.Phase = corev1.ClaimBound, corev1.VolumeBound
				w.must(w.client.Status().Update(ctx, claim))
				w.must(w.client.Status().Update(ctx, volume))
			}
			continue
		}
		released := volume.Status.Phase == corev1.VolumeReleased
		if volume.Status.Phase = corev1.VolumeReleased; volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			w.must(w.client.Delete(ctx, volume))
			continue
		}
		if !released { // the command reads the claim once more after the volumes
			w.must(w.client.Status().Update(ctx, volume))
		}
	}
	w.createAhead(ctx, claim)
	w.vouch(ctx, claim, volumes.Items)
}

// fail sets whether node rome-1 is Ready.
func (w *movedWorld) fail(ctx context.Context) {
	w.t.Helper()
	if w.down == nil {
		return
	}
	node, status := &corev1.Node{}, corev1.ConditionTrue
	if w.down() {
		status = corev1.ConditionUnknown
	}
	w.must(w.client.Get(ctx, client.ObjectKey{Name: "rome-1"}, node))
	if node.Status.Conditions[0].Status != status {
		node.Status.Conditions[0].Status = status
		w.must(w.client.Status().Update(ctx, node))
	}
}

// vouch has the virtual kubelet say whether the claim in milan is the one of the move. Whatever it has is taken to be that.
func (w *movedWorld) vouch(ctx context.Context, claim *corev1.PersistentVolumeClaim, list []corev1.PersistentVolume) {
	w.t.Helper()
	if claim.UID == "" || w.earlier {
		return
	}
	var volumes []*corev1.PersistentVolume
	uid, isAhead := claim.UID, false
	for i := range list {
		v := &list[i]
		volumes = append(volumes, v)
		if v.Annotations[storage.AnnotationMove] == "" {
			continue
		}
		if ahead := move.CopyOf(v); ahead != "" {
			uid, isAhead = types.UID(strings.TrimPrefix(ahead, storage.VolumeName(""))), true
		}
		if storage.ClusterOf(v) == "milan" {
			uid, isAhead = storage.VolumeUID(v), false
			break
		}
	}
	state := storage.State{
		Claim: claim, Place: storage.Place{Cluster: "milan", Origin: "rome"},
		Backing: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: "data", UID: "in-milan", Labels: map[string]string{api.LabelOrigin: "rome", api.LabelDestination: "milan"},
			Annotations: map[string]string{storage.AnnotationClaimUID: string(uid)},
		}},
	}
	if uid == "u1" || isAhead && claim.UID == "u1" && claim.Annotations[storage.AnnotationAhead] == "" { // the claim has its old volume
		state.Backing = nil
	}
	if w.foreign > 0 {
		w.foreign--
		state.Backing = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", UID: "theirs"}}
	}
	step := storage.Vouch(state, volumes)
	if said, ok := step.Object.(*corev1.PersistentVolumeClaim); ok {
		w.must(w.client.Status().Update(ctx, said))
	}
}

// bind gives a claim the volume that its annotation asks for.
func (w *movedWorld) bind(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
	w.t.Helper()
	provider := claim.Annotations[storage.AnnotationSelectedNode]
	if provider == "rome-1" {
		provider = ""
	}
	volume := clitest.VolumeOf(string(claim.UID), claim.Namespace, claim.Name, provider).DeepCopyObject().(*corev1.PersistentVolume)
	volume.Spec.ClaimRef.UID, volume.Spec.PersistentVolumeReclaimPolicy = claim.UID, corev1.PersistentVolumeReclaimDelete
	w.must(w.client.Create(ctx, volume))
	claim.Spec.VolumeName = volume.Name
	w.must(w.client.Update(ctx, claim))
}

// refuse refuses a claim as policy liqo-moving-claims does, if it is installed.
func (w *movedWorld) refuse(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	home := &corev1.Namespace{}
	w.must(w.client.Get(ctx, client.ObjectKey{Name: claim.Namespace}, home))
	_, entry, found := strings.Cut(home.Annotations[storage.AnnotationMovingClaims], claim.Name+"=")
	volume, _, _ := strings.Cut(entry, "/")
	if !found || w.ignored || claim.Annotations[storage.AnnotationMove] == volume || claim.Spec.VolumeName == volume {
		return nil
	}
	return apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), claim.Name,
		errors.New("ValidatingAdmissionPolicy 'liqo-moving-claims' with binding 'liqo-moving-claims' denied request"))
}

// allow counts a write of the command, and fails it if the command is to be dead by now.
func (w *movedWorld) allow(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
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
				if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
					if err := w.refuse(ctx, claim); err != nil {
						return err
					}
				}
				dry := len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) > 0
				if w.refused != "" && strings.Contains(obj.GetName(), w.refused) && dry == !w.midway {
					return apierrors.NewForbidden(corev1.Resource("pods"), obj.GetName(), errors.New("exceeded quota"))
				}
				if dry && !w.dryRun {
					return c.Create(ctx, obj, opts...)
				}
				if err := w.allow(ctx); err != nil {
					return err
				}
				if _, pod := obj.(*corev1.Pod); pod && w.unavailable != nil {
					return w.unavailable
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
					w.mu.Lock()
					w.listed[kube.KindsOf(list)]++
					w.mu.Unlock()
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
			Cluster: &session.Cluster{WithWatch: lists, Console: shown}, request: request, report: newMoveReport(shown, true, time.Now),
			logs: func(context.Context, string, string) ([]byte, error) { return nil, nil }, exec: w.exec,
		}
		if w.dryRun {
			v.Plan = preview.NewDryRun(lists, shown, &atomic.Int32{})
			v.WithWatch = v.Plan
		}
		limit := time.Hour // of the clock of the test
		if w.unavailable != nil {
			limit = time.Minute
		}
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
		if w.timeout > 0 {
			ctx, v.alive, cancel = untilIdle(ctx, w.timeout)
			defer cancel()
		}
		began := time.Now()
		err = v.run(ctx)
		w.took = time.Since(began)
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
	home := &corev1.Namespace{}
	w.must(w.client.Get(ctx, client.ObjectKey{Name: "shop"}, home))
	if text := home.Annotations[storage.AnnotationMovingClaims]; text != "" {
		w.t.Errorf("the namespace has a record of the move: %s", text)
	}
	if len(all.Items) != volumes {
		w.t.Errorf("%d volumes, want %d", len(all.Items), volumes)
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}, &corev1.ServiceList{}} {
		w.must(w.client.List(ctx, list))
		if objects, err := kube.Items(list); err != nil || len(objects) > 0 {
			w.t.Errorf("left: %T %v, %v", list, objects, err)
		}
	}
}
