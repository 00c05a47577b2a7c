package cli

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/enrollment"
)

// peerCommandOptions holds the flags of generate peer-command.
type peerCommandOptions struct {
	onlyCommand, trusted bool
	lifetime             time.Duration
	consumer, url        string
}

// maxTokenLifetime is the maximum lifetime of a token. A token without an end would be a permanent password in the history of a shell.
const maxTokenLifetime = 30 * 24 * time.Hour

func (a *app) generatePeerCommandCommand() *cobra.Command {
	var o peerCommandOptions
	command := &cobra.Command{
		Use:   "peer-command",
		Short: "Print the command by which another cluster peers with this one",
		Long: "Print the command that the administrator of another cluster, the consumer, runs there to use resources of the local one, the\n" +
			"provider. Its token lets one cluster introduce itself, the first that uses it, until it expires; it names the certificate\n" +
			"that the local cluster shows, so that nobody in between can answer in its place. Treat it as a password until it is used.\n\n" +
			"Tokens that are on their way become worthless when Secret auth-token in the namespace of the installation is deleted.",
		Example: example(`
			# On the provider; what it prints is run on the consumer
			%[1]s generate peer-command
			# For the cluster rome and no other, within the next hour
			%[1]s generate peer-command --consumer-cluster-id rome --token-lifetime 1h
			# In a script that has access to both clusters
			%[1]s generate peer-command --only-command --kubeconfig milan.yaml | KUBECONFIG=rome.yaml bash`),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.lifetime <= 0 || o.lifetime > maxTokenLifetime {
				return fmt.Errorf("--token-lifetime %s: want more than 0 and at most %s", o.lifetime, maxTokenLifetime)
			}
			if o.url != "" {
				if err := peering.CheckEnrollmentURL(o.url); err != nil {
					return fmt.Errorf("--auth-url: %w", err)
				}
			}
			local, err := a.installed(cmd.Context())
			if err != nil {
				return err
			}
			return local.printPeerCommand(cmd.Context(), &o)
		},
	}
	flags := command.Flags()
	flags.BoolVar(&o.onlyCommand, "only-command", false, "Print only the command")
	flags.DurationVar(&o.lifetime, "token-lifetime", 24*time.Hour, "Lifetime of the token")
	flags.StringVar(&o.consumer, "consumer-cluster-id", "", "Cluster ID of the only cluster that may use the token (default: the first cluster that uses it)")
	flags.StringVar(&o.url, "auth-url", "", "URL under which the consumer reaches the authentication service (default: address of its Service)")
	flags.BoolVar(&o.trusted, "trusted-certificate", false, "The consumer already trusts the certificate of that URL, for example that of an Ingress")
	a.addDryRun(flags)
	return command
}

func (c *cluster) printPeerCommand(ctx context.Context, o *peerCommandOptions) error {
	url := o.url
	if url == "" {
		var err error
		if url, err = c.doorURL(ctx, o.onlyCommand); err != nil {
			return err
		}
	}
	token := peering.Token{Expires: time.Now().Add(o.lifetime), Consumer: o.consumer}
	text, err := c.sealed(ctx, &token, !o.trusted)
	if err != nil || c.isDryRun() {
		return err // a dry run does not persist the secret, so its token would be useless
	}
	if !o.onlyCommand {
		who := "another cluster (the first that does)"
		if o.consumer != "" {
			who = "cluster " + o.consumer
		}
		c.Info("Run this command on %s to use resources of %s there, until %s:", who, c.id, token.Expires.UTC().Format(time.RFC3339))
	}
	_, err = fmt.Fprintf(c.Out(), "liqoctl peer out-of-band %s --auth-url %s --cluster-id %s --auth-token %s\n", c.id, url, c.id, text)
	return err
}

// sealed returns the text of a token for the authentication service of this cluster. With pinned, the token contains the pin of the
// service's certificate.
func (c *cluster) sealed(ctx context.Context, token *peering.Token, pinned bool) (string, error) {
	options := &enrollment.Options{Namespace: c.namespace, Client: c, Reader: c, Now: time.Now, Random: rand.Reader}
	if pinned {
		pair, err := enrollment.EnsureCertificate(ctx, options)
		if err != nil {
			return "", err
		}
		certificate, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			return "", fmt.Errorf("reading the certificate of the authentication service: %w", err)
		}
		token.Pin = peering.PinOf(certificate)
	}
	return enrollment.Issue(ctx, options, token)
}

// doorURL returns the URL at which consumers reach the authentication service.
func (c *cluster) doorURL(ctx context.Context, silent bool) (string, error) {
	var service corev1.Service
	key := client.ObjectKey{Namespace: c.namespace, Name: peering.EnrollmentService}
	err := c.Get(ctx, key, &service)
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("there is no Service %s: this cluster is installed without the authentication service (auth.enabled=true installs it)", key)
	}
	if err != nil {
		return "", fmt.Errorf("reading Service %s: %w", key, err)
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return "", fmt.Errorf("listing nodes: %w", err)
	}
	url, err := peering.EnrollmentURL(&service, nodes.Items)
	if err == nil && !silent && service.Spec.Type == corev1.ServiceTypeLoadBalancer && len(service.Status.LoadBalancer.Ingress) == 0 &&
		service.Annotations[peering.AnnotationEnrollmentAddress] == "" {
		c.Warn("Service %s has no load balancer, or not yet: the command names a node of this cluster", key)
	}
	return url, err
}
