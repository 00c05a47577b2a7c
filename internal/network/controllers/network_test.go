package controllers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
	apitesting "liqo.io/liqo/internal/testing"
)

// TestNetworkOnAPIServer runs every scenario against one API server: each has a peer of its own.
func TestNetworkOnAPIServer(t *testing.T) {
	c := newCluster(t)
	c.node(t, "one", "192.0.2.1")
	c.node(t, "two", "192.0.2.2")
	for _, scenario := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"system addresses", testSystemAddresses},
		{"configuration", testConfiguration},
		{"wrong configurations", testWrongConfigurations},
		{"gateway server", testGatewayServer},
		{"types of services", testServiceTypes},
		{"gateway client", testGatewayClient},
		{"keys of somebody else", testSecretRef},
		{"names in use", testNamesInUse},
		{"wrong gateways", testWrongGateways},
		{"any order", testAnyOrder},
		{"a new start changes nothing", testNewStart}, // the last one: all that the others made is there
	} {
		t.Run(scenario.name, func(t *testing.T) { scenario.run(t, c) })
	}
}

func testSystemAddresses(t *testing.T, c *cluster) {
	address := func(name string) func(*ipamv1alpha1.IP) bool {
		return func(ip *ipamv1alpha1.IP) bool { return ip.Spec.IP == name && ip.Status.IP != "" }
	}
	ip := func(name string) *ipamv1alpha1.IP {
		return &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name}}
	}
	first := eventually(t, c, ip("node-one"), "an address for peers", address("192.0.2.1"))
	if first.Labels[ipamv1alpha1.LabelIPType] != ipamv1alpha1.IPTypeNode || first.Labels[api.LabelManaged] != api.True {
		t.Errorf("labels %v", first.Labels)
	}
	kubernetes, proxy := &corev1.Service{}, &corev1.Service{}
	if err := errors.Join(c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "kubernetes"}, kubernetes),
		c.Get(t.Context(), client.ObjectKey{Namespace: home, Name: "liqo-proxy"}, proxy)); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, ip("api-server"), "the address of the API server", address(kubernetes.Spec.ClusterIP))
	eventually(t, c, ip("api-server-proxy"), "the address of the proxy", address(proxy.Spec.ClusterIP))

	three := c.node(t, "three", "192.0.2.3")
	virtual := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "virtual", Labels: map[string]string{api.LabelType: api.TypeVirtualNode}}}
	c.create(t, virtual)
	change(t, c, virtual, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.200"}}
	})
	eventually(t, c, ip("node-three"), "of a new node", address("192.0.2.3"))
	change(t, c, three, func(n *corev1.Node) { n.Status.Addresses[0].Address = "192.0.2.33" })
	eventually(t, c, ip("node-three"), "a new one for a new address", address("192.0.2.33"))
	c.delete(t, ip("node-three"))
	eventually(t, c, ip("node-three"), "made again", address("192.0.2.33"))
	c.delete(t, three)
	c.gone(t, ip("node-three"))
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: home, Name: "node-virtual"}, ip("")); err == nil {
		t.Error("a virtual node has an IP")
	}
	c.delete(t, virtual)
}

func configuration(id string, pods, external []string) *networkingv1beta1.Configuration {
	c := &networkingv1beta1.Configuration{ObjectMeta: peerMeta(id, id)}
	c.Spec.Remote.CIDR = networkingv1beta1.CIDRs{Pod: pods, External: external}
	return c
}

func configured(c *networkingv1beta1.Configuration) bool {
	condition := meta.FindStatusCondition(c.Status.Conditions, networkingv1beta1.ConditionCIDRsConfigured)
	return condition != nil && condition.Status == metav1.ConditionTrue && condition.ObservedGeneration == c.Generation && c.Status.Remote != nil
}

func testConfiguration(t *testing.T, c *cluster) {
	c.tenant(t, "milan")
	// The first range is our own, the second is free, and both clusters have the usual external CIDR.
	conf := configuration("milan", []string{"10.42.0.0/16", "10.99.0.0/16"}, []string{"10.70.0.0/16"})
	c.create(t, conf)
	eventually(t, c, conf, "ranges", configured)
	got := conf.Status.Remote.CIDR
	if len(got.Pod) != 2 || got.Pod[0] == "10.42.0.0/16" || got.Pod[1] != "10.99.0.0/16" || len(got.External) != 1 || got.External[0] == "10.70.0.0/16" {
		t.Errorf("ranges %+v", got)
	}
	if diff := cmp.Diff(networkingv1beta1.CIDRs{Pod: []string{"10.42.0.0/16"}, External: []string{"10.70.0.0/16"}}, conf.Spec.Local.CIDR); diff != "" {
		t.Errorf("spec.local (-want +got):\n%s", diff)
	}
	networks := &ipamv1alpha1.NetworkList{}
	if err := c.List(t.Context(), networks, client.InNamespace(conf.Namespace)); err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for _, n := range networks.Items {
		types[n.Name] = n.Labels[networkingv1beta1.LabelCIDRType]
		if !metav1.IsControlledBy(&n, conf) || n.Labels[api.LabelRemoteClusterID] != "milan" {
			t.Errorf("Network %s: labels %v, owners %v", n.Name, n.Labels, n.OwnerReferences)
		}
	}
	if diff := cmp.Diff(map[string]string{
		"milan-pod-10-42-0-0-16": "pod", "milan-pod-10-99-0-0-16": "pod", "milan-external-10-70-0-0-16": "external",
	}, types); diff != "" {
		t.Errorf("Networks (-want +got):\n%s", diff)
	}
	// A range that changes there moves here; the other stays where it is.
	change(t, c, conf, func(conf *networkingv1beta1.Configuration) { conf.Spec.Remote.CIDR.Pod[1] = "10.98.0.0/16" })
	eventually(t, c, conf, "the new range", func(conf *networkingv1beta1.Configuration) bool {
		return configured(conf) && cmp.Equal(conf.Status.Remote.CIDR.Pod, []string{got.Pod[0], "10.98.0.0/16"})
	})
	c.gone(t, &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: conf.Namespace, Name: "milan-pod-10-99-0-0-16"}})
	// A Network that somebody deletes comes back.
	c.delete(t, &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: conf.Namespace, Name: "milan-pod-10-98-0-0-16"}})
	eventually(t, c, &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: conf.Namespace, Name: "milan-pod-10-98-0-0-16"}}, "made again",
		func(n *ipamv1alpha1.Network) bool {
			return n.DeletionTimestamp.IsZero() && n.Status.CIDR == "10.98.0.0/16"
		})
	eventually(t, c, conf, "complete again", configured)
}

func testWrongConfigurations(t *testing.T, c *cluster) {
	c.tenant(t, "wrong")
	external := []string{"10.70.0.0/16"}
	named := func(name string, pods []string) *networkingv1beta1.Configuration {
		conf := configuration(name, pods, external)
		conf.Namespace = api.TenantNamespace("wrong")
		return conf
	}
	huge, v6, loopback, nobody := named("huge", []string{"10.0.0.0/7"}), named("v6", []string{"fd00::/48"}), named("loop", []string{"127.0.0.0/16"}), named("nobody", []string{"10.97.0.0/16"})
	nobody.Labels = nil
	for message, conf := range map[string]*networkingv1beta1.Configuration{
		`spec.remote.cidr.pod[0] is "fd00::/48"`: v6, "label liqo.io/remote-cluster-id is missing": nobody,
		"/7": huge, "spec.remote.cidr.pod[0] is 127.0.0.0/16": loopback,
	} {
		c.create(t, conf)
		eventually(t, c, conf, "says what is wrong", func(conf *networkingv1beta1.Configuration) bool {
			return conf.Status.Remote == nil && is(conf.Status.Conditions, networkingv1beta1.ConditionCIDRsConfigured, metav1.ConditionFalse, "", message) &&
				is(conf.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, "", message)
		})
		c.delete(t, conf)
	}
	foreign := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: huge.Namespace, Name: "taken-pod-10-96-0-0-16"}, Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.96.0.0/16"}}
	c.create(t, foreign)
	taken := named("taken", []string{"10.96.0.0/16"})
	c.create(t, taken)
	eventually(t, c, taken, "takes over no Network", func(conf *networkingv1beta1.Configuration) bool {
		return is(conf.Status.Conditions, networkingv1beta1.ConditionCIDRsConfigured, metav1.ConditionFalse, "", "was not made for this Configuration")
	})
	c.delete(t, foreign)
	eventually(t, c, taken, "goes on when that is gone", configured)
	// Of two that are about one cluster the first counts, until it goes.
	second := named("twice", []string{"10.96.0.0/16"})
	second.Labels[api.LabelRemoteClusterID] = "taken"
	c.create(t, second)
	eventually(t, c, second, "is one too many", func(conf *networkingv1beta1.Configuration) bool {
		return is(conf.Status.Conditions, networkingv1beta1.ConditionCIDRsConfigured, metav1.ConditionFalse, "", "there is Configuration liqo-tenant-wrong/taken about cluster taken already")
	})
	c.delete(t, taken)
	eventually(t, c, second, "counts now", configured)
	c.delete(t, second)
}

func server(id string) *networkingv1beta1.GatewayServer {
	return &networkingv1beta1.GatewayServer{ObjectMeta: peerMeta(id, id), Spec: networkingv1beta1.GatewayServerSpec{
		MTU: 1340, Endpoint: networkingv1beta1.ServerEndpoint{Port: 51840, ServiceType: corev1.ServiceTypeNodePort},
	}}
}

func dialer(id string) *networkingv1beta1.GatewayClient {
	return &networkingv1beta1.GatewayClient{ObjectMeta: peerMeta(id, id), Spec: networkingv1beta1.GatewayClientSpec{
		Endpoint: networkingv1beta1.Endpoint{Addresses: []string{"198.51.100.7"}, Port: 30500, Protocol: corev1.ProtocolUDP},
	}}
}

func child(id string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: api.TenantNamespace(id), Name: "gw-" + id}
}

func testGatewayServer(t *testing.T, c *cluster) {
	const id = "genoa"
	c.tenant(t, id)
	gw := server(id)
	gw.Spec.ServiceAnnotations = map[string]string{"example.org/pool": "a"}
	c.create(t, gw)
	eventually(t, c, gw, "waits for a pod", func(gw *networkingv1beta1.GatewayServer) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, "GatewayStarting", "Deployment liqo-tenant-genoa/gw-genoa") &&
			is(gw.Status.Conditions, conditionConnected, metav1.ConditionFalse, "NoPublicKey", "PublicKey liqo-tenant-genoa/genoa")
	})
	deployment := &appsv1.Deployment{ObjectMeta: child(id)}
	eventually(t, c, deployment, "there", func(d *appsv1.Deployment) bool { return d.Spec.Template.Spec.ServiceAccountName == "gw-genoa" })
	checkChildren(t, c, gw, id, true)
	checkRights(t, c, id)
	// It runs on node two.
	c.run(t, deployment, "gw-genoa-a", "two", "10.42.2.7", networkingv1beta1.LabelActive, "true")
	c.available(t, deployment)
	service := &corev1.Service{ObjectMeta: child(id)}
	eventually(t, c, gw, "ready", func(gw *networkingv1beta1.GatewayServer) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionTrue, "", "") &&
			gw.Status.InternalEndpoint != nil && *gw.Status.InternalEndpoint == networkingv1beta1.InternalEndpoint{IP: "10.42.2.7", Node: "two"} &&
			cmp.Equal(gw.Status.Endpoint.Addresses, []string{"192.0.2.2", "192.0.2.1"})
	})
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(service), service); err != nil {
		t.Fatal(err)
	}
	if gw.Status.Endpoint.Port != service.Spec.Ports[0].NodePort || gw.Status.Endpoint.Protocol != corev1.ProtocolUDP || service.Annotations["example.org/pool"] != "a" ||
		gw.Status.SecretRef.Name != "gw-genoa" || gw.Status.ServerRef.Kind != "Deployment" {
		t.Errorf("status %+v, Service %+v", gw.Status, service.Spec)
	}
	checkPodPolicy(t, c, gw, "gw-genoa-a")
	// The tunnel.
	c.create(t, &networkingv1beta1.PublicKey{ObjectMeta: peerMeta(id, id), Spec: networkingv1beta1.PublicKeySpec{PublicKey: make([]byte, network.KeyLength)}})
	eventually(t, c, gw, "waits for the peer", func(gw *networkingv1beta1.GatewayServer) bool {
		return is(gw.Status.Conditions, conditionConnected, metav1.ConditionFalse, "Connecting",
			fmt.Sprintf("waiting for cluster genoa to dial 192.0.2.2:%d, 192.0.2.1:%d (UDP)", gw.Status.Endpoint.Port, gw.Status.Endpoint.Port))
	})
	connection := &networkingv1beta1.Connection{ObjectMeta: child(id)}
	change(t, c, connection, func(c *networkingv1beta1.Connection) { c.Status.Value = networkingv1beta1.Connected })
	eventually(t, c, gw, "connected", func(gw *networkingv1beta1.GatewayServer) bool {
		return is(gw.Status.Conditions, conditionConnected, metav1.ConditionTrue, "Connected", "")
	})
	// The other replica takes over.
	change(t, c, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: gw.Namespace, Name: "gw-genoa-a"}}, func(p *corev1.Pod) { delete(p.Labels, networkingv1beta1.LabelActive) })
	c.run(t, deployment, "gw-genoa-b", "one", "10.42.1.9", networkingv1beta1.LabelActive, "true")
	eventually(t, c, gw, "follows the active pod", func(gw *networkingv1beta1.GatewayServer) bool {
		return gw.Status.InternalEndpoint != nil && gw.Status.InternalEndpoint.Node == "one"
	})
	testTemplateChange(t, c, deployment)
	// What somebody changes or deletes is put right.
	change(t, c, service, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"nobody": "1"} })
	c.delete(t, &rbacv1.Role{ObjectMeta: child(id)})
	eventually(t, c, service, "its pods again", func(s *corev1.Service) bool { return s.Spec.Selector[networkingv1beta1.LabelGatewayName] == id })
	eventually(t, c, &rbacv1.Role{ObjectMeta: child(id)}, "made again", func(*rbacv1.Role) bool { return true })
	for _, reason := range []string{eventKeysMade, eventDeployment, eventService} {
		checkEvent(t, c, gw, reason)
	}
	// The end: a finalizer for what lies in no namespace, owners for the rest (see checkChildren).
	c.delete(t, gw)
	c.gone(t, gw)
	c.gone(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "liqo-gateway-liqo-tenant-genoa-genoa"}})
}

// testServiceTypes: any type of Service may become any other, whatever the template says of one of them.
func testServiceTypes(t *testing.T, c *cluster) {
	const id = "trento"
	c.tenant(t, id)
	c.create(t, &networkingv1beta1.WgGatewayServerTemplate{ObjectMeta: peerMeta(id, "own"), Spec: networkingv1beta1.GatewayTemplateSpec{
		Template: runtime.RawExtension{Raw: []byte(`{"spec":{"deployment":{"spec":{"template":{"spec":{"containers":[{"name":"gateway","image":"x"}]}}}},
			"service":{"spec":{"allocateLoadBalancerNodePorts":false,"externalTrafficPolicy":"Local","loadBalancerClass":"example.org/lb"}}}}`)},
	}})
	gw := server(id)
	gw.Spec.ServerTemplateRef = corev1.ObjectReference{Namespace: gw.Namespace, Name: "own"}
	gw.Spec.Endpoint.Port = 4500
	c.create(t, gw)
	service := &corev1.Service{ObjectMeta: child(id)}
	for _, kind := range []corev1.ServiceType{
		corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort, corev1.ServiceTypeClusterIP,
	} {
		change(t, c, gw, func(gw *networkingv1beta1.GatewayServer) { gw.Spec.Endpoint.ServiceType = kind })
		eventually(t, c, service, "becomes "+string(kind), func(s *corev1.Service) bool { return s.Spec.Type == kind })
		if kind == corev1.ServiceTypeLoadBalancer {
			eventually(t, c, gw, "waits for an address", func(gw *networkingv1beta1.GatewayServer) bool {
				return gw.Status.Endpoint == nil && is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, "NoEndpoint", "port 4500/UDP, to get an address")
			})
			change(t, c, service, func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.4"}}
			})
		}
		eventually(t, c, gw, "tells where it is", func(gw *networkingv1beta1.GatewayServer) bool {
			e := gw.Status.Endpoint
			if e == nil || e.Protocol != corev1.ProtocolUDP {
				return false
			}
			switch kind {
			case corev1.ServiceTypeLoadBalancer:
				return e.Port == 4500 && cmp.Equal(e.Addresses, []string{"203.0.113.4"})
			case corev1.ServiceTypeNodePort:
				return e.Port >= 30000 && e.Addresses[0] == "192.0.2.1"
			default:
				return e.Port == 4500 && cmp.Equal(e.Addresses, []string{service.Spec.ClusterIP})
			}
		})
	}
	c.delete(t, gw)
	c.gone(t, gw)
}

func checkEvent(t *testing.T, c *cluster, about client.Object, reason string) {
	t.Helper()
	apitesting.Eventually(t, within, "event "+reason, func() error {
		list := &eventsv1.EventList{}
		if err := c.List(t.Context(), list, client.InNamespace(about.GetNamespace())); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Regarding.UID == about.GetUID() && e.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("%d events, none with it", len(list.Items))
	})
}

// checkChildren looks at everything that was made for a gateway.
func checkChildren(t *testing.T, c *cluster, gw client.Object, id string, served bool) {
	t.Helper()
	children := []client.Object{
		&corev1.Secret{ObjectMeta: child(id)}, &corev1.ServiceAccount{ObjectMeta: child(id)}, &rbacv1.Role{ObjectMeta: child(id)},
		&rbacv1.RoleBinding{ObjectMeta: child(id)}, &appsv1.Deployment{ObjectMeta: child(id)}, &networkingv1beta1.Connection{ObjectMeta: child(id)},
	}
	if served {
		children = append(children, &corev1.Service{ObjectMeta: child(id)})
	}
	for _, o := range children {
		eventually(t, c, o, "there", func(client.Object) bool { return true })
		labels := o.GetLabels()
		if !metav1.IsControlledBy(o, gw) || labels[networkingv1beta1.LabelGatewayName] != id || labels[api.LabelRemoteClusterID] != id ||
			labels[networkingv1beta1.LabelGatewayNamespace] != gw.GetNamespace() || labels[api.LabelManaged] != api.True {
			t.Errorf("%T %s: labels %v, owners %v", o, o.GetName(), labels, o.GetOwnerReferences())
		}
	}
	secret := children[0].(*corev1.Secret)
	if err := network.CheckKeys(secret.Data); err != nil || secret.Labels[networkingv1beta1.LabelGatewayResource] != api.True {
		t.Errorf("keys %v, labels %v", err, secret.Labels)
	}
	wide := &rbacv1.ClusterRoleBinding{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "liqo-gateway-" + gw.GetNamespace() + "-" + id}, wide); err != nil {
		t.Fatal(err)
	}
	if wide.RoleRef.Name != network.GatewayClusterRole || wide.Subjects[0].Name != "gw-"+id {
		t.Errorf("ClusterRoleBinding %+v", wide)
	}
}

// checkRights asks the API server what a gateway may do.
func checkRights(t *testing.T, c *cluster, id string) {
	t.Helper()
	type right struct{ namespace, verb, group, resource, sub, name string }
	own := api.TenantNamespace(id)
	for r, want := range map[right]bool{
		{own, "watch", "", "secrets", "", "gw-" + id}:                               true,
		{own, "get", "", "secrets", "", "another"}:                                  false,
		{own, "list", "", "secrets", "", ""}:                                        false,
		{own, "patch", "networking.liqo.io", "connections", "status", "gw-" + id}:   true,
		{own, "patch", "networking.liqo.io", "connections", "status", "gw-another"}: false,
		{own, "patch", "networking.liqo.io", "connections", "", "gw-" + id}:         false,
		{own, "patch", "networking.liqo.io", "configurations", "", id}:              false,
		{own, "create", "networking.liqo.io", "publickeies", "", ""}:                false,
		{own, "patch", "", "pods", "", ""}:                                          true,
		{own, "create", "", "pods", "", ""}:                                         false,
		{home, "patch", "", "pods", "", ""}:                                         false,
		{"", "watch", "", "pods", "", ""}:                                           true,
		{"", "watch", "", "nodes", "", ""}:                                          true,
		{"", "watch", "networking.liqo.io", "publickeies", "", ""}:                  true,
		{"", "watch", "ipam.liqo.io", "networks", "", ""}:                           true,
		{home, "get", "", "secrets", "", "authentication-keys"}:                     false,
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + own + ":gw-" + id, Groups: []string{"system:serviceaccounts", "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: r.namespace, Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.sub, Name: r.name,
			},
		}}
		apitesting.Eventually(t, within, fmt.Sprintf("the right %+v to be %t", r, want), func() error {
			again := review.DeepCopy()
			if err := c.Create(t.Context(), again); err != nil {
				return err
			}
			if again.Status.Allowed != want {
				return fmt.Errorf("it is %t", again.Status.Allowed)
			}
			return nil
		})
	}
}

// checkPodPolicy: a gateway marks its pods and changes nothing else of them, and nothing of others.
func checkPodPolicy(t *testing.T, c *cluster, gw client.Object, own string) {
	t.Helper()
	neighbour := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: gw.GetNamespace(), Name: "virtual-kubelet"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "virtual-kubelet", Image: "x"}}},
	}
	c.create(t, neighbour)
	as := rest.CopyConfig(c.config)
	as.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + gw.GetNamespace() + ":gw-" + gw.GetName(), Groups: []string{"system:serviceaccounts", "system:authenticated"},
	}
	gateway := apitesting.Client(t, as)
	mark := func(value any) map[string]any {
		return map[string]any{"metadata": map[string]any{"labels": map[string]any{networkingv1beta1.LabelActive: value}}}
	}
	image := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "gateway", "image": "evil"}}}}
	for _, step := range []struct {
		pod    string
		patch  map[string]any
		refuse string
	}{
		{"virtual-kubelet", mark("true"), "does not belong to the gateway"},
		{own, image, "may change nothing of its pods but"},
		{own, map[string]any{"metadata": map[string]any{"labels": map[string]any{networkingv1beta1.LabelGatewayName: nil}}}, "may change nothing"},
		{own, map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "victim"}}}, "may change nothing"},
		{own, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b"}}}, "may change nothing"},
		{own, mark(nil), ""},
		{own, mark("true"), ""},
	} {
		text, err := json.Marshal(step.patch)
		if err != nil {
			t.Fatal(err)
		}
		apitesting.Eventually(t, within, fmt.Sprintf("the answer %q to %s of %s", step.refuse, text, step.pod), func() error {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: gw.GetNamespace(), Name: step.pod}}
			err := gateway.Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, text), client.DryRunAll)
			if (err == nil) != (step.refuse == "") || (err != nil && !strings.Contains(err.Error(), step.refuse)) {
				return fmt.Errorf("it is %w", err)
			}
			return nil
		})
	}
}

// testTemplateChange: gateways follow their template.
func testTemplateChange(t *testing.T, c *cluster, deployment *appsv1.Deployment) {
	template := &networkingv1beta1.WgGatewayServerTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: networkingv1beta1.ServerTemplateDefault}}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(template), template); err != nil {
		t.Fatal(err)
	}
	original := template.Spec.Template.Raw
	set := func(raw []byte) {
		change(t, c, template, func(o *networkingv1beta1.WgGatewayServerTemplate) { o.Spec.Template.Raw = raw })
	}
	replicas := *deployment.Spec.Replicas
	set(bytes.Replace(original, []byte(`"replicas":1`), []byte(`"replicas":"{{ len .Name }}"`), 1))
	eventually(t, c, deployment, "follows the template", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == int32(len("genoa")) })
	set([]byte(`{"spec":{"deployment":{"spec":{"replicas":"{{ .Name }}"}}}}`))
	gw := server("genoa")
	eventually(t, c, gw, "tells that the template is wrong", func(gw *networkingv1beta1.GatewayServer) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, "BadTemplate", `replicas comes to "genoa": want a number`)
	})
	set(original)
	eventually(t, c, deployment, "back", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == replicas })
	c.available(t, deployment)
	eventually(t, c, gw, "ready again", func(gw *networkingv1beta1.GatewayServer) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionTrue, "", "")
	})
}

func testGatewayClient(t *testing.T, c *cluster) {
	const id = "pisa"
	c.tenant(t, id)
	gw := dialer(id)
	c.create(t, gw)
	eventually(t, c, gw, "made", func(gw *networkingv1beta1.GatewayClient) bool {
		return gw.Status.ClientRef != nil && gw.Status.SecretRef != nil
	})
	checkChildren(t, c, gw, id, false)
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: gw.Namespace, Name: "gw-pisa"}, &corev1.Service{}); err == nil {
		t.Error("a client has a Service")
	}
	c.create(t, &networkingv1beta1.PublicKey{ObjectMeta: peerMeta(id, id), Spec: networkingv1beta1.PublicKeySpec{PublicKey: make([]byte, network.KeyLength)}})
	eventually(t, c, gw, "says what it waits for", func(gw *networkingv1beta1.GatewayClient) bool {
		return is(gw.Status.Conditions, conditionConnected, metav1.ConditionFalse, "Connecting", "waiting for cluster pisa to answer at 198.51.100.7:30500 (UDP)")
	})
	connection := &networkingv1beta1.Connection{ObjectMeta: child(id)}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(connection), connection); err != nil {
		t.Fatal(err)
	}
	if connection.Spec.Type != networkingv1beta1.ConnectionClient || connection.Spec.GatewayRef.Kind != "GatewayClient" || connection.Spec.GatewayRef.Name != id {
		t.Errorf("Connection %+v", connection.Spec)
	}
	// The keys are replaced by deleting them.
	secret := &corev1.Secret{ObjectMeta: child(id)}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	old := secret.Data[networkingv1beta1.SecretPrivateKey]
	c.delete(t, secret)
	eventually(t, c, &corev1.Secret{ObjectMeta: child(id)}, "new keys", func(s *corev1.Secret) bool {
		return !bytes.Equal(s.Data[networkingv1beta1.SecretPrivateKey], old) && network.CheckKeys(s.Data) == nil
	})
	c.delete(t, gw)
	c.gone(t, gw)
	c.gone(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "liqo-gateway-liqo-tenant-pisa-pisa"}})
}

func testSecretRef(t *testing.T, c *cluster) {
	const id = "siena"
	c.tenant(t, id)
	gw := dialer(id)
	gw.Spec.SecretRef = &corev1.LocalObjectReference{Name: "mine"}
	c.create(t, gw)
	eventually(t, c, gw, "waits for the Secret", func(gw *networkingv1beta1.GatewayClient) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasonMissingRef, "Secret liqo-tenant-siena/mine")
	})
	checkEvent(t, c, gw, reasonMissingRef)
	data, err := network.KeyPair([network.KeyLength]byte{1: 7})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: gw.Namespace, Name: "mine"}, Data: map[string][]byte{
		networkingv1beta1.SecretPrivateKey: []byte("as text"), networkingv1beta1.SecretPublicKey: data[networkingv1beta1.SecretPublicKey],
	}}
	c.create(t, secret)
	eventually(t, c, gw, "does not take text for a key", func(gw *networkingv1beta1.GatewayClient) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasonBadKeys, "Secret liqo-tenant-siena/mine: its key privateKey has 7 bytes")
	})
	change(t, c, secret, func(s *corev1.Secret) { s.Data = data })
	eventually(t, c, gw, "takes it", func(gw *networkingv1beta1.GatewayClient) bool {
		return gw.Status.SecretRef != nil && gw.Status.SecretRef.Name == "mine"
	})
	role := eventually(t, c, &rbacv1.Role{ObjectMeta: child(id)}, "may read it", func(r *rbacv1.Role) bool { return len(r.Rules) > 0 })
	if diff := cmp.Diff([]string{"mine"}, role.Rules[0].ResourceNames); diff != "" {
		t.Error(diff)
	}
	after := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), after); err != nil || after.ResourceVersion != secret.ResourceVersion {
		t.Errorf("somebody else's Secret was changed: %v", err)
	}
	c.delete(t, gw)
	c.gone(t, gw)
}

func testNamesInUse(t *testing.T, c *cluster) {
	const id = "parma"
	c.tenant(t, id)
	foreign := &appsv1.Deployment{ObjectMeta: child(id), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}},
		},
	}}
	c.create(t, foreign)
	gw := server(id)
	c.create(t, gw)
	eventually(t, c, gw, "leaves alone what is not its", func(gw *networkingv1beta1.GatewayServer) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasonNameTaken, "Deployment liqo-tenant-parma/gw-parma belongs to nothing of Liqo's")
	})
	c.delete(t, foreign)
	eventually(t, c, gw, "goes on", func(gw *networkingv1beta1.GatewayServer) bool { return gw.Status.ServerRef != nil })
	// A gateway of the other kind and the same name waits for it to go, and does not take its ClusterRoleBinding along.
	second := dialer(id)
	c.create(t, second)
	eventually(t, c, second, "waits", func(gw *networkingv1beta1.GatewayClient) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, "", "GatewayServer liqo-tenant-parma/parma")
	})
	c.delete(t, second)
	c.gone(t, second)
	wide := &rbacv1.ClusterRoleBinding{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "liqo-gateway-liqo-tenant-parma-parma"}, wide); err != nil {
		t.Errorf("the ClusterRoleBinding of the GatewayServer: %v", err)
	}
	c.delete(t, gw)
	c.gone(t, gw)
}

func testWrongGateways(t *testing.T, c *cluster) {
	const id = "lucca"
	c.tenant(t, id)
	several, external, strange, missing, mtu := server(id), server(id), server(id), server(id), server(id)
	mtu.Name, mtu.Spec.MTU = "mtu", 15
	several.Name, several.Spec.Endpoint = "several", networkingv1beta1.ServerEndpoint{Ports: []int32{1, 2}}
	external.Name, external.Spec.Endpoint.ServiceType = "external", corev1.ServiceTypeExternalName
	strange.Name, strange.Spec.ServerTemplateRef = "strange", corev1.ObjectReference{Kind: "Pigeon", Name: "x"}
	missing.Name, missing.Spec.ServerTemplateRef = "missing", corev1.ObjectReference{Namespace: home, Name: "nowhere"}
	for message, gw := range map[string]*networkingv1beta1.GatewayServer{
		"spec.endpoint.ports names 2 ports":                several,
		"choose ClusterIP, NodePort or LoadBalancer":       external,
		"is of kind Pigeon":                                strange,
		"spec.mtu is 15: want 576 to 65535":                mtu,
		"waiting for WgGatewayServerTemplate liqo/nowhere": missing,
	} {
		c.create(t, gw)
		eventually(t, c, gw, "says what is wrong", func(gw *networkingv1beta1.GatewayServer) bool {
			return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, "", message)
		})
		c.delete(t, gw)
		c.gone(t, gw)
	}
	tcp := dialer(id)
	tcp.Spec.Endpoint.Protocol = corev1.ProtocolTCP
	c.create(t, tcp)
	eventually(t, c, tcp, "says what is wrong", func(gw *networkingv1beta1.GatewayClient) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, "", "the tunnel is over UDP")
	})
	c.delete(t, tcp)
	c.gone(t, tcp)
	// One gateway leads to a cluster.
	first, second := server(id), dialer(id)
	second.Name = "second"
	c.create(t, second)
	eventually(t, c, second, "is the only one", func(gw *networkingv1beta1.GatewayClient) bool { return gw.Status.ClientRef != nil })
	c.create(t, first)
	eventually(t, c, first, "goes first", func(gw *networkingv1beta1.GatewayServer) bool { return gw.Status.ServerRef != nil })
	eventually(t, c, second, "is one too many", func(gw *networkingv1beta1.GatewayClient) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, "AnotherGateway", "GatewayServer liqo-tenant-lucca/lucca leads to cluster lucca already")
	})
	c.delete(t, first)
	c.gone(t, first)
	eventually(t, c, second, "counts again", func(gw *networkingv1beta1.GatewayClient) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, "GatewayStarting", "")
	})
	c.delete(t, second)
	c.gone(t, second)
}

// testAnyOrder makes the objects of a peering in twenty orders; all come to the same, also when the controllers are restarted in between.
func testAnyOrder(t *testing.T, c *cluster) {
	random := rand.New(rand.NewPCG(3, 11))
	for round := range 20 {
		id := fmt.Sprintf("city-%d", round)
		c.tenant(t, id)
		pods := fmt.Sprintf("10.%d.0.0/16", 100+round)
		data, err := network.KeyPair([network.KeyLength]byte{byte(round)})
		if err != nil {
			t.Fatal(err)
		}
		gw := server(id)
		gw.Spec.ServerTemplateRef = corev1.ObjectReference{Kind: "WgGatewayServerTemplate", Namespace: gw.Namespace, Name: "own"}
		gw.Spec.SecretRef = &corev1.LocalObjectReference{Name: "own"}
		objects := []client.Object{
			configuration(id, []string{pods}, []string{"10.70.0.0/16"}), gw,
			&networkingv1beta1.WgGatewayServerTemplate{ObjectMeta: peerMeta(id, "own"), Spec: networkingv1beta1.GatewayTemplateSpec{
				Template: runtime.RawExtension{Raw: []byte(`{"spec":{"deployment":{"spec":{"template":{"spec":{"containers":[{"name":"gateway","image":"x:{{ .Spec.mtu }}"}]}}}}}}`)},
			}},
			&networkingv1beta1.PublicKey{ObjectMeta: peerMeta(id, id), Spec: networkingv1beta1.PublicKeySpec{PublicKey: make([]byte, network.KeyLength)}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: gw.Namespace, Name: "own", Labels: map[string]string{networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway,
					networkingv1beta1.LabelGatewayName: id, networkingv1beta1.LabelGatewayNamespace: gw.Namespace},
			}, Data: data},
		}
		random.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
		half := random.IntN(len(objects))
		c.create(t, objects[:half]...)
		if round%5 == 4 { // killed in the middle of it
			c.stop()
			c.start(t)
		}
		c.create(t, objects[half:]...)
		deployment := eventually(t, c, &appsv1.Deployment{ObjectMeta: child(id)}, "there", func(d *appsv1.Deployment) bool {
			return d.Spec.Template.Spec.Containers[0].Image == "x:1340"
		})
		c.available(t, deployment)
		eventually(t, c, gw, "ready", func(gw *networkingv1beta1.GatewayServer) bool {
			return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionTrue, "", "") &&
				is(gw.Status.Conditions, conditionConnected, metav1.ConditionFalse, "Connecting", "") && gw.Status.SecretRef.Name == "own"
		})
		conf := eventually(t, c, configuration(id, nil, nil), "configured", configured)
		if conf.Status.Remote.CIDR.Pod[0] != pods || conf.Spec.Local == nil {
			t.Errorf("round %d: %+v", round, conf)
		}
	}
}

// testNewStart: controllers that start anew write nothing about what is as it should be.
func testNewStart(t *testing.T, c *cluster) {
	c.stop()
	c.written()
	c.start(t)
	c.tenant(t, "last")
	gw := server("last")
	c.create(t, gw)
	eventually(t, c, gw, "they work", func(gw *networkingv1beta1.GatewayServer) bool { return gw.Status.Endpoint != nil })
	conf := configuration("last", []string{"10.90.0.0/16"}, []string{"10.70.0.0/16"})
	c.create(t, conf)
	eventually(t, c, conf, "they work", configured)
	for _, write := range c.written() {
		// What is new is that of the last peer, which has one object outside its namespace.
		if !strings.Contains(write, "liqo-tenant-last") && write != "POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings" {
			t.Errorf("written though nothing changed: %s", write)
		}
	}
}
