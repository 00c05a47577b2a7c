package network

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// ConfigurationInUse returns the Configuration that Liqo uses for a peer: the oldest one that is not being deleted, in any namespace; nil if there
// is none.
func ConfigurationInUse(all []networkingv1beta1.Configuration, peer string) *networkingv1beta1.Configuration {
	return oldest(all, func(c *networkingv1beta1.Configuration) bool {
		return c.DeletionTimestamp == nil && clusterOf(c) == peer
	})
}

// PublicKeyInUse returns the PublicKey that this cluster's gateway uses for a peer: the oldest one in the tenant namespace with a complete key. It
// returns nil if there is none.
func PublicKeyInUse(all []networkingv1beta1.PublicKey, namespace, peer string) *networkingv1beta1.PublicKey {
	return oldest(all, func(k *networkingv1beta1.PublicKey) bool {
		return k.Namespace == namespace && clusterOf(k) == peer && len(k.Spec.PublicKey) == KeyLength
	})
}

// GatewayInUse returns the GatewayServer or GatewayClient that connects a peer: the oldest server in the tenant namespace that is not being
// deleted, else the oldest such client. At most one of the results is not nil.
func GatewayInUse(servers []networkingv1beta1.GatewayServer, clients []networkingv1beta1.GatewayClient, namespace, peer string) (
	*networkingv1beta1.GatewayServer, *networkingv1beta1.GatewayClient,
) {
	live := func(o metav1.Object) bool {
		return o.GetNamespace() == namespace && clusterOf(o) == peer && o.GetDeletionTimestamp() == nil
	}
	if server := oldest(servers, func(s *networkingv1beta1.GatewayServer) bool { return live(s) }); server != nil {
		return server, nil
	}
	return nil, oldest(clients, func(c *networkingv1beta1.GatewayClient) bool { return live(c) })
}

// oldest returns the object that takes precedence among those that fit, see api.CompareAge. It is nil if none fits.
func oldest[T any, P interface {
	*T
	metav1.Object
}](all []T, fits func(P) bool) P {
	var found P
	for i := range all {
		if object := P(&all[i]); fits(object) && (found == nil || api.CompareAge(object, found) < 0) {
			found = object
		}
	}
	return found
}
