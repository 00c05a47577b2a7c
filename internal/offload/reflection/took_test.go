package reflection

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// TestLatencyOfReflection: latency is the time from the observed change to the write, including all retries. No latency is measured if no write is needed, if
// the write is due later, or if the provider refuses it until the user changes something.
func TestLatencyOfReflection(t *testing.T) {
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	now := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	var fails error
	far := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return fails },
	}).Build()
	var next offload.Step
	var got []string
	engine := New(Options{
		Local: fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build(), Remote: far, Clock: now, Log: slog.New(slog.DiscardHandler),
		Kinds: []Kind{{
			Name: "ConfigMap", Workers: 1, Local: Resource{Object: &corev1.ConfigMap{}}, Next: func(Facts) offload.Step { return next },
			Refused: func(client.Object, offload.Action, string) (offload.Step, bool) { return offload.Step{}, true },
		}},
		Took: func(kind string, outgoing bool, took time.Duration) {
			got = append(got, fmt.Sprint(kind, " ", outgoing, " ", took))
		},
	})
	r := engine.kinds[0]
	local := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: "1"}}
	list(t, r.local, local)
	taken(r.queue)
	r.queue.settled(key)
	object := func(name string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	}
	outgoing := offload.Step{Action: offload.CreateRemote, Object: object("web")}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "web", nil)
	for _, row := range []struct {
		what  string
		add   bool
		after time.Duration
		step  offload.Step
		fails error
		want  []string
	}{
		{"a write in the provider", true, 2 * time.Second, outgoing, nil, []string{"ConfigMap true 2s"}},
		{"a write here", true, time.Second, offload.Step{Action: offload.CreateLocal, Object: object("one")}, nil, []string{"ConfigMap false 1s"}},
		{"nothing to write", true, time.Second, offload.Step{}, nil, nil},
		{"a first attempt", true, time.Second, outgoing, fmt.Errorf("timeout"), nil},
		{"its repetition", false, 3 * time.Second, outgoing, nil, []string{"ConfigMap true 4s"}},
		{"a refusal", true, time.Second, outgoing, forbidden, nil},
		{"a change that is accepted, an hour later", true, 0, outgoing, nil, []string{"ConfigMap true 0s"}},
		{"what is due later", true, time.Second, offload.Step{After: time.Hour}, nil, nil},
		{"when it is due", true, time.Second, outgoing, nil, []string{"ConfigMap true 1s"}},
	} {
		if row.add {
			now.Step(time.Hour)
			r.queue.Add(key)
			taken(r.queue)
			r.queue.Add(key) // the object is enqueued again before it was handled
			taken(r.queue)
		}
		now.Step(row.after)
		got, next, fails = nil, row.step, row.fails
		r.handle(t.Context(), key)
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", row.what, got, row.want)
		}
	}
	r.queue.ShutDown()
	if waits := r.queue.waited(key); waits != 0 {
		t.Errorf("it is measured on: %s", waits)
	}
}
