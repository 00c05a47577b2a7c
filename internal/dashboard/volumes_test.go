package dashboard

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

const gib = 1 << 30

// claimOf returns a Bound claim that requests 1 GiB of class liqo. The UID in the name of its volume is the name of the claim.
func claimOf(namespace, name string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now),
			Annotations: map[string]string{storage.AnnotationSelectedNode: "milan"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("liqo"), VolumeName: storage.VolumeName(types.UID(name)),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
}

// volumeOf returns the virtual volume of a claim, which has 2 GiB. provider is empty if this cluster has the data.
func volumeOf(namespace, name, provider string) corev1.PersistentVolume {
	out := corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: storage.VolumeName(types.UID(name)), Labels: map[string]string{storage.LabelVirtual: api.True},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}, ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: name},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"r1"}}},
			}}}},
		},
	}
	if provider != "" {
		out.Labels[api.LabelRemoteClusterID], out.Spec.NodeAffinity = provider, nil
	}
	return out
}

func classOf(name, provisioner string) storagev1.StorageClass {
	return storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
}

// TestVolumes: a claim is shown with the true size of its volume, the cluster that has the data, and its state.
func TestVolumes(t *testing.T) {
	bound := func(place, node string) claimDocument {
		return claimDocument{
			Cluster: "rome", Namespace: "demo", Name: "data", Place: place, Node: node, Size: 2 * gib, Requested: gib, State: "Bound", Health: Good,
		}
	}
	without := func(state string, health Health) claimDocument {
		return claimDocument{Cluster: "rome", Namespace: "demo", Name: "data", Requested: gib, State: state, Health: health}
	}
	moving := bound("milan", "")
	moving.State, moving.Health = "Moving to r1", Warning
	absent := moving
	absent.Requested = 2 * gib
	unreadable := moving
	unreadable.State = "Moving"
	deleted := bound("milan", "")
	deleted.State, deleted.Health = "Terminating", Warning
	pending := func(c *Cluster) {
		c.Claims[0].Status.Phase, c.Claims[0].Spec.VolumeName, c.Volumes = corev1.ClaimPending, "", nil
	}
	about := func(reason, eventType string, second int) corev1.Event {
		out := event("demo", reason, "PersistentVolumeClaim", "data", second)
		out.Reason, out.Type = reason, eventType
		return out
	}
	for name, row := range map[string]struct {
		change func(*Cluster)
		want   claimDocument
		ready  int
	}{
		"in a provider":                 {func(*Cluster) {}, bound("milan", ""), 1},
		"in this cluster, on a node":    {func(c *Cluster) { c.Volumes[0] = volumeOf("demo", "data", "") }, bound("rome", "r1"), 1},
		"its class was deleted":         {func(c *Cluster) { c.Classes = nil }, bound("milan", ""), 1},
		"in deletion, and a pod has it": {func(c *Cluster) { c.Claims[0].DeletionTimestamp = new(metav1.NewTime(now)) }, deleted, 0},
		"its volume is gone": {
			func(c *Cluster) { c.Claims[0].Status.Phase, c.Volumes = corev1.ClaimLost, nil }, without("Lost", Bad), 0,
		},
		"no pod has used it": {
			func(c *Cluster) { pending(c); c.Claims[0].Annotations = nil }, without("Pending: WaitForFirstConsumer", None), 0,
		},
		"being created": {pending, without("Pending", Warning), 0},
		"it can't be created": {
			func(c *Cluster) {
				pending(c)
				c.Events = append(c.Events, about("ProvisioningFailed", corev1.EventTypeWarning, 1), about("Older", corev1.EventTypeWarning, 0),
					about("ExternalProvisioning", corev1.EventTypeNormal, 9))
			},
			without("Pending: ProvisioningFailed", Warning), 0,
		},
		"the Event is about a former claim": {
			func(c *Cluster) {
				pending(c)
				c.Events = append(c.Events, about("ProvisioningFailed", corev1.EventTypeWarning, -1))
			},
			without("Pending", Warning), 0,
		},
		"being moved while pods use it": {
			func(c *Cluster) { c.Volumes[0].Annotations[storage.AnnotationMove] = `{"node":"r1"}` }, moving, 0,
		},
		"moved into a claim that has no volume yet": {
			func(c *Cluster) {
				c.Volumes[0].Annotations[storage.AnnotationMove] = `{"node":"r1"}`
				c.Claims[0].UID, c.Claims[0].Spec.VolumeName, c.Claims[0].Status.Phase = "other", "", corev1.ClaimPending
			},
			moving, 0,
		},
		"the move has deleted the claim": {
			func(c *Cluster) { c.Volumes[0].Annotations[storage.AnnotationMove], c.Claims = `{"node":"r1"}`, nil }, absent, 0,
		},
		"the record of the move can't be read": {func(c *Cluster) { c.Volumes[0].Annotations[storage.AnnotationMove] = "{" }, unreadable, 0},
	} {
		state := peered()
		c := &state.Clusters[0]
		c.Claims, c.Volumes = []corev1.PersistentVolumeClaim{claimOf("demo", "data")}, []corev1.PersistentVolume{volumeOf("demo", "data", "milan")}
		c.Classes = []storagev1.StorageClass{classOf("liqo", storage.Provisioner), classOf("local", "example.org/disk")}
		row.change(c)
		documents := Compute(state)
		if diff := cmp.Diff(row.want, get[claimDocument](t, documents, "claim/rome/demo/data")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		count := volumesDocument{Ready: row.ready, Total: 1, Health: row.want.Health}
		if diff := cmp.Diff(&count, get[namespaceDocument](t, documents, "namespace/rome/demo").Volumes); diff != "" {
			t.Errorf("%s: the namespace counts (-want +got):\n%s", name, diff)
		}
	}
}

// TestOtherClaimsAreNotShown: claims of other classes, volumes of other provisioners, namespaces that are not offloaded and retained volumes are not shown.
func TestOtherClaimsAreNotShown(t *testing.T) {
	state := peered()
	c := &state.Clusters[0]
	c.Classes = []storagev1.StorageClass{classOf("liqo", storage.Provisioner), classOf("local", "example.org/disk")}
	local, foreign := claimOf("demo", "local"), volumeOf("demo", "local", "")
	local.Spec.StorageClassName, foreign.Annotations = new("local"), map[string]string{storage.AnnotationMove: `{"node":"r1"}`}
	moved := volumeOf("other", "moved", "milan")
	moved.Annotations[storage.AnnotationMove] = `{"node":"r1"}`
	c.Claims = []corev1.PersistentVolumeClaim{local, claimOf("other", "data")}
	c.Volumes = []corev1.PersistentVolume{foreign, volumeOf("other", "data", "milan"), moved, volumeOf("demo", "deleted", "milan")}
	documents := Compute(state)
	for _, key := range []string{"claim/rome/demo/local", "claim/rome/other/data", "claim/rome/other/moved", "claim/rome/demo/deleted"} {
		if document, there := documents[key]; there {
			t.Errorf("%s is shown: %s", key, document)
		}
	}
	if got := get[namespaceDocument](t, documents, "namespace/rome/demo"); got.Volumes != nil {
		t.Errorf("the namespace counts %+v", got.Volumes)
	}
}

// TestVolumesOfConsumers: in a provider, the claims in the remote namespaces of a consumer are shown if the kubeconfig of the consumer was not passed.
func TestVolumesOfConsumers(t *testing.T) {
	state := contradictory()
	state.Clusters = state.Clusters[1:]
	backing := claimOf("theirs", "data")
	backing.Annotations[storage.AnnotationClaimUID], backing.Spec.StorageClassName = "uid", new("fast")
	backing.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")}
	state.Clusters[0].Claims = []corev1.PersistentVolumeClaim{backing}
	want := claimDocument{
		Cluster: "milan", Namespace: "theirs", Name: "data", Place: "milan", Size: 3 * gib, Requested: gib, State: "Bound", Health: Good,
	}
	if diff := cmp.Diff(want, get[claimDocument](t, Compute(state), "claim/milan/theirs/data")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// contradictoryVolumes adds claims, volumes and Events, of which two contradict each other about the move of one claim, and about why another one is Pending.
func contradictoryVolumes(c *Cluster) {
	c.Classes = append(c.Classes, classOf("liqo", storage.Provisioner), classOf("local", "example.org/disk"))
	c.Claims = append(c.Claims, claimOf("shop", "one"), claimOf("shop", "two"))
	c.Claims[len(c.Claims)-1].Status.Phase = corev1.ClaimPending
	for i, target := range []string{"r1", "r2"} {
		volume := volumeOf("shop", "one", []string{"naples", "zara"}[i])
		volume.Name, volume.CreationTimestamp = storage.VolumeName(types.UID(target)), metav1.NewTime(now.Add(time.Hour))
		volume.Annotations[storage.AnnotationMove] = `{"node":"` + target + `"}`
		c.Volumes = append(c.Volumes, volume)
		about := event("shop", "about-two-"+target, "PersistentVolumeClaim", "two", 50)
		about.Reason = "Because" + target
		c.Events = append(c.Events, about)
	}
}
