package enrollment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/peering/invite"
)

// ServiceOf returns the Service of the authentication service. It fails if consumers can't call it with TLS.
func ServiceOf(ctx context.Context, c client.Reader, namespace string) (*corev1.Service, error) {
	service := &corev1.Service{}
	key := client.ObjectKey{Namespace: namespace, Name: invite.Service}
	err := c.Get(ctx, key, service)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no Service %s: this cluster is installed without the authentication service (auth.enabled=true installs it)", key)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Service %s: %w", key, err)
	}
	return service, invite.CheckTLS(service)
}

// URL returns the URL at which consumers reach the authentication service, and its Service.
func URL(ctx context.Context, c client.Reader, namespace string) (string, *corev1.Service, error) {
	service, err := ServiceOf(ctx, c, namespace)
	if err != nil {
		return "", nil, err
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return "", nil, fmt.Errorf("listing nodes: %w", err)
	}
	url, err := invite.URL(service, nodes.Items)
	return url, service, err
}

// NodePortInstead reports whether consumers get the address of a node because the Service has no address from a load balancer yet.
func NodePortInstead(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer && len(service.Status.LoadBalancer.Ingress) == 0 &&
		service.Annotations[invite.AnnotationAddress] == ""
}

// Seal returns the text of a new token. If pinned is true, the token contains the pin of the authentication service's certificate.
func Seal(ctx context.Context, o *Options, token *invite.Token, pinned bool) (string, error) {
	if pinned {
		pair, err := EnsureCertificate(ctx, o)
		if err != nil {
			return "", err
		}
		token.Pin = invite.PinOf(pair.Leaf)
	}
	return Issue(ctx, o, token)
}
