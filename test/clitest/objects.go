package clitest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/storage"
)

// Create creates the objects, and then writes the status of ForeignClusters and ResourceSlices.
func Create(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		status := object.DeepCopyObject().(client.Object)
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		status.SetResourceVersion(object.GetResourceVersion())
		switch object.(type) {
		case *corev1beta1.ForeignCluster, *authv1beta1.ResourceSlice:
			if err := c.Status().Update(t.Context(), status); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// VolumeOf returns the virtual volume of a claim, in this cluster if provider is empty.
func VolumeOf(uid, namespace, claim, provider string) client.Object {
	out := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-" + uid, Labels: map[string]string{storage.LabelVirtual: api.True},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: claim, UID: types.UID(uid)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}},
		},
	}
	if provider != "" {
		out.Labels[api.LabelRemoteClusterID], out.Spec.HostPath.Path = provider, "/tmp/liqo-placeholder"
		out.Spec.NodeAffinity = storage.NodesOf(provider)
	}
	return out
}

// MapOf returns the NamespaceMap of a provider that has the remote namespace of a namespace.
func MapOf(provider, namespace string) client.Object {
	return &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-" + provider, Name: provider},
		Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{namespace: namespace + "-rome"}},
	}
}
