package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// TestNetworkOnAPIServers connects two clusters, and completes, changes and removes their network.
func TestNetworkOnAPIServers(t *testing.T) {
	t.Parallel()
	rome, milan := newSide(t, "rome", "10.1.0.0/16", "192.0.2.1"), newSide(t, "milan", "10.2.0.0/16", "192.0.2.2")
	rome.peer, milan.peer = milan, rome
	n := networks{T: t, rome: rome, milan: milan}
	n.has(n.refused(n.both("network connect")), "to cluster rome", "networking.internal=true")
	rome.installTemplates(t)
	milan.installTemplates(t)
	n.has(n.must(n.both("network connect --dry-run")), "(local, dry run) Namespace liqo-tenant-milan would be created", "(remote, dry run) GatewayServer rome in namespace liqo-tenant-rome would be created, which")
	if len(rome.network(t))+len(milan.network(t)) > 0 {
		t.Errorf("a dry run made %v and %v", rome.network(t), milan.network(t))
	}

	// Nobody gives the server an address: the wait says so.
	n.has(n.refused(n.both("network connect --timeout 3s")), "Configuration milan", "the controller manager has not reconciled it yet")
	ctx, stop := context.WithCancel(t.Context())
	steered := make(chan error, 1)
	go func() { steered <- rome.steerBoth(ctx, milan) }()
	t.Cleanup(func() {
		stop()
		if err := <-steered; err != nil {
			t.Error(err)
		}
	})

	n.has(n.must(n.both("network connect --gw-server-service-type NodePort --wait -v")), "GatewayServer rome is reached at 192.0.2.2:51840/UDP", "Connection is established", "were connected after")
	template := func(kind, name string) corev1.ObjectReference {
		return corev1.ObjectReference{APIVersion: "networking.liqo.io/v1beta1", Kind: kind, Name: name, Namespace: "liqo"}
	}
	n.wantRome = map[string]any{
		"configuration liqo-tenant-milan/milan map[liqo.io/remote-cluster-id:milan]": networkingv1beta1.ConfigurationSpec{
			Remote: networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.2.0.0/16"}, External: []string{"10.70.0.0/16"}}},
		},
		"gatewayclient liqo-tenant-milan/milan map[liqo.io/remote-cluster-id:milan]": networkingv1beta1.GatewayClientSpec{
			Endpoint: networkingv1beta1.Endpoint{Addresses: []string{"192.0.2.2"}, Port: 51840, Protocol: corev1.ProtocolUDP},
			MTU:      1340, ClientTemplateRef: template("WgGatewayClientTemplate", "wireguard-client"),
		},
		"publickey liqo-tenant-milan/milan map[liqo.io/remote-cluster-id:milan networking.liqo.io/gateway-resource:true]": "the key of the peer's gateway",
	}
	n.wantMilan = map[string]any{
		"configuration liqo-tenant-rome/rome map[liqo.io/remote-cluster-id:rome]": networkingv1beta1.ConfigurationSpec{
			Remote: networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.1.0.0/16"}, External: []string{"10.70.0.0/16"}}},
		},
		"gatewayserver liqo-tenant-rome/rome map[liqo.io/remote-cluster-id:rome]": networkingv1beta1.GatewayServerSpec{
			Endpoint: networkingv1beta1.ServerEndpoint{Port: 51840, ServiceType: corev1.ServiceTypeNodePort},
			MTU:      1340, ServerTemplateRef: template("WgGatewayServerTemplate", "wireguard-server"),
		},
		"publickey liqo-tenant-rome/rome map[liqo.io/remote-cluster-id:rome networking.liqo.io/gateway-resource:true]": "the key of the peer's gateway",
	}
	n.same("connected")
	for _, step := range []struct {
		name string
		run  func(networks)
	}{
		{"info peer", networks.infoPeer},
		{"in-band", networks.inBand},
		{"dry runs", networks.dryRuns},
		{"uninstall names the network", networks.uninstallNamesTheNetwork},
		{"a second run changes nothing", networks.connectAgain},
		{"from the other side it is the same tunnel", networks.connectFromTheOtherSide},
		{"missing objects are created, existing ones stay", networks.connectCompletes},
		{"flags change what exists", networks.connectChanges},
		{"new keys", networks.rotateKeys},
		{"disconnect asks, and leaves the ranges", networks.disconnect},
		{"reset leaves nothing", networks.reset},
		{"two administrators without shared access", networks.twoAdministrators},
		{"a tunnel that does not come up is explained", networks.connectExplains},
		{"unpeer removes the network, unless the other direction uses it", networks.unpeerDisconnects},
		{"completion knows the names", networks.completion},
	} {
		t.Run(step.name, func(t *testing.T) {
			n.T = t
			step.run(n)
		})
	}
}

// networks are two clusters whose networks are being joined, and what there is to be in each. Every command that changes them has its tests beside
// it, which leave things as they found them.
type networks struct {
	*testing.T
	rome, milan         *side
	wantRome, wantMilan map[string]any
}

// both runs a command of two clusters, in of one.
func (n networks) both(command string) (int, string, string) {
	return run(n.T, append(strings.Fields(command), "--kubeconfig", n.rome.kubeconfig, "--remote-kubeconfig", n.milan.kubeconfig, "--skip-confirm")...)
}

func (n networks) in(s *side, command string) (int, string, string) {
	return run(n.T, append(strings.Fields(command), "--kubeconfig", s.kubeconfig)...)
}

func (n networks) must(code int, out, errOut string) string {
	n.Helper()
	if code != 0 {
		n.Fatalf("code %d: %s%s", code, out, errOut)
	}
	return out + errOut
}

func (n networks) refused(code int, _, errOut string) string {
	n.Helper()
	if code != 1 {
		n.Fatalf("code %d: %s", code, errOut)
	}
	return errOut
}

func (n networks) has(text string, wants ...string) {
	n.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			n.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// same fails the test unless both clusters have what there is to be.
func (n networks) same(when string) {
	n.Helper()
	if diff := cmp.Diff(n.wantRome, n.rome.network(n.T)); diff != "" {
		n.Errorf("rome %s: %s", when, diff)
	}
	if diff := cmp.Diff(n.wantMilan, n.milan.network(n.T)); diff != "" {
		n.Errorf("milan %s: %s", when, diff)
	}
}
