// Package watch follows the clusters of the dashboard. It watches their objects, diagnoses them after a change, measures the traffic of their
// tunnels, and publishes the documents that result.
package watch

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/dashboard"
	"liqo.io/liqo/internal/doctor"
	"liqo.io/liqo/internal/trigger"
)

const (
	// publishPause is the minimum time between two publications. Changes in between are published together.
	publishPause = 200 * time.Millisecond
	// probeEvery and probeTimeout bound the time until an API server that no longer responds is noticed. A watch alone would notice it after a
	// minute.
	probeEvery, probeTimeout = 5 * time.Second, 4 * time.Second
	// diagnosisPause is the minimum time between two diagnoses. A diagnosis reads many objects.
	diagnosisPause = 5 * time.Second
	// diagnosisEvery is the maximum time between two diagnoses: certificates expire without a change of any object.
	diagnosisEvery = 5 * time.Minute
	// After each task, the watcher pauses for effort times the duration of the task, so that large clusters do not keep the program busy.
	effort = 4
	// usageEvery is the time between two readings of the metrics API, whose values change every 15 s by default. usageTimeout bounds one reading.
	usageEvery, usageTimeout = 15 * time.Second, 5 * time.Second
)

// Cluster is a cluster to follow.
type Cluster struct {
	ID, Version string
	// Server is the URL of the API server. Namespace is the namespace of the installation.
	Server, Namespace string
	// Informers watch the objects; see NewInformers.
	Informers cache.Cache
	// Probe sends a request to the API server, and fails if it does not respond.
	Probe func(context.Context) error
	// Metrics reads the metrics that a pod serves at a port.
	Metrics func(ctx context.Context, namespace, pod string, port int32) ([]byte, error)
	// Usage reads what the pods on each virtual node use from the metrics API. It fails if the cluster has no metrics server.
	Usage func(context.Context) (map[string]corev1.ResourceList, error)
}

// Options selects the clusters to watch.
type Options struct {
	// Clusters has the local cluster first.
	Clusters []Cluster
	// Diagnose returns the findings about the clusters.
	Diagnose func(context.Context) []doctor.Finding
	// Publish takes the documents whenever something has changed. It must not change them.
	Publish func(dashboard.Documents)
}

// Run follows the clusters until the context ends. It fails if an informer can not be started.
func Run(ctx context.Context, options Options) error {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{
		options: options, changed: trigger.New(), suspect: trigger.New(),
		state: dashboard.State{History: map[dashboard.Tunnel]dashboard.History{}}, counters: map[dashboard.Tunnel]dashboard.Counters{},
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	failed := make(chan error, len(options.Clusters))
	for i := range options.Clusters {
		c := &options.Clusters[i]
		s := newStore(c)
		w.stores = append(w.stores, s)
		if err := w.follow(ctx, c, s); err != nil {
			return fmt.Errorf("watching cluster %s: %w", c.ID, err)
		}
		tasks.Go(func() {
			if err := c.Informers.Start(ctx); err != nil {
				failed <- fmt.Errorf("watching cluster %s: %w", c.ID, err)
			}
		})
		tasks.Go(func() {
			if c.Informers.WaitForCacheSync(ctx) {
				w.update(func() bool { s.cluster.Complete = true; return true })
			}
		})
	}
	for i := range options.Clusters {
		tasks.Go(func() { w.probe(ctx, &options.Clusters[i], w.stores[i]) })
		tasks.Go(func() { w.traffic(ctx, &options.Clusters[i], w.stores[i]) })
		tasks.Go(func() { w.usage(ctx, &options.Clusters[i], w.stores[i]) })
	}
	tasks.Go(func() { w.diagnoses(ctx) })
	w.changed.Fire()
	return w.publish(ctx, failed)
}

// watcher is the state of Run.
type watcher struct {
	options Options
	// changed means that documents must be published, suspect that a diagnosis is due.
	changed, suspect trigger.Trigger

	mu     sync.Mutex // guards the fields below, and the content of the stores
	stores []*store
	// state has the diagnosis and the history. Its clusters are filled from the stores.
	state    dashboard.State
	counters map[dashboard.Tunnel]dashboard.Counters
}

// sleep waits, and reports whether the context is still valid.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// update changes the state, and triggers its publication if change reports that something has changed: to compute all documents takes long.
func (w *watcher) update(change func() bool) {
	w.mu.Lock()
	changed := change()
	w.mu.Unlock()
	if changed {
		w.changed.Fire()
	}
}

// follow puts the objects of a cluster into its store, as they change.
func (w *watcher) follow(ctx context.Context, c *Cluster, s *store) error {
	for _, kind := range s.kinds {
		// Do not wait for the informer, so that the page opens even if this API server does not respond.
		informer, err := c.Informers.GetInformer(ctx, kind.object(), cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { w.put(kind, nil, object) },
			UpdateFunc: func(before, after any) { w.put(kind, before, after) },
			DeleteFunc: func(object any) {
				if unknown, is := object.(toolscache.DeletedFinalStateUnknown); is {
					object = unknown.Obj
				}
				if o, is := object.(client.Object); is {
					w.update(func() bool { kind.remove(client.ObjectKeyFromObject(o)); return true })
					w.suspect.Fire()
				}
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// put stores an object. It triggers a diagnosis if the change may alter the findings.
func (w *watcher) put(kind kind, before, after any) {
	object, is := after.(client.Object)
	if !is {
		return
	}
	w.update(func() bool { kind.put(object); return true })
	if old, _ := before.(client.Object); significant(old, object) {
		w.suspect.Fire()
	}
}

// publish publishes the documents whenever something has changed.
func (w *watcher) publish(ctx context.Context, failed <-chan error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-w.changed:
		}
		began := time.Now()
		w.options.Publish(dashboard.Compute(w.snapshot()))
		if !sleep(ctx, max(publishPause, effort*time.Since(began))) {
			return nil
		}
	}
}

// snapshot returns the whole state.
func (w *watcher) snapshot() *dashboard.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.state
	out.Now = time.Now()
	out.Clusters = make([]dashboard.Cluster, 0, len(w.stores))
	for _, s := range w.stores {
		out.Clusters = append(out.Clusters, s.read())
	}
	for i := range out.Clusters {
		c := &out.Clusters[i]
		for j := range c.Peers {
			tunnel := dashboard.Tunnel{Cluster: c.ID, Peer: c.Peers[j].Spec.ClusterID}
			if connection := dashboard.ConnectionInUse(c, tunnel.Peer); connection != nil {
				if point, measured := dashboard.RoundTrip(connection); measured {
					history := w.state.History[tunnel]
					history.RoundTrip = history.RoundTrip.With(point)
					w.state.History[tunnel] = history
				}
			}
		}
	}
	out.History = make(map[dashboard.Tunnel]dashboard.History, len(w.state.History))
	for tunnel, history := range w.state.History {
		out.History[tunnel] = history
	}
	return &out
}

// probe records whether the API server of a cluster responds.
func (w *watcher) probe(ctx context.Context, c *Cluster, s *store) {
	for {
		bounded, cancel := context.WithTimeout(ctx, probeTimeout)
		err := c.Probe(bounded)
		cancel()
		failure := ""
		if err != nil {
			failure = fmt.Sprintf("its API server %s does not respond to liqoctl: %v", c.Server, err)
		}
		if ctx.Err() == nil && failure != s.cluster.Failure { // only this function writes it
			w.update(func() bool { s.cluster.Failure = failure; return true })
			w.suspect.Fire()
		}
		if !sleep(ctx, probeEvery) {
			return
		}
	}
}

// usage records what pods on virtual nodes use. A value that could not be read is not kept.
func (w *watcher) usage(ctx context.Context, c *Cluster, s *store) {
	for {
		bounded, cancel := context.WithTimeout(ctx, usageTimeout)
		used, err := c.Usage(bounded)
		cancel()
		if err != nil {
			used = nil
		}
		if ctx.Err() == nil {
			w.update(func() bool {
				changed := !equality.Semantic.DeepEqual(s.cluster.Usage, used)
				s.cluster.Usage = used
				return changed
			})
		}
		if !sleep(ctx, usageEvery) {
			return
		}
	}
}

// diagnoses diagnoses the clusters at the start, and after each change.
func (w *watcher) diagnoses(ctx context.Context) {
	for {
		began := time.Now()
		findings := w.options.Diagnose(ctx)
		if ctx.Err() != nil {
			return
		}
		w.update(func() bool {
			changed := !w.state.Diagnosed || !reflect.DeepEqual(w.state.Findings, findings)
			w.state.Findings, w.state.Diagnosed = findings, true
			return changed
		})
		if !sleep(ctx, max(diagnosisPause, effort*time.Since(began))) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-w.suspect:
		case <-time.After(diagnosisEvery):
		}
	}
}
