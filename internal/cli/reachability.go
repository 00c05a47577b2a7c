package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// explained adds to a wait that failed what the local cluster itself says about reaching the remote one: liqoctl may well reach both
// while they do not reach each other.
func (p *pair) explained(err error) error { return p.local.explained(p.remote.id, err) }

func (c *cluster) explained(provider string, err error) error {
	if waiting := (*waitError)(nil); !errors.As(err, &waiting) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var foreign corev1beta1.ForeignCluster
	if c.Get(ctx, client.ObjectKey{Name: provider}, &foreign) != nil {
		return err
	}
	for _, condition := range foreign.Status.Conditions {
		if condition.Type == corev1beta1.APIServerStatus && condition.Status == corev1beta1.StatusError {
			return fmt.Errorf("%w\nCluster %s does not reach the API server of %s, %s, over TCP since %s: %s", err,
				c.id, provider, foreign.Status.APIServerURL, condition.LastTransitionTime.Format(time.RFC3339), condition.Message)
		}
	}
	return err
}
