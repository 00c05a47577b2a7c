package cli

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
)

// mustAskForNetwork reports whether a peering with a network needs a NetworkRequest, because the user is a peering user. It returns false
// for an in-band peering: that peering uses the tunnel itself, so the tunnel must exist first.
func mustAskForNetwork(p *session.Pair, o *peerOptions) bool {
	return !o.networkingDisabled && !o.auth.InBand && session.IsPeeringUser(p)
}

// checkNetworkRights fails, before any change is made, if the peering needs permissions in the provider that a peering user does not have.
func checkNetworkRights(p *session.Pair, o *peerOptions) error {
	if !o.auth.InBand || !session.IsPeeringUser(p) {
		return nil
	}
	return p.Remote.Err(fmt.Errorf("the user of its kubeconfig is a peering user (liqoctl generate peering-user), and --in-band needs rights in cluster %s "+
		"that such a user does not get: to create gateways and Secrets in the tenant namespace, and to read Networks, IPs and Services in namespace %s. "+
		"Use the kubeconfig of an administrator of %s, or leave --in-band out", p.Remote.ID, p.Remote.Namespace, p.Remote.ID))
}

// askForNetwork lets the two control planes connect the networks of clusters that have peered. With wait, it waits until the tunnel is
// connected.
func askForNetwork(ctx context.Context, p *session.Pair, wait bool) error {
	namespace, err := session.RequireTenantNamespace(ctx, p.Local, p.Remote.ID)
	if err != nil {
		return err
	}
	identity := &authv1beta1.Identity{}
	identity.Namespace, identity.Name = namespace, authv1beta1.IdentityControlPlanePrefix+p.Remote.ID
	err = p.Local.Get(ctx, client.ObjectKeyFromObject(identity), identity)
	if apierrors.IsNotFound(err) && !p.Local.IsDryRun() {
		return p.Local.Err(fmt.Errorf("the user of the remote kubeconfig may not make gateways in cluster %s. So the control planes have to connect the networks, "+
			"and Identity %s in namespace %s, which they need, does not exist: run liqoctl peer, or liqoctl authenticate before", p.Remote.ID, identity.Name, namespace))
	}
	if client.IgnoreNotFound(err) != nil {
		return p.Local.Err(fmt.Errorf("reading Identity %s in namespace %s: %w", identity.Name, namespace, err))
	}
	u := &use{Cluster: p.Local, provider: p.Remote.ID, namespace: namespace, options: &peerOptions{location: tunnel.LocationProvider}}
	if err := u.requestNetwork(ctx); err != nil || !u.connected || !wait {
		return err
	}
	return u.becomeHealthy(ctx)
}
