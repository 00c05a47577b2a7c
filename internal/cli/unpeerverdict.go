package cli

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/remote"
)

// judgedWithin is the time within which the control plane detects that a provider no longer responds, and writes this into the ForeignCluster.
var judgedWithin = remote.HealthOptions{}.DetectsWithin() + time.Second

// awaitVerdict waits, after the loss of a tunnel, until the condition of the API server in foreign is reliable. Gateways detect a cut of the
// network within seconds, the control plane within judgedWithin. A lost tunnel alone is no evidence, because the API server may still respond. The
// wait is never longer than judgedWithin, even if the clocks of the gateway and of the user differ.
func (c *cluster) awaitVerdict(ctx context.Context, foreign *corev1beta1.ForeignCluster, namespace string) error {
	if condition := apiServerCondition(foreign); condition == nil || condition.Status == corev1beta1.StatusError {
		return nil
	}
	lost, err := c.tunnelLost(ctx, namespace, foreign.Name)
	if err != nil {
		return err
	}
	left := min(judgedWithin-time.Since(lost), judgedWithin)
	if left <= 0 {
		return nil
	}
	if c.isDryRun() {
		c.plan.waitsFor(c.name(foreign) + " to tell whether its API server still responds")
		return nil
	}
	step := c.Start("The tunnel to %s is lost since %s: waiting until it is known whether its API server still responds",
		foreign.Name, lost.UTC().Format(time.RFC3339))
	defer step.End()
	waiting, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	err = c.follow(waiting, foreign, func(exists bool) (bool, error) { return !exists || unreachableSince(foreign) != nil, nil })
	if waiting.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return c.waited(ctx.Err(), err, c.name(foreign), "the tunnel is lost, its API server responds")
}

// tunnelLost returns the time of the last loss of a tunnel to the peer; zero if no tunnel is lost.
func (c *cluster) tunnelLost(ctx context.Context, namespace, peer string) (time.Time, error) {
	var list networkingv1beta1.ConnectionList
	if err := c.listOfPeer(ctx, &list, namespace, peer); err != nil {
		return time.Time{}, err
	}
	var last time.Time
	for i := range list.Items {
		status := &list.Items[i].Status
		condition := meta.FindStatusCondition(status.Conditions, network.ConnectionCondition)
		if status.Value != networkingv1beta1.ConnectionError || condition == nil || condition.Status == metav1.ConditionTrue {
			continue
		}
		if at := condition.LastTransitionTime.Time; at.After(last) {
			last = at
		}
	}
	return last, nil
}
