package gatewaypod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// TestLabelsAloneMakeNoGateway: a pod with the labels of a gateway counts as one only in the namespace of that gateway, for its peer, and with its owner.
func TestLabelsAloneMakeNoGateway(t *testing.T) {
	connections := []networkingv1beta1.Connection{{ObjectMeta: metav1.ObjectMeta{
		Namespace: "liqo-tenant-milan", Name: "gw-milan", Labels: map[string]string{api.LabelRemoteClusterID: "milan"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "GatewayServer", Name: "milan", UID: "gateway", Controller: new(true)}},
	}}}
	for name, row := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"a pod of the gateway": {func(*corev1.Pod) {}, "milan"},
		"the Deployment": {func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "GatewayServer", Name: "milan", UID: "gateway", Controller: new(true)}}
		}, "milan"},
		"another namespace": {func(p *corev1.Pod) { p.Namespace = "team" }, ""},
		"another peer":      {func(p *corev1.Pod) { p.Labels[api.LabelRemoteClusterID] = "naples" }, ""},
		"no peer":           {func(p *corev1.Pod) { delete(p.Labels, api.LabelRemoteClusterID) }, ""},
		"another gateway":   {func(p *corev1.Pod) { p.Labels[networkingv1beta1.LabelGatewayName] = "second" }, ""},
		"no gateway":        {func(p *corev1.Pod) { delete(p.Labels, networkingv1beta1.LabelGatewayName) }, ""},
		"another component": {func(p *corev1.Pod) { delete(p.Labels, networkingv1beta1.LabelComponent) }, ""},
		"no owner":          {func(p *corev1.Pod) { p.OwnerReferences = nil }, ""},
		"another owner":     {func(p *corev1.Pod) { p.OwnerReferences[0].Name = "web-5d4f" }, ""},
		"another kind":      {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" }, ""},
		"no controller":     {func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, ""},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "liqo-tenant-milan", Name: "gw-milan-5d4f-x", Labels: map[string]string{
				networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway, networkingv1beta1.LabelGatewayName: "milan", api.LabelRemoteClusterID: "milan",
			},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "gw-milan-5d4f", UID: "set", Controller: new(true)}},
		}}
		row.change(pod)
		if got := PeerOfGateway(pod, connections); got != row.want {
			t.Errorf("%s: the gateway of %q, want %q", name, got, row.want)
		}
	}
}
