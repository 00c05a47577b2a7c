package cli

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// replaceWish changes spec.outgoingPeeringEnabled of a peer's ForeignCluster from one value to another, if it has that value. Otherwise the
// controllers would undo what the command does: re-establish a peering that it ends, or end one that it establishes.
func (c *cluster) replaceWish(ctx context.Context, peer string, from, to corev1beta1.PeeringWish) error {
	foreign := &corev1beta1.ForeignCluster{}
	err := c.Get(ctx, client.ObjectKey{Name: peer}, foreign)
	if client.IgnoreNotFound(err) != nil {
		return c.error(fmt.Errorf("reading ForeignCluster %s: %w", peer, err))
	}
	if err != nil || foreign.DeletionTimestamp != nil || foreign.Spec.OutgoingPeeringEnabled != from {
		return nil
	}
	before := foreign.DeepCopy()
	foreign.Spec.OutgoingPeeringEnabled = to
	if err := c.Patch(ctx, foreign, client.MergeFrom(before)); err != nil {
		return c.error(fmt.Errorf("setting spec.outgoingPeeringEnabled of ForeignCluster %s to %s: %w", peer, to, err))
	}
	c.Did("ForeignCluster %s: spec.outgoingPeeringEnabled is %s now, instead of %s; change it in the manifest too, if it comes from one", peer, to, from)
	return nil
}
