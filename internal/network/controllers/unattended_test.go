package controllers

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network/gatewaypod"
)

// TestALostTunnelIsReportedFromTheLatestState: no pod of a gateway is known, and the known report of its tunnel is old. If a replica has reported the tunnel since, the
// controller does not overwrite that by its older view, which would end the connections of Services: it decides again.
func TestALostTunnelIsReportedFromTheLatestState(t *testing.T) {
	for _, reported := range []bool{false, true} {
		at := metav1.NewTime(time.Now().Add(-time.Hour))
		connection := &networkingv1beta1.Connection{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "gw-milan"},
			Status: networkingv1beta1.ConnectionStatus{
				Value:      networkingv1beta1.Connected,
				Conditions: []metav1.Condition{{Type: networkingv1beta1.ConditionConnected, Status: metav1.ConditionTrue, Reason: networkingv1beta1.Connected, LastTransitionTime: at}},
			},
		}
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(connection).WithStatusSubresource(connection).Build()
		get := func(into *networkingv1beta1.Connection) {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(connection), into); err != nil {
				t.Fatal(err)
			}
		}
		known, now := &networkingv1beta1.Connection{}, &networkingv1beta1.Connection{}
		get(known)
		if get(now); reported {
			now.Status.Latency = &networkingv1beta1.ConnectionLatency{Value: "1ms", Timestamp: metav1.Now()}
			if err := c.Status().Update(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}
		object := dialer("milan")
		g := &gateway{
			Owner: gatewaypod.Owner{Namespace: "tenant", Name: "milan", ClusterID: "milan"}, object: object,
			dialed: &object.Spec.Endpoint, conditions: &object.Status.Conditions, internal: &object.Status.InternalEndpoint,
		}
		r := &gateways{client: c, around: &surroundings{Client: c}}
		err := r.report(t.Context(), g, &appsv1.Deployment{}, nil, known)
		get(now)
		if lost := now.Status.Value == networkingv1beta1.ConnectionError; lost == reported || apierrors.IsConflict(err) != reported {
			t.Errorf("reported since %t: the tunnel is %s, error %v", reported, now.Status.Value, err)
		}
	}
}
