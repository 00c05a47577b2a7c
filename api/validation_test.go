package api_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/apitest"
)

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name}
}

// TestValidationOnAPIServer tries values that the schemas and their rules reject, and checks the messages.
func TestValidationOnAPIServer(t *testing.T) {
	c := apitest.Client(t, apitest.APIServer(t))
	offloading := func(name string, spec offloadingv1beta1.NamespaceOffloadingSpec) client.Object {
		return &offloadingv1beta1.NamespaceOffloading{ObjectMeta: meta(name), Spec: spec}
	}
	server := func(endpoint networkingv1beta1.ServerEndpoint) client.Object {
		return &networkingv1beta1.GatewayServer{ObjectMeta: meta("rome"), Spec: networkingv1beta1.GatewayServerSpec{Endpoint: endpoint}}
	}
	slice := func(class string) client.Object {
		return &authv1beta1.ResourceSlice{ObjectMeta: meta("milan"), Spec: authv1beta1.ResourceSliceSpec{Class: class}}
	}
	classed := func(class string) func(client.Object) {
		return func(o client.Object) { o.(*authv1beta1.ResourceSlice).Spec.Class = class }
	}
	dial := func(port int32, addresses ...string) client.Object {
		return &networkingv1beta1.NetworkRequest{ObjectMeta: meta("milan"), Spec: networkingv1beta1.NetworkRequestSpec{
			Dial: &networkingv1beta1.DialedEndpoint{Addresses: addresses, Port: port},
		}}
	}
	for name, row := range map[string]struct {
		obj    client.Object
		change func(client.Object) // nil: only creation is tried
		refuse string              // part of the message; empty: accepted
	}{
		"one NamespaceOffloading per namespace": {
			obj:    offloading("other", offloadingv1beta1.NamespaceOffloadingSpec{}),
			refuse: `metadata.name must be "offloading"`,
		},
		"a selected name has to be given": {
			obj:    offloading("offloading", offloadingv1beta1.NamespaceOffloadingSpec{NamespaceMappingStrategy: offloadingv1beta1.SelectedName}),
			refuse: "goes with namespaceMappingStrategy SelectedName",
		},
		"a name without the strategy": {
			obj:    offloading("offloading", offloadingv1beta1.NamespaceOffloadingSpec{RemoteNamespaceName: "x"}),
			refuse: "goes with namespaceMappingStrategy SelectedName",
		},
		"an unknown strategy": {
			obj:    offloading("offloading", offloadingv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: "Everywhere"}),
			refuse: `"LocalAndRemote"`,
		},
		"the mapping is immutable": {
			obj: offloading("offloading", offloadingv1beta1.NamespaceOffloadingSpec{}),
			change: func(o client.Object) {
				o.(*offloadingv1beta1.NamespaceOffloading).Spec.NamespaceMappingStrategy = offloadingv1beta1.EnforceSameName
			},
			refuse: "spec.namespaceMappingStrategy is immutable",
		},
		"the pod strategy may change": {
			obj: offloading("offloading", offloadingv1beta1.NamespaceOffloadingSpec{}),
			change: func(o client.Object) {
				o.(*offloadingv1beta1.NamespaceOffloading).Spec.PodOffloadingStrategy = offloadingv1beta1.PodsRemote
			},
		},
		"a tenant can't become another cluster": {
			obj:    &authv1beta1.Tenant{ObjectMeta: meta("rome"), Spec: authv1beta1.TenantSpec{ClusterID: "rome"}},
			change: func(o client.Object) { o.(*authv1beta1.Tenant).Spec.ClusterID = "milan" },
			refuse: "clusterID is immutable",
		},
		"a request can't go to another controller": {
			obj: slice(authv1beta1.ResourceSliceClassDefault), change: classed("gold"), refuse: "spec.class is immutable",
		},
		"a request of no class can't either": {
			obj: slice(""), change: classed("gold"), refuse: "spec.class is immutable",
		},
		"a request of another class can't become one of the default": {
			obj: slice("gold"), change: classed(""), refuse: "spec.class is immutable",
		},
		"a request can't lose its class with its spec": {
			obj: &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "authentication.liqo.io/v1beta1", "kind": "ResourceSlice",
				"metadata": map[string]any{"namespace": "default", "name": "milan"}, "spec": map[string]any{"class": "gold"},
			}},
			change: func(o client.Object) { delete(o.(*unstructured.Unstructured).Object, "spec") },
			refuse: "spec.class is immutable",
		},
		"no class is the default class": {
			obj: slice(""), change: classed(authv1beta1.ResourceSliceClassDefault),
		},
		"a cluster ID is a DNS label": {
			obj:    &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "Not A Label"}},
			refuse: "should match",
		},
		"a foreign cluster can't become another": {
			obj:    &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "rome"}},
			change: func(o client.Object) { o.(*corev1beta1.ForeignCluster).Spec.ClusterID = "milan" },
			refuse: "clusterID is immutable",
		},
		"a gateway has a port": {
			obj:    &networkingv1beta1.GatewayServer{ObjectMeta: meta("rome")},
			refuse: "port is missing",
		},
		"a gateway has port or ports": {
			obj:    server(networkingv1beta1.ServerEndpoint{Port: 51840, Ports: []int32{51840}}),
			refuse: "port and ports exclude each other",
		},
		"a gateway has nodePort or nodePorts": {
			obj:    server(networkingv1beta1.ServerEndpoint{Ports: []int32{1}, NodePort: 30000, NodePorts: []int32{30000}}),
			refuse: "nodePort and nodePorts exclude each other",
		},
		"no port twice": {
			obj:    server(networkingv1beta1.ServerEndpoint{Ports: []int32{51840, 51840}}),
			refuse: "ports names a port twice",
		},
		"no nodePort twice": {
			obj:    server(networkingv1beta1.ServerEndpoint{Ports: []int32{1, 2}, NodePorts: []int32{30000, 30000}}),
			refuse: "nodePorts names a port twice",
		},
		"a nodePort for each port": {
			obj:    server(networkingv1beta1.ServerEndpoint{Ports: []int32{1, 2}, NodePorts: []int32{30000}}),
			refuse: "as many entries as ports",
		},
		"several ports": {
			obj: server(networkingv1beta1.ServerEndpoint{Ports: []int32{1, 2}, NodePorts: []int32{30000, 30001}}),
		},
		"an unknown type of Service": {
			obj:    server(networkingv1beta1.ServerEndpoint{Port: 51840, ServiceType: "Pigeon"}),
			refuse: `"LoadBalancer"`,
		},
		"a gateway dials a port": {
			obj: &networkingv1beta1.GatewayClient{ObjectMeta: meta("rome"), Spec: networkingv1beta1.GatewayClientSpec{
				Endpoint: networkingv1beta1.Endpoint{Addresses: []string{"192.0.2.1"}},
			}},
			refuse: "port is missing",
		},
		"a gateway dials one port": {
			obj: &networkingv1beta1.GatewayClient{ObjectMeta: meta("rome"), Spec: networkingv1beta1.GatewayClientSpec{
				Endpoint: networkingv1beta1.Endpoint{Port: 51840, Ports: []int32{1}},
			}},
			refuse: "port and ports exclude each other",
		},
		"a request dials addresses and a port": {obj: dial(4000, "100.64.0.7", "fd00::7", "vpn.example.org", "gw")},
		"a request dials an address only":      {obj: dial(0, "100.64.0.7")},
		"a request dials a port only":          {obj: dial(4000)},
		"a request dials neither":              {obj: dial(0), refuse: "dial is empty: give addresses or port"},
		"a request dials a negative port":      {obj: dial(-1, "100.64.0.7"), refuse: "spec.dial.port in body should be greater than or equal to 0"},
		"a request dials a large port":         {obj: dial(65536), refuse: "spec.dial.port in body should be less than or equal to 65535"},
		"a request dials a path":               {obj: dial(0, "vpn.example.org/gw"), refuse: "addresses must be IP addresses or host names, without a port"},
		"a request dials nothing":              {obj: dial(4000, ""), refuse: "addresses must be IP addresses or host names"},
		"a request dials a port in an address": {obj: dial(0, "100.64.0.7:4000"), refuse: "addresses must be IP addresses or host names, without a port"},
		"a request dials a port of a name":     {obj: dial(0, "vpn.example.org:4000"), refuse: "addresses must be IP addresses or host names, without a port"},
		"a request dials no IPv4 address":      {obj: dial(0, "100.64.0.700"), refuse: "ends in a number and is no IPv4 address"},
		"a request dials half an IPv4 address": {obj: dial(0, "fd00::7", "100.64"), refuse: "ends in a number and is no IPv4 address"},
		"a request dials a long name":          {obj: dial(0, strings.Repeat("a", 254)), refuse: "may not be more than 253"},
		"a request dials nine addresses":       {obj: dial(0, strings.Split("a b c d e f g h i", " ")...), refuse: "must have at most 8 items"},
		"a range of a peer is a CIDR": {
			obj: &networkingv1beta1.Configuration{ObjectMeta: meta("rome"), Spec: networkingv1beta1.ConfigurationSpec{
				Remote: networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.0.0.0"}}},
			}},
			refuse: "spec.remote.cidr.pod[0]",
		},
		"a connection is of a gateway": {
			obj:    &networkingv1beta1.Connection{ObjectMeta: meta("gw-rome"), Spec: networkingv1beta1.ConnectionSpec{Type: "Sideways"}},
			refuse: `"Server", "Client"`,
		},
		"a range can't become another one": {
			obj:    &ipamv1alpha1.Network{ObjectMeta: meta("n"), Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.0.0.0/16"}},
			change: func(o client.Object) { o.(*ipamv1alpha1.Network).Spec.CIDR = "10.1.0.0/16" },
			refuse: "spec.cidr is immutable",
		},
		"what is kept back of a range stays so": {
			obj:    &ipamv1alpha1.Network{ObjectMeta: meta("n"), Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.0.0.0/16", PreAllocated: 1}},
			change: func(o client.Object) { o.(*ipamv1alpha1.Network).Spec.PreAllocated = 0 },
			refuse: "spec.preAllocated is immutable once set",
		},
		"a range is a range": {
			obj:    &ipamv1alpha1.Network{ObjectMeta: meta("n"), Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.0.0.0"}},
			refuse: "spec.cidr",
		},
		"a range is IPv4": {
			obj:    &ipamv1alpha1.Network{ObjectMeta: meta("n"), Spec: ipamv1alpha1.NetworkSpec{CIDR: "fd00::/64"}},
			refuse: "IPv6 is not supported",
		},
		"an address can't become another one": {
			obj:    &ipamv1alpha1.IP{ObjectMeta: meta("i"), Spec: ipamv1alpha1.IPSpec{IP: "10.0.0.1"}},
			change: func(o client.Object) { o.(*ipamv1alpha1.IP).Spec.IP = "10.0.0.2" },
			refuse: "spec.ip is immutable",
		},
		"an address is an address": {
			obj:    &ipamv1alpha1.IP{ObjectMeta: meta("i"), Spec: ipamv1alpha1.IPSpec{IP: "10.0.0.0/8"}},
			refuse: "spec.ip",
		},
		"a quota is for somebody": {
			obj:    &offloadingv1beta1.Quota{ObjectMeta: meta("q")},
			refuse: "spec.user",
		},
	} {
		t.Run(name, func(t *testing.T) {
			obj := row.obj.DeepCopyObject().(client.Object)
			err := c.Create(t.Context(), obj)
			if err == nil {
				defer func() {
					if err := c.Delete(t.Context(), obj); err != nil {
						t.Error(err)
					}
				}()
			}
			if row.change != nil {
				if err != nil {
					t.Fatalf("creating: %v", err)
				}
				row.change(obj)
				err = c.Update(t.Context(), obj)
			}
			switch {
			case row.refuse == "" && err != nil:
				t.Errorf("refused: %v", err)
			case row.refuse != "" && err == nil:
				t.Errorf("accepted, want a refusal with %q", row.refuse)
			case row.refuse != "" && !strings.Contains(err.Error(), row.refuse):
				t.Errorf("refused with %q, want %q in it", err, row.refuse)
			}
		})
	}
}
