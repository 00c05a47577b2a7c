package cli

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/peering"
)

// isPeeringUser reports whether the remote kubeconfig is that of a peering user, by the name in its certificate. The right to make gateways from templates
// would be one to run containers in the provider, so a peering user does not get it: the two control planes connect the networks when the
// consumer's asks for it (NetworkRequest).
func (p *pair) isPeeringUser() bool {
	if p.remote.config == nil {
		return false
	}
	certificate, err := peering.Certificate(p.remote.config.CertData)
	return err == nil && strings.HasPrefix(certificate.Subject.CommonName, peering.PeeringUserPrefix)
}

// mustAskForNetwork is isPeeringUser for a peering that is to have a network. A tunnel that the peering itself goes through has to be there first, so it
// can't be asked for.
func (p *pair) mustAskForNetwork(o *peerOptions) bool {
	return !o.networkingDisabled && !o.auth.inBand && p.isPeeringUser()
}

// askForNetwork has the two control planes connect the networks. It tells whether they do.
func (p *pair) askForNetwork(ctx context.Context, o *peerOptions) (bool, error) {
	namespace, err := p.local.requireTenantNamespace(ctx, p.remote.id)
	if err != nil {
		return false, err
	}
	identity := &authv1beta1.Identity{}
	identity.Namespace, identity.Name = namespace, authv1beta1.IdentityControlPlanePrefix+p.remote.id
	err = p.local.Get(ctx, client.ObjectKeyFromObject(identity), identity)
	if apierrors.IsNotFound(err) && !p.local.rehearses() {
		return false, p.local.error(fmt.Errorf("the user of the remote kubeconfig may not make gateways in cluster %s, so cluster %s has to be asked for a network by its consumer, "+
			"and there is no Identity %s in namespace %s: run liqoctl peer, or liqoctl authenticate before", p.remote.id, p.remote.id, identity.Name, namespace))
	}
	if client.IgnoreNotFound(err) != nil {
		return false, p.local.error(fmt.Errorf("reading Identity %s in namespace %s: %w", identity.Name, namespace, err))
	}
	return p.local.requestNetwork(ctx, namespace, p.remote.id, o)
}

// withdraw takes the request for a network back, of a user who may not take gateways down.
func (p *pair) withdraw(ctx context.Context) error {
	namespace, err := p.local.findTenantNamespace(ctx, p.remote.id)
	if err != nil || namespace == "" {
		return err
	}
	return p.local.withdrawNetwork(ctx, namespace, p.remote.id)
}
