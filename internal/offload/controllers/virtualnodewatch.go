package controllers

import (
	"bytes"
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// nodeChanged ignores updates of Nodes, such as heartbeats, unless the Node was replaced or its deletion started.
var nodeChanged = kube.Updates(func(before, after *corev1.Node) bool {
	return before.UID != after.UID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
})

// goneOnly accepts only deletions.
var goneOnly = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(event.UpdateEvent) bool { return false },
}

// identityChanged ignores updates of Secrets that do not change the kubeconfig.
var identityChanged = kube.Updates(func(before, after *corev1.Secret) bool {
	return !bytes.Equal(before.Data[authv1beta1.KubeconfigSecretKey], after.Data[authv1beta1.KubeconfigSecretKey])
})

// reachabilityChanged accepts updates that change whether a provider is reachable or declared permanently unreachable, and deletions.
var reachabilityChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: kube.Updates(func(before, after *corev1beta1.ForeignCluster) bool {
		return offload.Unreachable(before) != offload.Unreachable(after) || offload.Gone(before) != offload.Gone(after)
	}).UpdateFunc,
}

// nodes returns the matching VirtualNodes.
func (r *virtualNodes) nodes(ctx context.Context, match func(*offloadingv1beta1.VirtualNode) bool) []reconcile.Request {
	return kube.Matching(ctx, r, &offloadingv1beta1.VirtualNodeList{}, match)
}
