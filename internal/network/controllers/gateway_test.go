package controllers

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/test/apitest"
)

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
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasons.GatewayStarting, "Deployment liqo-tenant-genoa/gw-genoa") &&
			is(gw.Status.Conditions, networkingv1beta1.ConditionConnected, metav1.ConditionFalse, reasons.PublicKeyNotFound, "PublicKey liqo-tenant-genoa/genoa")
	})
	deployment := &appsv1.Deployment{ObjectMeta: child(id)}
	eventually(t, c, deployment, "there", func(d *appsv1.Deployment) bool { return d.Spec.Template.Spec.ServiceAccountName == "gw-genoa" })
	checkChildren(t, c, gw, id, true)
	checkRights(t, c, id)
	// The gateway's pod runs on node two.
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
	// The condition Connected follows the peer's key and the tunnel.
	key := &networkingv1beta1.PublicKey{ObjectMeta: peerMeta(id, id), Spec: networkingv1beta1.PublicKeySpec{PublicKey: make([]byte, network.KeyLength-1)}}
	c.create(t, key)
	eventually(t, c, gw, "waits for the whole key", func(gw *networkingv1beta1.GatewayServer) bool {
		return is(gw.Status.Conditions, networkingv1beta1.ConditionConnected, metav1.ConditionFalse, reasons.PublicKeyNotFound, "")
	})
	change(t, c, key, func(k *networkingv1beta1.PublicKey) { k.Spec.PublicKey = make([]byte, network.KeyLength) })
	eventually(t, c, gw, "waits for the peer", func(gw *networkingv1beta1.GatewayServer) bool {
		return is(gw.Status.Conditions, networkingv1beta1.ConditionConnected, metav1.ConditionFalse, "Connecting",
			fmt.Sprintf("waiting for cluster genoa to dial 192.0.2.2:%d, 192.0.2.1:%d (UDP)", gw.Status.Endpoint.Port, gw.Status.Endpoint.Port))
	})
	connection := &networkingv1beta1.Connection{ObjectMeta: child(id)}
	change(t, c, connection, func(c *networkingv1beta1.Connection) { c.Status.Value = networkingv1beta1.Connected })
	eventually(t, c, gw, "connected", func(gw *networkingv1beta1.GatewayServer) bool {
		return is(gw.Status.Conditions, networkingv1beta1.ConditionConnected, metav1.ConditionTrue, "Connected", "")
	})
	// The other replica becomes active.
	change(t, c, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: gw.Namespace, Name: "gw-genoa-a"}}, func(p *corev1.Pod) { delete(p.Labels, networkingv1beta1.LabelActive) })
	c.run(t, deployment, "gw-genoa-b", "one", "10.42.1.9", networkingv1beta1.LabelActive, "true")
	eventually(t, c, gw, "follows the active pod", func(gw *networkingv1beta1.GatewayServer) bool {
		return gw.Status.InternalEndpoint != nil && gw.Status.InternalEndpoint.Node == "one"
	})
	testTemplateChange(t, c, deployment)
	// A requested restart of the pods (kubectl rollout restart) must not be reverted.
	const restarted = "kubectl.kubernetes.io/restartedAt"
	change(t, c, deployment, func(d *appsv1.Deployment) { d.Spec.Template.Annotations[restarted] = "now" })
	asked := deployment.Generation
	change(t, c, gw, func(gw *networkingv1beta1.GatewayServer) {
		gw.Spec.ServiceAnnotations = map[string]string{"example.org/other": "b"}
	})
	eventually(t, c, service, "follows its annotations", func(s *corev1.Service) bool {
		_, old := s.Annotations["example.org/pool"]
		return s.Annotations["example.org/other"] == "b" && !old
	})
	eventually(t, c, gw, "looked at the Deployment too", func(gw *networkingv1beta1.GatewayServer) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasons.GatewayStarting, "")
	})
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil || deployment.Generation != asked || deployment.Spec.Template.Annotations[restarted] != "now" {
		t.Errorf("a restart was undone: %v, generation %d for %d, annotations %v", err, deployment.Generation, asked, deployment.Spec.Template.Annotations)
	}
	c.available(t, deployment)
	// Both nodes fail, so no agent reports the state of the tunnel. One of them was only disconnected.
	lost := metav1.NewTime(time.Now().Add(-time.Minute))
	change(t, c, connection, func(c *networkingv1beta1.Connection) {
		c.Status.Conditions = []metav1.Condition{{Type: networkingv1beta1.ConditionConnected, Status: metav1.ConditionTrue, Reason: "Connected", LastTransitionTime: metav1.NewTime(lost.Add(-time.Second))}}
	})
	for _, name := range []string{"gw-genoa-a", "gw-genoa-b"} {
		change(t, c, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: gw.Namespace, Name: name}}, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: lost},
				{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: lost}, // the state before contact with the node was lost
			}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "wireguard", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		})
	}
	eventually(t, c, connection, "lost", func(c *networkingv1beta1.Connection) bool {
		return c.Status.Value == networkingv1beta1.ConnectionError && is(c.Status.Conditions, networkingv1beta1.ConditionConnected, metav1.ConditionFalse, "Error", "no pod of this gateway has been running")
	})
	eventually(t, c, gw, "lost", func(gw *networkingv1beta1.GatewayServer) bool {
		return is(gw.Status.Conditions, networkingv1beta1.ConditionConnected, metav1.ConditionFalse, "Error", "")
	})
	apitest.Known(t, c.cached, connection) // otherwise they may write once more that it is lost
	change(t, c, connection, func(c *networkingv1beta1.Connection) {
		c.Status.Value, c.Status.Conditions[0].Status, c.Status.Conditions[0].LastTransitionTime = networkingv1beta1.Connected, metav1.ConditionTrue, metav1.Now()
	})
	eventually(t, c, gw, "connected again", func(gw *networkingv1beta1.GatewayServer) bool {
		return is(gw.Status.Conditions, networkingv1beta1.ConditionConnected, metav1.ConditionTrue, "Connected", "")
	})
	// Changes and deletions by others are undone.
	change(t, c, service, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"nobody": "1"} })
	c.delete(t, &rbacv1.Role{ObjectMeta: child(id)})
	eventually(t, c, service, "its pods again", func(s *corev1.Service) bool { return s.Spec.Selector[networkingv1beta1.LabelGatewayName] == id })
	eventually(t, c, &rbacv1.Role{ObjectMeta: child(id)}, "made again", func(*rbacv1.Role) bool { return true })
	for _, reason := range []string{reasons.KeysSecretEnforced, reasons.DeploymentEnforced, reasons.ServiceEnforced} {
		checkEvent(t, c, gw, reason)
	}
	// Deletion: the finalizer deletes the cluster-scoped objects. Owner references are for the other objects (see checkChildren).
	c.delete(t, gw)
	c.gone(t, gw)
	c.gone(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "liqo-gateway-liqo-tenant-genoa-genoa"}})
}

// testServiceTypes: every type of Service can be changed to every other type, whatever the template contains for one of them.
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
				return gw.Status.Endpoint == nil && is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasons.WaitingForEndpoint,
					"port 4500/UDP, to get an address")
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
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasons.InvalidTemplate, `replicas renders to "genoa": want a number`)
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
		return is(gw.Status.Conditions, networkingv1beta1.ConditionConnected, metav1.ConditionFalse, "Connecting", "waiting for cluster pisa to answer at 198.51.100.7:30500 (UDP)")
	})
	connection := &networkingv1beta1.Connection{ObjectMeta: child(id)}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(connection), connection); err != nil {
		t.Fatal(err)
	}
	if connection.Spec.Type != networkingv1beta1.ConnectionClient || connection.Spec.GatewayRef.Kind != "GatewayClient" || connection.Spec.GatewayRef.Name != id {
		t.Errorf("Connection %+v", connection.Spec)
	}
	// A user replaces the keys by deleting their Secret.
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
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasons.MissingSecretRef, "Secret liqo-tenant-siena/mine")
	})
	checkEvent(t, c, gw, reasons.MissingSecretRef)
	data, err := network.KeyPair([network.KeyLength]byte{1: 7})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: gw.Namespace, Name: "mine"}, Data: map[string][]byte{
		networkingv1beta1.SecretPrivateKey: []byte("as text"), networkingv1beta1.SecretPublicKey: data[networkingv1beta1.SecretPublicKey],
	}}
	c.create(t, secret)
	eventually(t, c, gw, "does not take text for a key", func(gw *networkingv1beta1.GatewayClient) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasons.KeysSecretEnforcedFailed,
			"Secret liqo-tenant-siena/mine: its key privateKey has 7 bytes")
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

// testGatewayElsewhere: the permissions of a gateway are equally limited if its namespace is no tenant namespace.
func testGatewayElsewhere(t *testing.T, c *cluster) {
	const id = "volterra"
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.TenantNamespace(id)}})
	gw := server(id)
	c.create(t, gw)
	deployment := eventually(t, c, &appsv1.Deployment{ObjectMeta: child(id)}, "there", func(*appsv1.Deployment) bool { return true })
	c.run(t, deployment, "gw-volterra-a", "two", "10.42.2.8", networkingv1beta1.LabelActive, "true")
	checkPodPolicy(t, c, gw, "gw-volterra-a")
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
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasons.NameTaken,
			"Deployment liqo-tenant-parma/gw-parma exists and does not belong to Liqo")
	})
	c.delete(t, foreign)
	eventually(t, c, gw, "goes on", func(gw *networkingv1beta1.GatewayServer) bool { return gw.Status.ServerRef != nil })
	// A gateway of the other kind and the same name has to wait until this one is deleted. Its own deletion does not delete the ClusterRoleBinding of this one.
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
	testSharedBinding(t, c)
	c.delete(t, gw)
	c.gone(t, gw)
}

// testSharedBinding: two gateways need ClusterRoleBindings of the same name. The later one does not take over the existing ClusterRoleBinding.
func testSharedBinding(t *testing.T, c *cluster) {
	c.tenant(t, "prato")
	c.tenant(t, "prato-nord")
	first, second := server("prato"), server("prato-nord")
	first.Name, second.Name = "nord-a", "a"
	c.create(t, first)
	eventually(t, c, first, "made", func(gw *networkingv1beta1.GatewayServer) bool { return gw.Status.ServerRef != nil })
	c.create(t, second)
	eventually(t, c, second, "leaves the rights of the other alone", func(gw *networkingv1beta1.GatewayServer) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasons.NameTaken, "belongs to gateway liqo-tenant-prato/nord-a")
	})
	c.delete(t, first)
	c.gone(t, first)
	eventually(t, c, second, "has them when the other is gone", func(gw *networkingv1beta1.GatewayServer) bool { return gw.Status.ServerRef != nil })
	c.delete(t, second)
	c.gone(t, second)
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
	// Only one gateway per cluster is used.
	first, second := server(id), dialer(id)
	second.Name = "second"
	c.create(t, second)
	eventually(t, c, second, "is the only one", func(gw *networkingv1beta1.GatewayClient) bool { return gw.Status.ClientRef != nil })
	c.create(t, first)
	eventually(t, c, first, "goes first", func(gw *networkingv1beta1.GatewayServer) bool { return gw.Status.ServerRef != nil })
	eventually(t, c, second, "is one too many", func(gw *networkingv1beta1.GatewayClient) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasons.Duplicate,
			"GatewayServer liqo-tenant-lucca/lucca connects cluster lucca already")
	})
	c.delete(t, first)
	c.gone(t, first)
	eventually(t, c, second, "counts again", func(gw *networkingv1beta1.GatewayClient) bool {
		return is(gw.Status.Conditions, kube.ConditionReady, metav1.ConditionFalse, reasons.GatewayStarting, "")
	})
	c.delete(t, second)
	c.gone(t, second)
}
