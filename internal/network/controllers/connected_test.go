package controllers

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/network/gatewaypod"
)

// TestGatewayShowsTheMessageOfItsConnection: while the tunnel does not work, the condition of the gateway repeats what its pod reports, for example
// an address that must not be dialed. It follows each new report.
func TestGatewayShowsTheMessageOfItsConnection(t *testing.T) {
	const refused = `address "gateway.example.org" of its gateway is refused`
	says := func(value string, status metav1.ConditionStatus, message string) *networkingv1beta1.Connection {
		return &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "gw-milan"}, Status: networkingv1beta1.ConnectionStatus{
			Value: value, Conditions: []metav1.Condition{{Type: networkingv1beta1.ConditionConnected, Status: status, Reason: value, Message: message}},
		}}
	}
	key := &networkingv1beta1.PublicKey{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "milan", Labels: map[string]string{api.LabelRemoteClusterID: "milan"}},
		Spec:       networkingv1beta1.PublicKeySpec{PublicKey: make([]byte, network.KeyLength)},
	}
	r := &gateways{client: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(key).Build()}
	message := func(connection *networkingv1beta1.Connection) string {
		object := dialer("milan")
		g := &gateway{
			Owner: gatewaypod.Owner{Namespace: "tenant", Name: "milan", ClusterID: "milan"}, object: object,
			dialed: &object.Spec.Endpoint, conditions: &object.Status.Conditions,
		}
		if err := r.connected(t.Context(), g, connection); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(object.Status.Conditions, networkingv1beta1.ConditionConnected).Message
	}
	silent := says(networkingv1beta1.Connecting, metav1.ConditionFalse, "cluster milan has not answered yet")
	complains := says(networkingv1beta1.Connecting, metav1.ConditionFalse, "cluster milan has not answered yet: "+refused)
	works := says(networkingv1beta1.Connected, metav1.ConditionTrue, "cluster milan answers")
	if got := message(complains); !strings.Contains(got, "to answer at 198.51.100.7:30500") || !strings.Contains(got, refused) {
		t.Errorf("the condition is %q, want the endpoint and %q", got, refused)
	}
	for _, quiet := range []*networkingv1beta1.Connection{works, {}} {
		if got := message(quiet); strings.Contains(got, "reports") {
			t.Errorf("nothing is wrong, and the condition is %q", got)
		}
	}
	if !valueChanged().Update(event.UpdateEvent{ObjectOld: silent, ObjectNew: complains}) {
		t.Error("a gateway is not reconciled when its Connection reports a refused address")
	}
	measured := works.DeepCopy()
	measured.Status.Latency = &networkingv1beta1.ConnectionLatency{Value: "1ms"}
	if valueChanged().Update(event.UpdateEvent{ObjectOld: works, ObjectNew: measured}) {
		t.Error("each measured latency reconciles the gateway")
	}
}
