package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/reflect"
)

// Options make a Node.
type Options struct {
	// Local reaches this cluster, without a cache.
	Local client.WithWatch
	// Health tells whether the provider answers.
	Health reflect.Health
	// Name of the Node.
	Name string
	// Virtual is the VirtualNode it shows, in Namespace.
	Virtual, Namespace string
	// ForeignCluster is the ID of the provider.
	ForeignCluster string
	// IP and Listen are where the kubelet API is.
	IP, Listen string
	// Create tells whether there is a Node at all; without one only the VirtualNode is read.
	Create bool
	// SkipNetworkCheck keeps the Node ready while the network does not work.
	SkipNetworkCheck bool
	// RefusedSince is since when the provider refuses access to the remote namespaces, zero while it does not; may be nil.
	RefusedSince func() time.Time
	// ExtraLabels and ExtraAnnotations are put on the Node.
	ExtraLabels, ExtraAnnotations map[string]string
	// AvailabilityChanged is called, once Run works, when Unavailable changes; may be nil.
	AvailabilityChanged func()
	// LeaseRegained is called when the Lease is renewed after it was Lost; may be nil.
	LeaseRegained func()
	// Version asks the provider for the version of its API server.
	Version func(context.Context) (string, error)
	Log     *slog.Logger
	// Clock is time itself unless a test says otherwise.
	Clock clock.Clock
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=nodes/status,verbs=patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update
// By this right, which nobody uses, a policy of the chart tells virtual kubelets from others.
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=kubelet
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters,verbs=get;list;watch

// Node keeps the Node of a VirtualNode the way the VirtualNode and the provider are. It writes only what changed; that it lives is told
// by a Lease. It never removes the Node: whoever removes the VirtualNode does.
type Node struct {
	opts    Options
	port    int32
	version string

	virtuals, nodes, clusters *reflect.View
	wake                      chan struct{}
	// exists is closed when the Node was seen or made for the first time.
	exists      chan struct{}
	known       bool
	unavailable atomic.Bool
	// renewed is when the Lease was, in nanoseconds; zero before the first time.
	renewed atomic.Int64
	// loaded is closed when the VirtualNode, and the Node if there is one, was read for the first time.
	loaded chan struct{}
	read   bool
}

// New makes a Node; Run makes it work.
func New(opts Options) (*Node, error) {
	port, err := portOf(opts.Listen)
	if err != nil {
		return nil, fmt.Errorf("reading the port of %q: %w", opts.Listen, err)
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	n := &Node{opts: opts, port: port, wake: make(chan struct{}, 1), exists: make(chan struct{}), loaded: make(chan struct{})}
	named := func(obj client.Object, name string) reflect.Resource {
		return reflect.Resource{Object: obj, Fields: "metadata.name=" + name}
	}
	n.virtuals = reflect.NewView(named(&offv1.VirtualNode{}, opts.Virtual), n.Check)
	n.nodes = reflect.NewView(named(&corev1.Node{}, opts.Name), n.Check)
	n.clusters = reflect.NewView(named(&corev1beta1.ForeignCluster{}, opts.ForeignCluster), n.Check)
	return n, nil
}

// VirtualNode returns what is shown, nil until it was read.
func (n *Node) VirtualNode() *offv1.VirtualNode {
	v, _ := n.virtuals.Get(n.opts.Namespace, n.opts.Virtual).(*offv1.VirtualNode)
	return v
}

// Object returns the Node, nil while there is none.
func (n *Node) Object() *corev1.Node {
	have, _ := n.nodes.Get("", n.opts.Name).(*corev1.Node)
	return have
}

// Exists is closed when the Node is there for the first time.
func (n *Node) Exists() <-chan struct{} { return n.exists }

// Loaded is closed when VirtualNode returned something for the first time.
func (n *Node) Loaded() <-chan struct{} { return n.loaded }

// Run works until ctx ends, and returns nil then.
func (n *Node) Run(ctx context.Context) error {
	health := n.opts.Health.Subscribe()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.virtuals.Run(ctx, n.opts.Local, n.opts.Namespace) })
	group.Go(func() error { return n.nodes.Run(ctx, n.opts.Local, "") })
	group.Go(func() error { return n.clusters.Run(ctx, n.opts.Local, "") })
	group.Go(func() error {
		var retry, patience <-chan time.Time
		told := ""
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-n.wake:
			case <-health:
			case <-retry:
			case <-patience:
			}
			retry = nil
			again, err := n.reconcile(ctx)
			patience = nil
			if again > 0 {
				patience = n.opts.Clock.After(again)
			}
			switch {
			case err == nil:
				told = ""
				continue
			case ctx.Err() != nil:
				return nil
			case err.Error() != told: // the same again and again is no news
				told = err.Error()
				n.opts.Log.Error("Updating the node", "node", n.opts.Name, "error", err)
			}
			if !errors.Is(err, errForeign) { // the end of the other node is announced
				retry = n.opts.Clock.After(time.Second)
			}
		}
	})
	return group.Wait()
}

// errForeign says that the name is taken.
var errForeign = errors.New("a node of that name exists and is not a virtual node: it is left alone")

// reconcile compares the Node with what it should be, and writes the difference. It returns after which time to do so again, zero if only
// news matter.
func (n *Node) reconcile(ctx context.Context) (again time.Duration, err error) {
	virtual := n.VirtualNode()
	if virtual != nil && n.nodes.Synced() && !n.read {
		n.read = true
		if have := n.Object(); have != nil && !foreign(have) {
			// What the process before this one said of the pods holds until there is a verdict.
			n.unavailable.Store(notReady(have, corev1.ConditionFalse))
		}
		close(n.loaded)
	}
	state := n.opts.Health.State()
	if virtual == nil || !n.opts.Create || !state.Known || !n.nodes.Synced() || !n.clusters.Synced() {
		return 0, nil
	}
	have := n.Object()
	if have != nil && foreign(have) {
		return 0, errForeign
	}
	if have == nil && virtual.DeletionTimestamp != nil {
		return 0, nil
	}
	f := facts{
		virtual: virtual, name: n.opts.Name, ip: n.opts.IP, port: n.port, now: n.opts.Clock.Now(),
		extraLabels: n.opts.ExtraLabels, extraAnnotations: n.opts.ExtraAnnotations,
	}
	refused, revokedIn := n.revoked(f.now)
	if f.revoked = refused; !state.Up {
		f.problem = state.Err
	} else if n.version == "" {
		version, err := n.opts.Version(ctx)
		if err != nil {
			return 0, fmt.Errorf("asking the provider for its version: %w", err)
		}
		n.version = version
	}
	f.version = n.version
	f.networkChecked, f.networkUp, again = n.network(have, f.now)
	if revokedIn > 0 && (again == 0 || revokedIn < again) {
		again = revokedIn
	}
	want := desired(have, f)
	n.judge(want)
	if have == nil {
		if err := n.opts.Local.Create(ctx, want); err != nil && !apierrors.IsAlreadyExists(err) {
			return 0, fmt.Errorf("creating node %s: %w", want.Name, err)
		} else if err == nil {
			n.nodes.Wrote(want)
			n.opts.Log.Info("Created the node", "node", want.Name, "ready", f.problem == nil)
			n.seen()
		}
		return 0, nil
	}
	n.seen()
	return again, n.update(ctx, have, want)
}

// revokedPatience is how long the provider must refuse access to all remote namespaces before the Node is not ready for it.
const revokedPatience = time.Minute

// revoked tells whether the provider has revoked the rights of this cluster, or in which time that is to be decided, zero for never.
func (n *Node) revoked(now time.Time) (revoked bool, in time.Duration) {
	if n.opts.RefusedSince == nil {
		return false, 0
	}
	since := n.opts.RefusedSince()
	if since.IsZero() {
		return false, 0
	}
	rest := revokedPatience - now.Sub(since)
	return rest <= 0, min(max(rest, 0), revokedPatience)
}

// Check has the Node compared with the provider once more: RefusedSince may have changed.
func (n *Node) Check() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Unavailable tells that the Node is NotReady: Services must not send to its pods.
func (n *Node) Unavailable() bool { return n.unavailable.Load() }

// notReady tells whether the Ready condition is one of those.
func notReady(node *corev1.Node, those ...corev1.ConditionStatus) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && slices.Contains(those, c.Status)
	})
}

// judge takes note of whether node is ready.
func (n *Node) judge(node *corev1.Node) {
	unavailable := notReady(node, corev1.ConditionFalse, corev1.ConditionUnknown)
	if n.unavailable.Swap(unavailable) != unavailable && n.opts.AvailabilityChanged != nil {
		n.opts.AvailabilityChanged()
	}
}

// update writes what differs, metadata and taints apart from the status. A conflict is no error: the newer Node is on its way to us.
func (n *Node) update(ctx context.Context, have, want *corev1.Node) error {
	if !equality.Semantic.DeepEqual(have.ObjectMeta, want.ObjectMeta) || !equality.Semantic.DeepEqual(have.Spec, want.Spec) {
		patched := want.DeepCopy()
		// The list of taints is written whole, so it must be the one we read.
		patch := client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{})
		if err := n.opts.Local.Patch(ctx, patched, patch); err != nil {
			return conflict(fmt.Errorf("patching node %s: %w", want.Name, err))
		}
		n.nodes.Wrote(patched)
		n.opts.Log.Info("Updated labels, annotations or taints", "node", want.Name)
	}
	if equality.Semantic.DeepEqual(have.Status, want.Status) {
		return nil
	}
	patched := want.DeepCopy()
	if err := n.opts.Local.Status().Patch(ctx, patched, client.StrategicMergeFrom(have)); err != nil {
		return conflict(fmt.Errorf("patching the status of node %s: %w", want.Name, err))
	}
	n.nodes.Wrote(patched)
	n.opts.Log.Info("Updated the node's status", "node", want.Name, "ready", want.Status.Conditions[0].Status, "message", want.Status.Conditions[0].Message)
	return nil
}

func conflict(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// networkGrace is how long a network that worked may be down before the Node says so: a tunnel that moves from one gateway to the next is no
// reason to write every pod twice.
const networkGrace = 5 * time.Second

// network tells whether the network to the provider counts, and whether it works; have is the Node as it is. again, if not zero, is when to ask
// once more.
func (n *Node) network(have *corev1.Node, now time.Time) (checked, up bool, again time.Duration) {
	cluster, _ := n.clusters.Get("", n.opts.ForeignCluster).(*corev1beta1.ForeignCluster)
	if n.opts.SkipNetworkCheck || cluster == nil || !cluster.Status.Modules.Networking.Enabled {
		return false, false, 0
	}
	worked := have != nil && slices.ContainsFunc(have.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
	})
	for _, c := range cluster.Status.Modules.Networking.Conditions {
		if c.Type != corev1beta1.NetworkConnectionStatus {
			continue
		}
		if c.Status == corev1beta1.StatusEstablished {
			return true, true, 0
		}
		if rest := networkGrace - now.Sub(c.LastTransitionTime.Time); worked && rest > 0 {
			return true, true, min(rest, networkGrace)
		}
	}
	return true, false, 0
}

// seen notes that the Node is there.
func (n *Node) seen() {
	if !n.known {
		n.known = true
		close(n.exists)
	}
}
