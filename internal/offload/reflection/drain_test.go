package reflection

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/internal/remote"
)

// drainedWorld is an engine whose provider has just drained the tenant: it refuses all requests and reports the drain. The watches that were open before stay open,
// and the test delivers their events in any order.
type drainedWorld struct {
	*testing.T
	engine *Engine
	pods   *reflector
	// at is the namespace of the pods, other another namespace of the same tenant.
	at, other *watchedNamespace
	shadow    *offloadingv1beta1.ShadowPod
	remote    *corev1.Pod
	// written are the states of Pods that the engine wrote, by name.
	written map[string][]corev1.PodStatus
	// before, if set, is called once, after the engine gathered the facts of a decision and before it decides.
	before      func()
	unavailable bool
}

func newDrainedWorld(t *testing.T) *drainedWorld {
	w := &drainedWorld{T: t, written: map[string][]corev1.PodStatus{}}
	ready := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	old := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "old", UID: "old", ResourceVersion: "1", Labels: map[string]string{offloadingv1beta1.LabelShadowPod: "true"},
			Annotations: map[string]string{podrules.AnnotationOffloaded: "old", podrules.AnnotationRemoteUID: "remote"},
		},
		Spec: corev1.PodSpec{NodeName: "milan", RestartPolicy: corev1.RestartPolicyAlways}, Status: ready,
	}
	fresh := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "fresh", UID: "fresh", ResourceVersion: "1"}, Spec: corev1.PodSpec{NodeName: "milan"}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	w.shadow = podrules.ShadowPod(old, "shop-rome", podrules.Options{Origin: "rome", Destination: "milan", Node: "milan"})
	w.shadow.UID, w.shadow.ResourceVersion = "shadow", "1"
	w.remote = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "old", UID: "remote", ResourceVersion: "1"}, Status: *ready.DeepCopy(),
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "shadowpods"}, "", nil)
	far := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return forbidden
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return forbidden },
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return forbidden
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return forbidden },
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			if _, ok := obj.(*rbacv1.RoleBinding); ok && key.Name == offloadingv1beta1.DrainedRoleBinding {
				return nil
			}
			return forbidden
		},
	}).Build()
	near := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(old, fresh).WithStatusSubresource(old).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			err := c.SubResource(sub).Patch(ctx, o, p, opts...)
			if err == nil {
				w.written[o.GetName()] = append(w.written[o.GetName()], *o.(*corev1.Pod).Status.DeepCopy())
			}
			return err
		},
	}).Build()
	options := func() podrules.Options {
		if before := w.before; before != nil {
			w.before = nil
			before()
		}
		return podrules.Options{Origin: "rome", Destination: "milan", Node: "milan", Unavailable: w.unavailable}
	}
	e, m := newListing(&fixed{remote.State{Known: true, Up: true}})
	w.engine = New(Options{
		Namespace: "tenant", Map: "milan", Health: e.opts.Health, Kinds: []Kind{Pods(1, options)}, Local: near, Remote: far, Log: slog.New(slog.DiscardHandler),
		Clock: testclock.NewFakeClock(time.Now()), AccessChanged: func() { w.unavailable = w.engine.Drained() }, // as the Node is NotReady then
	})
	w.pods, w.at = w.engine.kinds[0], w.engine.newWatchedNamespace("shop", "shop-rome")
	w.other = w.engine.newWatchedNamespace("bank", "bank-rome")
	w.engine.namespaces["shop"], w.engine.namespaces["bank"] = w.at, w.other
	list(t, w.engine.nsmap, m)
	for _, pod := range []client.Object{old, fresh} { // as the fake client has them
		if err := near.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
	}
	list(t, w.pods.local, old, fresh)
	list(t, w.at.stores[w.pods][0], w.shadow)
	list(t, w.at.stores[w.pods][1], w.remote)
	list(t, w.at.stores[w.pods][2])
	return w
}

// event delivers one event of a watch, or another observation.
func (w *drainedWorld) event(what string) {
	var err error
	switch pod := w.remote.DeepCopy(); what {
	case "the ShadowPod is gone":
		err = w.at.stores[w.pods][0].Delete(w.shadow.DeepCopy())
	case "the remote pod terminates":
		pod.ResourceVersion, pod.DeletionTimestamp = "2", &metav1.Time{Time: time.Now()}
		err = w.at.stores[w.pods][1].Update(pod)
	case "the remote pod is gone":
		err = w.at.stores[w.pods][1].Delete(pod)
	case "another pod observes the drain":
		w.engine.drained(w.Context(), w.at, w.at.stores[w.pods][0].refuse(false))
	case "a pod of another namespace observes the drain":
		w.engine.drained(w.Context(), w.other, w.other.stores[w.pods][0].refuse(false))
	case "another pod observes the drain during a decision":
		w.before = func() { w.engine.drained(w.Context(), w.at, w.at.stores[w.pods][0].refuse(false)) }
	}
	if err != nil {
		w.Fatal(err)
	}
}

// wrong returns what is wrong in the states that were written so far, empty for nothing.
func (w *drainedWorld) wrong() string {
	for _, s := range w.written["old"] {
		ready := slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		if !ready && (s.Phase != corev1.PodFailed || s.Reason != offloadingv1beta1.PodOffloadingAborted) {
			return fmt.Sprintf("the old pod is not ready, and %s/%s", s.Phase, s.Reason)
		}
	}
	for _, s := range w.written["fresh"] {
		if s.Phase != corev1.PodPending || s.Reason != offloadingv1beta1.PodOffloadingBackOff {
			return fmt.Sprintf("the new pod is %s/%s", s.Phase, s.Reason)
		}
	}
	return ""
}

// TestADrainedPodIsAbortedBeforeItIsNotReady: in whatever order a virtual kubelet observes a drain, the first state that it writes in which an offloaded pod is not
// ready is Failed/OffloadingAborted, and all that it writes for a new pod is Pending/OffloadingBackOff. So the replica of a Deployment counts as unavailable only when
// its pod shows why.
func TestADrainedPodIsAbortedBeforeItIsNotReady(t *testing.T) {
	events := []string{"the ShadowPod is gone", "the remote pod terminates", "the remote pod is gone", "another pod observes the drain", "another pod observes the drain during a decision", "a pod of another namespace observes the drain"}
	var orders func(done, left []string)
	orders = func(done, left []string) {
		if len(left) > 0 {
			for i, next := range left {
				orders(append(slices.Clone(done), next), slices.Delete(slices.Clone(left), i, i+1))
			}
			return
		}
		if slices.Index(done, events[1]) > slices.Index(done, events[2]) {
			return // a pod does not terminate after its end
		}
		w := newDrainedWorld(t)
		for i, event := range done {
			w.event(event)
			for _, name := range []string{"old", "fresh"} {
				w.pods.handle(t.Context(), types.NamespacedName{Namespace: "shop", Name: name})
			}
			if wrong := w.wrong(); wrong != "" {
				t.Errorf("%s: %s", strings.Join(done[:i+1], ", then "), wrong)
				return
			}
		}
		if len(w.written["old"]) != 1 || len(w.written["fresh"]) != 1 {
			t.Errorf("%s: %d and %d writes, want one for each pod", strings.Join(done, ", then "), len(w.written["old"]), len(w.written["fresh"]))
		}
	}
	orders(nil, events)
}
