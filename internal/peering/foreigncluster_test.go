package peering

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// picture writes a status the way an operator would read it.
func picture(s *corev1beta1.ForeignClusterStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s auth=%t offloading=%t networking=%t %s/%s %s\n", s.Role, s.Modules.Authentication.Enabled, s.Modules.Offloading.Enabled,
		s.Modules.Networking.Enabled, s.TenantNamespace.Local, s.TenantNamespace.Remote, s.APIServerURL)
	for _, list := range [][]corev1beta1.Condition{s.Conditions, s.Modules.Authentication.Conditions, s.Modules.Offloading.Conditions} {
		for _, c := range list {
			fmt.Fprintf(&b, "%s=%s (%s: %s)\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return b.String()
}

func TestForeignClusters(t *testing.T) {
	tenant := &authv1beta1.Tenant{Status: authv1beta1.TenantStatus{TenantNamespace: "tns", AuthParams: &authv1beta1.AuthParams{}}}
	identity := &authv1beta1.Identity{
		Spec: authv1beta1.IdentitySpec{Namespace: "there", AuthParams: authv1beta1.AuthParams{APIServer: "https://milan"}},
	}
	ready := identity.DeepCopy()
	ready.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "s"}
	node := func(name string, status offloadingv1beta1.VirtualNodeConditionStatus) offloadingv1beta1.VirtualNode {
		return offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: offloadingv1beta1.VirtualNodeStatus{
			Conditions: []offloadingv1beta1.VirtualNodeCondition{{Type: "VirtualKubelet", Status: status}, {Type: "Node", Status: status}},
		}}
	}
	no := false
	without := node("c", "Running")
	without.Spec.CreateNode = &no
	without.Status.Conditions[1].Status = "None"
	kubernetes := func(name string, status corev1.ConditionStatus) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}},
		}}
	}
	for name, c := range map[string]struct {
		facts Facts
		want  string
	}{
		"a former peer":    {Facts{}, "Unknown auth=false offloading=false networking=false / \n"},
		"only a namespace": {Facts{TenantNamespace: "here"}, "Unknown auth=false offloading=false networking=false here/ \n"},
		"a consumer": {Facts{TenantNamespace: "here", Tenant: tenant},
			"Consumer auth=true offloading=false networking=false here/ \nAuthTenantStatus=Ready (TenantReady: 1 of 1 ready)\n"},
		"a consumer that is not admitted yet": {Facts{Tenant: &authv1beta1.Tenant{}},
			"Consumer auth=true offloading=false networking=false / \nAuthTenantStatus=NotReady (TenantNotReady: 0 of 1 ready)\n"},
		"a provider": {Facts{Identity: ready, APIServer: &Probe{Up: true}},
			"Provider auth=true offloading=false networking=false /there https://milan\n" +
				"APIServerStatus=Established (APIServerReady: the remote API server is ready)\n" +
				"AuthIdentityControlPlaneStatus=Ready (IdentityReady: 1 of 1 ready)\n"},
		"a provider that is down": {Facts{Identity: identity, APIServer: &Probe{Message: "refused"}},
			"Provider auth=true offloading=false networking=false /there https://milan\n" +
				"APIServerStatus=Error (APIServerNotReady: refused)\n" +
				"AuthIdentityControlPlaneStatus=NotReady (IdentityNotReady: 0 of 1 ready)\n"},
		"virtual nodes, some of them ready": {Facts{
			VirtualNodes: []offloadingv1beta1.VirtualNode{node("a", "Running"), node("b", "Creating"), without},
			Nodes:        []corev1.Node{kubernetes("a", "True"), kubernetes("b", "False"), kubernetes("stranger", "True")},
		}, "Provider auth=false offloading=true networking=false / \n" +
			"OffloadingVirtualNodeStatus=SomeNotReady (VirtualNodesSomeNotReady: 2 of 3 ready)\n" +
			"OffloadingNodeStatus=SomeNotReady (NodesSomeNotReady: 1 of 2 ready)\n"},
		"in both directions": {Facts{Tenant: tenant, Identity: ready},
			"ConsumerAndProvider auth=true offloading=false networking=false /there https://milan\n" +
				"AuthTenantStatus=Ready (TenantReady: 1 of 1 ready)\n" +
				"AuthIdentityControlPlaneStatus=Ready (IdentityReady: 1 of 1 ready)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := CompileForeignCluster(&c.facts, &corev1beta1.ForeignClusterStatus{}, 3, at(0))
			if diff := cmp.Diff(c.want, picture(&got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// Law: the same facts later are the same picture, times included.
			later := CompileForeignCluster(&c.facts, &got, 3, at(time.Hour))
			if diff := cmp.Diff(got, later); diff != "" {
				t.Errorf("an hour later (-before +after):\n%s", diff)
			}
		})
	}
}

func TestTransitionTimesFollowTheStatus(t *testing.T) {
	facts := Facts{Identity: &authv1beta1.Identity{}, APIServer: &Probe{Up: true}}
	first := CompileForeignCluster(&facts, &corev1beta1.ForeignClusterStatus{}, 1, at(0))
	facts.APIServer = &Probe{Message: "refused"}
	second := CompileForeignCluster(&facts, &first, 1, at(time.Hour))
	if !second.Conditions[0].LastTransitionTime.Equal(new(at(time.Hour))) {
		t.Errorf("went down at %s, it says %s", at(time.Hour), second.Conditions[0].LastTransitionTime)
	}
	if got := second.Modules.Authentication.Conditions[0].LastTransitionTime; !got.Equal(new(at(0))) {
		t.Errorf("what did not change is from %s now", got)
	}
}
