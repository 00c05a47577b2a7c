package webhook

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/test/apitest"
)

var (
	webLabels   = map[string]string{"app": "web"}
	webSelector = &metav1.LabelSelector{MatchLabels: webLabels}
	webTemplate = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: webLabels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
)

func replicaSet(namespace, name string, has int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(3)), Selector: webSelector, Template: webTemplate},
		Status:     appsv1.ReplicaSetStatus{Replicas: has, ObservedGeneration: 1},
	}
}

func statefulSet(name string, has int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(3)), Selector: webSelector, Template: webTemplate, ServiceName: "web"},
		Status:     appsv1.StatefulSetStatus{Replicas: has, ObservedGeneration: 1},
	}
}

func daemonSet(name string, has int32) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       appsv1.DaemonSetSpec{Selector: webSelector, Template: webTemplate},
		Status:     appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, CurrentNumberScheduled: has, ObservedGeneration: 1},
	}
}

func offloadingIn(namespace string) *offloadingv1beta1.NamespaceOffloading {
	return &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: offloadingv1beta1.NamespaceOffloadingName}}
}

func observed(o client.Object) int64 {
	switch o := o.(type) {
	case *appsv1.ReplicaSet:
		return o.Status.ObservedGeneration
	case *appsv1.StatefulSet:
		return o.Status.ObservedGeneration
	default:
		return o.(*appsv1.DaemonSet).Status.ObservedGeneration
	}
}

// TestWakingOnAPIServer: workloads with missing pods in an offloaded namespace are reconciled again, also if the namespace is offloaded later.
// Nothing else is changed.
func TestWakingOnAPIServer(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	for _, name := range []string{"liqo", "shop", "later", "other"} {
		namespace(t, admin, name, nil)
	}
	for _, object := range chart(t, values(), "Namespace", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "MutatingWebhookConfiguration") {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	lacking := []client.Object{replicaSet("shop", "lacking", 2), statefulSet("lacking", 0), daemonSet("lacking", 1)}
	later := replicaSet("later", "lacking", 0)
	untouched := []client.Object{replicaSet("shop", "content", 3), statefulSet("content", 3), daemonSet("content", 3), replicaSet("other", "lacking", 0)}
	for _, o := range append(append([]client.Object{later}, lacking...), untouched...) {
		status := o.DeepCopyObject().(client.Object)
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		// A change of the object makes its generation greater than one.
		if err := admin.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"minReadySeconds":1}}`))); err != nil {
			t.Fatal(err)
		}
		status.SetResourceVersion(o.GetResourceVersion())
		if err := admin.Status().Update(t.Context(), status); err != nil {
			t.Fatal(err)
		}
		patch := fmt.Appendf(nil, `{"status":{"observedGeneration":%d}}`, o.GetGeneration())
		if err := admin.Status().Patch(t.Context(), o, client.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Fatal(err)
		}
		if o.GetGeneration() != 2 || observed(o) != 2 {
			t.Fatalf("%T %s has generation %d, observed %d, want 2", o, o.GetName(), o.GetGeneration(), observed(o))
		}
	}
	if err := admin.Create(t.Context(), offloadingIn("shop")); err != nil {
		t.Fatal(err)
	}

	manager := rest.CopyConfig(config)
	manager.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:liqo:liqo-controller-manager", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:liqo", "system:authenticated"},
	}
	again := true // the test may run more than once in a process
	mgr, err := ctrl.NewManager(manager, ctrl.Options{
		Scheme: kube.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: controllerconfig.Controller{SkipNameValidation: &again},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Setup(mgr, Options{Namespace: "liqo", Service: "liqo-controller-manager-webhook", Port: freePort(t)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the manager: %v", err)
		}
	})

	woken := func(o client.Object) {
		t.Helper()
		apitest.Eventually(t, within, fmt.Sprintf("%T %s/%s to be woken", o, o.GetNamespace(), o.GetName()), func() error {
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			if o.GetGeneration() != 2 || observed(o) != 1 {
				return fmt.Errorf("its generation is %d, observed %d, want 2 and 1", o.GetGeneration(), observed(o))
			}
			return nil
		})
	}
	for _, o := range lacking {
		woken(o)
	}
	for _, o := range append(untouched, later) {
		version := o.GetResourceVersion()
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		if o.GetResourceVersion() != version {
			t.Errorf("%T %s/%s was written, though it lacks nothing or is not offloaded", o, o.GetNamespace(), o.GetName())
		}
	}
	if err := admin.Create(t.Context(), offloadingIn("later")); err != nil {
		t.Fatal(err)
	}
	woken(later)
	err = apitest.Client(t, manager).Patch(t.Context(), later, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":9}}`)))
	if !apierrors.IsForbidden(err) {
		t.Errorf("the controller manager changes what a workload asks for: %v, want it forbidden", err)
	}
}

// TestWakingLasts: a namespace is checked for a minute without long gaps, whatever else is written to its NamespaceOffloading, and no longer. A
// workload that cannot be woken delays no other.
func TestWakingLasts(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	now := began
	var looks []time.Duration // times at which the other workload was woken
	shop := offloadingIn("shop")
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).
		WithObjects(shop, replicaSet("shop", "a-stubborn", 0), replicaSet("shop", "lacking", 0)).WithStatusSubresource(&appsv1.ReplicaSet{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			if o.GetName() == "a-stubborn" {
				return apierrors.NewServiceUnavailable("a webhook of others does not answer")
			}
			looks = append(looks, now.Sub(began))
			return nil
		}}).Build()
	w := &waker{cached: c, live: c, writer: c, now: func() time.Time { return now }, known: map[types.NamespacedName]time.Time{}}
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(shop)}
	for {
		result, err := w.Reconcile(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if result.RequeueAfter == 0 {
			break
		}
		now = now.Add(result.RequeueAfter)
	}
	last := time.Duration(0)
	for _, at := range looks {
		if at-last > wakeEvery {
			t.Errorf("nobody looked between %v and %v", last, at)
		}
		last = at
	}
	if last < time.Minute || len(looks) > 15 {
		t.Errorf("looked at %v, want a minute of it, and not often", looks)
	}

	if err := c.Delete(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	if result, err := w.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != 0 || len(w.known) != 0 {
		t.Errorf("it is gone, and remembered: %v, %v, %v", result, err, w.known)
	}
}
