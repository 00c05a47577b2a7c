package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/reasons"
)

const finalizer = "tenant.liqo.io/finalizer"

// world is a fake API server that records its writes.
type world struct {
	client.Client
	writes []string
	// refuse, if set, is the error of status writes.
	refuse error
}

func newWorld(objs ...client.Object) *world {
	w := &world{}
	count := func(what string) { w.writes = append(w.writes, what) }
	w.Client = fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(objs...).
		WithStatusSubresource(&authv1beta1.Tenant{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				count("create")
				return c.Create(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				count("patch")
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				count("patch " + sub)
				if w.refuse != nil {
					return w.refuse
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	return w
}

func tenant() *authv1beta1.Tenant {
	return &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", Generation: 3}}
}

func (w *world) reconciler(sync, finalize func(context.Context, *authv1beta1.Tenant) error) *Reconciler[*authv1beta1.Tenant] {
	return &Reconciler[*authv1beta1.Tenant]{
		Name: "tenant", Client: w, Finalizer: finalizer, Sync: sync, Finalize: finalize,
		Conditions: func(t *authv1beta1.Tenant) *[]metav1.Condition { return &t.Status.Conditions },
	}
}

var request = reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "liqo-tenant-rome", Name: "rome"}}

func TestOutcomes(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		result  error
		want    reconcile.Result
		wantErr error
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"done":                        {nil, reconcile.Result{}, nil, metav1.ConditionTrue, reasons.Reconciled, ""},
		"waiting for an event":        {Wait("NoNonce", "waiting for Secret %s", "liqo-nonce"), reconcile.Result{}, nil, metav1.ConditionFalse, "NoNonce", "waiting for Secret liqo-nonce"},
		"waiting for time":            {WaitFor(time.Minute, "NotYet", "later"), reconcile.Result{RequeueAfter: time.Minute}, nil, metav1.ConditionFalse, "NotYet", "later"},
		"invalid: no retry":           {Invalid("BadKey", "spec.publicKey is not PEM"), reconcile.Result{}, nil, metav1.ConditionFalse, "BadKey", "spec.publicKey is not PEM"},
		"anything else: retry, shown": {boom, reconcile.Result{}, boom, metav1.ConditionFalse, reasons.Error, "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(tenant())
			r := w.reconciler(func(context.Context, *authv1beta1.Tenant) error { return c.result }, nil)
			got, err := r.Reconcile(t.Context(), request)
			if !errors.Is(err, c.wantErr) || (err == nil) != (c.wantErr == nil) {
				t.Fatalf("error %v, want %v", err, c.wantErr)
			}
			if got != c.want {
				t.Errorf("result %v, want %v", got, c.want)
			}
			after := tenant()
			if err := w.Get(t.Context(), request.NamespacedName, after); err != nil {
				t.Fatal(err)
			}
			condition := meta.FindStatusCondition(after.Status.Conditions, ConditionReady)
			if condition == nil {
				t.Fatal("no summary condition")
			}
			if condition.Status != c.status || condition.Reason != c.reason || condition.Message != c.message || condition.ObservedGeneration != 3 {
				t.Errorf("condition %+v", condition)
			}
		})
	}
}

// TestOutcomesAreLogged: what an object waits for is in the verbose log. Why it is invalid is in the log if the object has no conditions.
func TestOutcomesAreLogged(t *testing.T) {
	for name, c := range map[string]struct {
		result     error
		conditions bool
		want       string
	}{
		"done":                      {nil, false, ""},
		"waiting":                   {Wait("NoNonce", "waiting for Secret liqo-nonce"), true, `"NoNonce: waiting for Secret liqo-nonce"`},
		"invalid":                   {Invalid("BadKey", "spec.publicKey is not PEM"), false, `"BadKey: spec.publicKey is not PEM"`},
		"invalid, with conditions":  {Invalid("BadKey", "spec.publicKey is not PEM"), true, ""},
		"an error that is returned": {errors.New("boom"), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: 1})
			r := newWorld(tenant()).reconciler(func(context.Context, *authv1beta1.Tenant) error { return c.result }, nil)
			if !c.conditions {
				r.Conditions = nil
			}
			_, _ = r.Reconcile(ctrl.LoggerInto(t.Context(), log), request)
			if got := strings.Join(lines, "\n"); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("log: %q, want %q", got, c.want)
			}
		})
	}
}

func TestSecondPassWritesNothing(t *testing.T) {
	w := newWorld(tenant())
	r := w.reconciler(func(_ context.Context, t *authv1beta1.Tenant) error {
		t.Status.TenantNamespace = t.Namespace
		return nil
	}, nil)
	for range 3 {
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"patch", "patch status"}, w.writes); diff != "" {
		t.Errorf("writes of three passes: finalizer once, status once (-want +got):\n%s", diff)
	}
}

func TestFinalizerHoldsUntilFinalized(t *testing.T) {
	w := newWorld(tenant())
	ready := false
	synced := 0
	r := w.reconciler(
		func(context.Context, *authv1beta1.Tenant) error { synced++; return nil },
		func(context.Context, *authv1beta1.Tenant) error {
			if !ready {
				return Wait("CopiesLeft", "waiting for copies")
			}
			return nil
		})
	pass := func() {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	if err := w.Delete(t.Context(), tenant()); err != nil {
		t.Fatal(err)
	}
	pass()
	if err := w.Get(t.Context(), request.NamespacedName, tenant()); err != nil {
		t.Fatalf("gone before it was finalized: %v", err)
	}
	ready = true
	pass()
	if err := w.Get(t.Context(), request.NamespacedName, tenant()); client.IgnoreNotFound(err) != nil || err == nil {
		t.Fatalf("still there after it was finalized: %v", err)
	}
	pass() // a request for a deleted object is no error
	if synced != 1 {
		t.Errorf("Sync ran %d times, want 1: never on a deleting object", synced)
	}
}

func TestEnsureWritesOnlyDifferences(t *testing.T) {
	w := newWorld()
	ensure := func(label string) bool {
		t.Helper()
		obj := tenant()
		obj.Generation = 0
		changed, err := Ensure(t.Context(), w, obj, func() error {
			obj.Labels = map[string]string{"a": label}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	got := []bool{ensure("1"), ensure("1"), ensure("2"), ensure("2")}
	if diff := cmp.Diff([]bool{true, false, true, false}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"create", "patch"}, w.writes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	refuse := errors.New("foreign")
	obj := tenant()
	if _, err := Ensure(t.Context(), w, obj, func() error { obj.Labels = nil; return refuse }); !errors.Is(err, refuse) {
		t.Errorf("error %v, want %v", err, refuse)
	}
	if len(w.writes) != 2 {
		t.Errorf("a refused change was written: %v", w.writes)
	}
}

func TestStatusThatWasNotWrittenIsRetried(t *testing.T) {
	for name, result := range map[string]error{
		"waiting": Wait("NoNonce", "waiting for Secret liqo-nonce"), "invalid": Invalid("BadKey", "spec.publicKey is not PEM"), "done": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(tenant())
			w.refuse = errors.New("etcd is down")
			r := w.reconciler(func(context.Context, *authv1beta1.Tenant) error { return result }, nil)
			if _, err := r.Reconcile(t.Context(), request); !errors.Is(err, w.refuse) {
				t.Errorf("error %v, want %v: nothing else brings the object back", err, w.refuse)
			}
		})
	}
}
