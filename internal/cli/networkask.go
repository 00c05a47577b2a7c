package cli

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/pki"
)

// isPeeringUser reports whether the remote kubeconfig belongs to a peering user, according to the name in its certificate.
//
// A peering user may not create gateways, because a gateway template could run any container in the provider. Instead, the two control
// planes connect the networks when the consumer's creates a NetworkRequest.
func (p *pair) isPeeringUser() bool {
	if p.remote.config == nil {
		return false
	}
	certificate, err := pki.First(p.remote.config.CertData)
	return err == nil && strings.HasPrefix(certificate.Subject.CommonName, peering.PeeringUserPrefix)
}

// mustAskForNetwork reports whether a peering with a network needs a NetworkRequest, because the user is a peering user. It returns false
// for an in-band peering: that peering uses the tunnel itself, so the tunnel must exist first.
func (p *pair) mustAskForNetwork(o *peerOptions) bool {
	return !o.networkingDisabled && !o.auth.inBand && p.isPeeringUser()
}

// checkRights fails, before any change is made, if the peering needs permissions in the provider that a peering user does not have.
func (p *pair) checkRights(o *peerOptions) error {
	if !o.auth.inBand || !p.isPeeringUser() {
		return nil
	}
	return p.remote.error(fmt.Errorf("the user of its kubeconfig is a peering user (liqoctl generate peering-user), and --in-band takes rights in cluster %s "+
		"that such a user does not get: to create gateways and Secrets in the tenant namespace, and to read Networks, IPs and Services in namespace %s. "+
		"Use the kubeconfig of an administrator of %s, or leave --in-band out", p.remote.id, p.remote.namespace, p.remote.id))
}

// askForNetwork lets the two control planes connect the networks of clusters that have peered. With wait, it waits until the tunnel is
// connected.
func (p *pair) askForNetwork(ctx context.Context, wait bool) error {
	namespace, err := requireTenantNamespace(ctx, p.local, p.remote.id)
	if err != nil {
		return err
	}
	identity := &authv1beta1.Identity{}
	identity.Namespace, identity.Name = namespace, authv1beta1.IdentityControlPlanePrefix+p.remote.id
	err = p.local.Get(ctx, client.ObjectKeyFromObject(identity), identity)
	if apierrors.IsNotFound(err) && !p.local.isDryRun() {
		return p.local.error(fmt.Errorf("the user of the remote kubeconfig may not make gateways in cluster %s. So the control planes have to connect the networks, "+
			"and Identity %s in namespace %s, which they need, does not exist: run liqoctl peer, or liqoctl authenticate before", p.remote.id, identity.Name, namespace))
	}
	if client.IgnoreNotFound(err) != nil {
		return p.local.error(fmt.Errorf("reading Identity %s in namespace %s: %w", identity.Name, namespace, err))
	}
	u := &use{cluster: p.local, provider: p.remote.id, namespace: namespace, options: &peerOptions{location: locationProvider}}
	if err := u.requestNetwork(ctx); err != nil || !u.connected || !wait {
		return err
	}
	return u.becomeHealthy(ctx)
}

// networkRequested reports whether a NetworkRequest of the local cluster has created the network. The controllers of both clusters then keep it, so it is removed
// by deleting the NetworkRequest.
func (p *pair) networkRequested(ctx context.Context) (bool, error) {
	namespace, err := findTenantNamespace(ctx, p.local, p.remote.id)
	if err != nil || namespace == "" {
		return false, err
	}
	requests, err := networkRequests(ctx, p.local, namespace)
	return len(requestsTo(p.remote.id, requests)) > 0, err
}

// withdraw deletes the NetworkRequest, if the network was requested by one: by a peering user or by a token.
func (p *pair) withdraw(ctx context.Context) error {
	namespace, err := findTenantNamespace(ctx, p.local, p.remote.id)
	if err != nil || namespace == "" {
		return err
	}
	return withdrawNetwork(ctx, p.local, namespace, p.remote.id)
}
