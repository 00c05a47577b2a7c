package kube_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/test/apitest"
)

func TestDeleteSparesARecreatedObjectOnAPIServer(t *testing.T) {
	c := apitest.Client(t, apitest.APIServer(t))
	named := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}
	}
	old := named()
	if err := c.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := kube.Delete(t.Context(), c, old.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	successor := named()
	if err := c.Create(t.Context(), successor); err != nil {
		t.Fatal(err)
	}
	if err := kube.Delete(t.Context(), c, old.DeepCopy()); err != nil {
		t.Fatalf("deleting an object whose name another one has: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(successor), named()); err != nil {
		t.Errorf("the successor was deleted: %v", err)
	}
	if err := kube.Delete(t.Context(), c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two"}}); err != nil {
		t.Errorf("deleting what is not there: %v", err)
	}
}
