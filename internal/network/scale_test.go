package network

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// large is a cluster with 500 nodes, 10,000 pods and 100 peers.
func large(t testing.TB) Objects {
	o := objects(t)
	t.Helper()
	o.Networks[0].Status.CIDR = "10.0.0.0/10"
	o.Pods = nil
	for i := range 500 {
		n := *o.Nodes[0].DeepCopy()
		n.Name, n.Spec.PodCIDRs = fmt.Sprint("node-", i), []string{fmt.Sprintf("10.%d.%d.0/24", i/250, i%250)}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("172.20.%d.%d", i/250, i%250+1)}}
		o.Nodes = append(o.Nodes, n)
	}
	for i := range 10000 {
		node := i % 500
		o.Pods = append(o.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: fmt.Sprint("pod-", i), Labels: map[string]string{"app": "x"}},
			Spec: corev1.PodSpec{NodeName: fmt.Sprint("node-", node)}, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.%d.%d.%d", node/250, node%250, i/500+2)}})
	}
	for i := range 100 {
		id := fmt.Sprint("peer-", i)
		meta := metav1.ObjectMeta{Namespace: "liqo-tenant-" + id, Name: id, Labels: map[string]string{api.LabelRemoteClusterID: id}}
		c := *o.Configurations[0].DeepCopy()
		c.ObjectMeta = meta
		c.Status.Remote.CIDR = networkingv1beta1.CIDRs{Pod: []string{fmt.Sprintf("10.%d.0.0/16", 100+i)}, External: []string{fmt.Sprintf("100.%d.0.0/16", 64+i)}}
		o.Configurations = append(o.Configurations, c)
		o.GatewayServers = append(o.GatewayServers, networkingv1beta1.GatewayServer{ObjectMeta: meta})
		pod := gatewayPod("gw-"+id, fmt.Sprintf("10.2.0.%d", i+1), fmt.Sprint("node-", i))
		pod.Namespace, pod.Labels[networkingv1beta1.LabelGatewayName] = meta.Namespace, id
		o.Pods = append(o.Pods, pod)
	}
	return o
}

// BenchmarkPlans measures what an agent in a large cluster computes at every change.
func BenchmarkPlans(b *testing.B) {
	o := large(b)
	var f Facts
	b.Run("gather", func(b *testing.B) {
		for b.Loop() {
			f, _ = Gather(&o)
		}
	})
	if len(f.Peers) < 100 {
		b.Fatalf("%d peers", len(f.Peers))
	}
	active := FirstChoice(&f)
	b.Run("node", func(b *testing.B) {
		for b.Loop() {
			CompileNode(&f, Host{Name: "node-7", MTU: 1500}, active)
		}
	})
	b.Run("gateway", func(b *testing.B) {
		for b.Loop() {
			CompileGateway(&f, Self{ClusterID: "peer-7", IP: f.Peers[7].Candidates[0].IP, Node: "node-7", MTU: 1450}, Tunnel{}, active)
		}
	})
}
