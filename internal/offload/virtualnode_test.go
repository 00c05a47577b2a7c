package offload

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func granted() *authv1beta1.ResourceSlice {
	return &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", Annotations: map[string]string{"liqo.io/create-virtual-node": "true"}},
		Spec:       authv1beta1.ResourceSliceSpec{ProviderClusterID: "milan"},
		Status: authv1beta1.ResourceSliceStatus{
			Conditions: []authv1beta1.ResourceSliceCondition{
				{Type: authv1beta1.ResourceSliceAuthentication, Status: authv1beta1.ResourceSliceAccepted},
				{Type: authv1beta1.ResourceSliceResources, Status: authv1beta1.ResourceSliceAccepted},
			},
			Resources:      corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
			StorageClasses: []authv1beta1.StorageType{{StorageClassName: "ssd", Default: true}},
			NodeLabels:     map[string]string{"region": "north"}, NodeSelector: map[string]string{"pool": "guests"},
		},
	}
}

func TestGrants(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*authv1beta1.ResourceSlice)
		want   bool
	}{
		"all accepted":       {func(*authv1beta1.ResourceSlice) {}, true},
		"not asked for":      {func(s *authv1beta1.ResourceSlice) { s.Annotations = nil }, false},
		"resources denied":   {func(s *authv1beta1.ResourceSlice) { s.Status.Conditions[1].Status = authv1beta1.ResourceSliceDenied }, false},
		"resources pending":  {func(s *authv1beta1.ResourceSlice) { s.Status.Conditions = s.Status.Conditions[:1] }, false},
		"identity not given": {func(s *authv1beta1.ResourceSlice) { s.Status.Conditions = s.Status.Conditions[1:] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			slice := granted()
			c.change(slice)
			if got := Grants(slice); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestFill(t *testing.T) {
	yes := true
	node := &offloadingv1beta1.VirtualNode{Spec: offloadingv1beta1.VirtualNodeSpec{CreateNode: &yes, Labels: map[string]string{"mine": "stays"}}}
	slice := granted()
	slice.Status.InterruptedNodes = []authv1beta1.InterruptedNode{{Name: "gpu-1", Cause: "is not ready"}}
	Fill(node, slice, "kubeconfig-resourceslice-milan")
	want := offloadingv1beta1.VirtualNodeSpec{
		ClusterID: "milan", CreateNode: &yes, KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig-resourceslice-milan"},
		Labels:           map[string]string{"mine": "stays", "region": "north"},
		ResourceQuota:    corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}},
		StorageClasses:   []authv1beta1.StorageType{{StorageClassName: "ssd", Default: true}},
		OffloadingPatch:  &offloadingv1beta1.OffloadingPatch{NodeSelector: map[string]string{"pool": "guests"}},
		InterruptedNodes: []authv1beta1.InterruptedNode{{Name: "gpu-1", Cause: "is not ready"}},
	}
	if diff := cmp.Diff(want, node.Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if node.Labels["liqo.io/remote-cluster-id"] != "milan" || node.Labels["liqo.io/resourceslice-name"] != "milan" {
		t.Errorf("labels %v", node.Labels)
	}
	slice.Status.Resources[corev1.ResourceCPU], slice.Status.InterruptedNodes = resource.MustParse("8"), nil
	Fill(node, slice, "kubeconfig-resourceslice-milan")
	if got := node.Spec.ResourceQuota.Hard[corev1.ResourceCPU]; got.Value() != 8 || node.Spec.InterruptedNodes != nil {
		t.Errorf("the capacity does not follow: %s", got.String())
	}
}

func TestLabelsOfProviders(t *testing.T) {
	node := &offloadingv1beta1.VirtualNode{Spec: offloadingv1beta1.VirtualNodeSpec{Labels: map[string]string{"mine": "stays"}}}
	slice := granted()
	for _, c := range []struct{ granted, want map[string]string }{
		{map[string]string{"region": "north", "tier": "gold"}, map[string]string{"mine": "stays", "region": "north", "tier": "gold"}},
		{map[string]string{"region": "south"}, map[string]string{"mine": "stays", "region": "south"}},
		{map[string]string{"region": "south"}, map[string]string{"mine": "stays", "region": "south"}},
		{map[string]string{
			"no label": "x", "bad-value": "a b", "node-role.kubernetes.io/control-plane": "", "node-restriction.kubernetes.io/x": "y",
			"topology.kubernetes.io/region": "eu",
		}, map[string]string{"mine": "stays", "topology.kubernetes.io/region": "eu"}},
		{nil, map[string]string{"mine": "stays"}},
	} {
		slice.Status.NodeLabels = c.granted
		Fill(node, slice, "kubeconfig-resourceslice-milan")
		if diff := cmp.Diff(c.want, node.Spec.Labels); diff != "" {
			t.Errorf("granted %v (-want +got):\n%s", c.granted, diff)
		}
	}
}

// TestProvidersNeverOverrideAdministrators: a label that the administrator set on a VirtualNode stays, whatever the provider grants afterwards.
func TestProvidersNeverOverrideAdministrators(t *testing.T) {
	node := &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"trust": "low"}},
		Spec:       offloadingv1beta1.VirtualNodeSpec{Labels: map[string]string{"region": "mine"}},
	}
	slice := granted()
	fill := func(granted, want map[string]string) {
		t.Helper()
		slice.Status.NodeLabels = granted
		Fill(node, slice, "kubeconfig-resourceslice-milan")
		if diff := cmp.Diff(want, node.Spec.Labels); diff != "" {
			t.Errorf("granted %v (-want +got):\n%s", granted, diff)
		}
		if got := NodeLabels(node)["trust"]; got != "low" {
			t.Errorf("granted %v: trust became %s", granted, got)
		}
	}
	fill(map[string]string{"region": "theirs", "trust": "high", "tier": "gold"}, map[string]string{"region": "mine", "tier": "gold"})
	node.Spec.Labels["tier"] = "iron"
	fill(map[string]string{"region": "theirs", "trust": "high", "tier": "gold"}, map[string]string{"region": "mine", "tier": "iron"})
	fill(map[string]string{"tier": "silver"}, map[string]string{"region": "mine", "tier": "iron"})
	fill(nil, map[string]string{"region": "mine", "tier": "iron"})
	// A label on the VirtualNode overrides a granted label at once, not only after the next Fill.
	fill(map[string]string{"arch": "amd64"}, map[string]string{"region": "mine", "tier": "iron", "arch": "amd64"})
	node.Labels["arch"] = "arm64"
	if got := NodeLabels(node)["arch"]; got != "arm64" {
		t.Errorf("the architecture that the administrator set became %s", got)
	}
	delete(node.Labels, "arch")
	if got := NodeLabels(node)["arch"]; got != "amd64" {
		t.Errorf("the architecture that the provider granted became %s", got)
	}
	fill(nil, map[string]string{"region": "mine", "tier": "iron"})
	// A VirtualNode of an earlier version lists the keys only.
	node.Annotations[annotationGrantedLabels], node.Spec.Labels["zone"] = "zone", "a"
	fill(map[string]string{"zone": "b"}, map[string]string{"region": "mine", "tier": "iron", "zone": "b"})
}

func TestSetCondition(t *testing.T) {
	node := &offloadingv1beta1.VirtualNode{}
	set := func(s offloadingv1beta1.VirtualNodeConditionStatus, message string, now metav1.Time) offloadingv1beta1.VirtualNodeCondition {
		SetCondition(node, offloadingv1beta1.VirtualNodeVirtualKubelet, offloadingv1beta1.VirtualNodeNone, "Other", "", midnight)
		SetCondition(node, offloadingv1beta1.VirtualNodeNode, s, "Reason", message, now)
		if len(node.Status.Conditions) != 2 {
			t.Fatalf("conditions %+v", node.Status.Conditions)
		}
		return node.Status.Conditions[1]
	}
	if c := set(offloadingv1beta1.VirtualNodeCreating, "a", midnight); c.LastTransitionTime != midnight {
		t.Errorf("%+v", c)
	}
	if c := set(offloadingv1beta1.VirtualNodeCreating, "b", noon); c.LastTransitionTime != midnight || c.Message != "b" {
		t.Errorf("same status: the time stays, the message does not: %+v", c)
	}
	if c := set(offloadingv1beta1.VirtualNodeRunning, "b", noon); c.LastTransitionTime != noon {
		t.Errorf("%+v", c)
	}
}

func TestDrainLimit(t *testing.T) {
	grace := func(seconds int64) corev1.Pod {
		return corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &seconds}}
	}
	for name, c := range map[string]struct {
		pods        []corev1.Pod
		unreachable bool
		want        time.Duration
	}{
		"default grace": {[]corev1.Pod{{}, grace(5)}, false, time.Minute},
		"longest":       {[]corev1.Pod{grace(600), grace(5)}, false, 630 * time.Second},
		"unreachable":   {[]corev1.Pod{grace(600)}, true, 10 * time.Second},
	} {
		if got := DrainLimit(c.pods, c.unreachable); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestUnreachable(t *testing.T) {
	status := func(s corev1beta1.ConditionStatus) *corev1beta1.ForeignCluster {
		return &corev1beta1.ForeignCluster{Status: corev1beta1.ForeignClusterStatus{Conditions: []corev1beta1.Condition{{Type: corev1beta1.APIServerStatus, Status: s}}}}
	}
	lost := status(corev1beta1.StatusEstablished)
	lost.Annotations = map[string]string{"liqo.io/foreign-cluster-permanently-unreachable": "true"}
	for name, c := range map[string]struct {
		fc   *corev1beta1.ForeignCluster
		want bool
	}{
		"nothing known": {&corev1beta1.ForeignCluster{}, false}, "answers": {status(corev1beta1.StatusEstablished), false},
		"does not answer": {status(corev1beta1.StatusError), true}, "declared lost": {lost, true},
	} {
		if got := Unreachable(c.fc); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestNamesake(t *testing.T) {
	at := func(namespace, name string, second int64) offloadingv1beta1.VirtualNode {
		return offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, CreationTimestamp: metav1.Unix(second, 0),
		}}
	}
	nodes := []offloadingv1beta1.VirtualNode{at("b", "pool", 1), at("a", "pool", 2), at("c", "pool", 1), at("a", "other", 0)}
	for i, want := range []*offloadingv1beta1.VirtualNode{nil, &nodes[0], &nodes[0], nil} {
		if got := Namesake(nodes, &nodes[i]); got != want {
			t.Errorf("%s/%s: got %v, want %v", nodes[i].Namespace, nodes[i].Name, got, want)
		}
	}
}

// TestInterruptedNodesOfProvidersAreBounded: whatever a provider reports, the number of nodes and the length of their texts are limited.
func TestInterruptedNodesOfProvidersAreBounded(t *testing.T) {
	slice := granted()
	for range 1000 {
		slice.Status.InterruptedNodes = append(slice.Status.InterruptedNodes, authv1beta1.InterruptedNode{
			Name: "\x1b[2Jgpu" + strings.Repeat("n", 10000), Cause: "\u202e" + strings.Repeat("c", 10000),
		})
	}
	node := &offloadingv1beta1.VirtualNode{}
	Fill(node, slice, "kubeconfig")
	if len(node.Spec.InterruptedNodes) != authv1beta1.MaxInterruptedNodes {
		t.Errorf("%d nodes", len(node.Spec.InterruptedNodes))
	}
	for _, n := range node.Spec.InterruptedNodes {
		if len(n.Name) > 253 || len(n.Cause) > 253 || strings.ContainsAny(n.Name+n.Cause, "\x1b\u202e") {
			t.Fatalf("%.300q, %.300q", n.Name, n.Cause)
		}
	}
	if len(slice.Status.InterruptedNodes[0].Name) < 10000 {
		t.Error("the ResourceSlice of the cache was changed")
	}
}
