package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/network/gatewaypod"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=networking.liqo.io,resources=networkrequests,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=networkrequests/status,verbs=patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=networkrequests/finalizers,verbs=update
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations;gatewayservers;gatewayclients;publickeies,verbs=get;list;watch;create;patch

// networkRequests reconciles NetworkRequests. It creates the network objects for a peer from the facts that the peer reported, and reports
// the facts of this cluster to the peer. It treats this cluster's own request and the copy of a peer's request alike. Only the field for
// this cluster's facts differs: spec.consumer in the own request, status.provider in the copy.
type networkRequests struct {
	Options
	client client.Client
	around *surroundings
	// patches limits how often this cluster updates the objects of a peer after changes in the peer's reports. Each update affects every node.
	patches kube.Pace
}

func (r *networkRequests) setup(mgr ctrl.Manager) error {
	near := handler.EnqueueRequestsFromMapFunc(toAll(mgr.GetClient(), &networkingv1beta1.NetworkRequestList{}, true))
	return kube.NewController(mgr, "network-request").
		For(&networkingv1beta1.NetworkRequest{}, builder.WithPredicates(anyChange())).
		Watches(&networkingv1beta1.NetworkRequest{}, near, builder.WithPredicates(anyChange())).
		Watches(&networkingv1beta1.Configuration{}, near, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&networkingv1beta1.GatewayServer{}, near, builder.WithPredicates(anyChange())).
		Watches(&networkingv1beta1.GatewayClient{}, near, builder.WithPredicates(anyChange())).
		Watches(&networkingv1beta1.PublicKey{}, near, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&ipamv1alpha1.Network{}, handler.EnqueueRequestsFromMapFunc(toAll(mgr.GetClient(), &networkingv1beta1.NetworkRequestList{}, false)),
			builder.WithPredicates(anyChange(), ofThisCluster(r.LiqoNamespace, ipamv1alpha1.LabelNetworkType))).
		WatchesRawSource(r.around.watch(&corev1.Secret{}, toAll(mgr.GetClient(), &networkingv1beta1.NetworkRequestList{}, true))).
		Complete(&kube.Reconciler[*networkingv1beta1.NetworkRequest]{
			Name: "network request", Client: mgr.GetClient(), Sync: r.sync,
			Wanted: func(q *networkingv1beta1.NetworkRequest) bool { return copied(q) || asked(q) },
			Conditions: func(q *networkingv1beta1.NetworkRequest) *[]metav1.Condition {
				if !copied(q) {
					return nil // the remote copy provides the status of an own request
				}
				return &q.Status.Conditions
			},
		})
}

// copied reports whether q is the copy of a peer's request to this cluster.
func copied(q *networkingv1beta1.NetworkRequest) bool { return network.FromPeer(q) }

// asked reports whether q is a request of this cluster to a peer.
func asked(q *networkingv1beta1.NetworkRequest) bool {
	return q.Labels[api.LabelReplication] == api.True && q.Labels[api.LabelRemoteID] != ""
}

// peerOf returns the cluster ID of the other cluster of a request.
func peerOf(q *networkingv1beta1.NetworkRequest) string {
	if copied(q) {
		return q.Labels[api.LabelOriginID]
	}
	return q.Labels[api.LabelRemoteID]
}

func (r *networkRequests) sync(ctx context.Context, q *networkingv1beta1.NetworkRequest) error {
	reported := network.Reported(q)
	if err := network.CheckFacts(reported); err != nil {
		return kube.Invalid(reasons.Invalid, "the network that cluster %s reports is invalid: %v", peerOf(q), err)
	}
	disagreement, err := r.connect(ctx, q)
	if err != nil {
		return err
	}
	facts, missing, err := r.facts(ctx, q)
	if err != nil {
		return err
	}
	if copied(q) {
		q.Status.Provider = *facts
	} else if err := r.reportFacts(ctx, q, facts); err != nil {
		return err
	}
	if len(reported.CIDR.Pod) == 0 || len(reported.PublicKey) == 0 {
		missing = append(missing, fmt.Sprintf("cluster %s to report its ranges and its public key", peerOf(q)))
	}
	if disagreement != "" {
		return kube.Wait(reasons.Negotiating, "%s", disagreement)
	}
	if len(missing) > 0 {
		return kube.Wait(reasons.Negotiating, "waiting for %s", strings.Join(missing, ", and for "))
	}
	return nil
}

// reportFacts writes the facts of this cluster into its own request.
func (r *networkRequests) reportFacts(ctx context.Context, q *networkingv1beta1.NetworkRequest, facts *networkingv1beta1.NetworkFacts) error {
	changed := q.DeepCopy()
	_, err := kube.Ensure(ctx, r.client, changed, func() error {
		if !equality.Semantic.DeepEqual(changed.Spec.Consumer, *facts) {
			changed.Spec.Consumer = *facts
		}
		return nil
	})
	return err
}

// connect creates the network objects for which the peer has reported the facts. Objects that an administrator created stay unchanged. disagreement
// describes the difference between several requests of the peer; it is empty if they agree.
func (r *networkRequests) connect(ctx context.Context, q *networkingv1beta1.NetworkRequest) (disagreement string, err error) {
	peer := peerOf(q)
	list := &networkingv1beta1.NetworkRequestList{}
	if err := r.client.List(ctx, list, client.InNamespace(q.Namespace)); err != nil {
		return "", fmt.Errorf("listing NetworkRequests in namespace %s: %w", q.Namespace, err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(o networkingv1beta1.NetworkRequest) bool { return peerOf(&o) != peer || o.DeletionTimestamp != nil })
	reported := network.Reported(q)
	if first := network.Decisive(list.Items); first != nil {
		reported = network.Reported(first)
		if first.UID != q.UID && copied(first) && copied(q) {
			return "", kube.Invalid(reasons.Invalid, "cluster %s has another NetworkRequest, %s, which takes precedence: delete one of them in cluster %s. If that cluster no "+
				"longer has it, delete NetworkRequest %s in namespace %s here", peer, first.Name, peer, first.Name, first.Namespace)
		}
		for i := range list.Items {
			if disagreement == "" && list.Items[i].UID != first.UID {
				disagreement = network.Disagreement(peer, first, &list.Items[i])
			}
		}
	}
	if len(reported.CIDR.Pod) > 0 {
		c := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: q.Namespace, Name: peer}}
		if err := r.ensure(ctx, q, c, func() { c.Spec.Remote.CIDR = reported.CIDR }); err != nil {
			return "", err
		}
	}
	if len(reported.PublicKey) > 0 {
		k := &networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Namespace: q.Namespace, Name: peer}}
		if err := r.ensure(ctx, q, k, func() {
			k.Labels[networkingv1beta1.LabelGatewayResource] = api.True
			k.Spec.PublicKey = reported.PublicKey
		}); err != nil {
			return "", err
		}
	}
	server, dialler, err := r.gateways(ctx, q.Namespace, peer)
	if err != nil {
		return "", err
	}
	consumer := func(o *networkingv1beta1.NetworkRequest) string {
		if copied(o) {
			return peer
		}
		return r.ClusterID
	}
	if network.AsServer(list.Items, consumer, r.ClusterID, server != nil, dialler != nil) {
		serviceType, err := r.serviceType(ctx, q)
		if err != nil {
			return "", err
		}
		s := &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: q.Namespace, Name: peer}}
		return disagreement, r.ensure(ctx, q, s, func() {
			if s.ResourceVersion == "" { // later, an administrator of this cluster may change the endpoint
				s.Spec.Endpoint = networkingv1beta1.ServerEndpoint{Port: networkingv1beta1.GatewayPort, ServiceType: serviceType}
				s.Spec.MTU = r.MTU
				s.Spec.ServerTemplateRef = r.template("WgGatewayServerTemplate", networkingv1beta1.ServerTemplateDefault)
			}
			requested := q.Spec.ServiceType
			if copied(q) {
				requested = ""
			}
			network.FollowServiceType(s, requested)
		})
	}
	if reported.Endpoint == nil {
		return disagreement, nil
	}
	c := &networkingv1beta1.GatewayClient{ObjectMeta: metav1.ObjectMeta{Namespace: q.Namespace, Name: peer}}
	return disagreement, r.ensure(ctx, q, c, func() {
		if c.ResourceVersion == "" {
			c.Spec.MTU = r.MTU
			c.Spec.ClientTemplateRef = r.template("WgGatewayClientTemplate", networkingv1beta1.ClientTemplateDefault)
		}
		c.Spec.Endpoint = network.Dialed(list.Items, reported.Endpoint)
	})
}

// serviceType returns the type of the Service of a new GatewayServer. A request of this cluster may name it. A peer's request may not, because
// only this cluster decides how its gateways are exposed.
func (r *networkRequests) serviceType(ctx context.Context, q *networkingv1beta1.NetworkRequest) (corev1.ServiceType, error) {
	if !copied(q) && q.Spec.ServiceType != "" {
		return q.Spec.ServiceType, nil
	}
	template := &networkingv1beta1.WgGatewayServerTemplate{}
	key := client.ObjectKey{Namespace: r.LiqoNamespace, Name: networkingv1beta1.ServerTemplateDefault}
	if err := r.client.Get(ctx, key, template); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading WgGatewayServerTemplate %s: %w", key, err)
	}
	return gatewaypod.NewServiceType(template), nil
}

func (r *networkRequests) template(kind, name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: networkingv1beta1.GroupVersion.String(), Kind: kind, Namespace: r.LiqoNamespace, Name: name}
}

// ensure creates a network object and keeps it as the requests describe it. Each request is an owner, so garbage collection deletes the
// object after the last request. An object without the label of negotiated objects belongs to a user and stays unchanged.
func (r *networkRequests) ensure(ctx context.Context, q *networkingv1beta1.NetworkRequest, o client.Object, fill func()) error {
	_, err := kube.Ensure(ctx, r.client, o, func() error {
		if o.GetResourceVersion() != "" && !networkingv1beta1.Negotiated(o) {
			return nil
		}
		if o.GetDeletionTimestamp() != nil {
			return staleCache(o, fmt.Errorf("%T %s is being deleted, and will be created again afterwards", o, o.GetName()))
		}
		before := o.DeepCopyObject()
		kube.AddLabels(o, map[string]string{api.LabelRemoteClusterID: peerOf(q), networkingv1beta1.LabelNegotiated: api.True})
		fill()
		if err := controllerutil.SetOwnerReference(q, o, r.client.Scheme()); err != nil || o.GetResourceVersion() == "" || equality.Semantic.DeepEqual(before, o) {
			return err
		}
		if rest := r.patches.Take(types.NamespacedName{Namespace: o.GetNamespace(), Name: peerOf(q)}, time.Now()); rest > 0 {
			return kube.WaitFor(rest, reasons.Negotiating, "cluster %s changes its reported network too often: waiting before applying the next change", peerOf(q))
		}
		return nil
	})
	return err
}

// gateways returns this cluster's GatewayServer and GatewayClient for a peer, nil if missing. Of several, it returns the one that takes
// precedence; the conditions of the others name it (see rival).
func (r *networkRequests) gateways(ctx context.Context, namespace, peer string) (*networkingv1beta1.GatewayServer, *networkingv1beta1.GatewayClient, error) {
	servers, clients := &networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{}
	opts := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{api.LabelRemoteClusterID: peer}}
	if err := r.client.List(ctx, servers, opts...); err != nil {
		return nil, nil, fmt.Errorf("listing GatewayServers in namespace %s: %w", namespace, err)
	}
	if err := r.client.List(ctx, clients, opts...); err != nil {
		return nil, nil, fmt.Errorf("listing GatewayClients in namespace %s: %w", namespace, err)
	}
	var server *networkingv1beta1.GatewayServer
	var dialler *networkingv1beta1.GatewayClient
	if len(servers.Items) > 0 {
		server = new(slices.MinFunc(servers.Items, func(a, b networkingv1beta1.GatewayServer) int { return api.CompareAge(&a, &b) }))
	}
	if len(clients.Items) > 0 {
		dialler = new(slices.MinFunc(clients.Items, func(a, b networkingv1beta1.GatewayClient) int { return api.CompareAge(&a, &b) }))
	}
	return server, dialler, nil
}

// whyNot returns the message of the condition Ready as a suffix, if a gateway is not ready. The suffix is also for the peer's administrator, who
// cannot read the gateway.
func whyNot(conditions []metav1.Condition) string {
	if ready := meta.FindStatusCondition(conditions, kube.ConditionReady); ready != nil && ready.Status != metav1.ConditionTrue {
		return " (" + ready.Message + ")"
	}
	return ""
}

// facts returns the facts that this cluster can report to the peer so far, and a description of each missing fact.
func (r *networkRequests) facts(ctx context.Context, q *networkingv1beta1.NetworkRequest) (*networkingv1beta1.NetworkFacts, []string, error) {
	facts, missing := &networkingv1beta1.NetworkFacts{}, []string(nil)
	for _, part := range []struct {
		of ipamv1alpha1.NetworkType
		to *[]string
	}{{ipamv1alpha1.NetworkTypePod, &facts.CIDR.Pod}, {ipamv1alpha1.NetworkTypeExternal, &facts.CIDR.External}} {
		list := &ipamv1alpha1.NetworkList{}
		if err := r.client.List(ctx, list, client.InNamespace(r.LiqoNamespace), client.MatchingLabels{ipamv1alpha1.LabelNetworkType: part.of}); err != nil {
			return nil, nil, fmt.Errorf("listing Networks in namespace %s: %w", r.LiqoNamespace, err)
		}
		slices.SortFunc(list.Items, func(a, b ipamv1alpha1.Network) int { return strings.Compare(a.Name, b.Name) })
		for i := range list.Items {
			if list.Items[i].Status.CIDR == "" {
				missing = append(missing, "Network "+list.Items[i].Name+" to have a range")
				continue
			}
			*part.to = append(*part.to, list.Items[i].Status.CIDR)
		}
		if len(list.Items) == 0 {
			missing = append(missing, fmt.Sprintf("a Network of type %s in cluster %s", part.of, r.ClusterID))
		}
	}
	server, dialler, err := r.gateways(ctx, q.Namespace, peerOf(q))
	if err != nil {
		return nil, nil, err
	}
	var secret *corev1.ObjectReference
	switch {
	case server != nil:
		secret, facts.Endpoint = server.Status.SecretRef, server.Status.Endpoint.DeepCopy()
		if facts.Endpoint == nil {
			missing = append(missing, "the gateway of cluster "+r.ClusterID+" to have an address"+whyNot(server.Status.Conditions))
		}
	case dialler != nil:
		secret = dialler.Status.SecretRef
	}
	if secret == nil {
		return facts, append(missing, "the gateway of cluster "+r.ClusterID+" to have keys"), nil
	}
	keys := &corev1.Secret{}
	err = r.around.Get(ctx, client.ObjectKey{Namespace: q.Namespace, Name: secret.Name}, keys)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("reading Secret %s/%s: %w", q.Namespace, secret.Name, err)
	}
	if apierrors.IsNotFound(err) || len(keys.Data[networkingv1beta1.SecretPublicKey]) != network.KeyLength {
		return facts, append(missing, "Secret "+secret.Name+" to hold keys"), nil
	}
	facts.PublicKey = keys.Data[networkingv1beta1.SecretPublicKey]
	return facts, missing, nil
}
