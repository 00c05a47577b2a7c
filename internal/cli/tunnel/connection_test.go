package tunnel

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network"
)

func TestExplainTunnel(t *testing.T) {
	key, other := bytes.Repeat([]byte{1}, network.KeyLength), bytes.Repeat([]byte{2}, network.KeyLength)
	server := func(change func(*endFacts)) endFacts {
		out := endFacts{cluster: "milan", gateway: "GatewayServer rome", connection: "Connecting", key: key, stored: key}
		if change != nil {
			change(&out)
		}
		return out
	}
	client := func(change func(*endFacts)) endFacts {
		out := endFacts{cluster: "rome", gateway: "GatewayClient milan", connection: "Connecting", key: other, stored: other}
		if change != nil {
			change(&out)
		}
		return out
	}
	for name, test := range map[string]struct {
		server, client endFacts
		want           []string
		not            string
		reached        string
	}{
		"the way between them": {server: server(nil), client: client(nil),
			want: []string{"Connection of cluster rome is Connecting for 30s: no handshake with 172.30.2.130:51840/UDP: is UDP port 51840 open from rome to milan?"}, not: "if 172"},
		"the wrong way": {server: server(nil), client: client(nil), reached: "172.30.2.1:30000/UDP",
			want: []string{"GatewayServer rome of cluster milan says that it is reached at 172.30.2.1:30000/UDP, but the client dials 172.30.2.130:51840/UDP: if that does not lead there"}},
		"a pod that does not run": {server(func(e *endFacts) { e.trouble = "container wireguard of pod gw is waiting, ImagePullBackOff" }), client(nil), []string{"Cluster milan: container wireguard"}, "open from", ""},
		"no gateway":              {server(nil), client(func(e *endFacts) { *e = endFacts{cluster: "rome"} }), []string{"Cluster rome has no gateway for milan"}, "open from", ""},
		"no key":                  {server(func(e *endFacts) { e.stored = nil }), client(nil), []string{"Cluster rome does not have the key of milan's gateway"}, "open from", ""},
		"another key":             {server(nil), client(func(e *endFacts) { e.stored, e.storedBy = key, "old" }), []string{"Cluster milan stores another key than rome's gateway has (PublicKey old)"}, "open from", ""},
		"two things":              {server(func(e *endFacts) { e.stored = nil }), client(func(e *endFacts) { e.trouble = "T" }), []string{"Cluster rome: T", "does not have the key"}, "", ""},
		"no report":               {server(nil), client(func(e *endFacts) { e.connection = "" }), []string{"GatewayClient milan of cluster rome reports nothing"}, "", ""},
		"one way":                 {server(nil), client(func(e *endFacts) { e.connection = "Connected" }), []string{"Cluster rome receives the packets of milan"}, "open from", ""},
	} {
		got := explainTunnel(test.server, test.client, "172.30.2.130:51840/UDP", test.reached, 30*time.Second)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %q", name, want, got)
			}
		}
		if test.not != "" && strings.Contains(got, test.not) {
			t.Errorf("%s: %q in %q", name, test.not, got)
		}
	}
}

func TestEndpointText(t *testing.T) {
	for want, endpoint := range map[string]*networkingv1beta1.Endpoint{
		"nowhere":                    nil,
		"1.2.3.4:5/UDP":              {Addresses: []string{"1.2.3.4"}, Port: 5},
		"[fd00::1]:5/TCP":            {Addresses: []string{"fd00::1"}, Port: 5, Protocol: corev1.ProtocolTCP},
		"a.b:5/UDP or 1.2.3.4:5/UDP": {Addresses: []string{"a.b", "1.2.3.4"}, Port: 5},
		"a:1/UDP or a:2/UDP":         {Addresses: []string{"a"}, Ports: []int32{1, 2}},
	} {
		if got := EndpointText(endpoint); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := OpenPort("[fd00::1]:5/TCP or x:6/TCP"); got != "TCP port 5" {
		t.Error(got)
	}
}
