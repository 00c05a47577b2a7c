package cli

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/cli/handshake"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/peering"
)

// checkPeer fails if another node has the name of the virtual node that the peering would create, or if one of the clusters already has a peering with a
// different cluster of the same ID. With --force, the latter is only a warning. A bidirectional peering is checked in both directions.
func checkPeer(ctx context.Context, p *session.Pair, o *peerOptions) error {
	if o.createsNode() {
		if err := handshake.CheckNodeName(ctx, p.Local, p.Remote.ID, p.Remote.ID, handshake.NodeNameCure(p.Remote.ID)); err != nil {
			return err
		}
	}
	if err := checkIdentities(ctx, p, o.auth.Force); err != nil || !o.bidirectional {
		return err
	}
	// Problems in the other direction are found before this direction changes anything.
	back := *o
	back.bidirectional = false
	return checkPeer(ctx, p.Reversed(), &back)
}

// createsNode reports whether the peering creates a node in the local cluster.
func (o *peerOptions) createsNode() bool { return o.createResourceSlice && o.createNode }

// checkIdentities fails if one of the clusters would replace another cluster with the same ID. A provider identifies its consumers by their
// public keys. A consumer identifies its providers by the CA of their API servers.
func checkIdentities(ctx context.Context, p *session.Pair, force bool) error {
	if err := p.FindNamespaces(ctx); err != nil {
		return err
	}
	if known, err := checkKey(ctx, p, force); err != nil || known {
		return err // known: the provider has the key of this cluster
	}
	return checkProvider(ctx, p, force)
}

// checkKey compares the public key in the provider's Tenant with the key of the local cluster. It reports whether there is such a Tenant.
func checkKey(ctx context.Context, p *session.Pair, force bool) (known bool, err error) {
	if p.There == "" {
		return false, nil
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: p.There, Name: p.Local.ID}}
	err = p.Remote.Get(ctx, client.ObjectKeyFromObject(tenant), tenant)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, p.Remote.Err(fmt.Errorf("reading %s: %w", p.Remote.Name(tenant), err))
	}
	if len(tenant.Spec.PublicKey) == 0 || tenant.DeletionTimestamp != nil {
		return false, nil
	}
	var keys corev1.Secret
	name := client.ObjectKey{Namespace: p.Local.Namespace, Name: authv1beta1.KeysSecret}
	if err := p.Local.Get(ctx, name, &keys); err != nil {
		return false, p.Local.Err(fmt.Errorf("reading the keys of the cluster, Secret %s: %w", name, err))
	}
	own := keys.Data[authv1beta1.PublicKeyKey]
	theirs, ours := peering.Fingerprint(tenant.Spec.PublicKey), peering.Fingerprint(own)
	if theirs == ours {
		return true, nil
	}
	if !force {
		return true, p.Remote.Err(fmt.Errorf("%s has the public key %s, cluster %s has %s. If two clusters have the ID %s, give one of them another ID "+
			"(liqoctl install --cluster-id). If cluster %s was installed again since, replace its key with --force",
			p.Remote.Name(tenant), theirs, p.Local.ID, ours, p.Local.ID, p.Local.ID))
	}
	p.Remote.Warn("The key %s of cluster %s is replaced by %s (--force). Kubernetes identifies users by the name in a certificate, and cannot revoke a certificate: whoever has the former key "+
		"keeps the rights of cluster %s with the certificates for it, for up to %d days. If another person may have the key, give the cluster another ID instead: "+
		"liqoctl install --cluster-id", theirs, p.Local.ID, ours, p.Local.ID, int(peering.CertificateLife.Hours()/24))
	return true, nil
}

// checkProvider compares the CA of the API server that granted the local Identity with the CA of the remote cluster. It runs if the remote
// cluster has no Tenant for the local one. If one of the CAs is unknown, the check passes.
func checkProvider(ctx context.Context, p *session.Pair, force bool) error {
	if p.Here == "" {
		return nil
	}
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: p.Here, Name: peering.ControlPlaneIdentityName(p.Remote.ID)}}
	err := p.Local.Get(ctx, client.ObjectKeyFromObject(identity), identity)
	if client.IgnoreNotFound(err) != nil {
		return p.Local.Err(fmt.Errorf("reading %s: %w", p.Local.Name(identity), err))
	}
	if err != nil || len(identity.Spec.AuthParams.CA) == 0 || identity.DeletionTimestamp != nil {
		return nil
	}
	var root corev1.ConfigMap
	key := client.ObjectKey{Namespace: p.Remote.Namespace, Name: "kube-root-ca.crt"}
	if err := p.Remote.Get(ctx, key, &root); apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil // a peering user is not allowed to read it
	} else if err != nil {
		return p.Remote.Err(fmt.Errorf("reading ConfigMap %s: %w", key, err))
	}
	had, has := peering.Fingerprint(identity.Spec.AuthParams.CA), peering.Fingerprint([]byte(root.Data["ca.crt"]))
	switch {
	case root.Data["ca.crt"] == "" || had == has:
		return nil
	case !force:
		return p.Local.Err(fmt.Errorf("the API server that issued %s has the CA %s, but the API server of cluster %s has the CA %s and no Tenant of %s. "+
			"If two clusters have the ID %s, unpeer the first one (liqoctl unpeer %s), or install one of them with another --cluster-id. "+
			"If it is one cluster with a new CA, continue with --force", p.Local.Name(identity), had, p.Remote.ID, has, p.Local.ID, p.Remote.ID, p.Remote.ID))
	}
	p.Local.Warn("The provider %s with the CA %s is replaced by the one with %s (--force)", p.Remote.ID, had, has)
	return nil
}
