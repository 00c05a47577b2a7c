package peering

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// network is the networking module the way an operator would read it.
func networkPicture(m *corev1beta1.Module) string {
	var b strings.Builder
	for _, c := range m.Conditions {
		fmt.Fprintf(&b, "%s=%s (%s: %s)\n", c.Type, c.Status, c.Reason, c.Message)
	}
	return b.String()
}

func TestNetworkOfAForeignCluster(t *testing.T) {
	conf := networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Name: "milan", Generation: 2}}
	conf.Status.Conditions = []metav1.Condition{{Type: networkingv1beta1.ConditionCIDRsConfigured, Status: metav1.ConditionTrue, ObservedGeneration: 2}}
	behind := *conf.DeepCopy()
	behind.Generation = 3
	crowded := *conf.DeepCopy()
	crowded.Status.Conditions[0] = metav1.Condition{
		Type: networkingv1beta1.ConditionCIDRsConfigured, Status: metav1.ConditionFalse, ObservedGeneration: 2, Reason: "WaitingForNetworks", Message: "no free /16 in 10.0.0.0/8",
	}
	ready, waiting := networkingv1beta1.GatewayServer{}, networkingv1beta1.GatewayServer{}
	ready.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}
	waiting.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Message: "waiting for an address"}}
	dialer := networkingv1beta1.GatewayClient{}
	connection := func(value, latency string, seconds int) networkingv1beta1.Connection {
		c := networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "gw-milan"}, Status: networkingv1beta1.ConnectionStatus{Value: value}}
		if latency != "" {
			c.Status.Latency = &networkingv1beta1.ConnectionLatency{Value: latency, Timestamp: at(-time.Duration(seconds) * time.Second)}
		}
		return c
	}
	told := connection(networkingv1beta1.ConnectionError, "", 0)
	told.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Message: "no answer from 192.0.2.1:30500/UDP for 5s"}}
	asked := networkingv1beta1.NetworkRequest{}
	asked.Name = "milan"
	asked.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Message: "waiting for the gateway of cluster milan to have an address (NodePort needs none)"}}
	type facts = NetworkFacts
	for name, c := range map[string]struct {
		facts NetworkFacts
		want  string
	}{
		"nothing": {facts{}, ""},
		"only a connection that its gateway left": {facts{Connections: []networkingv1beta1.Connection{told}}, ""},
		"a configuration": {facts{Configurations: []networkingv1beta1.Configuration{conf}},
			"NetworkConfigurationStatus=Ready (NetworkConfigurationPresence: the address ranges are configured)\n" +
				"NetworkGatewayPresence=NotReady (GatewayMissing: waiting for a GatewayServer or GatewayClient)\n" +
				"NetworkConnectionStatus=NotReady (ConnectionMissing: no gateway reports yet)\n"},
		"a request that waits": {facts{Configurations: []networkingv1beta1.Configuration{conf}, Requests: []networkingv1beta1.NetworkRequest{{}, asked}},
			"NetworkConfigurationStatus=Ready (NetworkConfigurationPresence: the address ranges are configured)\n" +
				"NetworkGatewayPresence=NotReady (GatewayMissing: waiting for a GatewayServer or GatewayClient; NetworkRequest milan: " +
				"waiting for the gateway of cluster milan to have an address (NodePort needs none))\n" +
				"NetworkConnectionStatus=NotReady (ConnectionMissing: no gateway reports yet)\n"},
		"a configuration that changed": {facts{Configurations: []networkingv1beta1.Configuration{behind}},
			"NetworkConfigurationStatus=NotReady (WaitingForNetworks: waiting for the ranges of Configuration milan)\n" +
				"NetworkGatewayPresence=NotReady (GatewayMissing: waiting for a GatewayServer or GatewayClient)\n" +
				"NetworkConnectionStatus=NotReady (ConnectionMissing: no gateway reports yet)\n"},
		"no room, and only gateways": {facts{Configurations: []networkingv1beta1.Configuration{crowded}, Servers: []networkingv1beta1.GatewayServer{waiting, ready},
			Clients: []networkingv1beta1.GatewayClient{dialer}, Connections: []networkingv1beta1.Connection{connection("", "", 0)}},
			"NetworkConfigurationStatus=NotReady (WaitingForNetworks: no free /16 in 10.0.0.0/8)\n" +
				"NetworkGatewayPresence=Ready (GatewayPresence: 3 present)\n" +
				"NetworkGatewayServerStatus=SomeNotReady (GatewaysSomeNotReady: 1 of 2 ready: waiting for an address)\n" +
				"NetworkGatewayClientStatus=NotReady (GatewaysNotReady: 0 of 1 ready)\n" +
				"NetworkConnectionStatus=Pending (ConnectionPending: gateway gw-milan: waiting for the peer to answer)\n"},
		"connected": {facts{Servers: []networkingv1beta1.GatewayServer{ready}, Connections: []networkingv1beta1.Connection{connection("Connected", "1.2ms", 5)}},
			"NetworkConfigurationStatus=NotReady (NetworkConfigurationMissing: waiting for a Configuration)\n" +
				"NetworkGatewayPresence=Ready (GatewayPresence: 1 present)\n" +
				"NetworkGatewayServerStatus=Ready (GatewaysReady: 1 of 1 ready)\n" +
				"NetworkConnectionStatus=Established (ConnectionEstablished: latency below 2ms)\n"},
		"connected, it said long ago": {facts{Configurations: []networkingv1beta1.Configuration{conf}, Connections: []networkingv1beta1.Connection{connection("Connected", "1.2ms", 31)}},
			"NetworkConfigurationStatus=Ready (NetworkConfigurationPresence: the address ranges are configured)\n" +
				"NetworkGatewayPresence=NotReady (GatewayMissing: waiting for a GatewayServer or GatewayClient)\n" +
				"NetworkConnectionStatus=Error (ConnectionError: gateway gw-milan has not reported since " + at(-31*time.Second).UTC().Format(time.RFC3339) + ")\n"},
		"the peer does not answer": {facts{Configurations: []networkingv1beta1.Configuration{conf}, Connections: []networkingv1beta1.Connection{told, connection("Connected", "1ms", 1)}},
			"NetworkConfigurationStatus=Ready (NetworkConfigurationPresence: the address ranges are configured)\n" +
				"NetworkGatewayPresence=NotReady (GatewayMissing: waiting for a GatewayServer or GatewayClient)\n" +
				"NetworkConnectionStatus=Error (ConnectionError: gateway gw-milan: no answer from 192.0.2.1:30500/UDP for 5s)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c.facts.Silence = 30 * time.Second
			all := Facts{Network: c.facts}
			got := CompileForeignCluster(&all, &Plan{}, &corev1beta1.ForeignClusterStatus{}, 1, at(0))
			if diff := cmp.Diff(c.want, networkPicture(&got.Modules.Networking)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.Modules.Networking.Enabled != (c.want != "") || all.Any() != (c.want != "") {
				t.Errorf("enabled %t, any %t", got.Modules.Networking.Enabled, all.Any())
			}
		})
	}
}

// TestSilentGatewayIsDetected: a gateway that dies reports nothing, so the ForeignCluster is reconciled again after a timeout.
func TestSilentGatewayIsDetected(t *testing.T) {
	c := networkingv1beta1.Connection{Status: networkingv1beta1.ConnectionStatus{
		Value: networkingv1beta1.Connected, Latency: &networkingv1beta1.ConnectionLatency{Value: "1ms", Timestamp: at(-10 * time.Second)},
	}}
	f := NetworkFacts{Configurations: make([]networkingv1beta1.Configuration, 1), Connections: []networkingv1beta1.Connection{c}, Silence: 30 * time.Second}
	left := f.Silent(at(0).Time)
	if left < 20*time.Second || left > 22*time.Second {
		t.Fatalf("looked at again after %s", left)
	}
	then := metav1.NewTime(at(0).Add(left))
	status := CompileForeignCluster(&Facts{Network: f}, &Plan{}, &corev1beta1.ForeignClusterStatus{}, 1, then)
	conditions := status.Modules.Networking.Conditions
	if last := conditions[len(conditions)-1]; last.Status != corev1beta1.StatusError {
		t.Errorf("%+v", last)
	}
	if again := f.Silent(then.Time); again != 0 {
		t.Errorf("what is lost is looked at again after %s", again)
	}
}

// TestLatencyIsRounded: a working tunnel does not cause a write of the status every few seconds.
func TestLatencyIsRounded(t *testing.T) {
	previous := corev1beta1.ForeignClusterStatus{}
	var told []string
	for _, latency := range []string{"1.2ms", "900µs", "1.9ms", "400µs", "2.1ms", "3.5ms", "600µs", "40ms", "39ms", "6ms", "3ms"} {
		f := NetworkFacts{Configurations: make([]networkingv1beta1.Configuration, 1), Silence: time.Minute, Connections: []networkingv1beta1.Connection{{
			Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected, Latency: &networkingv1beta1.ConnectionLatency{Value: latency, Timestamp: at(0)}},
		}}}
		previous = CompileForeignCluster(&Facts{Network: f}, &Plan{}, &previous, 1, at(0))
		conditions := previous.Modules.Networking.Conditions
		if text := conditions[len(conditions)-1].Message; len(told) == 0 || told[len(told)-1] != text {
			told = append(told, text)
		}
	}
	if diff := cmp.Diff([]string{"latency below 2ms", "latency below 4ms", "latency below 64ms", "latency below 16ms"}, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
