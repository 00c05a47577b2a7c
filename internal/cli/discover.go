package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/discovery"
	"liqo.io/liqo/internal/discovery/multicast"
	"liqo.io/liqo/internal/discovery/query"
)

// discoverOptions holds the flags of discover.
type discoverOptions struct {
	server  string
	timeout time.Duration
	output  cmdline.Output
}

func discoverCommand(a *session.Session) *cobra.Command {
	var o discoverOptions
	command := &cobra.Command{
		Use:   "discover DOMAIN",
		Short: "List the clusters that announce themselves in DNS",
		Long: "List the clusters that a DNS domain announces as services of Liqo (DNS-SD): their IDs, and the addresses and fingerprints of their\n" +
			"authentication services. The command queries the DNS servers of this machine and contacts no cluster. For the domain local it queries\n" +
			"the hosts of the local networks of this machine (multicast DNS).\n\n" +
			"The result is not verified: every DNS server can claim anything. A peering needs a token from the other cluster's administrator, and\n" +
			"the fingerprint in that token decides which key is accepted.",
		Example: cmdline.Example(`
			# The clusters in the local network
			%[1]s discover local
			# The clusters in the records that generate dns-records prints
			%[1]s discover clusters.example.org
			# Ask a certain DNS server, for a program
			%[1]s discover clusters.example.org --server 192.0.2.53 -o json`),
		Args:              cmdline.ExactlyOne("the DNS domain"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := command.Flags()
	flags.StringVar(&o.server, "server", "", "DNS server to query, host[:port] (default: those of this machine)")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Second, "Maximum time for the whole command")
	o.output.Add(flags, "Print the clusters for programs")
	command.RunE = session.WithTimeout(&o.timeout, func(ctx context.Context, args []string) error {
		if err := errors.Join(o.output.Validate(), discovery.CheckDomain(args[0])); err != nil {
			return err
		}
		if strings.TrimSuffix(strings.ToLower(args[0]), ".") == discovery.LocalDomain {
			return discoverHere(ctx, a, &o)
		}
		return discoverDomain(ctx, a, args[0], &o)
	})
	return command
}

// discoverDomain prints the clusters of a domain.
func discoverDomain(ctx context.Context, a *session.Session, domain string, o *discoverOptions) error {
	servers := []string{query.ServerAddress(o.server)}
	if o.server == "" {
		var err error
		if servers, err = query.SystemServers(ctx); err != nil {
			return fmt.Errorf("%w with --server", err)
		}
	}
	found, err := (&query.Servers{Addresses: servers}).Discover(ctx, domain, nil)
	if err != nil {
		return err
	}
	for _, problem := range found.Problems {
		a.Console().Warn("%v", problem)
	}
	return printClusters(a, found.Clusters, domain, o)
}

// localWait is the timeout for answers from the hosts of the local networks.
const localWait = 3 * time.Second

// discoverHere prints the clusters of the local networks of this machine.
func discoverHere(ctx context.Context, a *session.Session, o *discoverOptions) error {
	if o.server != "" {
		return fmt.Errorf("--server %s cannot be used with the domain %s: multicast DNS has no server", o.server, discovery.LocalDomain)
	}
	clusters, problems, err := multicast.Discover(ctx, localWait)
	if err != nil {
		return err
	}
	for _, problem := range problems {
		a.Console().Warn("%v", problem)
	}
	return printClusters(a, clusters, "the local networks of this machine", o)
}

// printClusters prints discovered clusters as a table, or in the format of the flag.
func printClusters(a *session.Session, clusters []discovery.Cluster, where string, o *discoverOptions) error {
	if o.output.Format != "" {
		return cmdline.Write(a.Console().Out(), append([]discovery.Cluster{}, clusters...), o.output.Format)
	}
	if len(clusters) == 0 {
		a.Console().Info("No cluster is announced in %s", where)
		return nil
	}
	table := tabwriter.NewWriter(a.Console().Out(), 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CLUSTER ID\tAUTHENTICATION SERVICE\tFINGERPRINT")
	for _, cluster := range clusters {
		for _, address := range cluster.URLs {
			fmt.Fprintf(table, "%s\t%s\t%s\n", cluster.ID, address, cmp.Or(cluster.Fingerprint, "-"))
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the clusters: %w", err)
	}
	a.Console().Info("These records are not verified. To peer with a cluster, its administrator runs: liqoctl generate peer-command")
	return nil
}
