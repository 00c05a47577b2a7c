package setup

import (
	"cmp"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/test/clitest"
)

// TestUninstallDeletesVolumesOnDemand: uninstall names each volume of Liqo and stops, and with --delete-volumes deletes their claims and them, and
// nothing else.
func TestUninstallDeletesVolumesOnDemand(t *testing.T) {
	claim := func(name, uid string) client.Object {
		volume := map[string]string{"data": "pvc-1"}[name]
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid)},
			Spec: corev1.PersistentVolumeClaimSpec{VolumeName: cmp.Or(volume, "of-another-class")}}
	}
	bound, anew, released := clitest.VolumeOf("1", "shop", "data", "milan"), clitest.VolumeOf("2", "shop", "anew", ""), clitest.VolumeOf("3", "shop", "reused", "")
	bound.(*corev1.PersistentVolume).Spec.ClaimRef.UID, anew.(*corev1.PersistentVolume).Spec.ClaimRef.UID = "a", "former"
	released.(*corev1.PersistentVolume).Status.Phase = corev1.VolumeReleased
	others := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "theirs"}}}
	reserved := clitest.VolumeOf("4", "shop", "reserved", "") // for a claim that has the volume of another class
	reserved.(*corev1.PersistentVolume).Spec.ClaimRef.UID = ""
	named := func(o client.Object) []string { return []string{o.GetName()} }
	c := &session.Cluster{Console: console.New(io.Discard, io.Discard, false), WithWatch: fake.NewClientBuilder().WithScheme(session.Scheme()).
		WithIndex(&corev1.PersistentVolume{}, "metadata.name", named).WithIndex(&corev1.PersistentVolumeClaim{}, "metadata.name", named).WithObjects(
		bound, anew, released, reserved, others, claim("data", "a"), claim("anew", "b"), claim("reused", "c"), claim("reserved", "e"), claim("theirs", "d")).Build()}
	lines := []string{
		"PersistentVolumeClaim data in namespace shop has a volume of Liqo, 1Gi in cluster milan", "PersistentVolumeClaim anew in namespace shop has a volume of Liqo, 1Gi",
		"is a retained volume of Liqo, 1Gi", "PersistentVolume pvc-4 of former claim reserved in namespace shop is a retained volume of Liqo, 1Gi",
	}
	uses, err := usesOfInstallation(t.Context(), c)
	if err != nil || len(uses.all) != len(lines) || len(uses.volumes) != 0 {
		t.Fatalf("%+v, %v", uses, err)
	}
	for i, line := range uses.all {
		if !strings.Contains(line, lines[i]) || !strings.Contains(line, "--delete-volumes") {
			t.Errorf("no %q in %q", lines[i], line)
		}
	}
	c.DeleteVolumes = true
	if uses, err = usesOfInstallation(t.Context(), c); err != nil || len(uses.all) != 0 || len(uses.volumes) != len(lines) {
		t.Fatalf("%+v, %v", uses, err)
	}
	for _, text := range []string{uses.lost(), uses.undeletable()} {
		for _, line := range lines {
			if !strings.Contains(text, line) {
				t.Errorf("no %q in %q", line, text)
			}
		}
	}
	if err := deleteClaims(t.Context(), c, uses.volumes); err != nil {
		t.Fatal(err)
	}
	var claims corev1.PersistentVolumeClaimList
	var volumes corev1.PersistentVolumeList
	if err := errors.Join(c.List(t.Context(), &claims), c.List(t.Context(), &volumes)); err != nil {
		t.Fatal(err)
	}
	var left []string
	for i := range claims.Items {
		left = append(left, claims.Items[i].Name)
	}
	for i := range volumes.Items {
		left = append(left, volumes.Items[i].Name)
	}
	if got := strings.Join(left, " "); got != "anew reserved reused theirs theirs" {
		t.Errorf("left: %s", got)
	}
}
