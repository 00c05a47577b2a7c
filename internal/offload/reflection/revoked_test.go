package reflection_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/apitest"
)

// TestRevokedAccessOnAPIServers revokes the permissions of the consumer, which uses its real identity, and then deletes the consumer's objects. No read can
// confirm that deletion, and nothing explains the refusals.
func TestRevokedAccessOnAPIServers(t *testing.T) {
	revokeAccess(t, false, 90*time.Second)
}

// TestADrainIsReportedAtOnceOnAPIServers drains the tenant as a provider does: before it revokes the permissions, it creates the RoleBinding that reports the drain.
// The consumer can read this RoleBinding and nothing else. Its pods do not wait for the refusals to last (30 s).
func TestADrainIsReportedAtOnceOnAPIServers(t *testing.T) {
	revokeAccess(t, true, 15*time.Second)
}

// TestAnIdleConsumerObservesARevocationOnAPIServers: the consumer has no pods, so it reads nothing, and its watches stay open. It observes all the same that the
// provider revoked its permissions.
func TestAnIdleConsumerObservesARevocationOnAPIServers(t *testing.T) {
	near, far := apitest.APIServers(t)
	w := newWorld(t, near, far)
	w.letWork()
	w.start()
	apitest.Eventually(t, time.Minute, "the first lists", w.engine.Ready)
	if since := w.engine.RefusedSince(); !since.IsZero() {
		t.Fatalf("access is refused since %s", since)
	}
	for _, binding := range []client.Object{
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: "twin"}}, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "clusterwide"}},
	} {
		if err := w.far.Delete(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
	}
	apitest.Eventually(t, 40*time.Second, "the engine to observe the revocation", func() error {
		if w.engine.RefusedSince().IsZero() {
			return fmt.Errorf("access is allowed")
		}
		return nil
	})
}

// revokeAccess revokes all permissions of the consumer, and waits until its pods report that.
func revokeAccess(t *testing.T, reported bool, within time.Duration) {
	t.Helper()
	near, far := apitest.APIServers(t)
	w := newWorld(t, near, far)
	w.letWork()
	w.start()
	old := w.pod("old")
	w.waitReady(1)

	if reported {
		w.create(w.far, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: offloadingv1beta1.DrainedRoleBinding},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: offloadingv1beta1.DrainedClusterRole},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: consumerID}},
		})
	}
	for _, binding := range []client.Object{
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: "twin"}}, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "clusterwide"}},
	} {
		if err := w.far.Delete(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
	}
	config := rest.CopyConfig(w.farConfig)
	config.Impersonate = w.farUser
	revoked := apitest.Client(t, config)
	apitest.Eventually(t, time.Minute, "the permissions to be revoked", func() error { // authorizers take a moment
		for _, in := range []client.ListOption{client.InNamespace(w.twinNS), client.InNamespace("")} {
			if err := revoked.List(t.Context(), &offloadingv1beta1.ShadowPodList{}, in); !apierrors.IsForbidden(err) {
				return fmt.Errorf("listing ShadowPods is not forbidden: %w", err)
			}
		}
		return nil
	})
	readable := map[string]error{}
	for what, try := range map[string]func() error{
		"the report": func() error {
			return revoked.Get(t.Context(), client.ObjectKey{Namespace: w.twinNS, Name: offloadingv1beta1.DrainedRoleBinding}, &rbacv1.RoleBinding{})
		},
		"other bindings": func() error {
			return revoked.Get(t.Context(), client.ObjectKey{Namespace: w.twinNS, Name: "other"}, &rbacv1.RoleBinding{})
		},
		"all bindings": func() error {
			return revoked.List(t.Context(), &rbacv1.RoleBindingList{}, client.InNamespace(w.twinNS))
		},
		"a report elsewhere": func() error {
			return revoked.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: offloadingv1beta1.DrainedRoleBinding}, &rbacv1.RoleBinding{})
		},
		"pods":      func() error { return revoked.List(t.Context(), &corev1.PodList{}, client.InNamespace(w.twinNS)) },
		"secrets":   func() error { return revoked.List(t.Context(), &corev1.SecretList{}, client.InNamespace(w.twinNS)) },
		"namespace": func() error { return revoked.Get(t.Context(), client.ObjectKey{Name: w.twinNS}, &corev1.Namespace{}) },
		"changes": func() error {
			return revoked.Delete(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: offloadingv1beta1.DrainedRoleBinding}})
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			readable[what] = err
		}
	}
	if err, found := readable["the report"]; len(readable) > 1 || found != reported || err != nil {
		t.Errorf("not forbidden: %v", readable)
	}
	if err := w.far.Delete(t.Context(), &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: old.Name}}); err != nil {
		t.Fatal(err)
	}
	fresh := w.pod("fresh")
	apitest.Eventually(t, within, "both pods to report the drain", func() error {
		for _, pod := range []*corev1.Pod{old, fresh} {
			if err := w.near.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
				return err
			}
		}
		if old.Status.Phase != corev1.PodFailed || old.Status.Reason != offloadingv1beta1.PodOffloadingAborted {
			return fmt.Errorf("the old pod is %s/%s", old.Status.Phase, old.Status.Reason)
		}
		if fresh.Status.Phase != corev1.PodPending || fresh.Status.Reason != offloadingv1beta1.PodOffloadingBackOff {
			return fmt.Errorf("the new pod is %s/%s", fresh.Status.Phase, fresh.Status.Reason)
		}
		if !w.heard("old: its offloading was aborted") {
			return fmt.Errorf("no Event")
		}
		if w.engine.RefusedSince().IsZero() {
			return fmt.Errorf("the Node does not learn of it")
		}
		return nil
	})
}
