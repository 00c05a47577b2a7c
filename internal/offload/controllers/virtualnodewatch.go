package controllers

import (
	"bytes"
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
)

// nodeChanged ignores updates of Nodes, such as heartbeats, unless the Node was replaced or its deletion started.
var nodeChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, ok2 := e.ObjectNew.(*corev1.Node)
	return !ok || !ok2 || before.UID != after.UID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
}}

// goneOnly accepts only deletions.
var goneOnly = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(event.UpdateEvent) bool { return false },
}

// identityChanged ignores updates of Secrets that do not change the kubeconfig.
var identityChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Secret)
	after, ok2 := e.ObjectNew.(*corev1.Secret)
	return !ok || !ok2 || !bytes.Equal(before.Data[authv1beta1.KubeconfigSecretKey], after.Data[authv1beta1.KubeconfigSecretKey])
}}

// reachabilityChanged accepts updates that change whether a provider is reachable or declared permanently unreachable, and deletions.
var reachabilityChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1beta1.ForeignCluster)
		after, ok2 := e.ObjectNew.(*corev1beta1.ForeignCluster)
		return !ok || !ok2 || offload.Unreachable(before) != offload.Unreachable(after) || offload.Gone(before) != offload.Gone(after)
	},
}

// nodes returns the matching VirtualNodes.
func (r *virtualNodes) nodes(ctx context.Context, match func(*offloadingv1beta1.VirtualNode) bool) []reconcile.Request {
	var list offloadingv1beta1.VirtualNodeList
	if err := r.List(ctx, &list); err != nil {
		return nil // can't fail after the start: the cache holds this kind
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if match(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
