// Package agent announces this cluster, looks for others, and keeps a ForeignCluster for each that it finds. It decides nothing about peerings.
package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/discovery"
	"liqo.io/liqo/internal/discovery/multicast"
	"liqo.io/liqo/internal/discovery/query"
)

const (
	// refresh is how often the address of this cluster is read again, and the ForeignClusters are compared with what was found.
	refresh = 30 * time.Second
	// firstQuery is the time until the second query; each further one takes twice as long, up to half of the TTL (RFC 6762, section 5.2).
	firstQuery = time.Second
	// domainsTimeout is for how long DNS servers are waited for.
	domainsTimeout = 5 * time.Second
	// settle is for how long announcements are collected before the ForeignClusters are compared with them.
	settle = time.Second
	// answersPerSecond bounds what hosts of the local network can make this one send.
	answersPerSecond = 20
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

// Agent looks for clusters.
type Agent struct {
	Options
	group   *multicast.Group
	records []discovery.Record
	cache   discovery.Cache
	limit   *rate.Limiter
	// found are the clusters that the ForeignClusters show, by way of discovery.
	found map[string][]discovery.Cluster
	// began is when the agent began to look.
	began time.Time
	// told is the last state that was logged, by topic.
	told map[string]string
}

// New returns an Agent. It joins the local networks if it has to announce or to browse there.
func New(o Options) (*Agent, error) {
	a := &Agent{Options: o, limit: rate.NewLimiter(answersPerSecond, answersPerSecond), found: map[string][]discovery.Cluster{}, told: map[string]string{}}
	if !o.Browse && !o.Announce {
		return a, nil
	}
	var err error
	if a.group, err = multicast.Join(o.Own); err != nil {
		return nil, fmt.Errorf("joining the local networks: %w", err)
	}
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
		case <-refreshed.C:
			if a.announce(ctx) {
				again = time.After(firstQuery) // packets get lost (RFC 6762, section 8.3)
			}
			a.syncLAN(ctx, true)
			a.syncDomains(ctx)
			refreshed.Reset(min(refresh, max(a.TTL/2, firstQuery)))
		}
	}
}

// untilQuery returns the time until the next query: before what is known expires, and wait at most.
func (a *Agent) untilQuery(wait time.Duration) time.Duration {
	if next := a.cache.Expires(); !next.IsZero() {
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
		a.tell("answering the local network", a.group.Reply(p, response, unicast))
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

// syncLAN brings the ForeignClusters to what the local networks announce.
func (a *Agent) syncLAN(ctx context.Context, always bool) {
	if !a.Browse {
		return
	}
	clusters, problems := discovery.Assemble(discovery.LocalDomain, a.cache.Live(time.Now()), a.Own)
	a.sync(ctx, corev1beta1.DiscoveredLAN, clusters, problems, always)
}

// syncDomains brings the ForeignClusters to what the domains list. A domain whose servers don't answer takes nothing back.
func (a *Agent) syncDomains(ctx context.Context) {
	if len(a.Domains) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, domainsTimeout)
	defer cancel()
	servers, err := query.SystemServers(ctx)
	a.tell("looking for DNS servers", err)
	if err != nil {
		return
	}
	var all []discovery.Cluster
	var problems []error
	for _, domain := range a.Domains {
		clusters, refused, err := (&query.Servers{Addresses: servers}).Discover(ctx, domain, a.Own)
		a.tell("asking domain "+domain, err)
		if err != nil {
			return
		}
		all, problems = append(all, clusters...), append(problems, refused...)
	}
	merged, contradictions := discovery.Merge(all)
	a.sync(ctx, corev1beta1.DiscoveredDNS, merged, append(problems, contradictions...), true)
}

// sync applies what was found in one way of discovery. Unless it is to happen always, only changes are applied, and no problem is logged: so
// nobody can fill the log, or keep the API server busy.
func (a *Agent) sync(ctx context.Context, way string, found []discovery.Cluster, problems []error, always bool) {
	if !always && slices.EqualFunc(found, a.found[way], func(x, y discovery.Cluster) bool { return x.ID == y.ID && slices.Equal(x.URLs, y.URLs) }) {
		return
	}
	a.found[way] = found
	if always {
		slices.SortFunc(problems, func(x, y error) int { return cmp.Compare(x.Error(), y.Error()) })
		a.tell("reading the announcements of others ("+way+")", errors.Join(problems...))
	}
	a.tell("writing ForeignClusters ("+way+")", a.apply(ctx, way, found))
}

// apply brings the ForeignClusters to what was found.
func (a *Agent) apply(ctx context.Context, way string, found []discovery.Cluster) error {
	list := &corev1beta1.ForeignClusterList{}
	if err := a.Client.List(ctx, list); err != nil {
		return fmt.Errorf("listing ForeignClusters: %w", err)
	}
	changes := discovery.Compare(found, list.Items, way, a.ClusterID)
	if time.Since(a.began) < a.TTL { // a new process has not heard everybody yet
		changes.Delete = nil
	}
	var failed []error
	for i := range changes.Create {
		fc := &changes.Create[i]
		if err := a.Client.Create(ctx, fc); err != nil {
			if !apierrors.IsAlreadyExists(err) {
				failed = append(failed, fmt.Errorf("creating ForeignCluster %s: %w", fc.Name, err))
			}
			continue
		}
		a.Log.Info("Cluster discovered", "clusterID", fc.Name, "discovery", way, "url", fc.Spec.ForeignAuthURL)
	}
	for i := range changes.Update {
		fc := &changes.Update[i]
		patch, err := addressPatch(fc)
		if err == nil {
			err = a.Client.Patch(ctx, fc.DeepCopy(), patch)
		}
		if client.IgnoreNotFound(err) != nil { // also when somebody changed it meanwhile: it is read again soon
			failed = append(failed, fmt.Errorf("changing ForeignCluster %s: %w", fc.Name, err))
			continue
		}
		a.Log.Info("Address of a discovered cluster changed", "clusterID", fc.Name, "discovery", way, "url", fc.Spec.ForeignAuthURL)
	}
	for i := range changes.Delete {
		fc := &changes.Delete[i]
		// Only the ForeignCluster as it was read: somebody may just have asked it for a peering.
		err := a.Client.Delete(ctx, fc, client.Preconditions{UID: &fc.UID, ResourceVersion: &fc.ResourceVersion})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			failed = append(failed, fmt.Errorf("deleting ForeignCluster %s: %w", fc.Name, err))
			continue
		}
		a.Log.Info("Discovered cluster is no longer announced", "clusterID", fc.Name, "discovery", way)
	}
	return errors.Join(failed...)
}

// addressPatch returns the patch that gives a ForeignCluster its address. It fails if somebody changed the ForeignCluster meanwhile.
func addressPatch(fc *corev1beta1.ForeignCluster) (client.Patch, error) {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": fc.ResourceVersion},
		"spec":     map[string]any{"foreignAuthUrl": fc.Spec.ForeignAuthURL, "ttl": fc.Spec.TTL},
	})
	if err != nil {
		return nil, fmt.Errorf("writing a patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, data), nil
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
