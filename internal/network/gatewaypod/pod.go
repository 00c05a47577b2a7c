package gatewaypod

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// PeerOfGateway returns the ID of the peer to whose gateway a Pod or a Deployment belongs; empty if it belongs to no gateway. Labels alone do not
// identify a component of Liqo, because users set any labels in their own namespaces. So the gateway must have a Connection to that peer in the same
// namespace, which only Liqo creates, and the object must have the owner that it has in a gateway: the gateway itself or a ReplicaSet of its Deployment.
func PeerOfGateway(o metav1.Object, connections []networkingv1beta1.Connection) string {
	labels := o.GetLabels()
	peer, gateway := labels[api.LabelRemoteClusterID], labels[networkingv1beta1.LabelGatewayName]
	owner := metav1.GetControllerOf(o)
	if labels[networkingv1beta1.LabelComponent] != networkingv1beta1.ComponentGateway || gateway == "" || owner == nil {
		return ""
	}
	child := networkingv1beta1.GatewayChild(gateway)
	i := slices.IndexFunc(connections, func(c networkingv1beta1.Connection) bool {
		return c.Namespace == o.GetNamespace() && c.Name == child && c.Labels[api.LabelRemoteClusterID] == peer
	})
	if i < 0 {
		return ""
	}
	ofGateway := metav1.GetControllerOf(&connections[i])
	if owner.Kind == "ReplicaSet" && strings.HasPrefix(owner.Name, child+"-") || ofGateway != nil && owner.UID == ofGateway.UID {
		return peer
	}
	return ""
}
