package session

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/enrollment"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/internal/pki"
)

// SealToken returns the text of a token for the authentication service of this cluster. If pinned is true, the token contains the pin of the service's
// certificate.
func SealToken(ctx context.Context, c *Cluster, token *invite.Token, pinned bool) (string, error) {
	return enrollment.Seal(ctx, &enrollment.Options{Namespace: c.Namespace, Client: c, Reader: c, Now: time.Now, Random: rand.Reader}, token, pinned)
}

// EnrollmentURL returns the URL at which consumers reach the authentication service.
func EnrollmentURL(ctx context.Context, c *Cluster, silent bool) (string, error) {
	url, service, err := enrollment.URL(ctx, c, c.Namespace)
	if err == nil && !silent && enrollment.NodePortInstead(service) {
		c.Warn("Service %s has no address from a load balancer yet: the command contains the address of a node of this cluster",
			client.ObjectKeyFromObject(service))
	}
	return url, err
}

// IsPeeringUser reports whether the remote kubeconfig belongs to a peering user, according to the name in its certificate.
//
// A peering user may not create gateways, because a gateway template could run any container in the provider. Instead, the two control
// planes connect the networks when the consumer's creates a NetworkRequest.
func IsPeeringUser(p *Pair) bool {
	if p.Remote.Config == nil {
		return false
	}
	certificate, err := pki.First(p.Remote.Config.CertData)
	return err == nil && strings.HasPrefix(certificate.Subject.CommonName, peering.PeeringUserPrefix)
}
