package controllers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// TestNetworkOfAForeignClusterOnAPIServer: clusters with connected networks have ForeignClusters, even without a peering. A silent gateway is
// detected although nothing reports it.
func TestNetworkOfAForeignClusterOnAPIServer(t *testing.T) {
	rome, milan := newCluster(t, "rome"), &cluster{id: "milan"}
	milan.config = rome.config // nothing asks it
	rome.run(t)
	rome.create(t, rome.tenantNamespace(milan))
	conf := &networkingv1beta1.Configuration{ObjectMeta: rome.meta(milan, "milan")}
	rome.create(t, conf)
	fc := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	network := func(kind corev1beta1.ConditionType, status corev1beta1.ConditionStatus) func(*corev1beta1.ForeignCluster) bool {
		return func(fc *corev1beta1.ForeignCluster) bool {
			for _, c := range fc.Status.Modules.Networking.Conditions {
				if c.Type == kind && c.Status == status {
					return fc.Status.Modules.Networking.Enabled && !fc.Status.Modules.Authentication.Enabled
				}
			}
			return false
		}
	}
	eventually(t, rome, fc, "known by its network", network(corev1beta1.NetworkGatewayPresence, corev1beta1.StatusNotReady))
	if fc.Status.Role != corev1beta1.RoleUnknown || fc.Status.TenantNamespace.Local != conf.Namespace {
		t.Errorf("status %+v", fc.Status)
	}
	gateway := &networkingv1beta1.GatewayServer{ObjectMeta: rome.meta(milan, "milan"), Spec: networkingv1beta1.GatewayServerSpec{
		Endpoint: networkingv1beta1.ServerEndpoint{Port: networkingv1beta1.GatewayPort},
	}}
	connection := &networkingv1beta1.Connection{ObjectMeta: rome.meta(milan, "gw-milan"), Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionServer}}
	rome.create(t, gateway)
	rome.create(t, connection)
	eventually(t, rome, fc, "connecting", network(corev1beta1.NetworkConnectionStatus, corev1beta1.StatusPending))
	measured := func(ago time.Duration) {
		t.Helper()
		connection.Status = networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected, Latency: &networkingv1beta1.ConnectionLatency{
			Value: "1ms", Timestamp: metav1.NewTime(time.Now().Add(-ago)),
		}}
		if err := rome.Status().Update(t.Context(), connection); err != nil {
			t.Fatal(err)
		}
	}
	measured(0)
	eventually(t, rome, fc, "connected", network(corev1beta1.NetworkConnectionStatus, corev1beta1.StatusEstablished))
	measured(88 * time.Second) // the last word of the gateway, which counts for 90 seconds
	eventually(t, rome, fc, "lost", network(corev1beta1.NetworkConnectionStatus, corev1beta1.StatusError))
	rome.delete(t, connection)
	rome.delete(t, gateway)
	rome.delete(t, conf)
	eventually(t, rome, fc, "no network any more", func(fc *corev1beta1.ForeignCluster) bool { return !fc.Status.Modules.Networking.Enabled })
}
