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

// TestRevokedAccessOnAPIServers drains the tenant as a provider does: it revokes the permissions of the consumer, which uses its real identity, and
// then deletes the consumer's objects. No read can confirm that deletion.
func TestRevokedAccessOnAPIServers(t *testing.T) {
	near, far := apitest.APIServers(t)
	w := newWorld(t, near, far)
	w.letWork()
	w.start()
	old := w.pod("old")
	w.waitReady(1)

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
	if err := w.far.Delete(t.Context(), &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: old.Name}}); err != nil {
		t.Fatal(err)
	}
	fresh := w.pod("fresh")
	apitest.Eventually(t, 90*time.Second, "both pods to report the drain", func() error {
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
