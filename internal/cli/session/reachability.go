package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// ExplainPair extends the error of a failed wait if the local cluster reports that it does not reach the remote cluster. This is useful because
// liqoctl may reach both clusters although they do not reach each other.
func ExplainPair(p *Pair, err error) error {
	return ExplainUnreached(p.Local, p.Remote.ID, err)
}

// ExplainUnreached extends the error of a failed wait if the cluster reports that it does not reach the API server of the provider.
func ExplainUnreached(c *Cluster, provider string, err error) error {
	if waiting := (*WaitError)(nil); !errors.As(err, &waiting) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var foreign corev1beta1.ForeignCluster
	if c.Get(ctx, client.ObjectKey{Name: provider}, &foreign) != nil {
		return err
	}
	if lost := UnreachableSince(&foreign); lost != nil {
		return fmt.Errorf("%w\nCluster %s does not reach the API server of %s, %s, over TCP since %s: %s", err,
			c.ID, provider, foreign.Status.APIServerURL, lost.LastTransitionTime.Format(time.RFC3339), lost.Message)
	}
	return err
}

// APIServerCondition returns the condition of a ForeignCluster about the API server of the peer. It is nil if there is none yet.
func APIServerCondition(foreign *corev1beta1.ForeignCluster) *corev1beta1.Condition {
	for i := range foreign.Status.Conditions {
		if foreign.Status.Conditions[i].Type == corev1beta1.APIServerStatus {
			return &foreign.Status.Conditions[i]
		}
	}
	return nil
}

// UnreachableSince returns that condition if the API server of the peer is unreachable, and nil otherwise.
func UnreachableSince(foreign *corev1beta1.ForeignCluster) *corev1beta1.Condition {
	if condition := APIServerCondition(foreign); condition != nil && condition.Status == corev1beta1.StatusError {
		return condition
	}
	return nil
}
