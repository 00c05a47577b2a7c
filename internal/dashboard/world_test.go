package dashboard

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/doctor"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// get decodes a document, and fails the test if it does not exist.
func get[T any](t *testing.T, documents Documents, key string) T {
	t.Helper()
	var out T
	data, there := documents[key]
	if !there {
		t.Fatalf("there is no document %s", key)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func peerOf(id string, outgoing, incoming, networking corev1beta1.Phase) corev1beta1.ForeignCluster {
	return corev1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: id},
		Status: corev1beta1.ForeignClusterStatus{
			Role:            corev1beta1.RoleProvider,
			TenantNamespace: corev1beta1.TenantNamespaces{Local: "liqo-tenant-" + id},
			Peering: corev1beta1.Summary{
				Type: corev1beta1.OutOfBand, Outgoing: outgoing, Incoming: incoming, Networking: networking, Authentication: corev1beta1.PhaseEstablished,
			},
		},
	}
}

func connectionTo(id, state, latency string) networkingv1beta1.Connection {
	out := networkingv1beta1.Connection{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-" + id, Name: "gw-" + id, Labels: map[string]string{api.LabelRemoteClusterID: id}},
		Status: networkingv1beta1.ConnectionStatus{
			Value: state, MTU: 1450, Conditions: []metav1.Condition{{Type: "Connected", Message: "cluster " + id + " says " + state}},
		},
	}
	if latency != "" {
		out.Status.Latency = &networkingv1beta1.ConnectionLatency{Value: latency, Timestamp: metav1.NewTime(now)}
	}
	return out
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func nodeNamed(name, cpu, memory string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{
			Allocatable: resources(cpu, memory), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func virtualNode(name, provider, cpu, memory string) corev1.Node {
	out := nodeNamed(name, cpu, memory)
	out.Labels = map[string]string{api.LabelType: api.TypeVirtualNode, api.LabelRemoteClusterID: provider}
	return out
}

func podOn(namespace, name, node, cpu, memory string) corev1.Pod {
	out := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: resources(cpu, memory)},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if node != "" {
		out.Status.Phase = corev1.PodRunning
		out.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return out
}

// peered returns the state of rome, which uses milan. Namespace demo is offloaded, with a pod in each cluster and one that is not bound to a node.
func peered() *State {
	rome := Cluster{
		ID: "rome", Version: "v1", Server: "https://rome", Namespace: "liqo", Complete: true,
		Peers:       []corev1beta1.ForeignCluster{peerOf("milan", corev1beta1.PhaseEstablished, corev1beta1.PhaseNone, corev1beta1.PhaseEstablished)},
		Connections: []networkingv1beta1.Connection{connectionTo("milan", networkingv1beta1.Connected, "1.5ms")},
		VirtualNodes: []offloadingv1beta1.VirtualNode{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}, Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan"},
		}},
		Offloadings: []offloadingv1beta1.NamespaceOffloading{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: offloadingv1beta1.NamespaceOffloadingName},
			Spec:       offloadingv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: offloadingv1beta1.PodsLocalAndRemote},
			Status:     offloadingv1beta1.NamespaceOffloadingStatus{OffloadingPhase: offloadingv1beta1.PhaseReady},
		}},
		Maps: []offloadingv1beta1.NamespaceMap{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Labels: map[string]string{api.LabelRemoteID: "milan"}},
			Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"demo": "demo-rome"}},
		}},
		Nodes: []corev1.Node{nodeNamed("r1", "4", "8Gi"), virtualNode("milan", "milan", "6", "12Gi")},
		Pods: []corev1.Pod{
			podOn("demo", "home", "r1", "1", "1Gi"), podOn("demo", "away", "milan", "2", "1Gi"), podOn("demo", "waiting", "", "1", "1Gi"),
			podOn("other", "unrelated", "r1", "1", "1Gi"),
		},
		Events: []corev1.Event{
			event("demo", "a", "Pod", "away", 10), event("elsewhere", "b", "Pod", "unrelated", 20), event("default", "c", "Node", "milan", 30),
		},
	}
	milan := Cluster{
		ID: "milan", Version: "v1", Server: "https://milan", Namespace: "liqo", Complete: true,
		Peers:       []corev1beta1.ForeignCluster{peerOf("rome", corev1beta1.PhaseNone, corev1beta1.PhaseEstablished, corev1beta1.PhaseEstablished)},
		Connections: []networkingv1beta1.Connection{connectionTo("rome", networkingv1beta1.Connected, "2ms")},
		Nodes:       []corev1.Node{nodeNamed("m1", "4", "32Gi"), nodeNamed("m2", "4", "32Gi")},
		Pods:        []corev1.Pod{podOn("demo-rome", "away", "m1", "2", "1Gi"), podOn("own", "busy", "m2", "3", "4Gi")},
	}
	return &State{
		Now: now, Clusters: []Cluster{rome, milan}, Diagnosed: true,
		Findings: []doctor.Finding{{Cluster: "rome", Check: "tenants", Level: doctor.Warn, Evidence: "cordoned", Cure: "uncordon"}},
		History:  map[Tunnel]History{{Cluster: "rome", Peer: "milan"}: {Sent: Series{{now.Unix(), 100}}, Received: Series{{now.Unix(), 7}}}},
	}
}

func event(namespace, name, kind, object string, second int) corev1.Event {
	out := corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Name: object, Namespace: namespace},
		Type:           corev1.EventTypeNormal, Reason: "Something", Message: "happened",
		LastTimestamp: metav1.NewTime(now.Add(time.Duration(second) * time.Second)),
	}
	if kind == "Node" {
		out.InvolvedObject.Namespace = ""
	}
	return out
}
