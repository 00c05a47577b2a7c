package fakekubelet

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// renewEvery is the period of lease renewals. One renewal may fail before the 50 s grace period of the node lifecycle controller ends.
	// A real kubelet renews twice as often.
	renewEvery = 20 * time.Second
	// nodeWorkers is the number of nodes that are processed concurrently.
	nodeWorkers = 8
)

// nodes creates and updates the Node objects and their leases.
type nodes struct {
	client  kubernetes.Interface
	config  Config
	version string
	index   map[string]int // index of each node by name

	// made has an entry for every node that was observed or created in this run. The entry is nil if the node was deleted since. Such a node is
	// not recreated, because a kubelet registers its node only once. mutex guards made and leases.
	mutex  sync.Mutex
	made   map[string]*corev1.Node
	leases map[string]*coordinationv1.Lease
}

func newNodes(client kubernetes.Interface, config Config, version string) *nodes {
	n := &nodes{client: client, config: config, version: version, index: map[string]int{}, made: map[string]*corev1.Node{}, leases: map[string]*coordinationv1.Lease{}}
	for i := range config.Nodes {
		n.index[nodeName(config.NamePrefix, i)] = i
	}
	return n
}

// address returns the address of a fake node. It returns false if the name is not that of a fake node.
func (n *nodes) address(name string) (netip.Addr, bool) {
	index, ok := n.index[name]
	return nodeAddress(index), ok
}

// run creates the nodes, deletes surplus nodes, restores their status and renews their leases until ctx ends.
func (n *nodes) run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, 10*time.Second))
	defer context.AfterFunc(ctx, queue.ShutDown)()
	factory := informers.NewSharedInformerFactoryWithOptions(n.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = NodeLabel + "=" + n.config.NamePrefix
	}))
	informer := factory.Core().V1().Nodes().Informer()
	lister := factory.Core().V1().Nodes().Lister()
	changed := func(object any) {
		if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
			queue.Add(name.Name)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, object any) { changed(object) }, DeleteFunc: changed,
	}); err != nil {
		return fmt.Errorf("watching fake nodes: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	for name := range n.index {
		queue.Add(name)
	}

	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { n.renewAll(ctx) })
	for range nodeWorkers {
		group.Go(func() {
			for {
				name, ended := queue.Get()
				if ended {
					return
				}
				node, err := lister.Get(name)
				if apierrors.IsNotFound(err) {
					node, err = nil, nil
				}
				if err == nil {
					err = n.sync(ctx, name, node)
				}
				if err != nil && ctx.Err() == nil {
					if !apierrors.IsConflict(err) {
						n.config.Logger.Error("keeping a fake node failed", "node", name, "error", err)
					}
					queue.AddRateLimited(name)
				} else {
					queue.Forget(name)
				}
				queue.Done(name)
			}
		})
	}
	return nil
}

// sync reconciles one node. node is nil if the informer's cache does not contain it.
func (n *nodes) sync(ctx context.Context, name string, node *corev1.Node) error {
	index, wanted := n.index[name]
	if !wanted {
		if node == nil {
			return nil
		}
		err := n.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(node.UID))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting node %s: %w", name, err)
		}
		n.config.Logger.Info("fake node deleted", "node", name)
		return nil
	}
	known := n.remembers(name)
	switch {
	case node == nil && known:
		n.remember(name, nil)
		return nil
	case node == nil:
		made, err := n.client.CoreV1().Nodes().Create(ctx, nodeOf(n.config, n.version, index, time.Now()), metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating node %s: %w", name, err)
		}
		node = made
	default:
		changed := node.DeepCopy()
		changed.Status = nodeStatus(n.config, n.version, index, node.Status, time.Now())
		if !apiequality.Semantic.DeepEqual(changed.Status, node.Status) {
			updated, err := n.client.CoreV1().Nodes().UpdateStatus(ctx, changed, metav1.UpdateOptions{})
			if err != nil {
				return fmt.Errorf("writing the status of node %s: %w", name, err)
			}
			node = updated
		}
	}
	n.remember(name, node)
	if known {
		return nil
	}
	return n.renew(ctx, node)
}

func (n *nodes) remembers(name string) bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	_, known := n.made[name]
	return known
}

func (n *nodes) remember(name string, node *corev1.Node) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.made[name] = node
}

// renewAll renews the leases one after the other, evenly distributed over renewEvery, until ctx ends.
func (n *nodes) renewAll(ctx context.Context) {
	if n.config.Nodes == 0 {
		return
	}
	// Renew in batches, so that the ticker fires at most 20 times a second. This keeps the CPU usage low.
	batch := 1 + n.config.Nodes*int(50*time.Millisecond)/int(renewEvery)
	ticker := time.NewTicker(renewEvery * time.Duration(batch) / time.Duration(n.config.Nodes))
	defer ticker.Stop()
	for next := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for range batch {
			name := nodeName(n.config.NamePrefix, next)
			next = (next + 1) % n.config.Nodes
			n.mutex.Lock()
			node := n.made[name]
			n.mutex.Unlock()
			if node == nil {
				continue
			}
			if err := n.renew(ctx, node); err != nil && ctx.Err() == nil {
				n.config.Logger.Warn("renewing a lease failed", "node", name, "error", err)
			}
		}
	}
}

// renew updates the lease of a node, or creates it if no earlier lease is known.
func (n *nodes) renew(ctx context.Context, node *corev1.Node) error {
	leases := n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	want := leaseOf(node, time.Now())
	n.mutex.Lock()
	last := n.leases[node.Name]
	n.mutex.Unlock()
	written, err := (*coordinationv1.Lease)(nil), error(nil)
	if last == nil {
		written, err = leases.Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			last, err = leases.Get(ctx, node.Name, metav1.GetOptions{})
		}
	}
	if err == nil && last != nil {
		want.ResourceVersion = last.ResourceVersion
		written, err = leases.Update(ctx, want, metav1.UpdateOptions{})
	}
	if err != nil {
		written = nil // clients return an empty lease with an error. The next renewal reads the lease again
	}
	n.mutex.Lock()
	n.leases[node.Name] = written
	n.mutex.Unlock()
	if err != nil {
		return fmt.Errorf("renewing the lease of node %s: %w", node.Name, err)
	}
	return nil
}
