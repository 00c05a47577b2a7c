package kube_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/test/apitest"
)

func TestFirstStatusIsWrittenWholeOnAPIServer(t *testing.T) {
	c := apitest.Client(t, apitest.APIServer(t))
	fc := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "milan"}}
	if err := c.Create(t.Context(), fc); err != nil {
		t.Fatal(err)
	}
	change := func(do func(*corev1beta1.ForeignClusterStatus)) {
		t.Helper()
		before := fc.DeepCopy()
		do(&fc.Status)
		if err := kube.PatchStatus(t.Context(), c, fc, before); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(fc), fc); err != nil {
			t.Fatal(err)
		}
	}
	// Both other modules have required fields, which stay false.
	change(func(s *corev1beta1.ForeignClusterStatus) {
		s.Role, s.APIServerURL, s.Modules.Authentication.Enabled = corev1beta1.RoleProvider, "https://milan", true
	})
	change(func(s *corev1beta1.ForeignClusterStatus) { s.APIServerURL = "" })
	if !fc.Status.Modules.Authentication.Enabled || fc.Status.APIServerURL != "" {
		t.Errorf("status %+v", fc.Status)
	}
}
