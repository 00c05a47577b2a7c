package node

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Heartbeat intervals of a kubelet. After leaseDuration without renewal, the control plane may consider the node unreachable.
const (
	leaseDuration = 40 * time.Second
	leaseRenewal  = 10 * time.Second
	leaseRetry    = time.Second
)

// Lost means that we held the Lease and could not renew it for its whole duration. The cluster then considers this process dead and may run another
// one in its place.
func (n *Node) Lost() bool {
	renewed := n.renewed.Load()
	return renewed != 0 && n.opts.Clock.Since(time.Unix(0, renewed)) > leaseDuration
}

// RunLease renews the Node's Lease until ctx ends and then returns nil. The Lease proves that this process is alive, whether or not the provider is
// reachable.
func (n *Node) RunLease(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-n.exists:
	}
	var lease *coordinationv1.Lease
	failing := false
	for {
		renewed, err := n.renew(ctx, lease)
		delay := leaseRenewal
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if !failing {
				n.opts.Log.Error("Failed to renew the lease of the node", "node", n.opts.Name, "error", err)
			}
			renewed, delay = nil, leaseRetry
		default:
			lost := n.Lost()
			n.renewed.Store(n.opts.Clock.Now().UnixNano())
			if lost && n.opts.LeaseRegained != nil {
				n.opts.LeaseRegained()
			}
		}
		lease, failing = renewed, err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-n.opts.Clock.After(delay):
		}
	}
}

// renew writes the current time into the lease. If lease is nil, it reads or creates the Lease first. It returns the written Lease.
func (n *Node) renew(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseRenewal)
	defer cancel()
	now := metav1.NewMicroTime(n.opts.Clock.Now())
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: n.opts.Name}}
		err := n.opts.Local.Get(ctx, client.ObjectKeyFromObject(lease), lease)
		switch {
		case apierrors.IsNotFound(err):
			n.fill(lease, now)
			if err := n.opts.Local.Create(ctx, lease); err != nil {
				return nil, fmt.Errorf("creating the lease: %w", err)
			}
			return lease, nil
		case err != nil:
			return nil, fmt.Errorf("reading the lease: %w", err)
		}
	}
	n.fill(lease, now)
	if err := n.opts.Local.Update(ctx, lease); err != nil {
		return nil, fmt.Errorf("writing the lease: %w", err)
	}
	return lease, nil
}

// fill sets us as the holder of the lease and the Node as its owner: garbage collection deletes the Lease with the Node.
func (n *Node) fill(lease *coordinationv1.Lease, now metav1.MicroTime) {
	seconds := int32(leaseDuration.Seconds())
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &n.opts.Name, &seconds, &now
	if node := n.Object(); node != nil {
		lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	}
}
