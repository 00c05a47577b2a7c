package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/discovery"
	"liqo.io/liqo/internal/discovery/agent"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering/invite"
)

// DiscoveryOptions are the flags for discovery. With Enabled, the controller manager runs no controllers: it only finds other clusters and announces
// this one.
type DiscoveryOptions struct {
	// Enabled makes the program run only discovery, and no controllers.
	Enabled bool
	// Browse enables the search for clusters in the local networks, Announce the announcement of this cluster there.
	Browse, Announce bool
	// Domains are the DNS domains in which clusters are looked for.
	Domains []string
	// TTL is how long other clusters may cache the announcement.
	TTL time.Duration
}

// AddFlags defines the flags with their defaults.
func (o *DiscoveryOptions) AddFlags(flags *flag.FlagSet) {
	flags.BoolVar(&o.Enabled, "discovery", false, "run only the discovery of clusters, and no controllers")
	flags.BoolVar(&o.Browse, "discovery-browse", false, "look for clusters in the local networks of the node (multicast DNS)")
	flags.BoolVar(&o.Announce, "discovery-announce", false, "announce this cluster in the local networks of the node (multicast DNS)")
	flags.Func("discovery-domains", "DNS domains in which to look for clusters: clusters.example.org,...", func(value string) error {
		o.Domains = nil
		for text := range strings.SplitSeq(value, ",") {
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			if err := discovery.CheckDomain(text); err != nil {
				return err
			}
			o.Domains = append(o.Domains, text)
		}
		return nil
	})
	flags.DurationVar(&o.TTL, "discovery-ttl", 90*time.Second, "how long other clusters may cache the announcement")
}

// Validate returns an error that names all invalid values.
func (o *DiscoveryOptions) Validate() error {
	var problems []error
	if !o.Browse && !o.Announce && len(o.Domains) == 0 {
		problems = append(problems, errors.New("--discovery needs --discovery-browse, --discovery-announce or --discovery-domains"))
	}
	if o.TTL < 10*time.Second || o.TTL > 75*time.Minute {
		problems = append(problems, fmt.Errorf("--discovery-ttl is %s, want 10s to 75m", o.TTL))
	}
	return errors.Join(problems...)
}

// Discovery searches for clusters and announces this cluster until ctx ends.
func Discovery(ctx context.Context, cfg *rest.Config, manager *ControllerManagerOptions, opts *DiscoveryOptions) error {
	if err := errors.Join(manager.Validate(), opts.Validate()); err != nil {
		return err
	}
	direct, err := client.New(cfg, client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	a, err := agent.New(agent.Options{
		ClusterID: manager.ClusterID, Client: direct, Browse: opts.Browse, Announce: opts.Announce, Domains: opts.Domains, TTL: opts.TTL,
		Own: manager.OwnCIDRs, Log: NewLog(slog.LevelInfo),
		URL: func(ctx context.Context) (string, error) {
			return authenticationURL(ctx, direct, manager.LiqoNamespace)
		},
	})
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// authenticationURL returns the URL at which others reach the authentication service.
func authenticationURL(ctx context.Context, c client.Reader, namespace string) (string, error) {
	service := &corev1.Service{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: invite.Service}, service); err != nil {
		return "", fmt.Errorf("reading Service %s/%s: %w", namespace, invite.Service, err)
	}
	// An address that the administrator has set may be that of a proxy that terminates TLS, so this cluster's certificate does not matter.
	if service.Annotations[invite.AnnotationAddress] == "" {
		if err := invite.CheckTLS(service); err != nil {
			return "", err
		}
	}
	// Most Services need no node: only a node port has the address of one.
	if url, err := invite.URL(service, nil); err == nil {
		return url, nil
	}
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes); err != nil {
		return "", fmt.Errorf("listing nodes: %w", err)
	}
	return invite.URL(service, nodes.Items)
}
