package controllers

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/network/gatewaypod"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/test/apitest"
)

// requestOf returns a request of this cluster to a provider, or with copied the copy of a consumer's request.
func requestOf(peer string, copied bool) *networkingv1beta1.NetworkRequest {
	q := &networkingv1beta1.NetworkRequest{ObjectMeta: peerMeta(peer, "request")}
	if q.Labels == nil {
		q.Labels = map[string]string{}
	}
	if copied {
		q.Labels[api.LabelReplicated], q.Labels[api.LabelOriginID], q.Labels[api.LabelReplication] = api.True, peer, api.False
	} else {
		q.Labels[api.LabelReplication], q.Labels[api.LabelRemoteID] = api.True, peer
	}
	return q
}

func factsOf(pods string, key byte) networkingv1beta1.NetworkFacts {
	return networkingv1beta1.NetworkFacts{
		CIDR:      networkingv1beta1.CIDRs{Pod: []string{pods}, External: []string{"10.70.0.0/16"}},
		PublicKey: bytes.Repeat([]byte{key}, network.KeyLength),
	}
}

// made waits for a network object that has the request as an owner. The request must not be its controller, so that the object is deleted only after the last
// request.
func made[T client.Object](t *testing.T, c *cluster, q *networkingv1beta1.NetworkRequest, o T, ok func(T) bool) T {
	t.Helper()
	return eventually(t, c, o, "made for the request", func(o T) bool {
		return ok(o) && o.GetLabels()[networkingv1beta1.LabelNegotiated] == api.True && slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
			return ref.UID == q.UID && (ref.Controller == nil || !*ref.Controller)
		})
	})
}

// testRequestOfConsumer: the provider creates its side of the network from the consumer's request, and reports its own network.
func testRequestOfConsumer(t *testing.T, c *cluster) {
	const id = "asti"
	c.tenant(t, id)
	q := requestOf(id, true)
	c.create(t, q)
	gw := made(t, c, q, &networkingv1beta1.GatewayServer{ObjectMeta: peerMeta(id, id)}, func(gw *networkingv1beta1.GatewayServer) bool {
		return gw.Spec.ServerTemplateRef.Name == networkingv1beta1.ServerTemplateDefault && gw.Spec.ServerTemplateRef.Namespace == home && gw.Spec.MTU == 1240
	})
	service := eventually(t, c, &corev1.Service{ObjectMeta: child(id)}, "there", func(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeLoadBalancer })
	change(t, c, service, func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.9"}}
	})
	eventually(t, c, q, "answered", func(q *networkingv1beta1.NetworkRequest) bool {
		told := q.Status.Provider
		return cmp.Equal(told.CIDR.Pod, []string{"10.42.0.0/16"}) && len(told.CIDR.External) == 1 && len(told.PublicKey) == network.KeyLength &&
			told.Endpoint != nil && told.Endpoint.Addresses[0] == "203.0.113.9" && told.Endpoint.Port == networkingv1beta1.GatewayPort &&
			is(q.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasons.Negotiating, "cluster asti to report its ranges and its public key")
	})
	facts := factsOf("10.120.0.0/16", 1)
	change(t, c, q, func(q *networkingv1beta1.NetworkRequest) { q.Spec.Consumer = facts })
	made(t, c, q, configuration(id, nil, nil), func(conf *networkingv1beta1.Configuration) bool { return cmp.Equal(conf.Spec.Remote.CIDR, facts.CIDR) })
	made(t, c, q, &networkingv1beta1.PublicKey{ObjectMeta: peerMeta(id, id)}, func(k *networkingv1beta1.PublicKey) bool { return bytes.Equal(k.Spec.PublicKey, facts.PublicKey) })
	eventually(t, c, q, "settled", func(q *networkingv1beta1.NetworkRequest) bool {
		return is(q.Status.Conditions, kube.ConditionReady, metav1.ConditionTrue, "", "")
	})

	// A Service type that an administrator of the provider sets in the gateway stays, while the consumer's new key is applied.
	change(t, c, gw, func(gw *networkingv1beta1.GatewayServer) { gw.Spec.Endpoint.ServiceType = corev1.ServiceTypeNodePort })
	change(t, c, q, func(q *networkingv1beta1.NetworkRequest) {
		q.Spec.Consumer.PublicKey = bytes.Repeat([]byte{2}, network.KeyLength)
	})
	eventually(t, c, &networkingv1beta1.PublicKey{ObjectMeta: peerMeta(id, id)}, "the new key", func(k *networkingv1beta1.PublicKey) bool { return k.Spec.PublicKey[0] == 2 })
	eventually(t, c, q, "told of the node port", func(q *networkingv1beta1.NetworkRequest) bool {
		return q.Status.Provider.Endpoint != nil && q.Status.Provider.Endpoint.Port >= 30000
	})

	// A negotiated Configuration without an owner does not count as an administrator's: the request becomes its owner again.
	change(t, c, configuration(id, nil, nil), func(conf *networkingv1beta1.Configuration) { conf.OwnerReferences = nil })
	facts = factsOf("10.124.0.0/16", 2)
	change(t, c, q, func(q *networkingv1beta1.NetworkRequest) { q.Spec.Consumer = facts })
	made(t, c, q, configuration(id, nil, nil), func(conf *networkingv1beta1.Configuration) bool { return cmp.Equal(conf.Spec.Remote.CIDR, facts.CIDR) })

	change(t, c, q, func(q *networkingv1beta1.NetworkRequest) { q.Spec.Consumer.CIDR.Pod = []string{"0.0.0.0/0"} })
	eventually(t, c, q, "refused", func(q *networkingv1beta1.NetworkRequest) bool {
		return is(q.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasons.Invalid, "0.0.0.0/0")
	})
	if conf := eventually(t, c, configuration(id, nil, nil), "there", func(*networkingv1beta1.Configuration) bool { return true }); !cmp.Equal(conf.Spec.Remote.CIDR, facts.CIDR) {
		t.Errorf("the ranges became %v", conf.Spec.Remote.CIDR)
	}
}

// testRequestToProvider: the consumer creates its gateway once the provider has reported the endpoint. Objects that an administrator created stay
// unchanged.
func testRequestToProvider(t *testing.T, c *cluster) {
	const id = "bari"
	c.tenant(t, id)
	mine := configuration(id, []string{"10.121.0.0/16"}, []string{"10.70.0.0/16"})
	c.create(t, mine)
	q := requestOf(id, false)
	c.create(t, q)
	eventually(t, c, q, "tells the ranges", func(q *networkingv1beta1.NetworkRequest) bool {
		return cmp.Equal(q.Spec.Consumer.CIDR.Pod, []string{"10.42.0.0/16"})
	})
	facts := factsOf("10.122.0.0/16", 3)
	facts.Endpoint = &networkingv1beta1.Endpoint{Addresses: []string{"198.51.100.7"}, Port: networkingv1beta1.GatewayPort, Protocol: corev1.ProtocolUDP}
	change(t, c, q, func(q *networkingv1beta1.NetworkRequest) { q.Status.Provider = facts })
	made(t, c, q, &networkingv1beta1.GatewayClient{ObjectMeta: peerMeta(id, id)}, func(gw *networkingv1beta1.GatewayClient) bool {
		return cmp.Equal(gw.Spec.Endpoint, *facts.Endpoint) && gw.Spec.ClientTemplateRef.Name == networkingv1beta1.ClientTemplateDefault && gw.Spec.MTU == 1240
	})
	eventually(t, c, q, "tells its key", func(q *networkingv1beta1.NetworkRequest) bool {
		return len(q.Spec.Consumer.PublicKey) == network.KeyLength && q.Spec.Consumer.Endpoint == nil && len(q.Status.Conditions) == 0
	})
	conf := eventually(t, c, configuration(id, nil, nil), "there", func(*networkingv1beta1.Configuration) bool { return true })
	if !cmp.Equal(conf.Spec.Remote.CIDR.Pod, []string{"10.121.0.0/16"}) || len(conf.OwnerReferences) > 0 {
		t.Errorf("what an administrator made was changed: %+v", conf)
	}

	// An administrator of this cluster reaches the peer by another path. What the peer names as its own path in a request does not count.
	change(t, c, q, func(q *networkingv1beta1.NetworkRequest) {
		q.Spec.Dial = &networkingv1beta1.DialedEndpoint{Addresses: []string{"100.64.0.7"}, Port: 4000}
	})
	elsewhere := networkingv1beta1.Endpoint{Addresses: []string{"100.64.0.7"}, Port: 4000, Protocol: corev1.ProtocolUDP}
	dials := func(gw *networkingv1beta1.GatewayClient) bool { return cmp.Equal(gw.Spec.Endpoint, elsewhere) }
	made(t, c, q, &networkingv1beta1.GatewayClient{ObjectMeta: peerMeta(id, id)}, dials)

	// A request in the other direction uses the existing objects, and the gateway stays a client.
	back := requestOf(id, true)
	back.Name, back.Spec.Consumer, back.Spec.Dial = "back", facts, &networkingv1beta1.DialedEndpoint{Addresses: []string{"100.64.0.8"}}
	c.create(t, back)
	made(t, c, back, &networkingv1beta1.GatewayClient{ObjectMeta: peerMeta(id, id)}, func(gw *networkingv1beta1.GatewayClient) bool { return len(gw.OwnerReferences) == 2 && dials(gw) })
}

// testHostileRequests: a request of a consumer and an answer of a provider contain addresses that belong to others. Ranges that are not private never become a
// Configuration, and private ranges are mapped to a range that this cluster chooses.
func testHostileRequests(t *testing.T, c *cluster) {
	const id = "evil"
	// A private range outside of the pools: this cluster can't choose it by chance.
	const outside = "100.120.0.0/16"
	c.tenant(t, id)
	c.create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace(id), Name: "consumer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "liqo-remote-controlplane"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: id}},
	})
	as := rest.CopyConfig(c.config)
	as.Impersonate = rest.ImpersonationConfig{UserName: id, Groups: []string{"liqo.io", "system:authenticated"}}
	consumer := apitest.Client(t, as)

	q := requestOf(id, true)
	q.Spec.Consumer = factsOf("8.8.8.0/24", 9)
	apitest.Eventually(t, within, "the consumer to have its rights", func() error { return consumer.Create(t.Context(), q) })
	for _, hostile := range []string{"8.8.8.0/24", "192.0.2.0/24", "203.0.113.7/32", "169.254.169.254/32", "127.0.0.0/8", "10.0.0.0/8"} {
		apitest.Eventually(t, within, "the consumer to name "+hostile, func() error {
			if err := consumer.Get(t.Context(), client.ObjectKeyFromObject(q), q); err != nil {
				return err
			}
			q.Spec.Consumer.CIDR.Pod = []string{hostile}
			return consumer.Update(t.Context(), q)
		})
		eventually(t, c, q, "refused", func(q *networkingv1beta1.NetworkRequest) bool {
			return is(q.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasons.Invalid, hostile)
		})
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: q.Namespace, Name: id}, &networkingv1beta1.Configuration{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Configuration of hostile ranges: %v", err)
	}
	for _, o := range []client.Object{configuration(id, []string{"8.8.8.0/24"}, []string{"10.70.0.0/16"}), &ipamv1alpha1.Network{ObjectMeta: peerMeta(id, "own"), Spec: ipamv1alpha1.NetworkSpec{CIDR: "8.8.8.0/24"}}} {
		if err := consumer.Create(t.Context(), o); !apierrors.IsForbidden(err) {
			t.Errorf("the consumer makes a %T itself: %v", o, err)
		}
	}
	change(t, c, q, func(q *networkingv1beta1.NetworkRequest) { q.Spec.Consumer.CIDR.Pod = []string{outside} })
	conf := eventually(t, c, configuration(id, nil, nil), "configured", configured)
	network := &ipamv1alpha1.Network{ObjectMeta: peerMeta(id, id+"-pod-100-120-0-0-16")}
	eventually(t, c, network, "marked", func(n *ipamv1alpha1.Network) bool {
		return n.Labels[ipamv1alpha1.LabelNetworkNegotiated] == api.True && n.Status.CIDR == conf.Status.Remote.CIDR.Pod[0]
	})
	if network.Status.CIDR == outside {
		t.Error("the consumer is seen where it says")
	}

	// A second request that reports another network does not overwrite the objects of the first one.
	second := requestOf(id, true)
	second.Name, second.Spec.Consumer = "second", factsOf("10.21.0.0/16", 9)
	if err := consumer.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, second, "refused", func(q *networkingv1beta1.NetworkRequest) bool {
		return is(q.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasons.Invalid, "another NetworkRequest, request, which takes precedence")
	})
	if conf := eventually(t, c, configuration(id, nil, nil), "there", func(*networkingv1beta1.Configuration) bool { return true }); conf.Spec.Remote.CIDR.Pod[0] != outside {
		t.Errorf("the second request changed the ranges to %v", conf.Spec.Remote.CIDR)
	}

	const provider = "wolf"
	c.tenant(t, provider)
	mine := requestOf(provider, false)
	c.create(t, mine)
	answer := factsOf("10.123.0.0/16", 7)
	answer.CIDR.External = []string{"192.0.2.0/24"} // the range of the nodes
	answer.Endpoint = &networkingv1beta1.Endpoint{Addresses: []string{"198.51.100.7"}, Port: networkingv1beta1.GatewayPort, Protocol: corev1.ProtocolUDP}
	change(t, c, mine, func(q *networkingv1beta1.NetworkRequest) { q.Status.Provider = answer })
	answer.CIDR.External = []string{"10.70.0.0/16"}
	change(t, c, mine, func(q *networkingv1beta1.NetworkRequest) { q.Status.Provider.PublicKey = bytes.Repeat([]byte{8}, 32) })
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: mine.Namespace, Name: provider}, &networkingv1beta1.Configuration{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Configuration of what a hostile provider answers: %v", err)
	}
	change(t, c, mine, func(q *networkingv1beta1.NetworkRequest) { q.Status.Provider = answer })
	eventually(t, c, configuration(provider, nil, nil), "configured", configured)
}

// TestTheOldestGatewayCounts: if there are several gateways to a peer, a request uses the one that takes precedence, which the conditions of the others name.
func TestTheOldestGatewayCounts(t *testing.T) {
	meta := func(name string, created int64) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "tenant", Name: name, UID: types.UID(name), CreationTimestamp: metav1.Unix(created, 0), Labels: map[string]string{api.LabelRemoteClusterID: "milan"},
		}
	}
	var objects []client.Object
	var servers []*networkingv1beta1.GatewayServer
	for _, m := range []metav1.ObjectMeta{meta("a", 9), meta("b", 1), meta("c", 1)} {
		servers = append(servers, &networkingv1beta1.GatewayServer{ObjectMeta: m})
		objects = append(objects, servers[len(servers)-1], &networkingv1beta1.GatewayClient{ObjectMeta: m})
	}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objects...).Build()
	server, dialler, err := (&networkRequests{client: c}).gateways(t.Context(), "tenant", "milan")
	if err != nil {
		t.Fatal(err)
	}
	if server.Name != "b" || dialler.Name != "b" {
		t.Errorf("the request uses server %s and client %s, want b", server.Name, dialler.Name)
	}
	for _, s := range servers {
		owner := gatewaypod.Owner{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ClusterID: "milan"}
		err := (&gateways{client: c}).rival(t.Context(), &gateway{Owner: owner, object: s, kind: "GatewayServer", server: &s.Spec})
		if (err == nil) != (s.Name == "b") || err != nil && !strings.Contains(err.Error(), "GatewayServer tenant/b connects cluster milan") {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}
