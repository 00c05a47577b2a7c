package controllers

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/internal/kube"
)

// reporting runs Refusals of the provider with nodes milan-a and milan-b, with a fake API server of this cluster. Its methods belong in a bubble of synctest.
type reporting struct {
	*Refusals
	t     *testing.T
	local client.WithWatch
	// claim is the claim in the cache, nil if there is none.
	claim *corev1.PersistentVolumeClaim
	got   []string
	// unlisted is how often pods can't be listed, and unwarned how often no Event can be written.
	unlisted, unwarned int
	// forbidden tells whether the API server refuses to list claims.
	forbidden bool
}

func newReporting(t *testing.T, pods ...client.Object) *reporting {
	t.Helper()
	r := &reporting{t: t, claim: classClaim("milan-a")}
	r.claim.ResourceVersion = "50"
	r.local = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(append(pods, r.claim)...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if r.unlisted > 0 {
				r.unlisted--
				return apierrors.NewServiceUnavailable("too busy")
			}
			if _, claims := list.(*corev1.PersistentVolumeClaimList); claims && r.forbidden {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, "", nil)
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	r.Refusals = NewRefusals(RefusalOptions{
		HasNode: func(name string) bool { return strings.HasPrefix(name, "milan-") }, Node: "milan-a",
		Decides:    func(*corev1.PersistentVolumeClaim) bool { return true },
		LeftToPods: func(*corev1.PersistentVolumeClaim) bool { return false },
		Claim:      func(types.NamespacedName) *corev1.PersistentVolumeClaim { return r.claim },
		Client:     r.local, Log: slog.New(slog.DiscardHandler),
		Warn: func(_ context.Context, obj client.Object, message string) bool {
			if r.unwarned > 0 {
				r.unwarned--
				return false
			}
			r.got = append(r.got, obj.GetName()+": "+message)
			return true
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _ = r.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

// reported fails the test unless the claim and these pods got the message, and nobody got anything else.
func (r *reporting) reported(message string, pods ...string) {
	r.t.Helper()
	time.Sleep(reportPause)
	synctest.Wait()
	want := []string{"data: " + message}
	for _, name := range pods {
		want = append(want, name+": PersistentVolumeClaim data: "+message)
	}
	slices.Sort(want)
	slices.Sort(r.got)
	if !slices.Equal(r.got, want) {
		r.t.Errorf("reported %q, want %q", r.got, want)
	}
}

func (r *reporting) create(pods ...*corev1.Pod) {
	r.t.Helper()
	for _, pod := range pods {
		if err := r.local.Create(r.t.Context(), pod); err != nil {
			r.t.Fatal(err)
		}
	}
}

// user returns a pod that mounts claim data.
func user(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{
		NodeName: node, Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}},
	}}
}

var dataKey = types.NamespacedName{Namespace: "shop", Name: "data"}

// TestRefusedClaimIsReportedToItsPods: the claim and the pods of all virtual nodes of the provider that use it get the reason, each of them once, also those created
// later. Pods of other nodes get nothing, and pods that are created after the cure neither.
func TestRefusedClaimIsReportedToItsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bystander := user("bystander", "milan-a")
		bystander.Spec.Volumes = nil
		r := newReporting(t, user("waiting", ""), user("mounting", "milan-a"), user("at-home", "n1"), user("beside", "milan-b"), bystander)
		for range 2 {
			r.Refuse(r.claim, "no class")
			r.reported("no class", "beside", "mounting", "waiting")
		}
		r.create(user("later", ""), user("later-at-home", "n1"))
		time.Sleep(refusedRetry)
		r.reported("no class", "beside", "later", "mounting", "waiting")
		r.create(user("latest", "milan-a"))
		r.Observe(dataKey)
		r.reported("no class", "beside", "later", "latest", "mounting", "waiting")
		r.Settle(r.claim)
		r.create(user("when-cured", "milan-a"))
		r.Observe(dataKey)
		r.reported("no class", "beside", "later", "latest", "mounting", "waiting")
	})
}

// TestReportsAreTriedAgain: an API server that is too busy to list pods or to take Events delays messages, and loses none. A claim gets its message without the
// list.
func TestReportsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReporting(t, user("mounting", "milan-a"), user("beside", "milan-b"))
		r.unlisted, r.unwarned = 2, 1
		r.Refuse(r.claim, "no class")
		time.Sleep(failedReport + time.Millisecond)
		r.reported("no class")
		time.Sleep(2 * failedReport)
		r.reported("no class", "beside", "mounting")
		time.Sleep(2 * refusedRetry)
		r.reported("no class", "beside", "mounting")
	})
}

// TestTheWarningOfADriverInAProviderIsReported: the claim and each pod that waits for the volume get it once. A decision about the claim in between changes
// nothing. When the volume exists, pods get it no longer.
func TestTheWarningOfADriverInAProviderIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReporting(t, user("mine", "milan-a"), user("beside", "milan-b"))
		for range 2 {
			r.DriverWarning(r.claim, "no disk is left")
			r.Settle(r.claim)
			r.reported("no disk is left", "beside", "mine")
		}
		r.Provided("of another claim")
		r.create(user("beside-later", "milan-b"))
		r.Observe(dataKey)
		r.reported("no disk is left", "beside", "beside-later", "mine")
		r.Provided(r.claim.UID)
		r.create(user("later", "milan-a"))
		r.Observe(dataKey)
		r.reported("no disk is left", "beside", "beside-later", "mine")
	})
}

// TestAnOldCacheEndsNoRefusal: a refusal is decided on a claim that was just read, and the cache may be older: it lacks the claim, as it does while the provider is
// unreachable, or has a former one of that name. The refusal stays until the API server has no such claim, and later pods get it.
func TestAnOldCacheEndsNoRefusal(t *testing.T) {
	former := classClaim("milan-b")
	former.UID, former.ResourceVersion = "u0", "40"
	for name, cached := range map[string]*corev1.PersistentVolumeClaim{"no claim": nil, "a former claim": former} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReporting(t, user("mounting", "milan-a"))
				claim := r.claim
				r.claim = cached
				r.Refuse(claim, "no class")
				r.reported("no class", "mounting")
				r.unlisted = 1 // then nobody knows whether the claim is there
				r.create(user("later", "milan-a"))
				r.Observe(dataKey)
				r.reported("no class", "mounting")
				time.Sleep(failedReport)
				r.reported("no class", "later", "mounting")
				r.DriverWarning(former, "no disk is left") // an Event from before
				r.create(user("latest", "milan-a"))
				r.Observe(dataKey)
				if cached == nil {
					r.reported("no class", "later", "latest", "mounting")
				}
				time.Sleep(reportPause)
				synctest.Wait() // a report may have listed the claim already, and not yet the pods
				if err := r.local.Delete(t.Context(), claim); err != nil {
					t.Fatal(err)
				}
				r.create(user("after-its-end", "milan-a"))
				time.Sleep(refusedRetry)
				if slices.ContainsFunc(r.got, func(text string) bool {
					return strings.HasPrefix(text, "after-its-end: ") && strings.Contains(text, "no class")
				}) {
					t.Errorf("reported %q after the end of the claim", r.got)
				}
			})
		})
	}
}

// TestRecordsOfANamespaceThatIsOffloadedNoMoreEnd: the virtual kubelet may not list its claims any more. A refusal of a moment, as by an API server that starts, ends
// none.
func TestRecordsOfANamespaceThatIsOffloadedNoMoreEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReporting(t, user("mounting", "milan-a"))
		claim := r.claim
		r.claim, r.forbidden = nil, true
		r.Refuse(claim, "no class")
		time.Sleep(longestForbidden / 2)
		if synctest.Wait(); len(r.got) > 0 || len(r.records) != 1 {
			t.Errorf("reported %q, kept %v", r.got, r.records)
		}
		r.forbidden = false
		time.Sleep(refusedRetry)
		r.reported("no class", "mounting")
		r.forbidden = true
		time.Sleep(longestForbidden / 2)
		if synctest.Wait(); len(r.records) != 1 {
			t.Errorf("kept %v", r.records)
		}
		time.Sleep(longestForbidden)
		if synctest.Wait(); len(r.records) > 0 {
			t.Errorf("kept %v", r.records)
		}
	})
}

// TestNoRecordOutlivesItsClaim: Events of a driver may be handled after the end of their claim. No record of it stays, and nobody is told.
func TestNoRecordOutlivesItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReporting(t, user("mounting", "milan-a"))
		former := r.claim
		for _, now := range []*corev1.PersistentVolumeClaim{nil, classClaim("milan-a")} {
			if err := r.local.Delete(t.Context(), former); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if r.claim = now; now != nil {
				now.UID = "another"
				if err := r.local.Create(t.Context(), now); err != nil {
					t.Fatal(err)
				}
			}
			r.DriverWarning(former, "no disk is left")
			time.Sleep(reportPause)
			synctest.Wait()
			if len(r.records) > 0 || len(r.got) > 0 {
				t.Errorf("kept %v, reported %q", r.records, r.got)
			}
		}
	})
}
