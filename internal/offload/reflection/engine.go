// Package reflection runs the decisions of package offload for every reflected kind. It watches both clusters, asks package offload for the next step
// of each object that changed on either side, and executes that step.
//
// The engine keeps no state that it could not read again. After a restart it lists both clusters and continues. While the provider is unreachable,
// the engine stops its watches there and draws no conclusions about it. When the provider responds again, the watches start with complete lists and
// the engine reconciles every object once.
package reflection

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
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/internal/trigger"
)

// Facts is the input of a Kind's decision about one object.
type Facts struct {
	// Key is the name of the object in this cluster.
	Key types.NamespacedName
	// Local is the object in this cluster, nil if there is none.
	Local client.Object
	// Remote holds the objects with the corresponding name in the provider, in the order of Kind.Remote. A missing object is nil.
	Remote []client.Object
	// Since is when the engine first observed the object in Remote[0]. It is the zero time if there is no such object or Kind.TracksFirstSeen is not
	// set. The value does not survive a restart.
	Since time.Time
	// Mapping is the state and the name of the remote namespace of the object's namespace.
	Mapping offload.Mapping
	// RemoteSynced means that the caches behind Remote are complete. For a Mapped kind, it covers the caches behind Local and Dependencies as well.
	RemoteSynced bool
	// RefusedSince is the time since which the provider has refused reads of Remote[0]. It is the zero time while the provider allows them, or if
	// Kind.Revoked is not set. If RemoteSynced is also true, the cache is still complete, and the provider reports a drain or refused a confirming read.
	RefusedSince time.Time
	// Drained means that RefusedSince is set, and that the provider reports the reason: it drained or removed the tenant.
	Drained bool
	// Dependencies holds the objects of each Kind.Dependencies in the object's namespace, in that order. It is nil while there is no remote
	// namespace.
	Dependencies []DependencyObjects
	// About is the local object that Kind.About names, and Counterpart is its counterpart in the provider (Remote[0] of that kind). Each may be nil.
	About, Counterpart client.Object
	// Now is the current time of this cluster.
	Now time.Time
	// LeftOut are the parts of this object's steps that the provider has just refused; see offload.Step.Part.
	LeftOut []string
	// Refusals are the provider's error messages for those parts, by part.
	Refusals map[string]string
}

// Kind defines how the engine reflects one kind of object.
type Kind struct {
	// Name is the name of the kind in metrics and logs.
	Name string
	// EmitEvents makes the engine call Options.Announce after every create or patch in the provider. Each call needs a write in this cluster, so set
	// it only for objects that seldom change.
	EmitEvents bool
	// Workers is the number of objects that are reconciled in parallel; 0 disables the kind.
	Workers int
	// Local is the set of objects to watch in this cluster, in all namespaces.
	Local Resource
	// Mapped restricts Local to namespaces that have a remote namespace, and to the time while the provider is reachable. It is for kinds whose
	// remote state is not shown in this cluster.
	Mapped bool
	// DependsOnAllMappings means that decisions depend on the mappings of all namespaces, not only on the mapping of the object's own namespace.
	DependsOnAllMappings bool
	// Dependencies lists further local objects that decisions depend on, watched in the same namespaces as Local. Only for Mapped kinds.
	Dependencies []Dependency
	// Remote lists the sets of objects to watch in every remote namespace.
	Remote []Resource
	// RemoteName converts a local name into the name of the remote object, and LocalName converts it back. They return an empty string if there is no
	// such name. Nil means that both names are the same.
	RemoteName, LocalName func(string) string
	// About returns the Kind.Name and the remote name of the object that a remote object refers to. The engine calls it only with an existing object
	// of Remote[0]. It is for kinds like Event whose objects describe other objects; may be nil.
	About func(remote client.Object) (kind, name string)
	// TracksFirstSeen means that decisions depend on Facts.Since: how long the engine has known the object in Remote[0].
	TracksFirstSeen bool
	// Revoked means that decisions depend on Facts.RefusedSince: whether the provider refuses reads of Remote[0].
	Revoked bool
	// PerSecond limits the writes per second, with bursts of five seconds' worth; 0 means no limit. An object that waits is written in its latest
	// state.
	PerSecond float32
	// LowPriority means that writes of this kind have a lower priority than those of other kinds: they wait while other kinds have pending writes,
	// for yieldMost at most. It is for objects that only inform the user, such as Events.
	LowPriority bool
	// Urgent reports whether an object of Remote[0] must be observed before its turn in the queue. The engine then calls Observe with the facts about
	// the object whenever one of them may have changed. Both may be nil.
	Urgent  func(remote client.Object) bool
	Observe func(Facts)
	// BeforeWrite completes an object just before the engine writes it to the provider. It is for content that takes a request to this cluster and
	// that Next therefore can't provide. local is the local object, obj the object to write. May be nil.
	BeforeWrite func(ctx context.Context, here client.Client, local, obj client.Object, now time.Time) error
	// Refresh re-reads further state of both clusters that decisions depend on, before a step with Confirm is decided again. It writes nothing. May be nil.
	Refresh func(ctx context.Context, here, there client.Client, facts Facts) error
	// Other is called with a local object of another kind than Local that a step has created or changed. May be nil.
	Other func(obj client.Object)
	// Next returns the next step; see offload.Next. It must not change the facts.
	Next func(Facts) offload.Step
	// Refused returns the step that reports a refused action to the user. It returns false if there is nothing to report. May be nil.
	Refused func(local client.Object, action offload.Action, message string) (offload.Step, bool)
}

// Health reports whether the provider is reachable; *remote.Health implements it.
type Health interface {
	State() remote.State
	Subscribe() <-chan struct{}
}

// Options configure an Engine.
type Options struct {
	// Local and Remote are uncached clients of the two clusters.
	Local, Remote client.WithWatch
	Health        Health
	// Namespace and Map are the namespace and name of the local NamespaceMap that lists our remote namespaces.
	Namespace, Map string
	Kinds          []Kind
	Log            *slog.Logger
	// Clock is the time source; nil means the system clock.
	Clock clock.Clock
	// Warn reports a warning about a local object to the user; may be nil.
	Warn func(obj client.Object, message string)
	// Announce reports to the user that the provider now has the current state of obj; may be nil.
	Announce func(obj client.Object)
	// Reflected is called after every write that creates or changes an object in either cluster. kind is the Resource.Counted of a remote object, or
	// Kind.Name if that is not set. namespace is the local namespace. May be nil.
	Reflected func(kind, namespace string)
	// Failed is called for every step that failed; may be nil.
	Failed func(kind, namespace string)
	// Took is called after every write, with the time since the engine observed the change that led to it. outgoing means that the write was in the
	// provider; otherwise it was in this cluster. May be nil.
	Took func(kind string, outgoing bool, took time.Duration)
	// Stale means that the local caches may be outdated and that another process may be active in our place. While it returns true, the engine
	// decides nothing. When it returns false again, the caller must call Resync. May be nil.
	Stale func() bool
	// AccessChanged is called when the result of RefusedSince or Drained may have changed: the provider starts or stops refusing access to a remote
	// namespace, it reports a drain, or such a namespace is no longer watched. It is also called when the result of Readable may have changed. May be nil.
	AccessChanged func()
	// RequestTimeout limits the duration of each read, each write and each call of Kind.BeforeWrite, not their sum, so that one slow request does not
	// use up the time of later ones. Watches are not limited. Zero means 15 s.
	RequestTimeout time.Duration
}

// Engine reflects a set of kinds between this cluster and one provider.
type Engine struct {
	opts  Options
	kinds []*reflector
	nsmap *store
	// wake triggers settle, which adjusts the watches in the provider to the NamespaceMap and to the provider's health.
	wake trigger.Trigger
	// listed is done when the local lists of all kinds that are not Mapped are complete.
	listed sync.WaitGroup

	// wrote is the time of the last write for a kind that does not yield, in nanoseconds since the Unix epoch.
	wrote atomic.Int64

	// ready is true once Ready has returned nil.
	ready atomic.Bool

	mu         sync.Mutex
	namespaces map[string]*watchedNamespace // by local namespace
}

// reflector is the running state of one kind.
type reflector struct {
	Kind
	engine *Engine
	// local is nil for a Mapped kind, which has one local store per remote namespace instead.
	local *store
	queue queue

	// urgent holds the objects for Observe. It is nil if the kind has no function Urgent.
	urgent workqueue.TypedInterface[types.NamespacedName]
	// pace is nil if PerSecond is 0.
	pace flowcontrol.RateLimiter
	// patches limits the patches of each local object.
	patches kube.Pace

	mu sync.Mutex
	// warned is the last warning that the user received about each object, prefixed with the object's UID.
	warned map[types.NamespacedName]string
}

// Bounds of the backoff after a failed step.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// yieldQuiet is the time without writes of other kinds after which a yielding kind continues. yieldMost is the maximum time that it waits for that.
const (
	yieldQuiet = 500 * time.Millisecond
	yieldMost  = 5 * time.Second
)

// New returns an Engine that does nothing until Run is called.
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
	if opts.Took == nil {
		opts.Took = func(string, bool, time.Duration) {}
	}
	if opts.Failed == nil {
		opts.Failed = func(string, string) {}
	}
	if opts.AccessChanged == nil {
		opts.AccessChanged = func() {}
	}
	e := &Engine{opts: opts, namespaces: map[string]*watchedNamespace{}, wake: trigger.New()}
	e.nsmap = newStore(Resource{Object: &offloadingv1beta1.NamespaceMap{}, Fields: "metadata.name=" + opts.Map}, func(types.NamespacedName, client.Object, client.Object) { e.wake.Fire() }, e.wake.Fire)
	for _, kind := range opts.Kinds {
		if kind.Workers == 0 {
			continue
		}
		same := func(name string) string { return name }
		if kind.RemoteName == nil {
			kind.RemoteName, kind.LocalName = same, same
		}
		r := &reflector{Kind: kind, engine: e, warned: map[types.NamespacedName]string{}, queue: newQueue(opts.Clock)}
		if r.Urgent != nil {
			r.urgent = workqueue.NewTyped[types.NamespacedName]()
		}
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

// Run reflects until ctx ends and then returns nil.
func (e *Engine) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return watchInto(ctx, e.opts.Local, e.opts.Namespace, e.nsmap) })
	for _, r := range e.kinds {
		if !r.Mapped {
			group.Go(func() error { return watchInto(ctx, e.opts.Local, "", r.local) })
		}
	}
	group.Go(func() error { return e.probeAccess(ctx) })
	listed := make(chan struct{})
	go func() { e.listed.Wait(); close(listed) }()
	health := e.opts.Health.Subscribe()
	group.Go(func() error {
		select { // until the lists are complete, a missing local object means nothing
		case <-listed:
		case <-ctx.Done():
			return nil
		}
		for _, r := range e.kinds {
			for range r.Workers {
				group.Go(func() error { return r.work(ctx) })
			}
			if r.urgent != nil {
				group.Go(r.observe)
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
			if r.urgent != nil {
				r.urgent.ShutDown()
			}
		}
		return nil
	})
	return group.Wait()
}

// Resync enqueues all objects of the kinds with those names. Call it when something changed that they depend on and that the engine does not watch.
func (e *Engine) Resync(kinds ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.kinds {
		if !slices.Contains(kinds, r.Name) {
			continue
		}
		if !r.Mapped {
			r.enqueueAll(r.local)
		}
		for _, t := range e.namespaces {
			if r.Mapped {
				r.enqueueNamespace(t)
			} else {
				r.enqueueThere(t)
			}
		}
	}
}

// Enqueue enqueues one object of the kind with that name. Call it when something about this object changed that the engine does not watch.
func (e *Engine) Enqueue(kind string, key types.NamespacedName) {
	for _, r := range e.kinds {
		if r.Name == kind {
			r.queue.Add(key)
		}
	}
}

// add enqueues an object after a watch event.
func (r *reflector) add(key types.NamespacedName, _, _ client.Object) { r.queue.Add(key) }

// enqueue resets the backoff of an object and enqueues it.
func (r *reflector) enqueue(key types.NamespacedName) {
	r.queue.Forget(key)
	r.queue.Add(key)
}

// enqueueAll enqueues all objects of a store of local objects.
func (r *reflector) enqueueAll(s *store) {
	for _, key := range s.keys() {
		r.enqueue(key)
	}
}

func (e *Engine) namespaceMap() *offloadingv1beta1.NamespaceMap {
	m, _ := e.nsmap.get(types.NamespacedName{Namespace: e.opts.Namespace, Name: e.opts.Map}).(*offloadingv1beta1.NamespaceMap)
	return m
}

// mapping returns the mapping of a local namespace, and the watches of its remote namespace, nil if there are none.
func (e *Engine) mapping(namespace string) (offload.Mapping, *watchedNamespace) {
	if !e.nsmap.hasSynced() {
		return offload.Mapping{}, nil
	}
	at := offload.MappingOf(e.namespaceMap(), namespace)
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.namespaces[namespace]
	if t != nil && t.remote != at.Namespace { // the NamespaceMap has just changed and settle did not run yet
		t = nil
	}
	return at, t
}

// RefusedSince returns the time since which the provider has refused access to every remote namespace: it drained or removed the tenant. RefusedSince
// returns the zero time as long as at least one such namespace is readable, because a single refused namespace proves nothing.
func (e *Engine) RefusedSince() time.Time {
	since, _ := e.access()
	return since
}

// Readable reports whether at least one remote namespace is readable. It is false also while there is none: then no request of the engine shows whether the
// provider grants access.
func (e *Engine) Readable() bool {
	_, readable := e.access()
	return readable
}

// access returns whether at least one remote namespace is readable, and otherwise the time of the first refusal, zero if there is none.
func (e *Engine) access() (refusedSince time.Time, readable bool) {
	e.mu.Lock()
	namespaces := maps.Clone(e.namespaces)
	e.mu.Unlock()
	var since time.Time
	for _, t := range namespaces {
		for _, r := range e.kinds {
			if !r.Revoked {
				continue
			}
			s := t.stores[r][0]
			switch at := s.refusedAt(); {
			case at.IsZero() && s.hasSynced(): // the next probe confirms it
				return time.Time{}, true
			case !at.IsZero() && (since.IsZero() || at.Before(since)):
				since = at
			}
		}
	}
	return since, false
}

// Drained reports whether the provider reports a drain in a remote namespace that it refuses to read.
func (e *Engine) Drained() bool {
	e.mu.Lock()
	namespaces := maps.Clone(e.namespaces)
	e.mu.Unlock()
	for _, t := range namespaces {
		for _, r := range e.kinds {
			if !r.Revoked {
				continue
			}
			if t.drain.reported(t.stores[r][0].refusedAt()) {
				return true
			}
		}
	}
	return false
}

// RemoteNamespace returns the remote namespace of a local namespace, false if it has none.
func (e *Engine) RemoteNamespace(local string) (string, bool) {
	at, _ := e.mapping(local)
	return at.Namespace, at.Namespace != ""
}

// Reflected calls report with the number of objects in the provider, per kind and local namespace, as far as the caches know. It reports nothing for
// namespaces without a remote namespace, nor while the provider is unreachable.
func (e *Engine) Reflected(report func(kind, namespace string, count int)) {
	e.mu.Lock()
	namespaces := maps.Clone(e.namespaces)
	e.mu.Unlock() // unlock before the calls: every decision waits for this lock
	for namespace, t := range namespaces {
		for _, r := range e.kinds {
			for i := range r.Remote {
				if r.Remote[i].Counted != "" {
					report(r.Remote[i].Counted, namespace, t.stores[r][i].count())
				}
			}
		}
	}
}

// Local returns all local objects of a kind, nil for a Mapped kind. They must not be changed.
func (e *Engine) Local(kind string) []client.Object {
	for _, r := range e.kinds {
		if r.Name == kind && !r.Mapped {
			return r.local.list()
		}
	}
	return nil
}

// LocalOf returns a local object of a kind. It returns nil if the object is unknown; for a Mapped kind also if its namespace has no remote namespace.
// The object must not be changed.
func (e *Engine) LocalOf(kind, namespace, name string) client.Object {
	_, t := e.mapping(namespace)
	for _, r := range e.kinds {
		if s := r.store(t); r.Name == kind && s != nil {
			return s.get(types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return nil
}

// Remote returns the objects of a kind in the remote namespace of a local namespace, as far as they are read. They must not be changed.
func (e *Engine) Remote(kind, namespace string) []client.Object {
	_, t := e.mapping(namespace)
	for _, r := range e.kinds {
		if r.Name == kind && t != nil {
			return t.stores[r][0].list()
		}
	}
	return nil
}

// errUnknownAction reports an action that this engine does not implement: a programming error.
func errUnknownAction(a offload.Action) error { return fmt.Errorf("no such action: %d", a) }
