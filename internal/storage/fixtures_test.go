package storage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// here is the place of the controller manager, there the place of a virtual kubelet.
func here() Place { return Place{Origin: "rome", Namespace: "liqo-storage"} }

func there() Place {
	return Place{
		Cluster: "milan", Tenant: "liqo-tenant-milan", Origin: "rome", Namespace: "shop-rome",
		Offered: []authv1beta1.StorageType{{StorageClassName: "ssd"}, {StorageClassName: "disk", Default: true}},
	}
}

// classes are the StorageClasses of this cluster.
func classes() []storagev1.StorageClass {
	wait, yes := storagev1.VolumeBindingWaitForFirstConsumer, true
	retain := corev1.PersistentVolumeReclaimRetain
	class := func(name, provisioner string, annotations map[string]string) storagev1.StorageClass {
		return storagev1.StorageClass{
			ObjectMeta:        metav1.ObjectMeta{Name: name, Annotations: annotations},
			Provisioner:       provisioner,
			VolumeBindingMode: &wait, AllowVolumeExpansion: &yes,
		}
	}
	kept := class("liqo-retain", Provisioner, nil)
	kept.ReclaimPolicy = &retain
	standard := class("standard", "example.org/disk", map[string]string{annotationDefaultClass: api.True})
	return []storagev1.StorageClass{class("liqo", Provisioner, nil), kept, standard}
}

// node returns the node with that name, nil if there is none.
func node(name string) *corev1.Node {
	switch name {
	case "n1", "n2":
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	case "milan", "milan-2":
		labels := map[string]string{api.LabelType: api.TypeVirtualNode, api.LabelRemoteClusterID: "milan"}
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	default:
		return nil
	}
}

// claim returns a claim of class liqo for which a node was selected.
func claim(node string, changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	class, mode := "liqo", corev1.PersistentVolumeBlock
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claimName, Namespace: "shop", UID: "u1", Annotations: map[string]string{AnnotationSelectedNode: node}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, VolumeMode: &mode, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	for _, change := range changes {
		change(c)
	}
	return c
}

// at returns the state of a claim without anything else.
func at(place Place, c *corev1.PersistentVolumeClaim) State {
	return State{UID: c.UID, Claim: c, Classes: classes(), Node: node(c.Annotations[AnnotationSelectedNode]), Place: place}
}

// place gives a virtual volume the labels and the node affinity of one whose data is in a provider, or in this cluster if cluster is empty.
func place(volume *corev1.PersistentVolume, cluster string) {
	setLabels(volume, labelsOf("", ""))
	volume.Spec.NodeAffinity = nil
	if cluster != "" {
		setLabels(volume, labelsOf(cluster, "liqo-tenant-"+cluster))
		volume.Spec.NodeAffinity = NodesOf(cluster)
	}
}

// created returns the backing claim that Next creates.
func created(t *testing.T, s State) *corev1.PersistentVolumeClaim {
	t.Helper()
	step := Next(s)
	backing, ok := step.Object.(*corev1.PersistentVolumeClaim)
	if step.Action != CreateBacking || !ok {
		t.Fatalf("%s: %s", step.Action, step.Why)
	}
	return backing
}
