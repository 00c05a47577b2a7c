// Package agent announces this cluster, looks for others, and keeps a ForeignCluster for each that it finds. It decides nothing about peerings.
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
	// refresh is how often the regular pass happens: the address of this cluster is read again, and the ForeignClusters are compared with what was
	// found.
	refresh = 30 * time.Second
	// firstQuery is the time until the second query; each further one takes twice as long, up to half of the TTL (RFC 6762, section 5.2).
	firstQuery = time.Second
	// domainsTimeout is for how long DNS servers are waited for.
	domainsTimeout = 5 * time.Second
	// settle is for how long announcements are collected before the ForeignClusters are compared with them.
	settle = time.Second
	// answersPerSecond bounds what hosts of the local network can make this one send.
	answersPerSecond = 20
	// writesPerSecond and writesAtOnce bound the writes, and the lines in the log, that others can cause in one way of discovery. All clusters of
	// a network can be found at once.
	writesPerSecond, writesAtOnce = 1, 64
)

// Options configures an Agent.
type Options struct {
	// ClusterID is the ID of this cluster.
	ClusterID string
	// Client reads and writes ForeignClusters, without a cache.
	Client client.Client
	// Browse is whether clusters are looked for in the local networks, Announce whether this one is announced there.
	Browse, Announce bool
	// Domains are the DNS domains in which clusters are looked for.
	Domains []string
	// TTL is for how long others may keep the announcement.
	TTL time.Duration
	// Own are the ranges of this cluster, in which no other cluster can be.
	Own []netip.Prefix
	// URL returns the URL of the authentication service of this cluster.
	URL func(context.Context) (string, error)
	Log *slog.Logger
}

// group is the local networks, as multicast.Group implements it.
type group interface {
	Run(ctx context.Context, handle func(*multicast.Packet))
	Send(*discovery.Message) error
	Reply(p *multicast.Packet, m *discovery.Message, unicast bool) error
	Close()
}

// Agent looks for clusters.
type Agent struct {
	Options
	group   group
	records []discovery.Record
	cache   discovery.Cache
	limit   *rate.Limiter
	// lookUp asks DNS servers for the clusters of all domains.
	lookUp func(context.Context) domains
	// unanswered is the last failure to answer the local network since the last regular pass.
	unanswered error
	// writes bounds the writes of ForeignClusters, by way of discovery: a flood in the local network delays no cluster of a domain.
	writes map[string]*rate.Limiter
	// found are the clusters that the ForeignClusters show, by way of discovery.
	found map[string][]discovery.Cluster
	// began is when the agent began to look.
	began time.Time
	// told is the last state that was logged, by topic.
	told map[string]string
}

// New returns an Agent. It joins the local networks if it has to announce or to browse there.
func New(o Options) (*Agent, error) {
	a := &Agent{
		Options: o, limit: rate.NewLimiter(answersPerSecond, answersPerSecond), writes: map[string]*rate.Limiter{},
		found: map[string][]discovery.Cluster{}, told: map[string]string{},
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

// Run looks for clusters until ctx ends. Then it takes the announcement back.
func (a *Agent) Run(ctx context.Context) error {
	a.began = time.Now()
	packets := make(chan *multicast.Packet, 64)
	if a.group != nil {
		defer a.group.Close()
		go a.group.Run(ctx, func(p *multicast.Packet) {
			select {
			case packets <- p:
			default: // a flood: the hosts ask again
			}
		})
	}
	defer a.withdraw()
	ask, refreshed, wait := time.NewTimer(0), time.NewTimer(0), firstQuery
	var news, again <-chan time.Time
	var looked chan domains // while DNS servers are asked
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-packets:
			// However many responses come, they are read at most once in a while.
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
			a.tell("announcing this cluster", a.group.Send(discovery.Announcement(a.records, false)))
		case d := <-looked:
			looked = nil
			a.syncDomains(ctx, &d)
		case <-refreshed.C:
			if a.announce(ctx) {
				again = time.After(firstQuery) // packets get lost (RFC 6762, section 8.3)
			}
			a.tell("answering the local network", a.unanswered)
			a.unanswered = nil
			a.syncLAN(ctx, true)
			if len(a.Domains) > 0 && looked == nil {
				// DNS servers may take seconds, and the local networks must not wait for them.
				looked = make(chan domains, 1)
				go func() { looked <- a.lookUp(ctx) }()
			}
			refreshed.Reset(min(refresh, max(a.TTL/2, firstQuery)))
		}
	}
}

// untilQuery returns the time until the next query: before what is known expires, and wait at most.
func (a *Agent) untilQuery(wait time.Duration) time.Duration {
	if next := a.cache.Expires(time.Now()); !next.IsZero() {
		return min(wait, max(time.Until(next)*8/10, firstQuery))
	}
	return wait
}

// receive handles a packet of the local network, and reports whether it changed what is known.
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

// ask asks the local networks for clusters.
func (a *Agent) ask() {
	if !a.Browse {
		return
	}
	a.tell("asking the local networks", a.group.Send(&discovery.Message{
		Questions: []discovery.Question{{Name: discovery.ServiceName(discovery.LocalDomain), Type: discovery.PTR}},
	}))
}

// announce reads the address of this cluster, and announces it when it has changed. It reports whether it did.
func (a *Agent) announce(ctx context.Context) bool {
	if !a.Announce {
		return false
	}
	records, err := a.own(ctx)
	a.tell("reading the address of this cluster", err)
	if err != nil {
		return false
	}
	if slices.EqualFunc(records, a.records, func(x, y discovery.Record) bool { return x.Same(&y) }) {
		return false
	}
	a.withdraw()
	a.records = records
	a.tell("announcing this cluster", a.group.Send(discovery.Announcement(records, false)))
	return true
}

// own returns the records that announce this cluster.
func (a *Agent) own(ctx context.Context) ([]discovery.Record, error) {
	url, err := a.URL(ctx)
	if err != nil {
		return nil, err
	}
	advertisement, err := discovery.Advertise(a.ClusterID, url)
	if err != nil {
		return nil, err
	}
	if advertisement.Host != "" {
		return nil, fmt.Errorf("%s has a host name, and only addresses can be announced in a local network: set auth.config.addressOverride to an address", url)
	}
	advertisement.TTL = uint32(a.TTL / time.Second) //nolint:gosec // the options are checked
	return advertisement.Records(discovery.LocalDomain), nil
}

// withdraw takes the announcement back.
func (a *Agent) withdraw() {
	if len(a.records) > 0 {
		a.tell("withdrawing the announcement", a.group.Send(discovery.Announcement(a.records, true)))
	}
}

// syncLAN brings the ForeignClusters to what the local networks announce. full is whether this is the regular pass.
func (a *Agent) syncLAN(ctx context.Context, full bool) {
	if !a.Browse {
		return
	}
	clusters, problems := discovery.Assemble(discovery.LocalDomain, a.cache.Live(time.Now()), a.Own)
	a.sync(ctx, corev1beta1.DiscoveredLAN, query.Found{Clusters: clusters, Problems: problems}, full)
}

// domains is what DNS servers answered about all domains.
type domains struct {
	found query.Found
	// servers is why no DNS server was asked. failed has an error for each domain whose list could not be read, by domain.
	servers error
	failed  map[string]error
}

// askSystem asks the DNS servers that this system is configured with.
func (a *Agent) askSystem(ctx context.Context) domains {
	servers, err := query.SystemServers(ctx)
	if err != nil {
		return domains{servers: err}
	}
	return a.askDomains(ctx, servers)
}

// askDomains asks DNS servers for the clusters of all domains at the same time, so that a slow domain takes no time from the others. It changes nothing
// in the agent, so it may run beside the loop.
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

// syncDomains brings the ForeignClusters to what the domains list.
func (a *Agent) syncDomains(ctx context.Context, d *domains) {
	a.tell("looking for DNS servers", d.servers)
	if d.servers != nil || ctx.Err() != nil {
		return
	}
	for _, domain := range a.Domains {
		a.tell("asking domain "+domain, d.failed[domain])
	}
	a.sync(ctx, corev1beta1.DiscoveredDNS, d.found, true)
}

// tell logs a failure, and its end, once.
func (a *Agent) tell(topic string, err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	if a.told[topic] == now {
		return
	}
	a.told[topic] = now
	if now == "" {
		a.Log.Info("Discovery works again", "activity", topic)
		return
	}
	a.Log.Warn("Discovery does not work", "activity", topic, "error", now)
}
