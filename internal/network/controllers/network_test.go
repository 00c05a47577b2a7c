package controllers

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
)

// TestNetworkOnAPIServer runs all scenarios against one API server. Each has a peer of its own.
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
		{"ranges that liqoctl read", testRangesOfLiqoctl},
		{"wrong configurations", testWrongConfigurations},
		{"gateway server", testGatewayServer},
		{"gateway outside a tenant namespace", testGatewayElsewhere},
		{"types of services", testServiceTypes},
		{"gateway client", testGatewayClient},
		{"keys of a user", testSecretRef},
		{"names in use", testNamesInUse},
		{"wrong gateways", testWrongGateways},
		{"request of a consumer", testRequestOfConsumer},
		{"request to a provider", testRequestToProvider},
		{"hostile requests", testHostileRequests},
		{"any order", testAnyOrder},
		{"a restart changes nothing", testNewStart}, // must be the last one, because it needs the objects of all the others
	} {
		t.Run(scenario.name, func(t *testing.T) { scenario.run(t, c) })
	}
}

// testAnyOrder creates the objects of a peering in twenty orders. All result in the same state, even when the controllers are restarted in between.
func testAnyOrder(t *testing.T, c *cluster) {
	random := rand.New(rand.NewPCG(3, 11))
	for round := range 20 {
		id := fmt.Sprintf("city-%d", round)
		c.tenant(t, id)
		// Choose a range outside the pools, because other scenarios may have any range in the pools.
		pods := fmt.Sprintf("100.%d.0.0/16", 64+round)
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
		if round%5 == 4 { // restart the controllers between two creations
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
				is(gw.Status.Conditions, networkingv1beta1.ConditionConnected, metav1.ConditionFalse, "Connecting", "") && gw.Status.SecretRef.Name == "own"
		})
		conf := eventually(t, c, configuration(id, nil, nil), "configured", configured)
		if conf.Status.Remote.CIDR.Pod[0] != pods || conf.Spec.Local == nil {
			t.Errorf("round %d: spec %+v, status %+v", round, conf.Spec, conf.Status)
		}
	}
}

// testNewStart: controllers that restart write nothing if nothing changed.
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
		// Only the new peer's objects may be written. One of them is outside the namespace of that peer.
		if !strings.Contains(write, "liqo-tenant-last") && write != "POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings" {
			t.Errorf("written though nothing changed: %s", write)
		}
	}
}
