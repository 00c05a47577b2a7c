package handshake

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/peering"
)

// ReplaceWish changes spec.outgoingPeeringEnabled of a peer's ForeignCluster from one value to another, if it has the first value. If from is Yes, ReplaceWish
// also changes the value Auto of a peer that the cluster joined automatically. Without the change, the controllers would revert the command: they would
// establish an ended peering again, or end an established one.
func ReplaceWish(ctx context.Context, c *session.Cluster, peer string, from, to corev1beta1.PeeringWish) error {
	foreign := &corev1beta1.ForeignCluster{}
	err := c.Get(ctx, client.ObjectKey{Name: peer}, foreign)
	if client.IgnoreNotFound(err) != nil {
		return c.Err(fmt.Errorf("reading ForeignCluster %s: %w", peer, err))
	}
	is := foreign.Spec.OutgoingPeeringEnabled
	joined := from == corev1beta1.PeeringYes && is != to && slices.Contains(foreign.Finalizers, peering.FinalizerOutgoing) // by itself, after discovery
	if err != nil || foreign.DeletionTimestamp != nil || is != from && !joined {
		return nil
	}
	before := foreign.DeepCopy()
	foreign.Spec.OutgoingPeeringEnabled = to
	if err := c.Patch(ctx, foreign, client.MergeFrom(before)); err != nil {
		return c.Err(fmt.Errorf("setting spec.outgoingPeeringEnabled of ForeignCluster %s to %s: %w", peer, to, err))
	}
	c.Did("ForeignCluster %s: spec.outgoingPeeringEnabled is %s now, instead of %s; change it in the manifest too, if it comes from one", peer, to, is)
	return nil
}
