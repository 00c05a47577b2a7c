package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/test/clitest"
)

// TestVolumesHoldTheirNamespacesWithoutStorage: with value storage.enabled=false, no volume is created, but those that exist still hold their remote namespaces, and the
// virtual node.
func TestVolumesHoldTheirNamespacesWithoutStorage(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		opts := offloadingOptions(&ControllerManagerOptions{EnableOffloading: true, EnableStorage: enabled}, nil)
		volume := clitest.VolumeOf("u1", "shop", "data", "milan")
		if opts.Volumes == nil || opts.VolumesOf == nil {
			t.Fatalf("storage.enabled=%t: no volume is read", enabled)
		}
		volumes, err := opts.Volumes(t.Context(), fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(volume).Build())
		shop := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName}}
		milan := &offloadingv1beta1.VirtualNode{Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan"}}
		if err != nil || len(offload.KeptVolumes(shop, volumes, "milan")) != 1 || len(offload.NodeVolumes(milan, nil, volumes, nil)) != 1 {
			t.Errorf("storage.enabled=%t: nothing holds the remote namespace: %+v, %v", enabled, volumes, err)
		}
		if len(opts.VolumesOf(volume.(*corev1.PersistentVolume))) != 1 {
			t.Errorf("storage.enabled=%t: changes of the volume are not watched", enabled)
		}
	}
}
