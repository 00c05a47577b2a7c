package deletevolumes

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/loss"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/test/clitest"
)

// TestDataIsNotLostByAccident: each claim whose data a command would delete is named, with its size and cluster, unless the user gives the data up.
func TestDataIsNotLostByAccident(t *testing.T) {
	c := &session.Cluster{WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
		clitest.VolumeOf("1", "shop", "there", "milan"), clitest.VolumeOf("2", "shop", "here", ""), clitest.VolumeOf("3", "bank", "other", "turin"),
		clitest.VolumeOf("4", "former", "given-up", "milan"), clitest.MapOf("milan", "shop"), clitest.MapOf("turin", "bank")).Build()}
	of := func(provider string) error {
		return Check(t.Context(), c, func(_, there string) bool { return there == provider })
	}
	const there = "PersistentVolumeClaim there in namespace shop has a volume of Liqo, 1Gi in cluster milan"
	for name, err := range map[string]error{"unpeer milan": of("milan"), "unoffload shop": CheckNamespaces(t.Context(), c, []string{"shop"})} {
		if err == nil || !strings.Contains(err.Error(), there) || !strings.Contains(err.Error(), "--delete-volumes") ||
			strings.Contains(err.Error(), "Claim here") || strings.Contains(err.Error(), "other") || strings.Contains(err.Error(), "given-up") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := of("naples"); err != nil {
		t.Errorf("a provider without volumes: %v", err)
	}
	if err := CheckNamespaces(t.Context(), c, []string{"empty"}); err != nil {
		t.Errorf("a namespace without volumes: %v", err)
	}
	c.DeleteVolumes = true
	if err := of("milan"); err != nil {
		t.Errorf("the user gives the data up: %v", err)
	}
}

// TestRetainedDataIsNotLostByAccident: the data of deleted claims is named too, also while its volume is being deleted, with the command that deletes it.
func TestRetainedDataIsNotLostByAccident(t *testing.T) {
	released := func(uid, claim string, policy corev1.PersistentVolumeReclaimPolicy) client.Object {
		volume := clitest.VolumeOf(uid, "shop", claim, "milan").(*corev1.PersistentVolume)
		volume.Spec.PersistentVolumeReclaimPolicy, volume.Status.Phase = policy, corev1.VolumeReleased
		return volume
	}
	kept, deleted := released("1", "kept", corev1.PersistentVolumeReclaimRetain), released("2", "deleted", corev1.PersistentVolumeReclaimRetain)
	deleted.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	deleted.SetFinalizers([]string{storage.Finalizer})
	c := &session.Cluster{WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(kept, deleted, clitest.MapOf("milan", "shop")).Build()}
	for name, err := range map[string]error{
		"unpeer milan":   Check(t.Context(), c, func(_, there string) bool { return there == "milan" }),
		"unoffload shop": CheckNamespaces(t.Context(), c, []string{"shop"}),
	} {
		for _, want := range []string{
			"PersistentVolume pvc-1 of deleted claim kept in namespace shop is a retained volume of Liqo, 1Gi in cluster milan",
			"PersistentVolume pvc-2 of deleted claim deleted in namespace shop is a retained volume of Liqo, 1Gi, in deletion until its data is gone, in cluster milan",
			`kubectl patch pv pvc-2 --patch '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`, "--delete-volumes", "Nothing was changed",
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in %v", name, want, err)
			}
		}
	}
	c.DeleteVolumes = true
	if err := CheckNamespaces(t.Context(), c, []string{"shop"}); err != nil {
		t.Errorf("the user gives the data up: %v", err)
	}
}

// TestMovesAreNotLostByAccident: the copy of a move is named at its target, and everywhere if the record of the move can't be read.
func TestMovesAreNotLostByAccident(t *testing.T) {
	moving, unreadable := clitest.VolumeOf("1", "shop", "moving", "turin"), clitest.VolumeOf("2", "shop", "unreadable", "")
	moving.GetAnnotations()[storage.AnnotationMove], unreadable.GetAnnotations()[storage.AnnotationMove] = `{"node":"milan","provider":"milan"}`, "x"
	live, copied := clitest.VolumeOf("3", "shop", "live", "turin"), clitest.VolumeOf("4", "shop", "live", "milan").(*corev1.PersistentVolume)
	live.GetAnnotations()[storage.AnnotationMove] = `{"node":"milan","provider":"milan","live":{"uid":"4"}}`
	copied.Spec.PersistentVolumeReclaimPolicy, copied.Status.Phase = corev1.PersistentVolumeReclaimRetain, corev1.VolumeReleased
	c := &session.Cluster{WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
		live, copied, moving, unreadable, clitest.MapOf("milan", "shop"), clitest.MapOf("turin", "shop"), clitest.MapOf("naples", "bank")).Build()}
	const moves = "PersistentVolumeClaim moving in namespace shop, 1Gi, is being moved to cluster milan: finish the move"
	for provider, want := range map[string][]string{
		"milan": {
			moves, "unreadable in namespace shop, 1Gi, may be moving to cluster milan: annotation " + storage.AnnotationMove,
			"Claim live in namespace shop, 1Gi, is being moved to cluster milan", "Claim live in namespace shop has a volume of Liqo, 1Gi in cluster milan",
		},
		"turin": {
			"PersistentVolumeClaim moving in namespace shop has a volume of Liqo, 1Gi in cluster turin", "may be moving to cluster turin",
			"Claim live in namespace shop has a volume of Liqo, 1Gi in cluster turin",
		},
		"naples": nil,
	} {
		lines, err := loss.Volumes(t.Context(), c, func(_, there string) bool { return there == provider }, true)
		if err != nil || len(lines) != len(want) {
			t.Errorf("%s: %q, %v", provider, lines, err)
			continue
		}
		for i, part := range want {
			if !strings.Contains(lines[i], part) {
				t.Errorf("%s: no %q in %q", provider, part, lines[i])
			}
		}
	}
}

// TestVolumesAreGivenUpOnDemand: --delete-volumes marks the objects whose end the controllers would hold, and nothing is marked without it.
func TestVolumesAreGivenUpOnDemand(t *testing.T) {
	labels := map[string]string{api.LabelRemoteClusterID: "milan"}
	node := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Labels: labels}}
	other := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-turin", Name: "turin"}}
	shop := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName}}
	c := &session.Cluster{WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(node, other, shop).Build()}
	marked := func(obj client.Object) bool {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			t.Fatal(err)
		}
		return obj.GetAnnotations()[api.AnnotationDeleteVolumes] == api.True
	}
	for _, given := range []bool{false, true} {
		c.DeleteVolumes = given
		gone := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "gone", Name: offloadingv1beta1.NamespaceOffloadingName}}
		named := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName}}
		if err := errors.Join(Allow(t.Context(), c, gone, named), AllowOfNodes(t.Context(), c, "milan", "liqo-tenant-milan")); err != nil {
			t.Fatal(err)
		}
		if marked(node) != given || marked(shop) != given || marked(other) {
			t.Errorf("--delete-volumes=%t: %v, %v, %v", given, node.Annotations, shop.Annotations, other.Annotations)
		}
	}
}

// TestClaimsOfAConsumerAreNotLostByAccident: force unpeer in a provider refuses while the consumer has claims there, and names them. Claims of other consumers, of
// ephemeral volumes and in deletion do not count, and --delete-volumes abandons the data.
func TestClaimsOfAConsumerAreNotLostByAccident(t *testing.T) {
	remote := func(name, tenantNamespace string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{offloadingv1beta1.AnnotationManagedByNamespaceMap: tenantNamespace + "/milan"}}}
	}
	claim := func(namespace, name string, change func(*corev1.PersistentVolumeClaim)) client.Object {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if change != nil {
			change(c)
		}
		return c
	}
	controller := true
	c := &session.Cluster{WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
		remote("shop-rome", "liqo-tenant-rome"), remote("shop-paris", "liqo-tenant-paris"), claim("shop-rome", "data", nil), claim("shop-paris", "other", nil),
		claim("shop-rome", "p-scratch", func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "1", Controller: &controller, BlockOwnerDeletion: &controller}}
		}),
		claim("shop-rome", "deleted", func(c *corev1.PersistentVolumeClaim) {
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: time.Now()}, []string{"kubernetes.io/pvc-protection"}
		})).Build()}
	err := CheckConsumer(t.Context(), c, "liqo-tenant-rome")
	if err == nil || strings.Count(err.Error(), "PersistentVolumeClaim") != 1 || !strings.Contains(err.Error(), "PersistentVolumeClaim data in namespace shop-rome") {
		t.Errorf("with a claim: %v", err)
	}
	c.DeleteVolumes = true
	if err := CheckConsumer(t.Context(), c, "liqo-tenant-rome"); err != nil {
		t.Errorf("with --delete-volumes: %v", err)
	}
}
