package object

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
	"liqo.io/liqo/internal/peering/enrollment"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/internal/pki"
)

// peerCommandOptions holds the flags of generate peer-command.
type peerCommandOptions struct {
	onlyCommand, trusted bool
	lifetime             time.Duration
	consumer, url        string
	// certificate is the path of the certificate that consumers see at the URL, if it is not that of the authentication service.
	certificate string
	// dialed is how the consumer's gateway reaches that of this cluster.
	tunnel.Dialed
}

func generatePeerCommandCommand(a *session.Session) *cobra.Command {
	var o peerCommandOptions
	command := &cobra.Command{
		Use:   "peer-command",
		Short: "Print the command with which another cluster peers with this one",
		Long: "Print the command with which the administrator of another cluster, the consumer, peers with the local cluster, the provider. It\n" +
			"contains a token, with which one cluster can enroll until the token expires: the first cluster that uses it. The token names the\n" +
			"certificate of the local cluster, so the consumer detects an impostor. Keep the token secret like a password until it is used.\n\n" +
			"To revoke all tokens that were not used yet, delete Secret auth-token in the namespace of the installation.",
		Example: cmdline.Example(`
			# On the provider; what it prints is run on the consumer
			%[1]s generate peer-command
			# For the cluster rome and no other, within the next hour
			%[1]s generate peer-command --consumer-cluster-id rome --token-lifetime 1h
			# For the cluster rome, which gets the token from a repository and may not exist yet
			%[1]s generate peer-command --consumer-cluster-id rome --token-lifetime 2160h
			# The authentication service is behind a proxy that ends TLS, and shows this certificate
			%[1]s generate peer-command --auth-url https://auth.milan.example.org --auth-certificate proxy.pem
			# The clusters meet in a VPN, in which this cluster has another address
			%[1]s generate peer-command --gw-client-address 100.64.0.7 --gw-client-port 30840
			# In a script that has access to both clusters
			%[1]s generate peer-command --only-command --kubeconfig milan.yaml | KUBECONFIG=rome.yaml bash`),
		Args: cobra.NoArgs,
		RunE: a.OnInstalled(nil, o.check, func(ctx context.Context, local *session.Cluster, _ []string) error {
			return printPeerCommand(ctx, local, &o)
		}),
	}
	flags := command.Flags()
	flags.BoolVar(&o.onlyCommand, "only-command", false, "Print only the command")
	flags.DurationVar(&o.lifetime, "token-lifetime", 24*time.Hour, "Lifetime of the token, at most 720h, or 8760h with --consumer-cluster-id")
	flags.StringVar(&o.consumer, "consumer-cluster-id", "", "Cluster ID of the only cluster that may use the token (default: the first cluster that uses it)")
	flags.StringVar(&o.url, "auth-url", "", "URL under which the consumer reaches the authentication service (default: address of its Service)")
	flags.BoolVar(&o.trusted, "trusted-certificate", false, "The certificate of that URL is signed by a public authority, for example that of an Ingress")
	flags.StringVar(&o.certificate, "auth-certificate", "", "File with the certificate (PEM) served at that URL, for example that of an Ingress; the consumer accepts no other key")
	command.MarkFlagsMutuallyExclusive("trusted-certificate", "auth-certificate")
	o.AddDialed(flags, "Address at which the consumer reaches the gateway of the local cluster (default: what the gateway's Service reports)",
		"Port at which the consumer reaches the gateway of the local cluster (default: what the gateway's Service reports)")
	a.AddDryRun(flags)
	return command
}

// check validates the flags.
func (o *peerCommandOptions) check() error {
	if err := o.Validate(); err != nil {
		return err
	}
	switch {
	case o.consumer == "" && (o.lifetime <= 0 || o.lifetime > invite.MaxTokenLifetime):
		return fmt.Errorf("--token-lifetime %s: want more than 0 and at most %s, or up to %s with --consumer-cluster-id",
			o.lifetime, invite.MaxTokenLifetime, invite.MaxNamedTokenLifetime)
	case o.lifetime <= 0 || o.lifetime > invite.MaxNamedTokenLifetime:
		return fmt.Errorf("--token-lifetime %s: want more than 0 and at most %s", o.lifetime, invite.MaxNamedTokenLifetime)
	case o.certificate != "" && o.url == "":
		return fmt.Errorf("--auth-certificate %s is for a certificate at another URL: give that one with --auth-url", o.certificate)
	case o.url == "":
		return nil
	}
	if err := invite.CheckURL(o.url); err != nil {
		return fmt.Errorf("--auth-url: %w", err)
	}
	return nil
}

// pin returns the pin of the certificate in the file. It is nil without a file.
func (o *peerCommandOptions) pin() ([]byte, error) {
	if o.certificate == "" {
		return nil, nil
	}
	data, err := os.ReadFile(o.certificate)
	if err != nil {
		return nil, fmt.Errorf("--auth-certificate: %w", err)
	}
	certificate, err := pki.First(data)
	if err != nil {
		return nil, fmt.Errorf("--auth-certificate %s: %w", o.certificate, err)
	}
	return invite.PinOf(certificate), nil
}

func printPeerCommand(ctx context.Context, c *session.Cluster, o *peerCommandOptions) error {
	pin, err := o.pin()
	if err != nil {
		return err
	}
	url := o.url
	if url == "" {
		url, err = session.EnrollmentURL(ctx, c, o.onlyCommand)
	} else if !o.trusted && pin == nil {
		_, err = enrollment.ServiceOf(ctx, c, c.Namespace) // the token contains the fingerprint of its certificate, so the certificate must exist
	}
	if err != nil {
		return err
	}
	token := invite.Token{Expires: time.Now().Add(o.lifetime), Consumer: o.consumer, Pin: pin}
	text, err := session.SealToken(ctx, c, &token, !o.trusted && pin == nil)
	if err != nil || c.IsDryRun() {
		return err // a dry run does not persist the secret, so its token would be useless
	}
	if !o.onlyCommand {
		who := "another cluster (the first that does)"
		if o.consumer != "" {
			who = "cluster " + o.consumer
		}
		c.Info("Run this command on %s to use resources of %s there, until %s:", who, c.ID, token.Expires.UTC().Format(time.RFC3339))
	}
	_, err = fmt.Fprintf(c.Out(), "liqoctl peer out-of-band %s --auth-url %s --cluster-id %s --auth-token %s%s\n", c.ID, url, c.ID, text, o.Arguments())
	return err
}
