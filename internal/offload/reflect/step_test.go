package reflect

import (
	"context"
	"errors"
	"log/slog"
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
	"liqo.io/liqo/internal/offload/kinds"
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
	options := func() kinds.PodOptions { return kinds.PodOptions{Origin: "rome", Destination: "milan", Node: "milan"} }
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
	// The one before may have ended after the write and before the telling.
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
		// every is the time between two writes for other kinds, which last as long as lasting.
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

// TestEveryRequestHasItsOwnTime: what a slow request takes, no later one lacks, in the same pass or in the next.
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
		Complete: func(ctx context.Context, _ client.Client, _, _ client.Object, _ time.Time) error {
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

// TestPatchesOfOneObjectArePaced: a provider changes the status of a pod 100 times a second. That causes a burst of writes in this cluster and then one a
// second, and the last state is written within a second. Another pod does not wait for it.
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
		remote := map[string]string{} // what the provider reports
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
