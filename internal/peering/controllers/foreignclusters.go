package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters/status,verbs=patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations;gatewayservers;gatewayclients;connections;networkrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=core,resources=nodes,verbs=get;list;watch

// foreignClusters maintains one ForeignCluster for each consumer and provider of this cluster. It creates ForeignClusters, executes their requests,
// and recompiles their status. It never deletes one: the record of a former peer stays until an administrator deletes it.
type foreignClusters struct {
	client client.Client
	// reader reads objects that the cache does not hold from the API server.
	reader client.Reader
	events events.EventRecorder
	own    string
	// namespace is the namespace of the installation.
	namespace string
	// joins reports whether this cluster peers automatically with a discovered cluster.
	joins func(clusterID string) bool
	// connects means that this cluster can have tunnels to peers.
	connects bool
	links    *links
	now      func() time.Time
	// silence is the time without a report after which a working tunnel counts as lost.
	silence time.Duration
}

func (r *foreignClusters) setup(mgr ctrl.Manager) error {
	return kube.NewController(mgr, "foreign-cluster").
		For(&corev1beta1.ForeignCluster{}).
		Watches(&authv1beta1.Tenant{}, byClusterID(func(o client.Object) string { return o.(*authv1beta1.Tenant).Spec.ClusterID })).
		Watches(&authv1beta1.Identity{}, byClusterID(func(o client.Object) string { return o.(*authv1beta1.Identity).Spec.ClusterID }), matching(isControlPlane)).
		Watches(&authv1beta1.ResourceSlice{}, byClusterID(byLabel)).
		Watches(&offloadingv1beta1.VirtualNode{}, byClusterID(func(o client.Object) string { return o.(*offloadingv1beta1.VirtualNode).Spec.ClusterID })).
		Watches(&corev1.Node{}, byClusterID(byLabel), matching(labelled(api.LabelType, api.TypeVirtualNode)), nodeChanges()).
		Watches(&corev1.Namespace{}, byClusterID(byLabel), onlyTenantNamespaces()).
		Watches(&networkingv1beta1.Configuration{}, byClusterID(byLabel)).
		Watches(&networkingv1beta1.GatewayServer{}, byClusterID(byLabel)).
		Watches(&networkingv1beta1.GatewayClient{}, byClusterID(byLabel)).
		Watches(&networkingv1beta1.Connection{}, byClusterID(byLabel)).
		Watches(&networkingv1beta1.NetworkRequest{}, byClusterID(byLabel)).
		Watches(&offloadingv1beta1.NamespaceMap{}, byClusterID(byLabel), deletions()).
		Watches(&corev1.Secret{}, byClusterID(secretOfWish), matching(func(o client.Object) bool { return secretOfWish(o) != "" })).
		WatchesRawSource(r.links.peers.source()).
		Complete(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			again, err := r.reconcile(ctx, req.Name)
			result, err := outcome(err)
			if err == nil && result.RequeueAfter == 0 {
				result.RequeueAfter = again
			}
			return result, err
		}))
}

func byLabel(o client.Object) string { return o.GetLabels()[api.LabelRemoteClusterID] }

// byClusterID enqueues the ForeignCluster of the cluster that an object belongs to. idOf returns its cluster ID.
func byClusterID(idOf func(client.Object) string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if id := idOf(o); id != "" {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: id}}}
		}
		return nil
	})
}

// reconcile creates the ForeignCluster of a cluster that has a Tenant, an Identity, a VirtualNode or a network here, and recompiles its status. It
// returns the time after which the status may change without a change of an object; 0 if it can't.
func (r *foreignClusters) reconcile(ctx context.Context, clusterID string) (time.Duration, error) {
	facts, err := r.gather(ctx, clusterID)
	if err != nil {
		return 0, err
	}
	fc := &corev1beta1.ForeignCluster{}
	err = r.client.Get(ctx, types.NamespacedName{Name: clusterID}, fc)
	if apierrors.IsNotFound(err) && facts.Any() && clusterID != r.own {
		fc = &corev1beta1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: clusterID, Labels: map[string]string{api.LabelRemoteClusterID: clusterID}},
			Spec:       corev1beta1.ForeignClusterSpec{ClusterID: clusterID},
		}
		if err := r.client.Create(ctx, fc); err != nil {
			return 0, fmt.Errorf("creating ForeignCluster %s: %w", clusterID, err)
		}
	} else if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if facts.Identity != nil {
		facts.APIServer = r.links.probe(facts.Identity.Namespace, r.now())
	}
	if facts.Wish, err = r.wish(ctx, facts, fc); err != nil {
		return 0, err
	}
	plan := r.plan(ctx, facts)
	status := peering.CompileForeignCluster(facts, &plan, &fc.Status, fc.Generation, metav1.NewTime(r.now()))
	r.announceWish(fc, plan.Condition)
	before := fc.DeepCopy()
	fc.Status = status
	if err := kube.PatchStatus(ctx, r.client, fc, before); err != nil {
		return 0, err
	}
	if message := peering.AccessLost(&before.Status, &status, facts.APIServer); message != "" {
		r.events.Eventf(fc, nil, corev1.EventTypeWarning, reasons.AccessRevoked, "Authenticate", "%s", message)
	}
	again := facts.Again(r.now())
	if plan.Poll > 0 && (again == 0 || again > plan.Poll) {
		again = plan.Poll
	}
	return again, r.carryOut(ctx, fc, &plan)
}

// askedAgain is the time after which a peer is asked again whether it responds.
const askedAgain = 5 * time.Second

// plan returns the plan for a wish. If the plan deletes objects that need a reachable peer, plan first asks the peer whether it responds now. If it does not,
// plan returns the plan for an unreachable peer, which deletes nothing.
func (r *foreignClusters) plan(ctx context.Context, facts *peering.Facts) peering.Plan {
	plan := peering.PlanWish(facts)
	if !plan.Ask {
		return plan
	}
	err := r.links.ask(ctx, facts.Identity.Namespace)
	if err == nil {
		return plan
	}
	silent := *facts
	silent.APIServer = &peering.Probe{Message: err.Error()}
	plan = peering.PlanWish(&silent)
	plan.Poll = askedAgain
	return plan
}

// gather reads all facts about a cluster, from caches only.
func (r *foreignClusters) gather(ctx context.Context, clusterID string) (*peering.Facts, error) {
	facts := &peering.Facts{Network: peering.NetworkFacts{Silence: r.silence}}
	configurations, servers := &networkingv1beta1.ConfigurationList{}, &networkingv1beta1.GatewayServerList{}
	clients, connections := &networkingv1beta1.GatewayClientList{}, &networkingv1beta1.ConnectionList{}
	asks := &networkingv1beta1.NetworkRequestList{}
	namespaces, tenants, slices := &corev1.NamespaceList{}, &authv1beta1.TenantList{}, &authv1beta1.ResourceSliceList{}
	identities, virtual, nodes := &authv1beta1.IdentityList{}, &offloadingv1beta1.VirtualNodeList{}, &corev1.NodeList{}
	ofCluster := client.MatchingLabels{api.LabelRemoteClusterID: clusterID}
	for _, q := range []struct {
		list client.ObjectList
		opts []client.ListOption
	}{
		{namespaces, []client.ListOption{ofCluster, client.MatchingLabels{api.LabelTenantNamespace: api.True}}},
		{tenants, nil}, {identities, nil}, {virtual, nil}, {slices, []client.ListOption{ofCluster}},
		{configurations, []client.ListOption{ofCluster}}, {servers, []client.ListOption{ofCluster}},
		{clients, []client.ListOption{ofCluster}}, {connections, []client.ListOption{ofCluster}}, {asks, []client.ListOption{ofCluster}},
		{nodes, []client.ListOption{client.MatchingLabels{api.LabelType: api.TypeVirtualNode, api.LabelRemoteClusterID: clusterID}}},
	} {
		if err := r.client.List(ctx, q.list, q.opts...); err != nil {
			return nil, fmt.Errorf("listing the objects of cluster %s: %w", clusterID, err)
		}
	}
	facts.TenantNamespaces = namespaces.Items
	for i := range tenants.Items {
		tenant := &tenants.Items[i]
		if tenant.Spec.ClusterID == clusterID && (facts.Tenant == nil || older(tenant, facts.Tenant)) {
			facts.Tenant = tenant
		}
	}
	for i := range identities.Items {
		identity := &identities.Items[i]
		if isControlPlane(identity) && identity.Spec.ClusterID == clusterID && (facts.Identity == nil || older(identity, facts.Identity)) {
			facts.Identity = identity
		}
	}
	for i := range slices.Items {
		switch slice := &slices.Items[i]; {
		case peering.Selected(slice):
			facts.Asked = append(facts.Asked, *slice)
		case peering.IsCopy(slice, clusterID):
			facts.Granted = append(facts.Granted, *slice)
		}
	}
	for i := range virtual.Items {
		if virtual.Items[i].Spec.ClusterID == clusterID {
			facts.VirtualNodes = append(facts.VirtualNodes, virtual.Items[i])
		}
	}
	facts.Nodes = nodes.Items
	facts.Network.Configurations, facts.Network.Servers = configurations.Items, servers.Items
	facts.Network.Clients, facts.Network.Connections, facts.Network.Requests = clients.Items, connections.Items, asks.Items
	return facts, nil
}
