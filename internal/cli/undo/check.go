// Package undo checks before the end of a peering that the provider can stop the pods of the consumer, and that no data is lost. Every command that
// ends a peering, or a virtual node of it, runs the same check.
package undo

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/deletevolumes"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
)

// Check fails, before any change is made, if the local control plane does not reach the provider, or if this is unknown because the control
// plane does not run. The pods in the provider could not be stopped, and would run at the same time as their local replacements. The check passes
// for a peering without resources or an identity of the provider. Check also fails if data in the provider would be lost.
func Check(ctx context.Context, c *session.Cluster, provider, namespace string) error {
	if namespace == "" {
		return nil
	}
	foreign := &corev1beta1.ForeignCluster{}
	err := c.Get(ctx, client.ObjectKey{Name: provider}, foreign)
	if client.IgnoreNotFound(err) != nil {
		return c.Err(fmt.Errorf("reading ForeignCluster %s: %w", provider, err))
	}
	foreign.Name = provider
	uses, begun, err := usesOf(ctx, c, provider, namespace)
	if err != nil || uses == 0 {
		return err
	}
	err = deletevolumes.Check(ctx, c, func(_, there string) bool { return there == provider })
	if err != nil {
		return c.Err(err)
	}
	if !c.Unmanaged {
		if err := awaitVerdict(ctx, c, foreign); err != nil {
			return err
		}
	}
	lost, exists := session.UnreachableSince(foreign), foreign.ResourceVersion != ""
	if lost == nil && exists && !c.Unmanaged {
		return nil
	}
	state := "Nothing was changed: the pods in " + provider + " can not be stopped now, and would run twice once they are replaced elsewhere"
	if begun != "" {
		state = "An earlier unpeer is half done: " + begun + ". It continues when " + provider + " can be reached; what is not deleted yet stays until then"
	}
	if lost == nil && !c.Unmanaged {
		return c.Err(fmt.Errorf("it is unknown whether cluster %s reaches the API server of %s: ForeignCluster %s does not exist, and no controller manager has created it again "+
			"for the Identity, the ResourceSlices and the VirtualNodes of that cluster\n%s\n"+
			"Run the command again when it exists (liqoctl doctor shows what keeps the controller manager from creating it). If cluster %s is gone for good, run: "+
			"liqoctl force unpeer %s: pods in a cluster that still runs then run twice", c.ID, provider, provider, state, provider, provider))
	}
	if lost == nil {
		return c.Err(fmt.Errorf("it is unknown whether cluster %s reaches the API server of %s: no pod of Deployment %s in namespace %s of %s is available\n%s\n"+
			"Run the command again when a pod is available. If cluster %s is gone for good, run: liqoctl force unpeer %s",
			c.ID, provider, session.ControllerManager, c.Namespace, c.ID, state, provider, provider))
	}
	since := lost.LastTransitionTime.UTC().Format(time.RFC3339)
	if refusesIdentity(lost) { // the provider responds, so it is not gone for good
		return c.Err(fmt.Errorf("the API server of %s, %s, does not accept the certificate of cluster %s since %s: %s\n%s\n"+
			"Get another certificate in one of two ways, then run this command again. With a kubeconfig of %s: liqoctl authenticate --remote-kubeconfig KUBECONFIG. "+
			"Without one: run liqoctl generate peer-command --consumer-cluster-id %s on %s, and on this cluster the command that it prints",
			provider, foreign.Status.APIServerURL, c.ID, since, lost.Message, state, provider, c.ID, provider))
	}
	return c.Err(fmt.Errorf("cluster %s does not reach the API server of %s, %s, since %s: %s\n%s\n"+
		"Run the command again when it does (liqoctl info peer %s shows it). If cluster %s is gone for good, run: liqoctl force unpeer %s",
		c.ID, provider, foreign.Status.APIServerURL, since, lost.Message, state, provider, provider, provider))
}

// CheckBoth is Check for a command with access to the provider. It also fails if the provider has data in namespaces that the consumer does not release: the
// claims there would keep the Tenant from being deleted, when the consumer has no access any more. A Tenant that is already being deleted lists these claims
// itself, and is not checked.
func CheckBoth(ctx context.Context, p *session.Pair, namespace string) error {
	if err := Check(ctx, p.Local, p.Remote.ID, namespace); err != nil {
		return err
	}
	there, err := session.FindTenantNamespace(ctx, p.Remote, p.Local.ID)
	if err != nil || there == "" {
		return err
	}
	m := &offloadingv1beta1.NamespaceMap{}
	if namespace != "" {
		if err := p.Local.Get(ctx, client.ObjectKey{Namespace: namespace, Name: p.Remote.ID}, m); client.IgnoreNotFound(err) != nil {
			return p.Local.Err(fmt.Errorf("reading NamespaceMap %s in namespace %s: %w", p.Remote.ID, namespace, err))
		}
	}
	err = unreleased(ctx, p, there, m)
	if apierrors.IsForbidden(err) { // for example a peering user
		p.Remote.Info("Only the volumes of cluster %s were checked. If cluster %s has other data of it, Tenant %s in namespace %s names the claims and stays until its administrator decides about them",
			p.Local.ID, p.Remote.ID, p.Local.ID, there)
		return nil
	}
	return p.Remote.Err(err)
}

// unreleased fails if the provider has data in namespaces that the map of the consumer does not release. tenantNamespace is that of the consumer in the
// provider.
func unreleased(ctx context.Context, p *session.Pair, tenantNamespace string, m *offloadingv1beta1.NamespaceMap) error {
	tenant := &authv1beta1.Tenant{}
	err := p.Remote.Get(ctx, client.ObjectKey{Namespace: tenantNamespace, Name: p.Local.ID}, tenant)
	if apierrors.IsNotFound(err) || err == nil && !tenant.DeletionTimestamp.IsZero() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Tenant %s in namespace %s: %w", p.Local.ID, tenantNamespace, err)
	}
	return deletevolumes.CheckUnreleased(ctx, p.Remote, p.Local.ID, tenantNamespace, m)
}

// usesOf returns the number of objects by which the cluster uses resources or an identity of the provider. begun is the name of the first of them
// that is already being deleted.
func usesOf(ctx context.Context, c *session.Cluster, provider, namespace string) (uses int, begun string, err error) {
	for _, list := range []client.ObjectList{&authv1beta1.ResourceSliceList{}, &offloadingv1beta1.VirtualNodeList{}, &authv1beta1.IdentityList{}} {
		if err := session.ListOfPeer(ctx, c, list, namespace, provider); err != nil {
			return 0, "", err
		}
		objects, err := kube.Items(list)
		if err != nil {
			return 0, "", err
		}
		for _, object := range objects {
			uses++
			if since := object.GetDeletionTimestamp(); since != nil && begun == "" {
				begun = fmt.Sprintf("%s is being deleted since %s", c.Name(object), since.UTC().Format(time.RFC3339))
			}
		}
	}
	return uses, begun, nil
}

// refusesIdentity reports whether the API server is reachable but rejects the certificate: the certificate has expired, or its user is
// unknown.
func refusesIdentity(lost *corev1beta1.Condition) bool {
	return strings.Contains(lost.Message, fmt.Sprintf("%d %s", http.StatusUnauthorized, http.StatusText(http.StatusUnauthorized)))
}
