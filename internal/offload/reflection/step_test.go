package reflection

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

func TestTheUserIsToldOnce(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{NodeName: "milan"}}
	down := errors.New("down")
	failures := 2
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(pod).WithStatusSubresource(pod).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if failures--; failures >= 0 {
				return down
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}).Build()
	told := 0
	options := func() podrules.Options { return podrules.Options{Origin: "rome", Destination: "milan", Node: "milan"} }
	engine := New(Options{Local: c, Remote: c, Kinds: []Kind{Pods(1, options)}, Warn: func(client.Object, string) { told++ }})
	refuse := func(want error) {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
		if err := engine.kinds[0].do(t.Context(), nil, client.ObjectKeyFromObject(pod), pod, offload.Refuse(pod, "no")); !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	}
	for _, want := range []error{down, down, nil, nil, nil} {
		refuse(want)
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	// The previous process may have ended after the write and before it reported the warning.
	engine = New(engine.opts)
	refuse(nil)
	refuse(nil)
	if told != 2 {
		t.Errorf("told %d times after another start", told)
	}
}

func TestNoWorkersNoKind(t *testing.T) {
	e := New(Options{Kinds: []Kind{{Name: "off", Mapped: true}, {Name: "on", Mapped: true, Workers: 1}}})
	if len(e.kinds) != 1 || e.kinds[0].Name != "on" {
		t.Errorf("%d kinds are at work", len(e.kinds))
	}
}

func TestEventsLetTheRestGoBefore(t *testing.T) {
	for _, row := range []struct {
		what string
		// every is the interval between two writes of other kinds, lasting how long these writes go on, and want the expected wait of the Event.
		every, lasting, want time.Duration
	}{
		{"nothing is written", 0, 0, 0},
		{"something was written just now", time.Hour, time.Millisecond, yieldQuiet},
		{"a burst that ends", 100 * time.Millisecond, 450 * time.Millisecond, 400*time.Millisecond + yieldQuiet},
		{"a burst that does not", 100 * time.Millisecond, time.Hour, yieldMost},
	} {
		t.Run(row.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := New(Options{})
				if row.every > 0 {
					ctx, cancel := context.WithTimeout(t.Context(), row.lasting)
					defer cancel()
					go func() {
						for ctx.Err() == nil {
							engine.wrote.Store(time.Now().UnixNano())
							select {
							case <-ctx.Done():
							case <-time.After(row.every):
							}
						}
					}()
					synctest.Wait()
				}
				began := time.Now()
				engine.yield(t.Context())
				if took := time.Since(began); took != row.want {
					t.Errorf("waited %v, want %v", took, row.want)
				}
			})
		})
	}
}

// TestUrgentObjectsWaitForNoWrites: Events wait while other kinds have writes, and their workers are blocked. An urgent Event is observed at once
// nevertheless: when it changes, and when the object that it refers to arrives in either cluster.
func TestUrgentObjectsWaitForNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var observed []string
		var decided int
		engine := New(Options{Log: slog.New(slog.DiscardHandler), Kinds: []Kind{{
			Name: EventKind, Workers: 1, Mapped: true, LowPriority: true, Local: Resource{Object: &corev1.Event{}}, Remote: []Resource{{Object: &corev1.Event{}}},
			Urgent:  func(obj client.Object) bool { return obj.GetName() == "urgent" },
			Observe: func(f Facts) { observed = append(observed, f.Key.String()) },
			About:   func(client.Object) (string, string) { return "ConfigMap", "web" },
			Next: func(Facts) offload.Step {
				decided++
				return offload.Step{}
			},
		}, {
			Name: "ConfigMap", Workers: 1, Mapped: true, Local: Resource{Object: &corev1.ConfigMap{}}, Remote: []Resource{{Object: &corev1.ConfigMap{}}},
		}}})
		engine.wrote.Store(time.Now().Add(time.Hour).UnixNano())
		r := engine.kinds[0]
		watchedNamespace := engine.newWatchedNamespace("shop", "shop-rome")
		go func() { _ = r.work(t.Context()) }()
		go func() { _ = r.observe() }()
		for _, kind := range engine.kinds {
			defer kind.queue.ShutDown()
		}
		defer r.urgent.ShutDown()
		meta := func(namespace, name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}
		}
		events := func() error {
			var problems []error
			for _, name := range []string{"urgent", "other"} {
				problems = append(problems, watchedNamespace.stores[r][0].Update(&corev1.Event{ObjectMeta: meta("shop-rome", name)}))
			}
			return errors.Join(problems...)
		}
		about := engine.kinds[1]
		for i, watched := range []func() error{
			events, events,
			func() error {
				return watchedNamespace.here[about].Update(&corev1.ConfigMap{ObjectMeta: meta("shop", "web")})
			},
			func() error {
				return watchedNamespace.stores[about][0].Update(&corev1.ConfigMap{ObjectMeta: meta("shop-rome", "web")})
			},
		} {
			if err := watched(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if want := slices.Repeat([]string{"shop/urgent"}, 1+i); !slices.Equal(observed, want) || decided > 0 {
				t.Errorf("after event %d: observed %q, want %q; %d decisions", i, observed, want, decided)
			}
		}
		time.Sleep(3 * yieldMost) // let the blocked worker end
	})
}

// TestEveryRequestHasItsOwnTime: the deadline of each request starts with that request, so a slow request does not shorten the time of a later one.
func TestEveryRequestHasItsOwnTime(t *testing.T) {
	var deadlines []time.Time
	record := func(ctx context.Context) {
		at, _ := ctx.Deadline()
		deadlines = append(deadlines, at)
	}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			record(ctx)
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			record(ctx)
			return c.Create(ctx, o, opts...)
		},
	}).Build()
	created := 0
	engine := New(Options{Local: c, Remote: c, Log: slog.New(slog.DiscardHandler), Reflected: func(string, string) { created++ }, Kinds: []Kind{{
		Name: "chain", Workers: 1, Local: Resource{Object: &corev1.ConfigMap{}},
		BeforeWrite: func(ctx context.Context, _ client.Client, _, _ client.Object, _ time.Time) error {
			record(ctx)
			return nil
		},
		Next: func(Facts) offload.Step {
			if created == 2 {
				return offload.Step{}
			}
			copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: strconv.Itoa(created)}}
			return offload.Step{Action: offload.CreateRemote, Object: copied, Confirm: true, Again: true}
		},
	}}})
	engine.kinds[0].handle(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"})
	if len(deadlines) != 6 {
		t.Fatalf("%d requests, want two passes of a read, a completion and a write", len(deadlines))
	}
	for i, before := range append([]time.Time{{}}, deadlines[:5]...) {
		if !deadlines[i].After(before) {
			t.Errorf("request %d ends at %v, the one before it at %v", i, deadlines[i], before)
		}
	}
}

// TestPatchesOfOneObjectArePaced: a provider changes the status of a pod 100 times a second. That causes a burst of writes in this cluster and then
// one a second, and the last state is written within a second. Another pod does not wait for it.
func TestPatchesOfOneObjectArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := func(name string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: "milan"}}
		}
		busy, calm := pod("busy"), pod("calm")
		writes := map[string]int{}
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(busy, calm).WithStatusSubresource(busy).WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				writes[o.GetName()]++
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
		remote := map[string]string{} // status message of each remote pod
		engine := New(Options{Local: c, Remote: c, Log: slog.New(slog.DiscardHandler), Kinds: []Kind{{
			Name: PodKind, Workers: 1, Local: Resource{Object: &corev1.Pod{}},
			Next: func(f Facts) offload.Step {
				local := f.Local.(*corev1.Pod)
				if local.Status.Message == remote[local.Name] {
					return offload.Step{}
				}
				shown := local.DeepCopy()
				shown.Status.Message = remote[local.Name]
				return offload.Step{Action: offload.PatchLocalStatus, Object: shown, Old: local}
			},
		}}})
		r := engine.kinds[0]
		if err := r.local.Replace([]any{busy, calm}, "1"); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- r.work(t.Context()) }()
		defer func() {
			r.queue.ShutDown()
			<-done
		}()
		report := func(name, message string) {
			remote[name] = message
			r.queue.addRemoteTriggered(types.NamespacedName{Namespace: "shop", Name: name})
			synctest.Wait()
		}
		const seconds, rate = 30, 100
		for i := range seconds * rate {
			report("busy", strconv.Itoa(i))
			time.Sleep(time.Second / rate)
		}
		if most := kube.PaceBurst + seconds + 1; writes["busy"] > most || writes["busy"] < seconds {
			t.Errorf("%d writes in %d s, want at most %d and at least one a second", writes["busy"], seconds, most)
		}
		if report("calm", "well"); writes["calm"] != 1 {
			t.Errorf("%d writes of the other pod, want 1 at once", writes["calm"])
		}
		time.Sleep(kube.PaceInterval)
		synctest.Wait()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(busy), busy); err != nil {
			t.Fatal(err)
		}
		if want := strconv.Itoa(seconds*rate - 1); busy.Status.Message != want {
			t.Errorf("the pod shows state %s, want %s", busy.Status.Message, want)
		}
	})
}
