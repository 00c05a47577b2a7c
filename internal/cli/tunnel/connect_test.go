package tunnel

import (
	"testing"

	"liqo.io/liqo/internal/cli/session"
)

// TestNoGatewaysWithoutATenantNamespace: a cluster without a tenant namespace for the other one has no gateways for it. No gateways of other
// namespaces are taken for them, and a user who may not read these gets no error.
func TestNoGatewaysWithoutATenantNamespace(t *testing.T) {
	p := &session.Pair{Local: &session.Cluster{ID: "rome"}, Remote: &session.Cluster{ID: "milan"}} // without clients: any request would panic
	between, err := Between(t.Context(), p, &Options{})
	if err != nil || between.Client.Gateways.Name() != "" || between.Server.Gateways.Name() != "" {
		t.Errorf("%+v, %v", between, err)
	}
}
