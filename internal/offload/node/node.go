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
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/reflection"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/internal/trigger"
)

// Options configure a Node.
type Options struct {
	// Local is an uncached client of this cluster.
	Local client.WithWatch
	// Health reports whether the provider is reachable.
	Health reflection.Health
	// Name is the name of the Node.
	Name string
	// Virtual is the name of the VirtualNode that the Node represents, Namespace its namespace.
	Virtual, Namespace string
	// ForeignCluster is the cluster ID of the provider.
	ForeignCluster string
	// IP and Listen are the node's address and the listen address, host:port, of the kubelet API.
	IP, Listen string
	// Create reports whether to create and maintain a Node; if false, only the VirtualNode is read.
	Create bool
	// SkipNetworkCheck keeps the Node ready even if the network does not work.
	SkipNetworkCheck bool
	// RefusedSince returns the time since which the provider has refused access to the remote namespaces, zero while it allows access; may be nil.
	RefusedSince func() time.Time
	// Drained reports whether the provider reports that it drained the tenant, while it refuses access; may be nil.
	Drained func() bool
	// Readable reports whether the provider allows reads of at least one remote namespace. While it does not, the Node also depends on whether the provider
	// denies the control plane of this cluster all access. If Readable is nil, it does not.
	Readable func() bool
	// ExtraLabels and ExtraAnnotations are added to the Node.
	ExtraLabels, ExtraAnnotations map[string]string
	// AvailabilityChanged is called from Run when Unavailable changes; may be nil.
	AvailabilityChanged func()
	// LeaseRegained is called when the Lease is renewed after it was Lost; may be nil.
	LeaseRegained func()
	// Event emits an Event about the Node; may be nil.
	Event func(ctx context.Context, node *corev1.Node, kind, reason, message string)
	// Version returns the version of the provider's API server.
	Version func(context.Context) (string, error)
	Log     *slog.Logger
	// Clock is the time source; nil means the system clock.
	Clock clock.Clock
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=nodes/status,verbs=patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update
// No request uses the verb kubelet. A policy of the chart recognizes virtual kubelets by this permission.
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=kubelet
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters,verbs=get;list;watch

// Node keeps the Node object up to date with its VirtualNode and with the state of the provider. It writes changes, and the heartbeat
// times of conditions as rarely as kubelets do; a Lease serves as the heartbeat. It never deletes the Node object: the controller that deletes the VirtualNode does.
type Node struct {
	opts    Options
	port    int32
	version string

	virtuals, nodes, clusters *reflection.View
	wake                      trigger.Trigger
	// exists is closed when the Node object was first observed or created.
	exists      chan struct{}
	known       bool
	unavailable atomic.Bool
	// renewed is the time of the last Lease renewal in nanoseconds since the Unix epoch; zero before the first renewal.
	renewed atomic.Int64
	// loaded is closed when the VirtualNode, and the Node object if it exists, were read for the first time.
	loaded chan struct{}
	read   bool
}

// New returns a Node that does nothing until Run is called. It returns an error if Listen has no valid port.
func New(opts Options) (*Node, error) {
	port, err := portOf(opts.Listen)
	if err != nil {
		return nil, fmt.Errorf("reading the port of %q: %w", opts.Listen, err)
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	n := &Node{opts: opts, port: port, wake: trigger.New(), exists: make(chan struct{}), loaded: make(chan struct{})}
	named := func(obj client.Object, name string) reflection.Resource {
		return reflection.Resource{Object: obj, Fields: "metadata.name=" + name}
	}
	n.virtuals = reflection.NewView(named(&offloadingv1beta1.VirtualNode{}, opts.Virtual), n.Check)
	n.nodes = reflection.NewView(named(&corev1.Node{}, opts.Name), n.Check)
	n.clusters = reflection.NewView(named(&corev1beta1.ForeignCluster{}, opts.ForeignCluster), n.Check)
	return n, nil
}

// VirtualNode returns the represented VirtualNode, nil until it was read.
func (n *Node) VirtualNode() *offloadingv1beta1.VirtualNode {
	v, _ := n.virtuals.Get(n.opts.Namespace, n.opts.Virtual).(*offloadingv1beta1.VirtualNode)
	return v
}

// Object returns the Node object, nil while there is none.
func (n *Node) Object() *corev1.Node {
	have, _ := n.nodes.Get("", n.opts.Name).(*corev1.Node)
	return have
}

// Ready returns nil while the Node object has the address of this process, or if this process maintains no Node and the VirtualNode was read.
// Otherwise the error says what is missing. The conditions of the Node, such as whether the provider is reachable, do not matter.
func (n *Node) Ready() error {
	switch {
	case n.VirtualNode() == nil:
		return fmt.Errorf("VirtualNode %s/%s was not read yet", n.opts.Namespace, n.opts.Virtual)
	case !n.opts.Create:
		return nil
	}
	return leadsTo(n.Object(), n.opts.Name, n.opts.IP, n.port)
}

// Loaded returns a channel that is closed when the VirtualNode, and the Node object if it exists, were read for the first time.
func (n *Node) Loaded() <-chan struct{} { return n.loaded }

// Run maintains the Node object until ctx ends and then returns nil.
func (n *Node) Run(ctx context.Context) error {
	health := n.opts.Health.Subscribe()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.virtuals.Run(ctx, n.opts.Local, n.opts.Namespace) })
	group.Go(func() error { return n.nodes.Run(ctx, n.opts.Local, "") })
	group.Go(func() error { return n.clusters.Run(ctx, n.opts.Local, "") })
	group.Go(func() error {
		var retry, recheck <-chan time.Time
		logged := ""
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-n.wake:
			case <-health:
			case <-retry:
			case <-recheck:
			}
			retry = nil
			again, err := n.reconcile(ctx)
			recheck = nil
			if again > 0 {
				recheck = n.opts.Clock.After(again)
			}
			switch {
			case err == nil:
				logged = ""
				continue
			case ctx.Err() != nil:
				return nil
			case err.Error() != logged: // do not log the same error repeatedly
				logged = err.Error()
				n.opts.Log.Error("Failed to update the node", "node", n.opts.Name, "error", err)
			}
			if !errors.Is(err, errForeign) { // a watch event reports the deletion of the foreign node
				retry = n.opts.Clock.After(time.Second)
			}
		}
	})
	return group.Wait()
}

// errForeign reports that a Node with our name exists and is not a virtual node.
var errForeign = errors.New("a Node of that name exists and is not a virtual node: Liqo does not change it")

// reconcile compares the Node object with its desired state and writes the difference. The result again is the time until the next reconciliation,
// zero if only an event can change the desired state.
func (n *Node) reconcile(ctx context.Context) (again time.Duration, err error) {
	virtual := n.VirtualNode()
	if virtual != nil && n.nodes.Synced() && !n.read {
		n.read = true
		if have := n.Object(); have != nil && !foreign(have) {
			// The readiness that the previous process reported stays valid until there is a new result.
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
			return 0, fmt.Errorf("requesting the version of the provider: %w", err)
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
	if beat := untilHeartbeat(want, f.now); again == 0 || beat < again {
		again = beat
	}
	if have == nil {
		if err := n.opts.Local.Create(ctx, want); err != nil && !apierrors.IsAlreadyExists(err) {
			return 0, fmt.Errorf("creating node %s: %w", want.Name, err)
		} else if err == nil {
			n.nodes.Wrote(want)
			n.opts.Log.Info("Created the node", "node", want.Name, "ready", f.problem == nil)
			n.seen()
		}
		return again, nil
	}
	n.seen()
	return again, n.update(ctx, have, want)
}

// revokedTimeout is how long the provider must refuse access before the Node becomes NotReady, if the provider reports no
// drain. An API server that is starting refuses access, too.
const revokedTimeout = time.Minute

// revoked reports whether the provider has revoked the permissions of this cluster. decideIn is the time until this can be decided, zero if it is decided.
func (n *Node) revoked(now time.Time) (revoked bool, decideIn time.Duration) {
	if n.opts.RefusedSince == nil {
		return false, 0
	}
	since := n.opts.RefusedSince()
	if since.IsZero() && n.opts.Readable != nil && !n.opts.Readable() {
		since = n.controlPlaneRefusedSince()
	}
	if since.IsZero() {
		return false, 0
	}
	if n.opts.Drained != nil && n.opts.Drained() {
		return true, 0
	}
	rest := revokedTimeout - now.Sub(since)
	return rest <= 0, min(max(rest, 0), revokedTimeout)
}

// controlPlaneRefusedSince returns the time since which the provider has denied the control plane of this cluster all access, zero if it does not. Without
// remote namespaces, a virtual kubelet itself can't observe a revocation: it then sends only requests that every authenticated user may send. A provider that
// drains or removes a tenant revokes the permissions of its control plane and of its virtual kubelets together.
func (n *Node) controlPlaneRefusedSince() time.Time {
	cluster, _ := n.clusters.Get("", n.opts.ForeignCluster).(*corev1beta1.ForeignCluster)
	if cluster == nil {
		return time.Time{}
	}
	for _, c := range cluster.Status.Modules.Authentication.Conditions {
		if c.Type == corev1beta1.AuthIdentityControlPlaneStatus && c.Reason == reasons.AccessRevoked {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// Check triggers a reconciliation of the Node. Call it when the result of RefusedSince, Drained or Readable may have changed.
func (n *Node) Check() { n.wake.Fire() }

// Unavailable means that the Node is not ready, so that Services must not send traffic to its pods.
func (n *Node) Unavailable() bool { return n.unavailable.Load() }

// notReady reports whether the Ready condition has one of the statuses.
func notReady(node *corev1.Node, statuses ...corev1.ConditionStatus) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && slices.Contains(statuses, c.Status)
	})
}

// judge records whether node is ready and calls AvailabilityChanged if that changed.
func (n *Node) judge(node *corev1.Node) {
	unavailable := notReady(node, corev1.ConditionFalse, corev1.ConditionUnknown)
	if n.unavailable.Swap(unavailable) != unavailable && n.opts.AvailabilityChanged != nil {
		n.opts.AvailabilityChanged()
	}
}

// update writes the differences: first metadata and taints, then the status. A conflict is no error, since a watch event with the newer Node follows.
func (n *Node) update(ctx context.Context, have, want *corev1.Node) error {
	if !equality.Semantic.DeepEqual(have.ObjectMeta, want.ObjectMeta) || !equality.Semantic.DeepEqual(have.Spec, want.Spec) {
		patched := want.DeepCopy()
		// The patch replaces the whole list of taints, so it must apply to exactly the version that we read.
		patch := client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{})
		if err := n.opts.Local.Patch(ctx, patched, patch); err != nil {
			return conflict(fmt.Errorf("patching node %s: %w", want.Name, err))
		}
		n.nodes.Wrote(patched)
		n.opts.Log.Info("Updated the metadata or taints of the node", "node", want.Name)
	}
	if equality.Semantic.DeepEqual(have.Status, want.Status) {
		return nil
	}
	patched := want.DeepCopy()
	if err := n.opts.Local.Status().Patch(ctx, patched, client.StrategicMergeFrom(have)); err != nil {
		return conflict(fmt.Errorf("patching the status of node %s: %w", want.Name, err))
	}
	n.nodes.Wrote(patched)
	for _, change := range []func(have, want *corev1.Node) (kind, reason, message string){interruptionChange, accessChange} {
		if kind, reason, message := change(have, patched); reason != "" && n.opts.Event != nil {
			n.opts.Event(ctx, patched, kind, reason, message)
		}
	}
	if equality.Semantic.DeepEqual(withoutHeartbeats(&have.Status), withoutHeartbeats(&want.Status)) {
		return nil
	}
	n.opts.Log.Info("Updated the status of the node", "node", want.Name, "ready", want.Status.Conditions[0].Status, "message", want.Status.Conditions[0].Message)
	return nil
}

func conflict(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// networkGrace is how long a working network may fail before the Node becomes NotReady. A failover of the tunnel to another gateway is shorter and
// must not cause two status writes per pod.
const networkGrace = 5 * time.Second

// network reports whether the network to the provider affects readiness, and whether it works. The argument have is the current Node. again is the time after
// which to check again, zero if that is not necessary.
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

// seen records that the Node object exists.
func (n *Node) seen() {
	if !n.known {
		n.known = true
		close(n.exists)
	}
}
