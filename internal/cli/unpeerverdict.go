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

// judgedWithin is the time within which the control plane notices that a provider does not respond any more, and writes it into the ForeignCluster.
var judgedWithin = remote.HealthOptions{}.DetectsWithin() + time.Second

// awaitVerdict waits while the condition of the API server in foreign may not show a cut yet. Gateways notice a cut within seconds, the
// control plane within judgedWithin. The tunnel alone proves nothing: where only the tunnel is lost, the API server still responds. So the
// condition counts when that time is over. The wait is never longer, whatever the clocks of the gateway and of the user say.
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
	return c.waited(ctx, err, c.name(foreign), "the tunnel is lost, its API server responds")
}

// tunnelLost returns the time at which a tunnel to the peer that worked was lost last. It is zero if none is lost.
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
