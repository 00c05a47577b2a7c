// Package reflect is the one engine that obeys the decisions of package offload, for every kind: it watches both clusters, asks for the
// next step about every object that changed on either side, and does it.
//
// It remembers nothing that it could not read again: started anew, it lists both sides and goes on where it was. While the provider
// does not answer, its watches are dropped and nothing is concluded about it; when it answers again they begin with complete lists, and
// every object is looked at once.
package reflect

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/remote"
)

// Facts is what a Kind decides on about one object.
type Facts struct {
	// Local is the object here, nil if there is none.
	Local client.Object
	// Remote holds what the provider has under the same name, in the order of Kind.Remote; nil where there is none.
	Remote []client.Object
	// Since is when the first of Remote became known, the zero time if it is not or Kind.Waits is not set. A restart forgets it.
	Since time.Time
	// Mapping tells where the twin of the object's namespace is.
	Mapping offload.Mapping
	// RemoteSynced tells that Remote is the whole truth; of a Mapped kind, that Local and Beside are, too.
	RemoteSynced bool
	// RefusedSince is since when the provider refuses reads of the first of Remote, zero while it does not, or where Kind.Revoked is not set. With
	// RemoteSynced only a confirming read was refused.
	RefusedSince time.Time
	// Beside is what Kind.Beside found in the object's namespace, in that order; nil while the namespace has no twin.
	Beside []Neighbours
	// About is the object here that Kind.About named, and Twin what the provider has of it in the first place; nil where there is none.
	About, Twin client.Object
	// Now is the time here.
	Now time.Time
	// LeftOut are the parts of steps that the provider refused just now; see offload.Step.
	LeftOut []string
	// Refusals are the answers to them, by part.
	Refusals map[string]string
}

// Kind is how one kind of object is reflected.
type Kind struct {
	// Name is the kind as metrics and logs call it.
	Name string
	// Announced tells users of every write in the provider. It costs a write here, so it is for objects that seldom change.
	Announced bool
	// Workers is how many objects are handled at a time; 0 turns the kind off.
	Workers int
	// Local is what is watched here, in all namespaces.
	Local Resource
	// Mapped restricts that to the namespaces that have a twin, while the provider answers: for kinds of which nothing is shown here.
	Mapped bool
	// Everywhere tells that decisions depend on where all namespaces have their twins, not only the object's own.
	Everywhere bool
	// Beside is what else decisions depend on, watched here in the same namespaces; only for Mapped kinds.
	Beside []Beside
	// Remote is what is watched in every twin namespace.
	Remote []Resource
	// RemoteName is the name, there, of the twin of an object of that name here, and LocalName the way back; empty where there can't be one.
	// Nil means the same name.
	RemoteName, LocalName func(string) string
	// About returns the kind and the name of the object that the first of Remote, which is there, is about. For kinds that are about objects of
	// others; may be nil.
	About func(remote client.Object) (kind, name string)
	// Waits tells that decisions depend on how long the first of Remote has been known.
	Waits bool
	// Revoked tells that decisions depend on whether the provider refuses reads of the first of Remote.
	Revoked bool
	// PerSecond bounds the writes, but for a burst of five seconds' worth; 0 does not. What waits meanwhile is written as it is then.
	PerSecond float32
	// Yields lets what is written for other kinds go before: while something is, an object waits, but no longer than yieldMost. It is for what
	// only tells of things.
	Yields bool
	// Complete puts into an object that is about to be written to the provider what no decision can know, since it takes a request here; local
	// is what the object is for. May be nil.
	Complete func(ctx context.Context, here client.Client, local, obj client.Object, now time.Time) error
	// Next decides; see offload.Next. It must not change the facts.
	Next func(Facts) offload.Step
	// Refused is the step that tells the user that the provider refused an action, false if nobody is told. May be nil.
	Refused func(local client.Object, action offload.Action, message string) (offload.Step, bool)
}

// Health tells whether the provider answers; *remote.Health is one.
type Health interface {
	State() remote.State
	Subscribe() <-chan struct{}
}

// Options make an Engine.
type Options struct {
	// Local and Remote reach the two clusters, without caches.
	Local, Remote client.WithWatch
	Health        Health
	// Namespace and Map name the NamespaceMap with the twins of our namespaces, here.
	Namespace, Map string
	Kinds          []Kind
	Log            *slog.Logger
	// Clock is time itself unless a test says otherwise.
	Clock clock.Clock
	// Warn tells the user about an object; may be nil.
	Warn func(obj client.Object, message string)
	// Announce tells the user that the provider has obj as it is now; may be nil.
	Announce func(obj client.Object)
	// Reflected is called for every object of a kind (of a kind that Resource.Counted names, where it does) that was created or changed in the other
	// cluster, with its namespace here; may be nil.
	Reflected func(kind, namespace string)
	// Failed is told about every step that failed; may be nil.
	Failed func(kind, namespace string)
	// Stale tells that what is known of this cluster may be out of date, and another process at work in our place: then nothing is decided, until Look is
	// called. May be nil.
	Stale func() bool
	// AccessChanged is called when the provider begins or stops to refuse access to a remote namespace; see RefusedSince. May be nil.
	AccessChanged func()
	// RequestTimeout bounds every request but watches; 15 s if zero.
	RequestTimeout time.Duration
}

// Engine reflects the kinds it was made for.
type Engine struct {
	opts  Options
	kinds []*reflector
	nsmap *store
	// wake has the watches in the provider compared with the map and the link.
	wake chan struct{}
	// listed is done when the local objects of all kinds are known.
	listed sync.WaitGroup

	// wrote is when something was last written for a kind that does not yield, by the clock, in nanoseconds.
	wrote atomic.Int64

	mu    sync.Mutex
	twins map[string]*twin // by local namespace
}

// reflector is one kind at work.
type reflector struct {
	Kind
	engine *Engine
	// local is nil for a Mapped kind, which has one per twin.
	local *store
	queue queue

	// pace is nil without a bound.
	pace flowcontrol.RateLimiter

	mu sync.Mutex
	// told is what the user heard last about an object.
	told map[types.NamespacedName]string
}

// Retries of an object whose step failed.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// How long nothing may have been written before a kind that yields goes on, and how long it waits for that at most.
const (
	yieldQuiet = 500 * time.Millisecond
	yieldMost  = 5 * time.Second
)

// New makes an Engine; Run makes it work.
func New(opts Options) *Engine {
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	if opts.RequestTimeout == 0 {
		opts.RequestTimeout = 15 * time.Second
	}
	if opts.Warn == nil {
		opts.Warn = func(client.Object, string) {}
	}
	if opts.Announce == nil {
		opts.Announce = func(client.Object) {}
	}
	if opts.Reflected == nil {
		opts.Reflected = func(string, string) {}
	}
	if opts.Failed == nil {
		opts.Failed = func(string, string) {}
	}
	if opts.AccessChanged == nil {
		opts.AccessChanged = func() {}
	}
	e := &Engine{opts: opts, twins: map[string]*twin{}, wake: make(chan struct{}, 1)}
	poke := func() {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	e.nsmap = newStore(Resource{Object: &offv1.NamespaceMap{}, Fields: "metadata.name=" + opts.Map}, func(types.NamespacedName, client.Object, client.Object) { poke() }, poke)
	for _, kind := range opts.Kinds {
		if kind.Workers == 0 {
			continue
		}
		same := func(name string) string { return name }
		if kind.RemoteName == nil {
			kind.RemoteName, kind.LocalName = same, same
		}
		r := &reflector{Kind: kind, engine: e, told: map[types.NamespacedName]string{}, queue: newQueue()}
		if r.PerSecond > 0 {
			r.pace = flowcontrol.NewTokenBucketRateLimiter(r.PerSecond, int(5*r.PerSecond))
		}
		if !r.Mapped {
			e.listed.Add(1)
			r.local = newStore(r.Local, r.add, e.listed.Done)
			r.local.arrived = r.arrivedAnywhere
		}
		e.kinds = append(e.kinds, r)
	}
	return e
}

// Run works until ctx ends, and returns nil then.
func (e *Engine) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return watchInto(ctx, e.opts.Local, e.opts.Namespace, e.nsmap) })
	for _, r := range e.kinds {
		if !r.Mapped {
			group.Go(func() error { return watchInto(ctx, e.opts.Local, "", r.local) })
		}
	}
	listed := make(chan struct{})
	go func() { e.listed.Wait(); close(listed) }()
	health := e.opts.Health.Subscribe()
	group.Go(func() error {
		select { // an absent local object means nothing before the lists are complete
		case <-listed:
		case <-ctx.Done():
			return nil
		}
		for _, r := range e.kinds {
			for range r.Workers {
				group.Go(func() error { return r.work(ctx) })
			}
		}
		for {
			e.settle(ctx)
			select {
			case <-ctx.Done():
				return nil
			case <-e.wake:
			case <-health:
			}
		}
	})
	group.Go(func() error {
		<-ctx.Done()
		for _, r := range e.kinds {
			r.queue.ShutDown()
		}
		return nil
	})
	return group.Wait()
}

// Look has every object of the kinds of those names looked at once more: something that they depend on and that is not watched here changed.
func (e *Engine) Look(kinds ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.kinds {
		if !slices.Contains(kinds, r.Name) {
			continue
		}
		if !r.Mapped {
			r.enqueueAll(r.local)
		}
		for _, t := range e.twins {
			if r.Mapped {
				r.enqueueTwin(t)
			} else {
				r.enqueueThere(t)
			}
		}
	}
}

// add has an object looked at that the watch told of.
func (r *reflector) add(key types.NamespacedName, _, _ client.Object) { r.queue.Add(key) }

// enqueue has an object looked at now, whatever failed before.
func (r *reflector) enqueue(key types.NamespacedName) {
	r.queue.Forget(key)
	r.queue.Add(key)
}

// enqueueAll has everything in a store of local objects looked at.
func (r *reflector) enqueueAll(s *store) {
	for _, key := range s.keys() {
		r.enqueue(key)
	}
}

func (e *Engine) namespaceMap() *offv1.NamespaceMap {
	m, _ := e.nsmap.get(types.NamespacedName{Namespace: e.opts.Namespace, Name: e.opts.Map}).(*offv1.NamespaceMap)
	return m
}

// mapping tells where the twin of a namespace is, and its watches if it has any.
func (e *Engine) mapping(namespace string) (offload.Mapping, *twin) {
	if !e.nsmap.hasSynced() {
		return offload.Mapping{}, nil
	}
	at := offload.MappingOf(e.namespaceMap(), namespace)
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.twins[namespace]
	if t != nil && t.remote != at.Namespace { // the map changed this instant
		t = nil
	}
	return at, t
}

// RefusedSince is since when the provider refuses access to every remote namespace that has pods of ours, zero while it does not: then the tenant
// is drained or removed. A single namespace that is refused among others is no sign of that.
func (e *Engine) RefusedSince() time.Time {
	e.mu.Lock()
	twins := maps.Clone(e.twins)
	e.mu.Unlock()
	var since time.Time
	for _, t := range twins {
		for _, r := range e.kinds {
			if !r.Revoked {
				continue
			}
			s := t.stores[r][0]
			switch at := s.refusedAt(); {
			case at.IsZero() && s.hasSynced() && s.count() > 0:
				return time.Time{}
			case !at.IsZero() && (since.IsZero() || at.Before(since)):
				since = at
			}
		}
	}
	return since
}

// RemoteNamespace returns the twin of a local namespace, false if it has none.
func (e *Engine) RemoteNamespace(local string) (string, bool) {
	at, _ := e.mapping(local)
	return at.Namespace, at.Namespace != ""
}

// Reflected tells how many objects of each kind the provider has at this moment for each local namespace, as far as is known; nothing of namespaces
// without a twin, nor while the provider does not answer.
func (e *Engine) Reflected(tell func(kind, namespace string, count int)) {
	e.mu.Lock()
	twins := maps.Clone(e.twins)
	e.mu.Unlock() // every decision waits for it
	for namespace, t := range twins {
		for _, r := range e.kinds {
			for i := range r.Remote {
				if r.Remote[i].Counted != "" {
					tell(r.Remote[i].Counted, namespace, t.stores[r][i].count())
				}
			}
		}
	}
}

// Local returns all objects of a kind that are here; nothing of a Mapped kind. They must not be changed.
func (e *Engine) Local(kind string) []client.Object {
	for _, r := range e.kinds {
		if r.Name == kind && !r.Mapped {
			return r.local.list()
		}
	}
	return nil
}

// LocalOf returns an object of a kind that is here, in a namespace that has a remote one; nil if it is not known. It must not be changed.
func (e *Engine) LocalOf(kind, namespace, name string) client.Object {
	_, t := e.mapping(namespace)
	for _, r := range e.kinds {
		if s := r.store(t); r.Name == kind && s != nil {
			return s.get(types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return nil
}

// errUnknownAction is a decision this engine can't obey: a programming error.
func errUnknownAction(a offload.Action) error { return fmt.Errorf("no such action: %d", a) }
