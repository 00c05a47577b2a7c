package cli

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// TestNetworkInUseStays: a network that only this cluster requested stays while the other cluster uses this one, and with it the identity.
func TestNetworkInUseStays(t *testing.T) {
	request := func(name string, labels map[string]string) client.Object {
		labels[api.LabelRemoteClusterID] = "milan"
		return &networkingv1beta1.NetworkRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-milan", Name: name, Labels: labels}}
	}
	ours := request("milan", map[string]string{api.LabelRemoteID: "milan"})
	theirs := request("copy", map[string]string{api.LabelReplicated: api.True, api.LabelOriginID: "milan"})
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-milan", Name: "milan", Labels: map[string]string{api.LabelRemoteClusterID: "milan"}}}
	for name, row := range map[string]struct {
		objects []client.Object
		stays   bool
	}{
		"the other cluster is no consumer":   {[]client.Object{ours}, false},
		"the other cluster is a consumer":    {[]client.Object{ours, tenant}, true},
		"it requested the network, too":      {[]client.Object{ours, theirs, tenant}, false},
		"only the other cluster requests it": {[]client.Object{theirs, tenant}, false},
		"an administrator connected it":      {[]client.Object{tenant}, false},
	} {
		var said bytes.Buffer
		c := &session.Cluster{
			Console: console.New(io.Discard, &said, false), ID: "rome",
			WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(row.objects...).Build(),
		}
		stays, err := networkStays(t.Context(), c, "tenant-of-milan", "milan")
		if err != nil || stays != row.stays || stays != strings.Contains(said.String(), "only rome requested") {
			t.Errorf("%s: it stays: %t, %v, want %t: %s", name, stays, err, row.stays, said.String())
		}
	}
}

// TestIdentityOfANetworkStays: the identity with a provider is not deleted while this cluster requests a network from it. A request of the provider itself does not
// need that identity.
func TestIdentityOfANetworkStays(t *testing.T) {
	const namespace = "liqo-tenant-milan"
	request := func(labels map[string]string) client.Object {
		return &networkingv1beta1.NetworkRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "milan", Labels: labels}}
	}
	for name, row := range map[string]struct {
		object client.Object
		says   string
	}{
		"a request to the provider": {
			request(map[string]string{api.LabelRemoteID: "milan"}),
			"NetworkRequest milan in namespace liqo-tenant-milan still requests a network from cluster milan, which would delete its side of the network without this identity: run liqoctl unpeer",
		},
		"a request of the provider": {request(map[string]string{api.LabelReplicated: api.True, api.LabelOriginID: "milan"}), ""},
	} {
		identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peering.ControlPlaneIdentityName("milan")}}
		c := &session.Cluster{
			Console: console.New(io.Discard, io.Discard, false), ID: "rome",
			WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(identity, row.object).
				WithIndex(&offloadingv1beta1.NamespaceMap{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).Build(),
		}
		if err := forgetIdentity(t.Context(), c, "milan", namespace, false); (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", name, err, row.says)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(identity), identity); (err == nil) != (row.says != "") {
			t.Errorf("%s: reading the Identity: %v", name, err)
		}
	}
}

// TestNetworkRequestTakesFlagsAgain: a command that is run again changes how the requested gateway server of this cluster is reached, in the
// request and in the GatewayServer that exists already. A command without the flag changes nothing, and another location of the server is refused
// by a warning.
func TestNetworkRequestTakesFlagsAgain(t *testing.T) {
	const namespace = "liqo-tenant-milan"
	requested := func(at networkingv1beta1.ServerLocation) *networkingv1beta1.NetworkRequest {
		return &networkingv1beta1.NetworkRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "milan"},
			Spec:       networkingv1beta1.NetworkRequestSpec{Server: at, ServiceType: corev1.ServiceTypeLoadBalancer},
			Status:     networkingv1beta1.NetworkRequestStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Negotiating"}}},
		}
	}
	negotiated := metav1.ObjectMeta{Namespace: namespace, Name: "milan", Labels: map[string]string{
		api.LabelRemoteClusterID: "milan", networkingv1beta1.LabelNegotiated: api.True,
	}}
	server := &networkingv1beta1.GatewayServer{ObjectMeta: negotiated, Spec: networkingv1beta1.GatewayServerSpec{
		Endpoint: networkingv1beta1.ServerEndpoint{Port: 51840, ServiceType: corev1.ServiceTypeLoadBalancer},
	}}
	dialler := &networkingv1beta1.GatewayClient{ObjectMeta: negotiated}
	dialing := requested(networkingv1beta1.ServerAtProvider)
	dialing.Spec.Dial = &networkingv1beta1.DialedEndpoint{Addresses: []string{"100.64.0.7"}, Port: 4000}
	flags := func(args ...string) (d tunnel.Dialed) {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		d.AddDialed(set, "", "")
		if err := set.Parse(args); err != nil {
			t.Fatal(err)
		}
		return d
	}
	for name, row := range map[string]struct {
		location, serviceType string
		objects               []client.Object
		want, served          corev1.ServiceType
		says                  string
		dialed                tunnel.Dialed
		dials                 *networkingv1beta1.DialedEndpoint
	}{
		"before the gateway exists": {
			location: tunnel.LocationConsumer, serviceType: "NodePort", objects: []client.Object{requested(networkingv1beta1.ServerAtConsumer)},
			want: "NodePort", says: "was changed: spec.serviceType is NodePort, was LoadBalancer",
		},
		"with a gateway server": {
			location: tunnel.LocationConsumer, serviceType: "NodePort", objects: []client.Object{requested(networkingv1beta1.ServerAtConsumer), server},
			want: "NodePort", served: "NodePort", says: "was changed: spec.endpoint.serviceType is NodePort, was LoadBalancer",
		},
		"without the flag": {
			location: tunnel.LocationConsumer, objects: []client.Object{requested(networkingv1beta1.ServerAtConsumer), server},
			want: "LoadBalancer", served: "LoadBalancer",
		},
		"with the server at the provider": {
			location: tunnel.LocationConsumer, serviceType: "NodePort", objects: []client.Object{requested(networkingv1beta1.ServerAtProvider), dialler},
			want: "LoadBalancer", says: "server in milan and is not changed",
		},
		"at another address": {
			location: tunnel.LocationProvider, dialed: tunnel.Dialed{ClientAddress: "100.64.0.7", ClientPort: 4000}, objects: []client.Object{requested(networkingv1beta1.ServerAtProvider), dialler},
			want: "LoadBalancer", says: "was changed: spec.dial is --gw-client-address 100.64.0.7 --gw-client-port 4000",
			dials: &networkingv1beta1.DialedEndpoint{Addresses: []string{"100.64.0.7"}, Port: 4000},
		},
		"an address without flags": {
			location: tunnel.LocationProvider, objects: []client.Object{dialing}, want: "LoadBalancer", dials: dialing.Spec.Dial,
		},
		"another address at the same port": {
			location: tunnel.LocationProvider, dialed: flags("--gw-client-address", "100.64.0.8"), objects: []client.Object{dialing},
			want: "LoadBalancer", dials: &networkingv1beta1.DialedEndpoint{Addresses: []string{"100.64.0.8"}, Port: 4000},
			says: "spec.dial is --gw-client-address 100.64.0.8 --gw-client-port 4000, was --gw-client-address 100.64.0.7 --gw-client-port 4000",
		},
		"an empty address": {
			location: tunnel.LocationProvider, dialed: flags("--gw-client-address", ""), objects: []client.Object{dialing},
			want: "LoadBalancer", dials: &networkingv1beta1.DialedEndpoint{Port: 4000}, says: "spec.dial is --gw-client-port 4000, was --gw-client-address 100.64.0.7",
		},
		"an empty address and no port": {
			location: tunnel.LocationProvider, dialed: flags("--gw-client-address", "", "--gw-client-port", "0"), objects: []client.Object{dialing},
			want: "LoadBalancer", says: "spec.dial is empty (what the provider reports), was --gw-client-address 100.64.0.7 --gw-client-port 4000",
		},
		"an empty address before there is a request": {
			location: tunnel.LocationProvider, dialed: flags("--gw-client-address", ""), objects: []client.Object{requested(networkingv1beta1.ServerAtProvider)},
			want: "LoadBalancer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{
				rangeObject(ipamv1alpha1.NetworkTypeExternal, "10.70.0.0/16"),
				&networkingv1beta1.WgGatewayServerTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: networkingv1beta1.ServerTemplateDefault}},
			}
			for _, object := range row.objects {
				objects = append(objects, object.DeepCopyObject().(client.Object))
			}
			var out bytes.Buffer
			c := &session.Cluster{Console: console.New(&out, &out, false), ID: "rome", Namespace: "liqo"}
			c.WithWatch = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objects...).
				WithIndex(&networkingv1beta1.NetworkRequest{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).Build()
			o := &peerOptions{location: row.location}
			o.network.Server.ServiceType, o.network.Dialed = row.serviceType, row.dialed
			u := &use{Cluster: c, provider: "milan", namespace: namespace, options: o}
			if err := u.requestNetwork(t.Context()); err != nil || !u.connected {
				t.Fatalf("connected: %v, %v: %s", u.connected, err, out.String())
			}
			request := requested("")
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(request), request); err != nil {
				t.Fatal(err)
			}
			if request.Spec.ServiceType != row.want {
				t.Errorf("the request has type %s, want %s", request.Spec.ServiceType, row.want)
			}
			if !reflect.DeepEqual(request.Spec.Dial, row.dials) {
				t.Errorf("the request dials %+v, want %+v", request.Spec.Dial, row.dials)
			}
			if row.served != "" {
				have := server.DeepCopy()
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(have), have); err != nil || have.Spec.Endpoint.ServiceType != row.served {
					t.Errorf("the GatewayServer has type %s, want %s: %v", have.Spec.Endpoint.ServiceType, row.served, err)
				}
			}
			if !strings.Contains(out.String(), row.says) || row.says == "" && strings.Contains(out.String(), "was changed") {
				t.Errorf("no %q in %s", row.says, out.String())
			}
		})
	}
}
