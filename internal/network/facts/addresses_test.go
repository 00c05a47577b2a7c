package facts

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
)

func networkOf(kind, spec, status string) *ipamv1alpha1.Network {
	return &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: kind, Labels: map[string]string{ipamv1alpha1.LabelNetworkType: kind}},
		Spec:       ipamv1alpha1.NetworkSpec{CIDR: spec}, Status: ipamv1alpha1.NetworkStatus{CIDR: status},
	}
}

// viewOf returns the Network with the view of a peer's pod range in this cluster.
func viewOf(peer, cidr string) *ipamv1alpha1.Network {
	n := networkOf(peer+"-pod-0", "10.200.0.0/16", cidr)
	n.Namespace, n.Labels = "liqo-tenant-"+peer, map[string]string{api.LabelRemoteClusterID: peer}
	return n
}

func configuration(change func(*networkingv1beta1.Configuration)) *networkingv1beta1.Configuration {
	c := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{
		Namespace: "liqo-tenant-milan", Name: "milan", Labels: map[string]string{api.LabelRemoteClusterID: "milan"},
	}}
	c.Spec.Local = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.200.0.0/16"}, External: []string{"10.70.0.0/16"}}}
	c.Spec.Remote.CIDR = networkingv1beta1.CIDRs{Pod: []string{"10.200.0.0/16"}, External: []string{"10.70.0.0/16"}}
	c.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.71.0.0/16"}, External: []string{"10.72.0.0/16"}}}
	if change != nil {
		change(c)
	}
	return c
}

func TestAddressesOfAConsumer(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.10"}, {Type: corev1.NodeHostName, Address: "n1"}}
	services := networkOf("service-cidr", "10.96.0.0/12", "")
	services.Labels[ipamv1alpha1.LabelNetworkNotRemapped] = api.True
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(node, services,
		networkOf("pod-cidr", "10.200.0.0/16", "10.200.0.0/16"), networkOf("external-cidr", "10.70.0.0/16", "10.73.0.0/16"),
		networkOf("internal-cidr", "10.80.0.0/16", ""), networkOf("reserved", "172.16.0.0/12", "172.16.0.0/12"),
		viewOf("milan", "10.71.0.0/16"), viewOf("turin", "10.75.0.0/16"),
		configuration(nil), configuration(func(c *networkingv1beta1.Configuration) {
			c.Namespace, c.Name, c.Labels, c.Status.Remote = "liqo-tenant-turin", "turin", map[string]string{api.LabelRemoteClusterID: "turin"}, nil
		})).Build()
	a := Addresses{LiqoNamespace: "liqo", Translate: true, Reported: []netip.Prefix{netip.MustParsePrefix("fd00:10::/56")}, Nodes: c}
	own, err := a.Own(t.Context(), c, "milan")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range own {
		got = append(got, p.String())
	}
	slices.Sort(got)
	if want := "10.200.0.0/16 10.73.0.0/16 10.75.0.0/16 10.96.0.0/12 172.16.0.0/12 192.0.2.10/32 fd00:10::/56"; strings.Join(got, " ") != want {
		t.Errorf("own ranges %v, want %s", got, want)
	}
	for name, row := range map[string]struct {
		addresses Addresses
		consumer  string
		asIs      bool
		waiting   string
		view      string
	}{
		"known":                   {a, "milan", false, "", "10.71.0.5"},
		"not known yet":           {a, "turin", true, "status.remote is empty", ""},
		"no network of ours":      {a, "naples", true, "there is no Configuration", ""},
		"somebody else's network": {Addresses{LiqoNamespace: "liqo", Nodes: c}, "milan", true, "", ""},
	} {
		translate, waiting, err := row.addresses.Translation(t.Context(), c, row.consumer)
		if err != nil || (translate == nil) != row.asIs || (waiting == "") != (row.waiting == "") || !strings.Contains(waiting, row.waiting) {
			t.Errorf("%s: %v, waiting %q, %v", name, translate != nil, waiting, err)
		}
		if row.view == "" {
			continue
		}
		if view, err := translate(netip.MustParseAddr("10.200.0.5")); err != nil || view.String() != row.view {
			t.Errorf("%s: %s, %v", name, view, err)
		}
		if view, err := translate(netip.MustParseAddr("192.0.2.10")); err == nil {
			t.Errorf("%s: an address that is not the consumer's appears as %s", name, view)
		}
	}
}

// TestViewsOfAProvider: an offloaded pod is exposed at the views of its own provider only.
func TestViewsOfAProvider(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(configuration(nil), configuration(func(c *networkingv1beta1.Configuration) {
		c.Namespace, c.Name, c.Labels, c.Status.Remote = "liqo-tenant-turin", "turin", map[string]string{api.LabelRemoteClusterID: "turin"}, nil
	})).Build()
	for name, row := range map[string]struct {
		translate bool
		provider  string
		known     bool
		want      []netip.Prefix
	}{
		"connected":               {true, "milan", true, []netip.Prefix{netip.MustParsePrefix("10.71.0.0/16"), netip.MustParsePrefix("10.72.0.0/16")}},
		"not known yet":           {true, "turin", false, nil},
		"not connected":           {true, "naples", true, nil},
		"somebody else's network": {false, "milan", true, nil},
	} {
		got, known, err := Addresses{LiqoNamespace: "liqo", Translate: row.translate}.Views(t.Context(), c, row.provider)
		if err != nil || known != row.known || !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, %v, %v", name, got, known, err)
		}
	}
	alone := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(configuration(nil)).Build()
	if got, known, err := (Addresses{LiqoNamespace: "liqo", Translate: true}).Views(t.Context(), alone, "milan"); err != nil || !known || len(got) > 0 {
		t.Errorf("the only peer: %v, %v, %v", got, known, err)
	}
}
