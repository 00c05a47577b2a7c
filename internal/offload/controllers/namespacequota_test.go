package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/test/apitest"
)

// TestNamespaceQuotaIsCountedAtOnce: for kinds that Liqo counts, the usage is written with the quota. Kubernetes counts the others.
func TestNamespaceQuotaIsCountedAtOnce(t *testing.T) {
	const ours, theirs = "count/shadowpods.offloading.liqo.io", "count/configmaps"
	present := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "web-rome", Name: "web"}}
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan"}}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(present, m).WithStatusSubresource(&corev1.ResourceQuota{}).Build()
	hard := corev1.ResourceList{ours: resource.MustParse("5"), theirs: resource.MustParse("1")}
	r := &namespaceMaps{Client: c, Options: Options{NamespaceQuota: hard}}
	if err := r.ensureQuota(t.Context(), m, offload.NamespacePair{Remote: "web-rome"}, "rome"); err != nil {
		t.Fatal(err)
	}
	quota := &corev1.ResourceQuota{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "web-rome", Name: offload.RemoteNamespaceQuota}, quota); err != nil {
		t.Fatal(err)
	}
	used, known := quota.Status.Used[ours]
	limit := quota.Status.Hard[ours]
	if !known || used.Value() != 1 || limit.Value() != 5 || len(quota.Status.Used) != 1 || len(quota.Status.Hard) != 1 {
		t.Errorf("the status is %+v, want one of five ShadowPods and nothing else", quota.Status)
	}
}

// TestRetainedNamespacesKeepTheirLimits: a namespace that its consumer has not released keeps the configured quota and limits, because its pods may still run and the
// consumer still has its rights there.
func TestRetainedNamespacesKeepTheirLimits(t *testing.T) {
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "liqo-tenant-rome", Name: "milan", UID: "1", Labels: map[string]string{api.LabelReplicated: api.True, api.LabelOriginID: "rome"},
	}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome"}}
	offload.MarkNamespace(&namespace.ObjectMeta, m, "rome", offload.NamespacePair{Local: "shop", Remote: "shop-rome"})
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "data"}}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(namespace, claim).WithStatusSubresource(&corev1.ResourceQuota{}).Build()
	r := &namespaceMaps{Client: c, events: events.NewFakeRecorder(10), Options: Options{
		Live: c, LiqoNamespace: "liqo", NamespaceQuota: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("5")},
		DefaultLimits: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")},
	}}
	if _, err := r.enforce(t.Context(), m, "rome"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []client.Object{&corev1.ResourceQuota{}, &corev1.LimitRange{}} {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: offload.RemoteNamespaceQuota}, want); err != nil {
			t.Error(err)
		}
	}
}

// testDefaultLimits: the limits of a remote namespace stay as they are configured, and Kubernetes gives them to containers that declare none.
func testDefaultLimits(t *testing.T, c *cluster, limits *corev1.LimitRange, configured corev1.ResourceList) {
	t.Helper()
	kept := func(what string) {
		t.Helper()
		eventually(t, c, limits, what, func(l *corev1.LimitRange) error {
			if !equality.Semantic.DeepEqual(l.Spec, offload.DefaultLimits(configured)) || !l.DeletionTimestamp.IsZero() {
				return fmt.Errorf("%+v", l.Spec)
			}
			return nil
		})
	}
	kept("the limits")
	change(t, c, limits, func(l *corev1.LimitRange) {
		l.Spec.Limits[0].Default[corev1.ResourceEphemeralStorage] = resource.MustParse("99Gi")
	})
	kept("the limits to be as they were")
	c.remove(t, limits)
	kept("the limits to be back")
	apitest.Eventually(t, within, "a pod to have the limits, and to request nothing", func() error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: limits.Namespace, GenerateName: "web-"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		}
		if err := c.Create(t.Context(), pod); err != nil {
			return err
		}
		usage := offload.PodUsage(pod)
		if has := pod.Spec.Containers[0].Resources; !equality.Semantic.DeepEqual(has.Limits, configured) || !usage.StorageEphemeral().IsZero() {
			return fmt.Errorf("it has %+v, and counts for %v", has, usage)
		}
		return nil
	})
}

// TestRightsComeAfterTheQuota: whichever write fails, a consumer has rights in a remote namespace only while the namespace has its quota with the usage of the kinds
// that Liqo counts, and its limits. So nothing is admitted before the quota.
func TestRightsComeAfterTheQuota(t *testing.T) {
	const counted = "count/shadowpods.offloading.liqo.io"
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan"}}
	bounded := func(ctx context.Context, c client.Client) error {
		rights, quota, limits := &rbacv1.RoleBinding{}, &corev1.ResourceQuota{}, &corev1.LimitRange{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: "web-rome", Name: m.Namespace}, rights); err != nil {
			return client.IgnoreNotFound(err)
		}
		key := client.ObjectKey{Namespace: "web-rome", Name: offload.RemoteNamespaceQuota}
		if err := errors.Join(c.Get(ctx, key, quota), c.Get(ctx, key, limits)); err != nil {
			return err
		}
		if _, known := quota.Status.Used[counted]; !known || quota.Spec.Hard.Name(counted, resource.DecimalSI).IsZero() {
			return fmt.Errorf("the quota is %+v", quota)
		}
		return nil
	}
	for fault := 0; ; fault++ {
		writes := 0
		after := func(ctx context.Context, c client.Client, write func() error) error {
			if writes++; writes == fault {
				return errors.New("the API server is away")
			}
			if err := write(); err != nil {
				return err
			}
			if err := bounded(ctx, c); err != nil {
				t.Errorf("fault %d: after write %d the consumer has rights, and %v", fault, writes, err)
			}
			return nil
		}
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(m.DeepCopy()).WithStatusSubresource(&corev1.ResourceQuota{}).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return after(ctx, c, func() error { return c.Create(ctx, o, opts...) })
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
				return after(ctx, c, func() error { return c.Patch(ctx, o, patch, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, _ string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				return after(ctx, c, func() error { return c.Status().Patch(ctx, o, patch, opts...) })
			},
		}).Build()
		r := &namespaceMaps{Client: c, Options: Options{
			NamespaceQuota: corev1.ResourceList{counted: resource.MustParse("5")}, DefaultLimits: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")},
		}}
		pair := offload.NamespacePair{Local: "web", Remote: "web-rome"}
		failed := false
		for range 3 { // a fault, a retry, and a pass with nothing to do
			ns := &corev1.Namespace{}
			there := c.Get(t.Context(), client.ObjectKey{Name: pair.Remote}, ns) == nil
			_, err := r.ensureNamespace(t.Context(), m, pair, "rome", ns.ObjectMeta, there, false)
			failed = failed || err != nil
		}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: pair.Remote, Name: m.Namespace}, &rbacv1.RoleBinding{}); err != nil {
			t.Errorf("fault %d: the consumer has no rights in the end: %v", fault, err)
		}
		if fault > 0 && !failed {
			if fault < 5 {
				t.Errorf("only %d writes were seen", fault-1)
			}
			return
		}
	}
}

// TestFewObjectsAreNotCountedByTheServer: a new namespace has no rows for ShadowPods and Secrets. It has one once it has half of the limit, and until it has less than a
// quarter. Events in between request nothing. While the objects are unknown, the rows are there.
func TestFewObjectsAreNotCountedByTheServer(t *testing.T) {
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan"}}
	hard := corev1.ResourceList{
		offload.CountShadowPods: resource.MustParse("10k"), offload.CountSecrets: resource.MustParse("2k"), "count/services": resource.MustParse("5k"),
	}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(m).WithStatusSubresource(&corev1.ResourceQuota{}).Build()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	synced := false
	known := func() bool { return synced }
	o := &objectCounts{
		tracker: offload.NewObjectTracker(hard), synced: map[corev1.ResourceName]toolscache.InformerSynced{offload.CountShadowPods: known, offload.CountSecrets: known}, queue: queue,
	}
	r := &namespaceMaps{Client: c, Options: Options{NamespaceQuota: hard}, objects: o}
	key := client.ObjectKey{Namespace: "shop-rome", Name: offload.RemoteNamespaceQuota}
	quotas := &kube.Reconciler[*corev1.ResourceQuota]{Name: "namespacequota", Client: c, Sync: r.syncQuota, Wanted: remoteQuota}
	expect := func(when string, requests int, rows ...corev1.ResourceName) {
		t.Helper()
		if queue.Len() != requests {
			t.Errorf("%s: %d reconciliations were requested, want %d", when, queue.Len(), requests)
		}
		for queue.Len() > 0 {
			req, _ := queue.Get()
			if _, err := quotas.Reconcile(t.Context(), req); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			queue.Done(req)
		}
		quota := &corev1.ResourceQuota{}
		if err := c.Get(t.Context(), key, quota); err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if limit, there := quota.Spec.Hard[row]; !there || limit.Cmp(hard[row]) != 0 {
				t.Errorf("%s: row %s is %v", when, row, limit.String())
			}
		}
		if len(quota.Spec.Hard) != len(rows) {
			t.Errorf("%s: the rows are %v, want %v", when, quota.Spec.Hard, rows)
		}
	}
	ensure := func() {
		t.Helper()
		if err := r.ensureQuota(t.Context(), m, offload.NamespacePair{Remote: "shop-rome"}, "rome"); err != nil {
			t.Fatal(err)
		}
	}
	change := func(row corev1.ResourceName, from, to int, record func(*offload.ObjectTracker, corev1.ResourceName, client.ObjectKey) bool) {
		for i := from; i < to; i++ {
			o.change(row, client.ObjectKey{Namespace: "shop-rome", Name: fmt.Sprint(i)}, record)
		}
	}
	observe, forget := (*offload.ObjectTracker).Observe, (*offload.ObjectTracker).Forget
	ensure()
	expect("before the caches have synced", 0, offload.CountShadowPods, offload.CountSecrets, "count/services")
	synced = true
	ensure()
	expect("no objects", 0, "count/services")
	change(offload.CountSecrets, 0, 999, observe)
	change(offload.CountShadowPods, 0, 999, observe)
	change(offload.CountSecrets, 0, 999, observe)
	expect("less than half", 0, "count/services")
	change(offload.CountSecrets, 999, 1500, observe)
	expect("half", 1, "count/services", offload.CountSecrets)
	change(offload.CountSecrets, 500, 1500, forget)
	change(offload.CountSecrets, 500, 1400, observe)
	expect("between", 0, "count/services", offload.CountSecrets)
	change(offload.CountSecrets, 499, 1400, forget)
	expect("less than a quarter", 1, "count/services")
	change(offload.CountShadowPods, 999, 5000, observe)
	expect("half of the ShadowPods", 1, "count/services", offload.CountShadowPods)

	// Another replica, whose caches have the same objects, decides the same.
	change(offload.CountShadowPods, 3000, 5000, forget)
	r.objects = &objectCounts{tracker: offload.NewObjectTracker(hard), synced: o.synced}
	o = r.objects
	change(offload.CountShadowPods, 0, 3000, observe)
	o.queue = queue
	ensure()
	expect("after a restart", 0, "count/services", offload.CountShadowPods)
	change(offload.CountShadowPods, 2499, 3000, forget)
	expect("less than a quarter after a restart", 1, "count/services")
}

// TestTheServerCountsWhatIsNotKnown: if the initial list of a kind takes long, the controllers start without it, and the API server counts the objects of that kind in all
// namespaces until all are known. A peer that creates so many objects that the list is slow, or fails, does not get rid of its limits.
func TestTheServerCountsWhatIsNotKnown(t *testing.T) {
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan"}}
	hard := corev1.ResourceList{offload.CountShadowPods: resource.MustParse("10k"), offload.CountSecrets: resource.MustParse("20k")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop-rome", Name: offload.RemoteNamespaceQuota, Annotations: map[string]string{offloadingv1beta1.AnnotationManagedByNamespaceMap: offload.MapKey(m)},
	}}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(quota).WithStatusSubresource(quota).Build()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	var secrets atomic.Bool
	o := &objectCounts{tracker: offload.NewObjectTracker(hard), quotas: c, patience: 10 * time.Millisecond, synced: map[corev1.ResourceName]toolscache.InformerSynced{
		offload.CountShadowPods: func() bool { return true }, offload.CountSecrets: secrets.Load,
	}}
	if err := errors.Join(o.Start(t.Context(), queue), o.WaitForSync(t.Context())); err != nil {
		t.Fatal(err)
	}
	quotas := &kube.Reconciler[*corev1.ResourceQuota]{
		Name: "namespacequota", Client: c, Sync: (&namespaceMaps{Client: c, Options: Options{NamespaceQuota: hard}, objects: o}).syncQuota, Wanted: remoteQuota,
	}
	rows := func() []corev1.ResourceName {
		t.Helper()
		if _, err := quotas.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(quota)}); err != nil {
			t.Fatal(err)
		}
		now := &corev1.ResourceQuota{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(quota), now); err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Keys(now.Spec.Hard))
	}
	if got := rows(); !slices.Equal(got, []corev1.ResourceName{offload.CountSecrets}) {
		t.Errorf("while the Secrets are not known, the rows are %v", got)
	}
	secrets.Store(true)
	if req, _ := queue.Get(); req.NamespacedName != client.ObjectKeyFromObject(quota) { // the test times out if there is none
		t.Errorf("%v is reconciled", req)
	}
	if got := rows(); len(got) != 0 {
		t.Errorf("when no object is there, the rows are %v", got)
	}
}

// TestUnlabelledLimitsAreRepaired: a ResourceQuota and a LimitRange that lost their labels are not in the cache. They get them back, with what the namespace needs. A
// ResourceQuota of an administrator with the same name keeps what it has.
func TestUnlabelledLimitsAreRepaired(t *testing.T) {
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan"}}
	meta := metav1.ObjectMeta{
		Namespace: "shop-rome", Name: offload.RemoteNamespaceQuota, Annotations: map[string]string{offloadingv1beta1.AnnotationManagedByNamespaceMap: offload.MapKey(m)},
	}
	quota, limits := &corev1.ResourceQuota{ObjectMeta: meta}, &corev1.LimitRange{ObjectMeta: meta}
	foreign := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "web-rome", Name: offload.RemoteNamespaceQuota, Labels: map[string]string{"team": "ops"}}}
	foreign.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}
	server := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(quota, limits, foreign).WithStatusSubresource(quota).Build()
	cached := interceptor.NewClient(server, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if err := c.Get(ctx, key, obj, opts...); err != nil || obj.GetLabels()[offload.LabelManagedBy] == offload.ManagedBy {
			return err
		}
		obj.SetResourceVersion("") // as if the object had not been read
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}})
	r := &namespaceMaps{Client: cached, Options: Options{
		Live: server, NamespaceQuota: corev1.ResourceList{"count/services": resource.MustParse("5")},
		DefaultLimits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}}
	pair := offload.NamespacePair{Remote: "shop-rome"}
	if err := errors.Join(r.ensureQuota(t.Context(), m, pair, "rome"), r.ensureLimits(t.Context(), m, pair, "rome")); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(quota)
	if err := errors.Join(cached.Get(t.Context(), key, quota), cached.Get(t.Context(), key, limits)); err != nil {
		t.Fatalf("the labels are missing: %v", err)
	}
	if len(quota.Spec.Hard) != 1 || len(limits.Spec.Limits) != 1 {
		t.Errorf("the specs are %+v and %+v", quota.Spec, limits.Spec)
	}
	if err := r.ensureQuota(t.Context(), m, offload.NamespacePair{Remote: "web-rome"}, "rome"); err != nil {
		t.Fatal(err)
	}
	now := &corev1.ResourceQuota{}
	if err := server.Get(t.Context(), client.ObjectKeyFromObject(foreign), now); err != nil || !equality.Semantic.DeepEqual(now.Spec, foreign.Spec) || len(now.Labels) != 1 {
		t.Errorf("the ResourceQuota of an administrator is %+v, %v", now, err)
	}
}

// TestSecretsAreCountedFromHalfOfTheLimitOnAPIServer: the quota of a namespace gets the row of Secrets when it has half of them, and the API server then refuses those
// above the limit. The row ends with the Secrets. Secrets of the provider do not count for that.
func TestSecretsAreCountedFromHalfOfTheLimitOnAPIServer(t *testing.T) {
	const consumer, most = "lecce", 2000
	admin := apitest.APIServer(t)
	hard := corev1.ResourceList{offload.CountSecrets: resource.MustParse("2000"), "count/configmaps": resource.MustParse("5")}
	c := run(t, admin, ordinary(t, admin), func(o *Options) { o.NamespaceQuota = hard })
	c.namespace(t, api.TenantNamespace(consumer), nil)
	c.create(t, &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace(consumer), Name: ownID, Labels: map[string]string{
			"liqo.io/replication": "false", "liqo.io/replicated": "true", "liqo.io/originID": consumer, "liqo.io/remote-cluster-id": consumer,
		}},
		Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"web": "web-lecce"}},
	})
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "web-lecce", Name: offload.RemoteNamespaceQuota}}
	counted := func(what string, want bool) {
		t.Helper()
		eventually(t, c, quota, what, func(q *corev1.ResourceQuota) error {
			if _, there := q.Spec.Hard[offload.CountSecrets]; there != want || q.Spec.Hard.Name("count/configmaps", resource.DecimalSI).Value() != 5 {
				return fmt.Errorf("%+v", q.Spec)
			}
			return nil
		})
	}
	// The test writes the status that Kubernetes' ResourceQuota controller would write.
	status := func(secrets int64) {
		report(t, c, quota, func(q *corev1.ResourceQuota) {
			q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: corev1.ResourceList{"count/configmaps": resource.MustParse("0")}}
			if _, there := q.Spec.Hard[offload.CountSecrets]; there {
				q.Status.Used[offload.CountSecrets] = *resource.NewQuantity(secrets, resource.DecimalSI)
			}
		})
	}
	secrets := func(labels map[string]string, n int) error {
		failed := make(chan error, n)
		work := make(chan struct{}, n)
		var workers sync.WaitGroup
		for range n {
			work <- struct{}{}
		}
		close(work)
		for range 8 {
			workers.Go(func() {
				for range work {
					if err := c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "web-lecce", GenerateName: "token-", Labels: labels}}); err != nil {
						failed <- err
					}
				}
			})
		}
		workers.Wait()
		close(failed)
		return <-failed
	}
	theirs := map[string]string{api.LabelOrigin: consumer}
	counted("a new namespace to have no row", false)
	status(0)
	if err := errors.Join(secrets(theirs, most/2-1), secrets(nil, 5)); err != nil {
		t.Fatal(err)
	}
	counted("less than half to have no row", false)
	if err := secrets(theirs, 1); err != nil {
		t.Fatal(err)
	}
	counted("half to have the row", true)
	status(most - 1)
	if err := secrets(theirs, 1); err != nil {
		t.Fatal(err)
	}
	if err := secrets(theirs, 1); err == nil || !strings.Contains(err.Error(), "exceeded quota: liqo") {
		t.Errorf("one more was answered with %v", err)
	}
	counted("the row to stay", true)
	if err := c.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace("web-lecce")); err != nil {
		t.Fatal(err)
	}
	counted("the row to end with the Secrets", false)
}
