package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func TestClusters(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*State)
		key    string
		want   clusterDocument
	}{
		"the local one, with a warning": {
			key:  "cluster/rome",
			want: clusterDocument{ID: "rome", Local: true, Given: true, Version: "v1", Server: "https://rome", Health: Warning, Nodes: 1, Pods: 2},
		},
		"a peer whose kubeconfig was given": {
			key:  "cluster/milan",
			want: clusterDocument{ID: "milan", Given: true, Version: "v1", Server: "https://milan", Health: None, Nodes: 2, Pods: 2},
		},
		"one that does not respond": {
			change: func(s *State) { s.Clusters[1].Failure = "no route" },
			key:    "cluster/milan",
			want: clusterDocument{
				ID: "milan", Given: true, Version: "v1", Server: "https://milan", Message: "no route", Health: Bad, Nodes: 2, Pods: 2,
			},
		},
		"one that is being read": {
			change: func(s *State) { s.Clusters[1] = Cluster{ID: "milan", Server: "https://milan"} },
			key:    "cluster/milan",
			want:   clusterDocument{ID: "milan", Given: true, Reading: true, Server: "https://milan", Health: None},
		},
		"a peer without a kubeconfig": {
			change: func(s *State) {
				s.Clusters = s.Clusters[:1]
				s.Clusters[0].Peers[0].Status.APIServerURL = "https://192.0.2.1"
				s.Clusters[0].Peers[0].Status.Conditions = []corev1beta1.Condition{{Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusEstablished}}
			},
			key:  "cluster/milan",
			want: clusterDocument{ID: "milan", Server: "https://192.0.2.1", Health: Good},
		},
		"a peer that does not respond to the local cluster": {
			change: func(s *State) {
				s.Clusters = s.Clusters[:1]
				s.Clusters[0].Peers[0].Status.Conditions = []corev1beta1.Condition{{
					Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusError, Message: "timeout",
				}}
			},
			key:  "cluster/milan",
			want: clusterDocument{ID: "milan", Health: Bad, Message: "its API server does not respond to cluster rome: timeout"},
		},
		"a peer of which only the first cluster knows the address": {
			change: func(s *State) {
				for i := range s.Clusters {
					s.Clusters[i].Peers = append(s.Clusters[i].Peers, peerOf("naples", corev1beta1.PhaseNone, corev1beta1.PhaseNone, corev1beta1.PhaseNone))
				}
				s.Clusters[0].Peers[1].Status.APIServerURL = "https://192.0.2.9"
			},
			key:  "cluster/naples",
			want: clusterDocument{ID: "naples", Server: "https://192.0.2.9", Health: None},
		},
	} {
		state := peered()
		if row.change != nil {
			row.change(state)
		}
		if diff := cmp.Diff(row.want, get[clusterDocument](t, Compute(state), row.key)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPeerings(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*State)
		health Health
		uses   string
		tunnel string
	}{
		"both ends agree": {health: Good, uses: "rome>milan Established", tunnel: "Connected 1.5ms"},
		"only the consumer can be read": {
			change: func(s *State) { s.Clusters = s.Clusters[:1] },
			health: Good, uses: "rome>milan Established", tunnel: "Connected 1.5ms",
		},
		"only the provider can be read": {
			change: func(s *State) { s.Clusters = s.Clusters[1:] },
			health: Good, uses: "rome>milan Established", tunnel: "Connected 2ms",
		},
		"one end of the tunnel is broken": {
			change: func(s *State) { s.Clusters[1].Connections[0].Status.Value = networkingv1beta1.ConnectionError },
			health: Bad, uses: "rome>milan Established", tunnel: "Error",
		},
		"the gateway reports nothing any more": {
			change: func(s *State) { s.Clusters[0].Peers[0].Status.Peering.Networking = corev1beta1.PhaseError },
			health: Bad, uses: "rome>milan Established", tunnel: "Error",
		},
		"the worse phase of a direction counts": {
			change: func(s *State) { s.Clusters[0].Peers[0].Status.Peering.Outgoing = corev1beta1.PhaseError },
			health: Bad, uses: "rome>milan Error", tunnel: "Connected 1.5ms",
		},
		"both directions": {
			change: func(s *State) { s.Clusters[1].Peers[0].Status.Peering.Outgoing = corev1beta1.PhasePending },
			health: Warning, uses: "milan>rome Pending, rome>milan Established", tunnel: "Connected 1.5ms",
		},
		"the first end does not respond to liqoctl": {
			change: func(s *State) { s.Clusters[0].Failure = "no route" },
			health: Good, uses: "rome>milan Established", tunnel: "Connected 2ms",
		},
		"no network": {
			change: func(s *State) { s.Clusters[0].Connections, s.Clusters[1].Connections = nil, nil },
			health: Good, uses: "rome>milan Established",
		},
		"a tunnel that was never connected": {
			change: func(s *State) {
				s.Clusters[0].Connections[0].Status = networkingv1beta1.ConnectionStatus{}
				s.Clusters[1].Connections = nil
			},
			health: Warning, uses: "rome>milan Established", tunnel: "Connecting",
		},
	} {
		state := peered()
		if row.change != nil {
			row.change(state)
		}
		got := get[peeringDocument](t, Compute(state), "peering/milan/rome")
		var uses []string
		for _, use := range got.Uses {
			uses = append(uses, fmt.Sprintf("%s>%s %s", use.Consumer, use.Provider, use.Phase))
		}
		tunnel := ""
		if got.Tunnel != nil {
			tunnel = got.Tunnel.State
			if got.Tunnel.RoundTrip != nil {
				tunnel += " " + time.Duration(*got.Tunnel.RoundTrip*float64(time.Second)).String()
			}
		}
		if got.Health != row.health || strings.Join(uses, ", ") != row.uses || tunnel != row.tunnel {
			t.Errorf("%s: %s, uses %q, tunnel %q; want %s, %q, %q", name, got.Health, uses, tunnel, row.health, row.uses, row.tunnel)
		}
	}
}

// TestTrafficHasADirection: the traffic that one end sends is what the other end receives. The document has the direction from A to B, whichever end has
// measured it.
func TestTrafficHasADirection(t *testing.T) {
	tunnel := get[peeringDocument](t, Compute(peered()), "peering/milan/rome").Tunnel
	if *tunnel.Forth != 7 || *tunnel.Back != 100 { // from milan to rome, which rome has received; and back
		t.Errorf("forth %v, back %v, want 7 and 100", *tunnel.Forth, *tunnel.Back)
	}
	state := peered()
	state.History = map[Tunnel]History{{Cluster: "milan", Peer: "rome"}: {Sent: Series{{now.Unix(), 7}}, Received: Series{{now.Unix(), 100}}}}
	tunnel = get[peeringDocument](t, Compute(state), "peering/milan/rome").Tunnel
	if *tunnel.Forth != 7 || *tunnel.Back != 100 {
		t.Errorf("measured by milan: forth %v, back %v, want 7 and 100", *tunnel.Forth, *tunnel.Back)
	}
}

// TestOldTrafficIsNotCurrent: if there was no measurement for a while, or the last one failed, the page still shows the history but no current value.
// If the other end has current values, the page shows these.
func TestOldTrafficIsNotCurrent(t *testing.T) {
	measured := func(at time.Time, sent, received float64) History {
		return History{Sent: Series{{at.Unix(), sent}}, Received: Series{{at.Unix(), received}}}
	}
	failed := measured(now, 100, 7)
	failed.Unmeasured = "no route"
	rome, milan := Tunnel{Cluster: "rome", Peer: "milan"}, Tunnel{Cluster: "milan", Peer: "rome"}
	for name, row := range map[string]struct {
		history    map[Tunnel]History
		want       string
		unmeasured string
	}{
		"just measured":            {map[Tunnel]History{rome: measured(now, 100, 7)}, "7 100", ""},
		"at the end of its time":   {map[Tunnel]History{rome: measured(now.Add(-TrafficAge), 100, 7)}, "7 100", ""},
		"too old":                  {map[Tunnel]History{rome: measured(now.Add(-TrafficAge-time.Second), 100, 7)}, "", ""},
		"the last reading failed":  {map[Tunnel]History{rome: failed}, "", "no route"},
		"too old at the first end": {map[Tunnel]History{rome: measured(now.Add(-time.Hour), 100, 7), milan: measured(now, 8, 99)}, "8 99", ""},
		"failed at the first end":  {map[Tunnel]History{rome: failed, milan: measured(now, 8, 99)}, "8 99", ""},
		"failed at the other end":  {map[Tunnel]History{rome: measured(now, 100, 7), milan: failed}, "7 100", ""},
	} {
		state := peered()
		state.History = row.history
		tunnel := get[peeringDocument](t, Compute(state), "peering/milan/rome").Tunnel
		got := ""
		if tunnel.Forth != nil && tunnel.Back != nil {
			got = fmt.Sprint(*tunnel.Forth, " ", *tunnel.Back)
		}
		if got != row.want || tunnel.Unmeasured != row.unmeasured || len(tunnel.Forths) != 1 || len(tunnel.Backs) != 1 {
			t.Errorf("%s: %q, unmeasured %q, %d points, want %q, %q", name, got, tunnel.Unmeasured, len(tunnel.Forths), row.want, row.unmeasured)
		}
	}
}

// TestOnlyProblemsAreMessages: if a gateway no longer reports, its last good report is not shown as the message of the error.
func TestOnlyProblemsAreMessages(t *testing.T) {
	state := peered()
	state.Clusters[0].Peers[0].Status.Peering.Networking = corev1beta1.PhaseError
	state.Clusters[0].Connections[0].Status.Conditions = []metav1.Condition{
		{Type: "Connected", Status: metav1.ConditionTrue, Message: "cluster milan answers"},
		{Type: "Other", Status: metav1.ConditionFalse, Message: "is broken"},
	}
	tunnel := get[peeringDocument](t, Compute(state), "peering/milan/rome").Tunnel
	if diff := cmp.Diff([]string{"rome: is broken"}, tunnel.Messages); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFormerPeersAreNotShown: the ForeignCluster of a peering that has ended is not shown, although it exists for a while.
func TestFormerPeersAreNotShown(t *testing.T) {
	state := peered()
	state.Clusters = state.Clusters[:1]
	state.Clusters[0].Peers[0].Status = corev1beta1.ForeignClusterStatus{Role: corev1beta1.RoleUnknown, ObservedGeneration: 1}
	documents := Compute(state)
	for _, key := range []string{"cluster/milan", "peering/milan/rome"} {
		if _, there := documents[key]; there {
			t.Errorf("there is a document %s", key)
		}
	}
}

func TestVirtualNodes(t *testing.T) {
	const gi = 1 << 30
	cpu := func(granted, used, free float64, known bool) resourceDocument {
		return resourceDocument{Name: "cpu", Granted: granted, Requested: used, Free: free, Known: known}
	}
	for name, row := range map[string]struct {
		change func(*State)
		state  string
		health Health
		cpu    resourceDocument
		memory float64 // free memory
		pods   int
	}{
		"the provider has less than the grant leaves": {state: "Ready", health: Good, cpu: cpu(6, 2, 3, true), memory: 11 * gi, pods: 1},
		"the provider can not be read": {
			change: func(s *State) { s.Clusters = s.Clusters[:1] },
			state:  "Ready", health: Good, cpu: cpu(6, 2, 4, false), memory: 11 * gi, pods: 1,
		},
		"the provider does not respond": {
			change: func(s *State) { s.Clusters[1].Failure = "no route" },
			state:  "Ready", health: Good, cpu: cpu(6, 2, 4, false), memory: 11 * gi, pods: 1,
		},
		"pods that have finished use nothing": {
			change: func(s *State) { s.Clusters[0].Pods[1].Status.Phase = corev1.PodSucceeded },
			state:  "Ready", health: Good, cpu: cpu(6, 0, 3, true), memory: 12 * gi,
		},
		"not ready": {
			change: func(s *State) {
				s.Clusters[0].Nodes[1].Status.Conditions = []corev1.NodeCondition{{
					Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "ProviderUnreachable", Message: "no route",
				}}
			},
			state: "ProviderUnreachable", health: Bad, cpu: cpu(6, 2, 3, true), memory: 11 * gi, pods: 1,
		},
		"cordoned": {
			change: func(s *State) { s.Clusters[0].Nodes[1].Spec.Unschedulable = true },
			state:  "Cordoned", health: Warning, cpu: cpu(6, 2, 3, true), memory: 11 * gi, pods: 1,
		},
		"without a Node": {
			change: func(s *State) {
				s.Clusters[0].Nodes = s.Clusters[0].Nodes[:1]
				s.Clusters[0].VirtualNodes[0].Spec.ResourceQuota.Hard = resources("5", "1Gi")
				s.Clusters[0].VirtualNodes[0].Status.Conditions = []offloadingv1beta1.VirtualNodeCondition{{
					Type: offloadingv1beta1.VirtualNodeNode, Status: offloadingv1beta1.VirtualNodeCreating,
				}}
			},
			state: "Creating", health: Warning, cpu: cpu(5, 2, 3, true), memory: 0, pods: 1,
		},
	} {
		state := peered()
		if row.change != nil {
			row.change(state)
		}
		got := get[nodeDocument](t, Compute(state), "node/rome/milan")
		if got.State != row.state || got.Health != row.health || got.Pods != row.pods || got.Provider != "milan" {
			t.Errorf("%s: %s, %s, %d pods, provider %s; want %s, %s, %d", name, got.State, got.Health, got.Pods, got.Provider, row.state, row.health, row.pods)
		}
		if diff := cmp.Diff(row.cpu, got.Resources[0]); diff != "" {
			t.Errorf("%s: cpu (-want +got):\n%s", name, diff)
		}
		if got.Resources[1].Name != "memory" || got.Resources[1].Free != row.memory {
			t.Errorf("%s: %+v, want %v of memory free", name, got.Resources[1], row.memory)
		}
	}
}

func TestNamespaces(t *testing.T) {
	documents := Compute(peered())
	want := namespaceDocument{
		Cluster: "rome", Name: "demo", Strategy: offloadingv1beta1.PodsLocalAndRemote, Phase: "Ready", Health: Good,
		Places: []placeDocument{{Pods: 1}, {Cluster: "milan", Namespace: "demo-rome", Running: 1, Pods: 1}, {Cluster: "rome", Running: 1, Pods: 1}},
	}
	if diff := cmp.Diff(want, get[namespaceDocument](t, documents, "namespace/rome/demo")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for key, want := range map[string]podDocument{
		"pod/rome/demo/home":    {Cluster: "rome", Namespace: "demo", Name: "home", Place: "rome", Node: "r1", State: "Running", Health: Good},
		"pod/rome/demo/away":    {Cluster: "rome", Namespace: "demo", Name: "away", Place: "milan", Node: "milan", State: "Running", Health: Good},
		"pod/rome/demo/waiting": {Cluster: "rome", Namespace: "demo", Name: "waiting", State: "Pending", Health: Warning},
	} {
		if diff := cmp.Diff(want, get[podDocument](t, documents, key)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
	if _, there := documents["pod/rome/other/unrelated"]; there {
		t.Error("a pod of a namespace that is not offloaded is shown")
	}
}

// TestRemoteNamespaces: the page shows the pods of a consumer whose kubeconfig was not given, from the objects of the provider.
func TestRemoteNamespaces(t *testing.T) {
	state := peered()
	state.Clusters[1].Maps = []offloadingv1beta1.NamespaceMap{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan", Labels: map[string]string{
			api.LabelReplicated: api.True, api.LabelOriginID: "rome",
		}},
		Status: offloadingv1beta1.NamespaceMapStatus{CurrentMapping: map[string]offloadingv1beta1.RemoteNamespaceStatus{
			"demo": {RemoteNamespace: "demo-rome", Phase: offloadingv1beta1.MappingAccepted},
		}},
	}}
	if _, there := Compute(state)["namespace/milan/demo-rome"]; there {
		t.Error("the pods of a consumer that can be read are shown twice")
	}
	state.Clusters = state.Clusters[1:]
	want := namespaceDocument{
		Cluster: "milan", Name: "demo-rome", Consumer: "rome", Phase: "Accepted", Health: Good, Places: []placeDocument{{Cluster: "milan", Running: 1, Pods: 1}},
	}
	documents := Compute(state)
	if diff := cmp.Diff(want, get[namespaceDocument](t, documents, "namespace/milan/demo-rome")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, there := documents["pod/milan/demo-rome/away"]; !there {
		t.Error("the pod of the consumer is not shown")
	}
}

func TestPodStates(t *testing.T) {
	deleted := metav1.NewTime(now)
	for want, change := range map[string]func(*corev1.Pod){
		"Running ok":       func(*corev1.Pod) {},
		"Terminating warn": func(p *corev1.Pod) { p.DeletionTimestamp = &deleted },
		"Succeeded none":   func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"OffloadingAborted fail": func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason = corev1.PodFailed, offloadingv1beta1.PodOffloadingAborted
		},
		"ImagePullBackOff warn": func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
			}}}
		},
		"Unschedulable warn": func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			}}}
		},
	} {
		pod := podOn("demo", "a", "r1", "1", "1Gi")
		change(&pod)
		if got := podOf("rome", nil, &pod); got.State+" "+string(got.Health) != want {
			t.Errorf("%s %s, want %s", got.State, got.Health, want)
		}
	}
}

// TestEvents: the page shows only events about Liqo, and only the newest of them.
func TestEvents(t *testing.T) {
	documents := Compute(peered())
	for key, want := range map[string]bool{"event/rome/demo/a": true, "event/rome/elsewhere/b": false, "event/rome/default/c": true} {
		if _, there := documents[key]; there != want {
			t.Errorf("%s is shown: %t, want %t", key, there, want)
		}
	}
	state := peered()
	state.Clusters[0].Events = nil
	for i := range eventLimit + 5 {
		state.Clusters[0].Events = append(state.Clusters[0].Events, event("demo", fmt.Sprint(i), "Pod", "away", i))
	}
	documents = Compute(state)
	_, oldest := documents["event/rome/demo/4"]
	_, newest := documents[fmt.Sprintf("event/rome/demo/%d", eventLimit+4)]
	if oldest || !newest {
		t.Errorf("the oldest is shown: %t, the newest: %t", oldest, newest)
	}
	state.Clusters[0].Events[0].Type = corev1.EventTypeWarning
	if _, warning := Compute(state)["event/rome/demo/0"]; !warning {
		t.Errorf("a Warning is not shown, because %d newer Normal events are", eventLimit)
	}
}

// TestUsageIsNotRequests: requests and measured use are separate figures, and a use that is not measured is left out.
func TestUsageIsNotRequests(t *testing.T) {
	state := peered()
	state.Clusters[0].Usage = map[string]corev1.ResourceList{"milan": {corev1.ResourceCPU: resource.MustParse("250m")}}
	resources := get[nodeDocument](t, Compute(state), "node/rome/milan").Resources
	cpu, memory := resources[0], resources[1]
	if cpu.Requested != 2 || cpu.Used == nil || *cpu.Used != 0.25 || memory.Requested != 1<<30 || memory.Used != nil {
		t.Errorf("cpu %+v, memory %+v; want 2 cores requested and 0.25 used, 1 GiB requested and no figure of its use", cpu, memory)
	}
}

func TestSeriesKeepTheNewest(t *testing.T) {
	var series Series
	for i := range int64(HistoryLength + 3) {
		series = series.With(Point{At: i, Value: float64(i)})
		series = series.With(Point{At: i, Value: -1}) // ignored: not newer than the last point
	}
	if len(series) != HistoryLength || series[0].At != 3 || *series.last() != HistoryLength+2 {
		t.Errorf("%d points from %v to %v", len(series), series[0], *series.last())
	}
}

func TestTraffic(t *testing.T) {
	before := Counters{Pod: "a", At: now, Sent: 1000, Received: 500}
	for name, row := range map[string]struct {
		after          Counters
		sent, received float64
		ok             bool
	}{
		"ten seconds":             {after: Counters{Pod: "a", At: now.Add(10 * time.Second), Sent: 3000, Received: 500}, sent: 200, ok: true},
		"another pod":             {after: Counters{Pod: "b", At: now.Add(10 * time.Second), Sent: 3000, Received: 500}},
		"the pod has begun again": {after: Counters{Pod: "a", At: now.Add(10 * time.Second), Sent: 10, Received: 600}},
		"no time has passed":      {after: Counters{Pod: "a", At: now, Sent: 3000, Received: 600}},
		"nothing was read before": {after: Counters{Pod: "", At: now.Add(-time.Second), Sent: 3000, Received: 600}},
	} {
		sent, received, ok := Traffic(before, row.after)
		if sent != row.sent || received != row.received || ok != row.ok {
			t.Errorf("%s: %v, %v, %t; want %v, %v, %t", name, sent, received, ok, row.sent, row.received, row.ok)
		}
	}
	if _, _, ok := Traffic(Counters{}, before); ok {
		t.Error("the first reading has traffic")
	}
}
