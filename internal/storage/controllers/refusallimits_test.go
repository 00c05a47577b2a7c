package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/internal/kube"
)

// TestMessagesAboutAClaimAreBounded: a provider that changes its message again and again fills neither the memory of the virtual kubelet nor the API server with Events.
func TestMessagesAboutAClaimAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReporting(t)
		for i := range 100 * mostMessages {
			r.DriverWarning(r.claim, strings.Repeat("x", i+1))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if most := mostMessages + 100*mostMessages/60; len(r.got) < most || len(r.got) > most+1 {
			t.Errorf("%d messages are reported, want %d", len(r.got), most)
		}
		if got := len(r.records["u1"].delivered["u1"]); got > mostMessages {
			t.Errorf("%d messages are remembered, want at most %d", got, mostMessages)
		}
		time.Sleep(2 * time.Minute)
		r.got = nil
		for range 2 {
			r.DriverWarning(r.claim, "another")
			r.reported("another")
		}
	})
}

// recreatedPods is the number of pods that use a claim that is recreated, and recreations is how often it is recreated.
const recreatedPods, recreations = 20, 3 * mostMessages

// TestARecreatedClaimMultipliesNoEvents: a user recreates a refused claim in a loop. The claim and each of its pods get the messages about the first claims at
// once, and then one a minute.
func TestARecreatedClaimMultipliesNoEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pods []client.Object
		for i := range recreatedPods {
			pods = append(pods, user(fmt.Sprintf("gated-%d", i), ""))
		}
		r := newReporting(t, pods...)
		for i := range recreations {
			if err := r.local.Delete(t.Context(), r.claim); err != nil {
				t.Fatal(err)
			}
			r.claim = classClaim("milan-a")
			r.claim.UID = types.UID(fmt.Sprintf("u%d", i+1))
			if err := r.local.Create(t.Context(), r.claim); err != nil {
				t.Fatal(err)
			}
			r.Refuse(r.claim, "no copy")
			time.Sleep(reportPause)
			synctest.Wait()
			if want := min(i+1, mostMessages) * (1 + recreatedPods); len(r.got) != want {
				t.Fatalf("%d Events after %d claims, want %d", len(r.got), i+1, want)
			}
		}
		if len(r.records) > 2 {
			t.Errorf("%d records remain", len(r.records))
		}
		time.Sleep(time.Minute + refusedRetry)
		if want := (mostMessages + 1) * (1 + recreatedPods); len(r.got) != want {
			t.Errorf("%d Events after a pause, want %d, because the last claim is refused too", len(r.got), want)
		}
	})
}

// recorded counts Events by the name of their object.
type recorded struct {
	t   *testing.T
	all map[string]int
}

func (r *recorded) Eventf(regarding, related runtime.Object, _, _, _, _ string, _ ...any) {
	r.all[regarding.(client.Object).GetName()]++
	if _, isPod := regarding.(*corev1.Pod); !isPod {
		return
	}
	if ref, ok := related.(*corev1.ObjectReference); !ok || ref.Kind != "PersistentVolumeClaim" || ref.Namespace != "shop" || ref.Name != "data" || ref.UID != "" {
		r.t.Errorf("related is %+v, want claim data without its UID", related)
	}
}

// TestARecreatedClaimOfThisClusterMultipliesNoEvents: the provisioner has the same limits as virtual kubelets. client-go makes no series of Events for each claim.
func TestARecreatedClaimOfThisClusterMultipliesNoEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster()[:3]...)
		got := &recorded{t, map[string]int{}}
		p := newProvisioner(w, w, got, Options{ClusterID: "rome", Namespace: "liqo-storage"})
		for i := range recreatedPods {
			if err := w.Create(t.Context(), user(fmt.Sprintf("gated-%d", i), "")); err != nil {
				t.Fatal(err)
			}
		}
		reconciled := func(uid types.UID, want int) {
			t.Helper()
			if _, err := p.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: string(uid)}}); err != nil {
				t.Fatal(err)
			}
			for name, events := range got.all {
				if events != want {
					t.Fatalf("%s has %d Events, want %d", name, events, want)
				}
			}
			if len(got.all) != 1+recreatedPods {
				t.Fatalf("%d objects have Events, want the claim and %d pods", len(got.all), recreatedPods)
			}
		}
		for i := range recreations {
			claim := cluster()[3].(*corev1.PersistentVolumeClaim)
			claim.UID, claim.Spec.Selector = types.UID(fmt.Sprintf("u%d", i+1)), &metav1.LabelSelector{}
			if err := w.Create(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			reconciled(claim.UID, min(i+1, mostMessages))
			if i == recreations-1 {
				time.Sleep(time.Minute)
				reconciled(claim.UID, mostMessages+1) // the last claim is refused too
				time.Sleep(time.Hour)
				reconciled(claim.UID, mostMessages+1)
			}
			if err := w.Delete(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestLimitsOfMessages: a namespace with countless pods gets a bounded number of messages, which delays those of no other namespace and none of claims. Limits
// are forgotten once they have no effect.
func TestLimitsOfMessages(t *testing.T) {
	l, now := newMessageLimits(), time.Unix(1000, 0)
	allowed := func(namespace string, pods int) (n int) {
		for i := range pods {
			pod := user(fmt.Sprintf("web-%d", i), "")
			if pod.Namespace = namespace; l.allow(pod, now) {
				n++
			}
		}
		return n
	}
	if n := allowed("shop", 2*mostInNamespace); n != mostInNamespace {
		t.Errorf("%d messages to the pods of a namespace, want %d", n, mostInNamespace)
	}
	if n := allowed("other", 10); n != 10 {
		t.Errorf("%d messages in another namespace, want 10", n)
	}
	if !l.allow(classClaim(""), now) {
		t.Error("no message to the claim")
	}
	if len(l.limiters) > mostInNamespace+14 {
		t.Errorf("%d limiters, want one for each message, and three for namespaces", len(l.limiters))
	}
	if now = now.Add(time.Second); allowed("shop", 2*mostInNamespace) != 1 {
		t.Error("not one message a second")
	}
	now = now.Add(time.Hour)
	same := user("web", "")
	for range mostMessages {
		if !l.allow(same, now) {
			t.Error("too few messages after an hour")
		}
	}
	if l.allow(same, now) {
		t.Error("too many messages to one pod")
	}
	if again := user("web", ""); len(l.limiters) != 2 {
		t.Errorf("%d limiters after an hour, want those of one pod and its namespace", len(l.limiters))
	} else if again.UID = "another"; !l.allow(again, now) {
		t.Error("no message to a new pod of the name")
	}
}

// TestEachClaimIsDecidedOnceForAllPods: a report about many claims in a namespace with many pods decides about each claim once, and does not block the
// decisions about other claims meanwhile.
func TestEachClaimIsDecidedOnceForAllPods(t *testing.T) {
	const many = 100
	var (
		r                   *Refusals
		objs                []client.Object
		asked, looked, told int
	)
	claims := map[types.NamespacedName]*corev1.PersistentVolumeClaim{}
	for i := range many {
		claim, pod := classClaim("milan-a"), user(fmt.Sprintf("web-%d", i), "milan-a")
		claim.Name, claim.UID = fmt.Sprintf("data-%d", i), types.UID(fmt.Sprintf("claim-%d", i))
		pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = claim.Name
		claims[client.ObjectKeyFromObject(claim)], objs = claim, append(objs, pod)
	}
	decide := func(answer bool) func(*corev1.PersistentVolumeClaim) bool {
		return func(*corev1.PersistentVolumeClaim) bool {
			if asked++; !r.mu.TryLock() {
				t.Fatal("decided while other claims wait")
			}
			r.mu.Unlock()
			return answer
		}
	}
	r = NewRefusals(RefusalOptions{
		HasNode: func(string) bool { looked++; return true }, Node: "milan-a", Decides: decide(true), LeftToPods: decide(false),
		Claim:  func(key types.NamespacedName) *corev1.PersistentVolumeClaim { return claims[key] },
		Client: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objs...).Build(), Log: slog.New(slog.DiscardHandler),
		Warn: func(context.Context, client.Object, string) bool { told++; return true },
	})
	for _, claim := range claims {
		r.Refuse(claim, "no class")
	}
	if !r.report(t.Context()) || told != 2*many {
		t.Errorf("%d claims and pods are told, want %d", told, 2*many)
	}
	if asked > 2*many || looked > many {
		t.Errorf("%d decisions about claims and %d about nodes, want %d and %d", asked, looked, 2*many, many)
	}
}

// unlisted is a View that may not be listed.
type unlisted struct {
	fixedView
	t *testing.T
}

func (v unlisted) List() []client.Object {
	v.t.Error("all classes are listed for one claim")
	return v.fixedView.List()
}

// TestLeftToPodsReadsOneClass: a claim without a volume is left to its pods unless its class is one of Liqo and a node is selected.
func TestLeftToPodsReadsOneClass(t *testing.T) {
	s := newStoring(t)
	s.opts.Classes = unlisted{s.opts.Classes.(fixedView), t}
	own, unscheduled, other, none := classClaim("milan-a"), classClaim(""), classClaim("milan-a"), classClaim("milan-a")
	standard := "standard"
	other.Spec.StorageClassName, none.Spec.StorageClassName = &standard, nil
	for i, row := range []struct {
		claim *corev1.PersistentVolumeClaim
		want  bool
	}{{own, false}, {unscheduled, true}, {other, true}, {none, true}} {
		if got := s.LeftToPods(row.claim); got != row.want {
			t.Errorf("claim %d: %t, want %t", i, got, row.want)
		}
	}
}
