package app

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	peeringcontrollers "liqo.io/liqo/internal/peering/controllers"
)

// findClusterID completes the options of an installation that was given no ID of this cluster.
func (o *ControllerManagerOptions) findClusterID(ctx context.Context, cfg *rest.Config) error {
	if o.ClusterID != "" {
		return nil
	}
	c, err := client.New(cfg, client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		return fmt.Errorf("making a client to find out the ID of this cluster: %w", err)
	}
	o.ClusterID, err = peeringcontrollers.ClusterID(ctx, c, o.LiqoNamespace)
	return err
}
