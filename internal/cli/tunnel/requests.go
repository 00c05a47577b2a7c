package tunnel

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
)

// MadeByAdministrator reports whether an administrator has connected the networks. No NetworkRequest is needed then, and that administrator also
// has to disconnect them.
func MadeByAdministrator(ctx context.Context, c *session.Cluster, namespace, provider string) (bool, error) {
	for _, list := range []client.ObjectList{&networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{}} {
		if err := session.ListOfPeer(ctx, c, list, namespace, provider); err != nil {
			return false, err
		}
		objects, err := kube.Items(list)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(objects, func(o client.Object) bool { return o.GetDeletionTimestamp() == nil && !networkingv1beta1.Negotiated(o) }) {
			c.Info("The networks are connected already, and are not changed")
			return true, nil
		}
	}
	return false, nil
}

// Withdraw deletes the NetworkRequests to a provider. The controllers delete the network in both clusters, unless the other cluster
// requested it too.
func Withdraw(ctx context.Context, c *session.Cluster, namespace, provider string) error {
	requests, err := Requests(ctx, c, namespace)
	if err != nil {
		return err
	}
	ours := RequestsTo(provider, requests)
	shared := len(ours) < len(requests)
	if len(ours) == 0 {
		return nil
	}
	var made []client.Object
	for _, list := range []client.ObjectList{&networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{}, &networkingv1beta1.ConfigurationList{}} {
		if err := session.ListOfPeer(ctx, c, list, namespace, provider); err != nil {
			return err
		}
		objects, err := kube.Items(list)
		if err != nil {
			return err
		}
		made = append(made, ownedByAny(objects, ours)...)
	}
	if err := c.DeleteAll(ctx, ours, true); err != nil {
		return err
	}
	if shared {
		c.Info("The network stays: cluster %s requested it too", provider)
		return nil
	}
	return c.WaitAllGone(ctx, made, c.Verbose)
}

// Requests returns all NetworkRequests of a tenant namespace, those of the other cluster included.
func Requests(ctx context.Context, c *session.Cluster, namespace string) ([]networkingv1beta1.NetworkRequest, error) {
	var requests networkingv1beta1.NetworkRequestList
	if err := c.List(ctx, &requests, client.InNamespace(namespace)); err != nil && !kube.Absent(err) {
		return nil, c.Err(fmt.Errorf("listing NetworkRequests in namespace %s: %w", namespace, err))
	}
	return requests.Items, nil
}

// RequestsTo returns the NetworkRequests to a provider.
func RequestsTo(provider string, requests []networkingv1beta1.NetworkRequest) (to []client.Object) {
	for i := range requests {
		if requests[i].Labels[api.LabelRemoteID] == provider {
			to = append(to, &requests[i])
		}
	}
	return to
}

// ownedByAny returns the objects with an owner reference to one of the owners.
func ownedByAny(objects, owners []client.Object) []client.Object {
	uids := map[types.UID]bool{}
	for _, owner := range owners {
		uids[owner.GetUID()] = true
	}
	return slices.DeleteFunc(objects, func(o client.Object) bool {
		return !slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return uids[ref.UID] })
	})
}

// IsRequested reports whether a NetworkRequest of the local cluster has created the network. The controllers of both clusters then keep it, so it is removed
// by deleting the NetworkRequest.
func IsRequested(ctx context.Context, p *session.Pair) (bool, error) {
	namespace, err := session.FindTenantNamespace(ctx, p.Local, p.Remote.ID)
	if err != nil || namespace == "" {
		return false, err
	}
	requests, err := Requests(ctx, p.Local, namespace)
	return len(RequestsTo(p.Remote.ID, requests)) > 0, err
}

// WithdrawRequest deletes the NetworkRequests of the local cluster to the remote cluster, if there are any. A peering user or a token may have created them.
func WithdrawRequest(ctx context.Context, p *session.Pair) error {
	namespace, err := session.FindTenantNamespace(ctx, p.Local, p.Remote.ID)
	if err != nil || namespace == "" {
		return err
	}
	return Withdraw(ctx, p.Local, namespace, p.Remote.ID)
}
