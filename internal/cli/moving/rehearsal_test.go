package moving

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/storage/move"
	"liqo.io/liqo/test/apitest"
	"liqo.io/liqo/test/clitest"
)

// TestMoveVolumeIsRehearsedOnAPIServer: the API server refuses the pods of a move where Pod Security, a ResourceQuota or a LimitRange does, in the namespace of
// the claim or in the storage namespace. Each refusal has a cure, and none is left where level baseline is enforced.
func TestMoveVolumeIsRehearsedOnAPIServer(t *testing.T) {
	t.Parallel()
	config := apitest.APIServer(t)
	c, err := client.NewWithWatch(config, client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	namespace := func(name, level string) {
		labels := map[string]string{"pod-security.kubernetes.io/enforce": level}
		if level == "restricted" {
			labels["pod-security.kubernetes.io/enforce-version"] = "v1.30"
		}
		clitest.Create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	one := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	maximum := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	for name, level := range map[string]string{"base": "baseline", "strict": "restricted", "full": "baseline", "small": "baseline", "store-base": "baseline", "store-strict": "restricted"} {
		namespace(name, level)
	}
	clitest.Create(t, c,
		&corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: "full", Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: one},
		},
		&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "small", Name: "l"}, Spec: corev1.LimitRangeSpec{
			Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypePersistentVolumeClaim, Max: maximum}},
		}},
	)
	// No controller runs that counts what is used.
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "full", Name: "q"}}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil {
		t.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: one, Used: one}
	if err := c.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		home, store string
		want        []string
	}{
		{"base", "store-base", nil},
		{"strict", "store-base", []string{"Pod liqo-move-u1-store in namespace strict, Pod liqo-move-u1-receiver in namespace strict: violates PodSecurity", "enforce=baseline"}},
		{"base", "store-strict", []string{"Pod liqo-move-u1-sender in namespace store-strict: violates PodSecurity", "label --overwrite namespace store-strict"}},
		{"full", "store-base", []string{"Pod liqo-move-u1-store in namespace full", "exceeded quota: q", "ResourceQuota"}},
		{"small", "store-base", []string{"PersistentVolumeClaim liqo-move-u1 in namespace small: maximum storage usage per PersistentVolumeClaim is 1Gi", "LimitRange"}},
	} {
		state := movable(row.home, row.store)
		v := &volumeMove{Cluster: &session.Cluster{WithWatch: c}, request: &state.Request}
		for name, list := range map[string]client.ObjectList{"Pods": &corev1.PodList{}, "claims": &corev1.PersistentVolumeClaimList{}} {
			if state.Refusals, err = v.rehearse(t.Context(), state); err != nil {
				t.Fatal(err)
			}
			if err := c.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			if objects, err := kube.Items(list); err != nil || len(objects) > 0 {
				t.Errorf("%s exist after the dry run: %v, %v", name, objects, err)
			}
		}
		step := move.Next(*state)
		if len(row.want) == 0 && (step.Err != nil || len(state.Refusals) > 0) {
			t.Errorf("%s, %s: %v, %v", row.home, row.store, step.Err, state.Refusals)
		}
		for _, part := range row.want {
			if step.Err == nil || !strings.Contains(step.Err.Error(), part) || step.Action != move.Nothing {
				t.Errorf("%s, %s: no %q in %v", row.home, row.store, part, step.Err)
			}
		}
	}
}

// movable returns the state of a claim in a namespace whose data is in this cluster, and a request to move it to milan.
func movable(home, store string) *move.State {
	class := "liqo"
	volume := clitest.VolumeOf("u1", home, "data", "").DeepCopyObject().(*corev1.PersistentVolume)
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	return &move.State{
		Request: move.Request{Namespace: home, Name: "data", Node: "milan", Image: "volume-mover", StorageNamespace: store},
		Claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "data", UID: "u1"}, Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, VolumeName: "pvc-u1", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: volume.Spec.Capacity},
		}},
		Home:    &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}},
		Volumes: []corev1.PersistentVolume{*volume},
		Nodes: []corev1.Node{
			{ObjectMeta: metav1.ObjectMeta{Name: "rome-1"}, Status: ready},
			{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{api.LabelType: api.TypeVirtualNode, api.LabelRemoteClusterID: "milan"}}, Status: ready},
		},
	}
}
