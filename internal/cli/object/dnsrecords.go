package object

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/discovery"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/internal/pki"
)

func generateDNSRecordsCommand(a *session.Session) *cobra.Command {
	var ttl, timeout time.Duration
	var address string
	command := &cobra.Command{
		Use:   "dns-records DOMAIN",
		Short: "Print the DNS records that announce this cluster",
		Long: "Print the DNS records that announce this cluster in a domain (DNS-SD), as lines of a zone file. They hold no secret, only the\n" +
			"cluster ID, the address of the authentication service, and the fingerprint of its key.",
		Example: cmdline.Example(`
			# For the administrator of the zone; liqoctl discover clusters.example.org then lists this cluster
			%[1]s generate dns-records clusters.example.org`),
		Args:              cmdline.ExactlyOne("the DNS domain"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: session.WithTimeout(&timeout, func(ctx context.Context, args []string) error {
			if err := discovery.CheckDomain(args[0]); err != nil {
				return err
			}
			if ttl < time.Second || ttl > time.Hour {
				return fmt.Errorf("--ttl %s: want 1s to 1h", ttl)
			}
			if address != "" {
				if err := invite.CheckURL(address); err != nil {
					return fmt.Errorf("--auth-url: %w", err)
				}
			}
			local, err := a.Installed(ctx)
			if err != nil {
				return err
			}
			return printRecords(ctx, local, args[0], address, ttl)
		}),
	}
	flags := command.Flags()
	flags.StringVar(&address, "auth-url", "", "URL of the authentication service, if other clusters reach it at another address than that of its Service")
	flags.DurationVar(&ttl, "ttl", 90*time.Second, "How long other clusters may cache the records")
	cmdline.AddTimeout(flags, &timeout)
	return command
}

// printRecords prints the records that announce the cluster in a domain.
func printRecords(ctx context.Context, c *session.Cluster, domain, address string, ttl time.Duration) error {
	if address == "" {
		var err error
		if address, err = session.EnrollmentURL(ctx, c, false); err != nil {
			return err
		}
	}
	advertisement, err := discovery.Advertise(c.ID, address)
	if err != nil {
		return err
	}
	advertisement.TTL = uint32(ttl / time.Second) //nolint:gosec // at most an hour
	if advertisement.Fingerprint, err = enrollmentFingerprint(ctx, c); err != nil {
		return err
	}
	_, err = fmt.Fprint(c.Out(), discovery.ZoneText(advertisement.Records(domain)))
	return err
}

// enrollmentFingerprint returns the fingerprint of the key of the authentication service. It is empty, with a warning, if there is no key yet.
func enrollmentFingerprint(ctx context.Context, c *session.Cluster) (string, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: c.Namespace, Name: invite.CertificateSecret}
	err := c.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		c.Warn("The records have no fingerprint: the authentication service has not created its certificate in Secret %s yet", key)
		return "", nil
	}
	if err != nil {
		return "", c.Err(fmt.Errorf("reading Secret %s: %w", key, err))
	}
	certificate, err := pki.First(secret.Data[corev1.TLSCertKey])
	if err != nil {
		return "", fmt.Errorf("reading data[%s] of Secret %s: %w", corev1.TLSCertKey, key, err)
	}
	return peering.Fingerprint(certificate.RawSubjectPublicKeyInfo), nil
}
