package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/cli/handshake"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/enrollment"
	"liqo.io/liqo/internal/peering/invite"
)

// addressWithin limits the time to look up the addresses of an Invitation. The peering does not depend on the Invitation.
const addressWithin = 20 * time.Second

// inviteBack creates an Invitation in the provider. With it, an administrator of the provider can later use the consumer's resources
// through the same tunnel (liqoctl peer NAME). The Invitation is deleted with the Tenant of the consumer. If it cannot be created, the
// peering continues without it.
func inviteBack(ctx context.Context, p *session.Pair) error {
	bounded, cancel := context.WithTimeout(ctx, addressWithin)
	defer cancel()
	err := inviteProvider(bounded, p)
	if err != nil && ctx.Err() == nil {
		p.Local.Warn("Cluster %s is not invited to use resources of %s too (liqoctl peer %s, run there): %v", p.Remote.ID, p.Local.ID, p.Local.ID, err)
		return nil
	}
	return err
}

func inviteProvider(ctx context.Context, p *session.Pair) error {
	back := p.Reversed()
	if _, err := enrollment.ServiceOf(ctx, p.Local, p.Local.Namespace); err != nil {
		return err
	}
	address, err := handshake.ThroughTunnel(ctx, back, ipamv1alpha1.IPAuthentication, invite.Service, "the authentication service")
	if err != nil {
		return fmt.Errorf("%w; the authentication service is installed with auth.enabled=true", err)
	}
	proxy, err := handshake.ThroughTunnel(ctx, back, ipamv1alpha1.IPAPIServerProxy, handshake.ProxyService, "the API-server proxy")
	if err != nil {
		return fmt.Errorf("%w; the proxy is installed with proxy.enabled=true", err)
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: p.There, Name: p.Local.ID}}
	if err := p.Remote.Get(ctx, client.ObjectKeyFromObject(tenant), tenant); err != nil {
		return p.Remote.Err(fmt.Errorf("reading %s: %w", p.Remote.Name(tenant), err))
	}
	options := &enrollment.Options{Namespace: p.Local.Namespace, Client: p.Local, Reader: p.Local, Now: time.Now, Random: rand.Reader}
	tokens, err := enrollment.EnsureSecret(ctx, options)
	if err != nil {
		return p.Local.Err(err)
	}
	url, through := "https://"+address.String(), "http://"+proxy.String()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.There, Name: invite.Secret}}
	changed, err := p.Remote.Ensure(ctx, secret, func() error {
		same := string(secret.Data[invite.URLKey]) == url && string(secret.Data[invite.ProxyKey]) == through
		if same && lasts(secret, tokens, p.Remote.ID, time.Now()) {
			return nil
		}
		text, err := session.SealToken(ctx, p.Local, &invite.Token{Expires: time.Now().Add(invite.MaxTokenLifetime), Consumer: p.Remote.ID}, true)
		if err != nil {
			return err
		}
		kube.AddLabels(secret, map[string]string{invite.Label: api.True, api.LabelRemoteClusterID: p.Local.ID})
		secret.Data = map[string][]byte{
			invite.URLKey: []byte(url), invite.TokenKey: []byte(text), invite.ProxyKey: []byte(through),
		}
		return controllerutil.SetOwnerReference(tenant, secret, p.Remote.Scheme())
	})
	if err == nil && changed {
		p.Remote.Did("Cluster %s may use resources of %s too, within %s: liqoctl peer %s, run there", p.Remote.ID, p.Local.ID, invite.MaxTokenLifetime, p.Local.ID)
	}
	return err
}

// lasts reports whether the token of an Invitation still admits the consumer and stays valid for more than half of invite.MaxTokenLifetime. It
// checks the token against the token Secret of the inviting cluster.
func lasts(invitation, tokens *corev1.Secret, consumer string, now time.Time) bool {
	token, err := invite.CheckToken(tokens.Data[invite.SecretKey], string(invitation.Data[invite.TokenKey]), consumer, now)
	if err != nil || token.Consumer != consumer || token.Expires.Sub(now) <= invite.MaxTokenLifetime/2 {
		return false
	}
	_, err = invite.Redeem(tokens.Data[invite.UsedKey], token, consumer, now)
	return err == nil
}

// peerInvited peers with a cluster that left an Invitation here. The tenant namespace already contains everything needed.
func peerInvited(ctx context.Context, a *session.Session, name string, o *peerOptions) error {
	if o.auth.Invite {
		return fmt.Errorf("--invite does not go with NAME %s: this cluster uses the invitation that %s left here, and makes none; leave --invite out", name, name)
	}
	if o.auth.Given("in-band") || o.auth.Given("proxy-url") {
		return fmt.Errorf("--in-band and --proxy-url do not go with NAME %s: the invitation of %s says how its API server is reached; leave them out", name, name)
	}
	if o.auth.Force {
		return fmt.Errorf("--force does not go with NAME %s: if %s knows another key for the ID of this cluster, its administrator has to delete the Tenant of that ID there first", name, name)
	}
	resources, err := o.resources.List()
	if err != nil {
		return err
	}
	if err := errors.Join(o.network.Locate(o.location), o.network.Validate()); err != nil {
		return err
	}
	if err := o.checkRequest(); err != nil {
		return err
	}
	c, err := a.Installed(ctx)
	if err != nil {
		return err
	}
	id, namespace, err := peerCalled(ctx, c, name)
	if err != nil {
		return err
	}
	if o.createsNode() {
		if err := handshake.CheckNodeName(ctx, c, id, id, handshake.NodeNameCure(id)); err != nil {
			return err
		}
	}
	u := &use{Cluster: c, provider: id, namespace: namespace, nodeName: id, options: o, resources: resources}
	return session.ExplainUnreached(c, id, session.InOrder(ctx, u.acceptInvitation, u.run))
}

// acceptInvitation enrolls the local cluster at the authentication service that an Invitation names, unless it is enrolled already.
func (u *use) acceptInvitation(ctx context.Context) error {
	c, namespace, provider := u.Cluster, u.namespace, u.provider
	granted, err := withoutRefusal(ctx, c, namespace, provider)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: invite.Secret}}
	err = c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	switch {
	case apierrors.IsNotFound(err) && granted != nil: // enrolled already
		return obtainIdentity(ctx, c, namespace, provider, nil)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("cluster %s has not invited this one. Three ways to peer with it: give its kubeconfig with --remote-kubeconfig; "+
			"or run liqoctl generate peer-command on %s, and here the command that it prints; or have %s invite this cluster, with --invite of liqoctl peer out-of-band or of liqoctl peer --in-band", provider, provider, provider)
	case err != nil:
		return fmt.Errorf("reading %s: %w", c.Name(secret), err)
	}
	token, err := invite.ParseToken(string(secret.Data[invite.TokenKey]))
	if err == nil && time.Now().After(token.Expires) {
		err = fmt.Errorf("it expired at %s", token.Expires.UTC().Format(time.RFC3339))
	}
	if err != nil {
		err = fmt.Errorf("the invitation of cluster %s, %s, no longer admits this cluster: %w. Run liqoctl generate peer-command --consumer-cluster-id %s on %s, and here the command that it prints",
			provider, c.Name(secret), err, c.ID, provider)
	}
	switch {
	case err != nil && granted == nil:
		return err
	case err != nil:
		needed, readErr := needsReenrollment(ctx, c, granted)
		if readErr != nil {
			return readErr
		}
		if needed {
			return fmt.Errorf("cluster %s does not accept the %s of this cluster any more, and %w", provider, peering.KindOf(&granted.Spec.AuthParams), err)
		}
	case granted != nil:
		if err := reenroll(ctx, c, granted, secret); err != nil {
			return err
		}
	}
	return obtainIdentity(ctx, c, namespace, provider, secret)
}
