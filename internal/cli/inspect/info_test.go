package inspect

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/test/clitest/fakecluster"
)

func TestLookUp(t *testing.T) {
	data := map[string]any{
		"local": map[string]any{"clusterID": "rome", "labels": map[string]any{"liqo.io/provider": "kind"}},
		"peers": []any{map[string]any{"clusterID": "milan"}},
	}
	for path, want := range map[string]any{
		"local.clusterID": "rome", "LOCAL.clusterid": "rome", "local.labels.liqo.io/provider": "kind", "peers.0.clusterID": "milan",
	} {
		if got, err := lookUp(data, path); err != nil || got != want {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	for _, path := range []string{"remote", "local.name", "peers.1", "peers.x", "peers.0x", "local.clusterID.more"} {
		if got, err := lookUp(data, path); err == nil {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestStatusOf(t *testing.T) {
	condition := func(status corev1beta1.ConditionStatus) []corev1beta1.Condition {
		return []corev1beta1.Condition{{Type: corev1beta1.AuthTenantStatus, Status: status, Message: "because"}}
	}
	for _, test := range []struct {
		module corev1beta1.Module
		want   ModuleStatus
		alerts []string
	}{
		{corev1beta1.Module{}, ModuleDisabled, nil},
		{corev1beta1.Module{Enabled: true}, ModuleHealthy, nil},
		{corev1beta1.Module{Enabled: true, Conditions: condition(corev1beta1.StatusReady)}, ModuleHealthy, nil},
		{corev1beta1.Module{Enabled: true, Conditions: condition(corev1beta1.StatusNotReady)}, ModuleUnhealthy, []string{"AuthTenantStatus is NotReady: because"}},
	} {
		status, alerts := StatusOf(test.module)
		if diff := cmp.Diff(test.alerts, alerts); diff != "" || status != test.want {
			t.Errorf("%+v: %s %s", test.module, status, diff)
		}
	}
}

// TestSumOfSlices: several ResourceSlices of one direction share the granted resources, so their sum is what a cluster gets. For one ResourceSlice
// there is no sum.
func TestSumOfSlices(t *testing.T) {
	slice := func(action string, accepted bool, cpu string) sliceInfo {
		return sliceInfo{Action: action, Accepted: accepted, Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	all := []sliceInfo{slice(consuming, true, "1500m"), slice(consuming, true, "2"), slice(consuming, false, "9"), slice(providing, true, "4")}
	for action, want := range map[string]corev1.ResourceList{consuming: {corev1.ResourceCPU: resource.MustParse("3500m")}, providing: nil} {
		if diff := cmp.Diff(want, sumOf(all, action)); diff != "" {
			t.Errorf("%s: %s", action, diff)
		}
	}
	peer := &peerInfo{ClusterID: "milan"}
	peer.Authentication.ResourceSlices, peer.Authentication.Consuming = all, sumOf(all, consuming)
	var text bytes.Buffer
	if err := peer.write(console.New(&text, &text, false)); err != nil || !strings.Contains(text.String(), "All ResourceSlices together") || !strings.Contains(text.String(), "3500m") {
		t.Errorf("%v, shows\n%s", err, text.String())
	}
}

// TestRepeatedPeersCountOnce: a peer that occurs twice on the command line counts once, in the order of the command line.
func TestRepeatedPeersCountOnce(t *testing.T) {
	c := fakecluster.New("rome",
		&corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "milan"}},
		&corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "turin"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "turin"}})
	c.Namespace = "liqo"
	peers, err := gatherPeers(t.Context(), c, []string{"turin", "milan", "turin"})
	if ids := session.NamesOf(peers, func(p *peerInfo) string { return p.ClusterID }); err != nil || !slices.Equal(ids, []string{"turin", "milan"}) {
		t.Errorf("peers %v: %v", ids, err)
	}
}
