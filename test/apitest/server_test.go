package apitest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// TestServersShareNothingOnAPIServer: the etcds of all servers start from copies of the same files. Nevertheless, servers are
// different clusters. They have no objects of each other, nor of the server that made the files.
func TestServersShareNothingOnAPIServer(t *testing.T) {
	began := time.Now().Add(-time.Second) // timestamps have no fractions of a second
	nearConfig, farConfig := APIServers(t)
	near, far := Client(t, nearConfig), Client(t, farConfig)

	ids := map[types.UID]bool{}
	for _, c := range []client.Client{near, far} {
		var namespaces corev1.NamespaceList
		must(t, c.List(t.Context(), &namespaces))
		for _, namespace := range namespaces.Items {
			if namespace.CreationTimestamp.Time.Before(began) {
				t.Errorf("namespace %s is older than the server", namespace.Name)
			}
			if ids[namespace.UID] {
				t.Errorf("namespace %s has the same UID in both servers", namespace.Name)
			}
			ids[namespace.UID] = true
		}
		var maps corev1.ConfigMapList
		must(t, c.List(t.Context(), &maps))
		for _, configMap := range maps.Items {
			if configMap.CreationTimestamp.Time.Before(began) {
				t.Errorf("ConfigMap %s is older than the server", configMap.Name)
			}
		}
	}
	if len(ids) < 6 { // default, kube-public and kube-system
		t.Errorf("both servers together have %d namespaces", len(ids))
	}

	template := &offloadingv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}}
	template.Spec.ContainerImage = "image"
	must(t, near.Create(t.Context(), template))
	if err := far.Get(t.Context(), client.ObjectKeyFromObject(template), template); !apierrors.IsNotFound(err) {
		t.Errorf("the other server has the object, too: %v", err)
	}
}
