// Package agent announces this cluster, searches for other clusters, and maintains a ForeignCluster for each of them. It does not decide about
// peerings.
package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/discovery"
	"liqo.io/liqo/internal/discovery/multicast"
	"liqo.io/liqo/internal/discovery/query"
)

const (
	// refresh is the interval of the regular pass. It reads the address of this cluster again, and compares the ForeignClusters with the discovered
	// clusters.
	refresh = 30 * time.Second
	// firstQuery is the time until the second query; each further one takes twice as long, up to half of the TTL (RFC 6762, section 5.2).
	firstQuery = time.Second
	// domainsTimeout is the timeout of queries to DNS servers.
	domainsTimeout = 5 * time.Second
	// settle is the time during which the agent collects announcements before it compares the ForeignClusters with them.
	settle = time.Second
	// answersPerSecond limits the answers that hosts of the local network can make this host send.
	answersPerSecond = 20
	// writesPerSecond and writesAtOnce limit the writes and log lines that other hosts can cause for each discovery type. writesAtOnce lets the agent
	// discover all clusters of a network at once.
	writesPerSecond, writesAtOnce = 1, 64
)

// Options configures an Agent.
type Options struct {
	// ClusterID is the ID of this cluster.
	ClusterID string
	// Client reads and writes ForeignClusters, without a cache.
	Client client.Client
	// Browse enables the search for clusters in the local networks, Announce the announcement of this cluster there.
	Browse, Announce bool
	// Domains are the DNS domains in which clusters are looked for.
	Domains []string
	// TTL is how long other clusters may cache the announcement.
	TTL time.Duration
	// Own are the ranges of this cluster, in which no other cluster can be.
	Own []netip.Prefix
	// URL returns the URL of the authentication service of this cluster.
	URL func(context.Context) (string, error)
	Log *slog.Logger
}

// group sends to and receives from the local networks. multicast.Group implements it.
type group interface {
	Run(ctx context.Context, handle func(*multicast.Packet))
	Send(*discovery.Message) error
	Reply(p *multicast.Packet, m *discovery.Message, unicast bool) error
	Close()
}

// Agent searches for clusters.
type Agent struct {
	Options
	group   group
	records []discovery.Record
	cache   discovery.Cache
	limit   *rate.Limiter
	// lookUp asks DNS servers for the clusters of all domains.
	lookUp func(context.Context) domains
	// unanswered is the error of the last failed response to a query of the local network. The regular pass logs and clears it.
	unanswered error
	// writes limits the writes of ForeignClusters, separately for each discovery type. So many announcements in the local network do not delay the
	// clusters of a DNS domain.
	writes map[string]*rate.Limiter
	// found holds the clusters that already have ForeignClusters, by discovery type.
	found map[string][]discovery.Cluster
	// began is the time when the search started.
	began time.Time
	// logged is the last logged state, by topic.
	logged map[string]string
}

// New returns an Agent. It joins the multicast group of the local networks if it has to announce or to browse there.
func New(o Options) (*Agent, error) {
	a := &Agent{
		Options: o, limit: rate.NewLimiter(answersPerSecond, answersPerSecond), writes: map[string]*rate.Limiter{},
		found: map[string][]discovery.Cluster{}, logged: map[string]string{},
	}
	for _, way := range []string{corev1beta1.DiscoveredLAN, corev1beta1.DiscoveredDNS} {
		a.writes[way] = rate.NewLimiter(writesPerSecond, writesAtOnce)
	}
	a.lookUp = a.askSystem
	if !o.Browse && !o.Announce {
		return a, nil
	}
	joined, err := multicast.Join(o.Own)
	if err != nil {
		return nil, fmt.Errorf("joining the local networks: %w", err)
	}
	a.group = joined
	return a, nil
}

// Run searches for clusters until ctx ends. Then it withdraws the announcement.
func (a *Agent) Run(ctx context.Context) error {
	a.began = time.Now()
	packets := make(chan *multicast.Packet, 64)
	if a.group != nil {
		defer a.group.Close()
		go a.group.Run(ctx, func(p *multicast.Packet) {
			select {
			case packets <- p:
			default: // too many queries: drop this one, the hosts send it again
			}
		})
	}
	defer a.withdraw()
	ask, refreshed, wait := time.NewTimer(0), time.NewTimer(0), firstQuery
	var news, again <-chan time.Time
	var queried chan domains // while DNS servers are queried
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-packets:
			// The received responses are evaluated together after a pause, however many arrive.
			if a.receive(p) && news == nil {
				news = time.After(settle)
			}
		case <-news:
			news = nil
			a.syncLAN(ctx, false)
		case <-ask.C:
			a.ask()
			ask.Reset(a.untilQuery(wait))
			wait = min(2*wait, max(a.TTL/2, firstQuery))
		case <-again:
			again = nil
			a.logChange("announcing this cluster", a.group.Send(discovery.Announcement(a.records, false)))
		case d := <-queried:
			queried = nil
			a.syncDomains(ctx, &d)
		case <-refreshed.C:
			if a.announce(ctx) {
				again = time.After(firstQuery) // packets get lost (RFC 6762, section 8.3)
			}
			a.logChange("answering the local network", a.unanswered)
			a.unanswered = nil
			a.syncLAN(ctx, true)
			if len(a.Domains) > 0 && queried == nil {
				// DNS servers may take seconds, and the local networks must not wait for them.
				queried = make(chan domains, 1)
				go func() { queried <- a.lookUp(ctx) }()
			}
			refreshed.Reset(min(refresh, max(a.TTL/2, firstQuery)))
		}
	}
}

// untilQuery returns the time until the next query: at most wait, and early enough before the known records expire.
func (a *Agent) untilQuery(wait time.Duration) time.Duration {
	if next := a.cache.Expires(time.Now()); !next.IsZero() {
		return min(wait, max(time.Until(next)*8/10, firstQuery))
	}
	return wait
}

// receive handles a packet of the local network, and reports whether it changed the known clusters.
func (a *Agent) receive(p *multicast.Packet) bool {
	if p.Message.Response {
		if a.Browse {
			a.cache.Add(discovery.LocalDomain, append(p.Message.Answers, p.Message.Additionals...), time.Now())
		}
		return a.Browse
	}
	response, unicast := discovery.Answer(p.Message, a.records, p.Legacy())
	if response != nil && a.limit.Allow() {
		if err := a.group.Reply(p, response, unicast); err != nil {
			a.unanswered = err
		}
	}
	return false
}

// ask sends a query for clusters to the local networks.
func (a *Agent) ask() {
	if !a.Browse {
		return
	}
	a.logChange("querying the local networks", a.group.Send(&discovery.Message{
		Questions: []discovery.Question{{Name: discovery.ServiceName(discovery.LocalDomain), Type: discovery.PTR}},
	}))
}

// announce reads the address of this cluster, and announces it when it has changed. It reports whether it did.
func (a *Agent) announce(ctx context.Context) bool {
	if !a.Announce {
		return false
	}
	records, err := a.ownRecords(ctx)
	a.logChange("reading the address of this cluster", err)
	if err != nil {
		return false
	}
	if slices.EqualFunc(records, a.records, func(x, y discovery.Record) bool { return x.Same(&y) }) {
		return false
	}
	a.withdraw()
	a.records = records
	a.logChange("announcing this cluster", a.group.Send(discovery.Announcement(records, false)))
	return true
}

// ownRecords returns the records that announce this cluster.
func (a *Agent) ownRecords(ctx context.Context) ([]discovery.Record, error) {
	url, err := a.URL(ctx)
	if err != nil {
		return nil, err
	}
	advertisement, err := discovery.Advertise(a.ClusterID, url)
	if err != nil {
		return nil, err
	}
	if advertisement.Host != "" {
		return nil, fmt.Errorf("%s has a host name, but only addresses can be announced in a local network: set auth.config.addressOverride to an address", url)
	}
	advertisement.TTL = uint32(a.TTL / time.Second) //nolint:gosec // the options are checked
	return advertisement.Records(discovery.LocalDomain), nil
}

// withdraw informs the hosts of the local networks that this cluster is no longer announced.
func (a *Agent) withdraw() {
	if len(a.records) > 0 {
		a.logChange("withdrawing the announcement", a.group.Send(discovery.Announcement(a.records, true)))
	}
}

// syncLAN updates the ForeignClusters to the announcements in the local networks. full means that this is the regular pass.
func (a *Agent) syncLAN(ctx context.Context, full bool) {
	if !a.Browse {
		return
	}
	clusters, problems := discovery.Assemble(discovery.LocalDomain, a.cache.Live(time.Now()), a.Own)
	a.sync(ctx, corev1beta1.DiscoveredLAN, query.Found{Clusters: clusters, Problems: problems}, full)
}

// domains holds the results of the DNS queries about all domains.
type domains struct {
	found query.Found
	// servers is the reason why no DNS server was queried. failed has an error for each domain whose list could not be read, by domain.
	servers error
	failed  map[string]error
}

// askSystem queries the DNS servers in the configuration of this system.
func (a *Agent) askSystem(ctx context.Context) domains {
	servers, err := query.SystemServers(ctx)
	if err != nil {
		return domains{servers: err}
	}
	return a.askDomains(ctx, servers)
}

// askDomains queries DNS servers for the clusters of all domains in parallel, so that a slow domain does not delay the others. It does not change the
// agent, so it may run concurrently with the loop.
func (a *Agent) askDomains(ctx context.Context, servers []string) domains {
	ctx, cancel := context.WithTimeout(ctx, domainsTimeout)
	defer cancel()
	found, failed := make([]query.Found, len(a.Domains)), make([]error, len(a.Domains))
	var asked sync.WaitGroup
	for i, domain := range a.Domains {
		asked.Go(func() { found[i], failed[i] = (&query.Servers{Addresses: servers}).Discover(ctx, domain, a.Own) })
	}
	asked.Wait()
	out := domains{failed: map[string]error{}}
	all := &out.found
	for i, domain := range a.Domains {
		if failed[i] != nil {
			out.failed[domain] = failed[i]
		}
		all.Clusters, all.Problems = append(all.Clusters, found[i].Clusters...), append(all.Problems, found[i].Problems...)
		all.Partial = all.Partial || found[i].Partial || failed[i] != nil
	}
	merged, contradictions := discovery.Merge(all.Clusters)
	all.Clusters, all.Problems = merged, append(all.Problems, contradictions...)
	return out
}

// syncDomains updates the ForeignClusters to the lists of the domains.
func (a *Agent) syncDomains(ctx context.Context, d *domains) {
	a.logChange("looking for DNS servers", d.servers)
	if d.servers != nil || ctx.Err() != nil {
		return
	}
	for _, domain := range a.Domains {
		a.logChange("querying domain "+domain, d.failed[domain])
	}
	a.sync(ctx, corev1beta1.DiscoveredDNS, d.found, true)
}

// logChange logs a failure once, and also its end.
func (a *Agent) logChange(topic string, err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	if a.logged[topic] == now {
		return
	}
	a.logged[topic] = now
	if now == "" {
		a.Log.Info("Discovery works again", "activity", topic)
		return
	}
	a.Log.Warn("Discovery does not work", "activity", topic, "error", now)
}
