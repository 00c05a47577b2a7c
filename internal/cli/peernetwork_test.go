package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/handshake"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/test/clitest"
	"liqo.io/liqo/test/clitest/fakecluster"
)

func rangeObject(kind, cidr string) *ipamv1alpha1.Network {
	return &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: kind, Labels: map[string]string{ipamv1alpha1.LabelNetworkType: kind}},
		Spec:       ipamv1alpha1.NetworkSpec{CIDR: cidr}, Status: ipamv1alpha1.NetworkStatus{CIDR: cidr},
	}
}

// TestPeeringWithoutNetwork: peer says why the networks are not connected, and what follows from that.
func TestPeeringWithoutNetwork(t *testing.T) {
	template := &networkingv1beta1.WgGatewayServerTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "wireguard-server"}}
	forbid := func(c *session.Cluster) {
		c.WithWatch = interceptor.NewClient(c.WithWatch, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Group: "ipam.liqo.io", Resource: "networks"}, "", nil)
		}})
	}
	pods, external := rangeObject(ipamv1alpha1.NetworkTypePod, "10.1.0.0/16"), rangeObject(ipamv1alpha1.NetworkTypeExternal, "10.70.0.0/16")
	for name, row := range map[string]struct {
		disabled   bool
		remote     []client.Object
		restricted bool
		want, not  string
	}{
		"a peering user":               {false, []client.Object{pods, external, template}, true, "because of cluster milan: the user of its kubeconfig may not read Networks in namespace liqo. An administrator of both clusters must connect them", "none to connect"},
		"without networking":           {false, nil, false, "because of cluster milan: it is installed without the network of Liqo. If no other network connects its pods, install it with networking.enabled=true and networking.internal=true", ""},
		"disabled, equal ranges":       {true, []client.Object{pods}, false, "Pods of both clusters have addresses of 10.1.0.0/16, so the same address can mean different pods: pods offloaded to milan have no address in their status", ""},
		"disabled, other ranges":       {true, []client.Object{rangeObject(ipamv1alpha1.NetworkTypePod, "10.2.0.0/16")}, false, "--networking-disabled", "have no address in their status"},
		"disabled, by a peering user":  {true, []client.Object{pods}, true, "--networking-disabled", "have no address in their status"},
		"disabled, without networking": {true, nil, false, "--networking-disabled", "have no address in their status"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &session.Pair{
				Local:  fakecluster.New("rome", pods.DeepCopy(), external.DeepCopy(), template.DeepCopy()),
				Remote: fakecluster.New("milan", row.remote...),
			}
			var said bytes.Buffer
			out := console.New(&said, &said, false)
			for _, c := range []*session.Cluster{p.Local, p.Remote} {
				c.Console, c.Namespace = out, "liqo"
			}
			if row.restricted {
				forbid(p.Remote)
			}
			o := &peerOptions{networkingDisabled: row.disabled}
			o.network.Given = func(string) bool { return false }
			if made, err := peerNetwork(t.Context(), p, o); err != nil || made != nil {
				t.Fatalf("%v, %v", made, err)
			}
			if !strings.Contains(said.String(), row.want) || row.not != "" && strings.Contains(said.String(), row.not) {
				t.Errorf("said %q, want %q", said.String(), row.want)
			}
		})
	}
}

// inBand: in-band.
func (n networks) inBand() {
	t := n.T
	a := session.New(genericiooptions.NewTestIOStreamsDiscard())
	a.Kubeconfig.KubeConfig = &n.rome.kubeconfig
	remote := session.ConnectionFlags()
	remote.KubeConfig = &n.milan.kubeconfig
	p, err := a.Pair(t.Context(), remote)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.FindNamespaces(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: ipamv1alpha1.IPAPIServerProxy}, Spec: ipamv1alpha1.IPSpec{IP: "10.96.0.7"}}
	clitest.Create(t, n.milan, proxy, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: handshake.ProxyService}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8118}}},
	})
	proxy.Status.IP = "10.70.0.9"
	if err := n.milan.Status().Update(t.Context(), proxy); err != nil {
		t.Fatal(err)
	}
	// rome sees milan's external CIDR at 10.71.0.0/16.
	if url, err := handshake.ProxyURL(t.Context(), p, &handshake.Flags{InBand: true}); err != nil || url == nil || *url != "http://10.71.0.9:8118" {
		t.Errorf("%v, %v", url, err)
	}
	// Only a flag that was typed changes the way of a peering that exists.
	none, typed := func(string) bool { return false }, func(name string) bool { return name == "in-band" }
	if url, err := handshake.ProxyURL(t.Context(), p, &handshake.Flags{Given: none}); err != nil || url != nil {
		t.Errorf("%v, %v", url, err)
	}
	if url, err := handshake.ProxyURL(t.Context(), p, &handshake.Flags{Given: typed}); err != nil || url == nil || *url != "" {
		t.Errorf("%v, %v", url, err)
	}
	n.inviteBack(p)
}
