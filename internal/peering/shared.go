package peering

import (
	"slices"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// NetworkStays reports whether the network that this cluster requested stays when this cluster stops using the resources of the peer. The two directions of a
// peering share one network. It exists as long as either cluster requests it. So if the peer uses resources of this cluster, and has not requested the network
// itself, the NetworkRequest of this cluster stays. The Identity stays too, and the Tenant in the peer with it: the peer deletes the copy of the NetworkRequest
// with the Tenant.
//
// incoming means that the peer uses resources of this cluster. requests are the NetworkRequests of both clusters in the tenant namespace.
func NetworkStays(incoming bool, requests []networkingv1beta1.NetworkRequest) bool {
	remaining := func(copied bool) bool {
		return slices.ContainsFunc(requests, func(q networkingv1beta1.NetworkRequest) bool {
			return q.DeletionTimestamp == nil && IsCopy(&q, "") == copied
		})
	}
	return incoming && remaining(false) && !remaining(true)
}
