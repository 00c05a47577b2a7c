package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
)

// +kubebuilder:rbac:groups=networking.liqo.io,resources=gatewayservers;gatewayclients,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=gatewayservers/status;gatewayclients/status,verbs=patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=gatewayservers/finalizers;gatewayclients/finalizers,verbs=update
// +kubebuilder:rbac:groups=networking.liqo.io,resources=wggatewayservertemplates;wggatewayclienttemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=secrets;services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=bind,resourceNames=liqo-gateway
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=connections,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=publickeies,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// What gateways may do, which nobody can grant who may not do it:
// +kubebuilder:rbac:groups="",resources=pods,verbs=patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=connections/status,verbs=patch

// conditionConnected, of a gateway, follows its Connection; the other condition, Ready, tells whether the gateway itself is up.
const conditionConnected = "Connected"

const (
	// staleDelay is how long a pass waits that found the API server ahead of the cache.
	staleDelay = 50 * time.Millisecond
	// secretDelay is how often a Secret is looked for that somebody else is to make: it may lie outside the cache.
	secretDelay = 2 * time.Second
	// refusedDelay is how often something is tried again that the API server refused.
	refusedDelay = 30 * time.Second
)

// gateways makes, of every GatewayServer and GatewayClient, a Deployment with what it needs.
type gateways struct {
	Options
	client client.Client
	around *surroundings
	// live reads past the caches, which hold what carries our labels.
	live   client.Reader
	events events.EventRecorder
	scheme *runtime.Scheme
}

// gateway is a GatewayServer or GatewayClient in work.
type gateway struct {
	network.Owner
	object   client.Object
	kind     string
	side     networkingv1beta1.ConnectionType
	template template
	secret   *corev1.LocalObjectReference
	// server is nil for clients; its endpoint has been brought to one port.
	server *networkingv1beta1.GatewayServerSpec
	// dialed is where the tunnel goes through: what a client dials. A server learns it from its Service.
	dialed *networkingv1beta1.Endpoint
	// spec is what templates see.
	spec map[string]any
	// What is told of it, in the object's status.
	internal            **networkingv1beta1.InternalEndpoint
	secretRef, childRef **corev1.ObjectReference
	endpoint            **networkingv1beta1.Endpoint // nil for clients
	conditions          *[]metav1.Condition
}

// template names the template of a gateway.
type template struct {
	corev1.ObjectReference
	kind, standard string
	fresh          func() client.Object
	spec           func(client.Object) *networkingv1beta1.GatewayTemplateSpec
}

func (r *gateways) owner(o client.Object) network.Owner {
	return network.Owner{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ClusterID: o.GetLabels()[api.LabelRemoteClusterID],
		Labels: r.Labels, Annotations: r.Annotations,
	}
}

// sync makes the children of a gateway and tells what became of them.
func (r *gateways) sync(ctx context.Context, g *gateway) error {
	if err := g.Check(); err != nil {
		return kube.Invalid(reasonInvalid, "%v", err)
	}
	if err := r.rival(ctx, g); err != nil {
		return err
	}
	secret, err := r.keys(ctx, g)
	if err != nil {
		return err
	}
	*g.secretRef = &corev1.ObjectReference{Kind: "Secret", Namespace: secret.Namespace, Name: secret.Name}
	rendered, err := r.render(ctx, g, secret.Name)
	if err != nil {
		return err
	}
	if err := r.rights(ctx, g, secret.Name); err != nil {
		return err
	}
	connection, err := r.connection(ctx, g)
	if err != nil {
		return err
	}
	service, err := r.service(ctx, g, rendered)
	if err != nil {
		return err
	}
	deployment, err := r.deployment(ctx, g, rendered)
	if err != nil {
		return err
	}
	*g.childRef = &corev1.ObjectReference{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Namespace: deployment.Namespace, Name: deployment.Name,
	}
	return r.report(ctx, g, deployment, service, connection)
}

// report reads where the gateway is at work and how it is reached, and tells what is waited for.
func (r *gateways) report(ctx context.Context, g *gateway, deployment *appsv1.Deployment, service *corev1.Service, connection *networkingv1beta1.Connection) error {
	pods := &corev1.PodList{}
	if err := r.around.List(ctx, pods, client.InNamespace(g.Namespace), client.MatchingLabels(g.Selector())); err != nil {
		return fmt.Errorf("listing the pods of %s: %w", g, err)
	}
	*g.internal = network.ActivePod(pods.Items, *g.internal)
	var wait string
	if service != nil {
		nodes := &corev1.NodeList{}
		if err := r.around.List(ctx, nodes); err != nil {
			return fmt.Errorf("listing nodes: %w", err)
		}
		*g.endpoint, wait = network.ServiceEndpoint(service, nodes.Items, pods.Items)
		g.dialed = *g.endpoint
	}
	// Nobody else tells of a tunnel whose gateway can't.
	before := connection.DeepCopy()
	var again time.Duration
	connection.Status, again = network.Unattended(connection.Status, connection.Generation, pods.Items, time.Now())
	if err := kube.PatchStatus(ctx, r.client, connection, before); err != nil {
		return err
	}
	if err := r.connected(ctx, g, connection); err != nil {
		return err
	}
	switch {
	case wait != "":
		return kube.WaitFor(again, "NoEndpoint", "%s", wait)
	case again > 0 || deployment.Status.ObservedGeneration != deployment.Generation || deployment.Status.AvailableReplicas == 0:
		return kube.WaitFor(again, "GatewayStarting", "waiting for a pod of Deployment %s/%s", deployment.Namespace, deployment.Name)
	}
	return nil
}

// connected keeps the condition that follows the tunnel.
func (r *gateways) connected(ctx context.Context, g *gateway, connection *networkingv1beta1.Connection) error {
	keys := &networkingv1beta1.PublicKeyList{}
	if err := r.client.List(ctx, keys, client.InNamespace(g.Namespace), client.MatchingLabels{api.LabelRemoteClusterID: g.ClusterID}); err != nil {
		return fmt.Errorf("listing the PublicKeys of cluster %s: %w", g.ClusterID, err)
	}
	known := slices.ContainsFunc(keys.Items, func(k networkingv1beta1.PublicKey) bool { return len(k.Spec.PublicKey) == network.KeyLength })
	condition := metav1.Condition{Type: conditionConnected, Status: metav1.ConditionFalse, ObservedGeneration: g.object.GetGeneration()}
	through := "its endpoint"
	if g.dialed != nil {
		through = network.EndpointText(g.dialed)
	}
	switch value := connection.Status.Value; {
	case !known:
		condition.Reason = "NoPublicKey"
		condition.Message = fmt.Sprintf("waiting for PublicKey %s/%s: the public key, of %d bytes, of the gateway in cluster %s",
			g.Namespace, g.ClusterID, network.KeyLength, g.ClusterID)
	case value == networkingv1beta1.Connected:
		condition.Status, condition.Reason = metav1.ConditionTrue, networkingv1beta1.Connected
		condition.Message = fmt.Sprintf("cluster %s answers through the tunnel", g.ClusterID)
	case g.server != nil:
		condition.Reason = cmp.Or(value, networkingv1beta1.Connecting)
		condition.Message = fmt.Sprintf("waiting for cluster %s to dial %s", g.ClusterID, through)
	default:
		condition.Reason = cmp.Or(value, networkingv1beta1.Connecting)
		condition.Message = fmt.Sprintf("waiting for cluster %s to answer at %s", g.ClusterID, through)
	}
	meta.SetStatusCondition(g.conditions, condition)
	return nil
}

// render reads the template and executes it.
func (r *gateways) render(ctx context.Context, g *gateway, secret string) (*network.Rendered, error) {
	t := g.template
	if t.Kind != "" && t.Kind != t.kind {
		return nil, kube.Invalid(reasonInvalid, "the template of %s is of kind %s: this version knows %s", g, t.Kind, t.kind)
	}
	key := client.ObjectKey{Namespace: cmp.Or(t.Namespace, r.LiqoNamespace), Name: cmp.Or(t.Name, t.standard)}
	object := t.fresh()
	if err := r.client.Get(ctx, key, object); apierrors.IsNotFound(err) {
		return nil, kube.Wait("NoTemplate", "waiting for %s %s", t.kind, key)
	} else if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", t.kind, key, err)
	}
	rendered, err := network.Render(t.spec(object).Template.Raw, network.TemplateData{
		Name: g.Name, Namespace: g.Namespace, GatewayUID: string(g.UID), ClusterID: g.ClusterID, SecretName: secret, Spec: g.spec,
	})
	if err != nil {
		return nil, kube.Invalid("BadTemplate", "%s %s: %v", t.kind, key, err)
	}
	return rendered, nil
}

// rival refuses the second gateway to a cluster in one namespace: a tunnel is enough, and hosts follow one of them. A server goes first, then
// the older one.
func (r *gateways) rival(ctx context.Context, g *gateway) error {
	servers, clients := &networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{}
	for _, list := range []client.ObjectList{servers, clients} {
		if err := r.client.List(ctx, list, client.InNamespace(g.Namespace), client.MatchingLabels{api.LabelRemoteClusterID: g.ClusterID}); err != nil {
			return fmt.Errorf("listing the gateways to cluster %s: %w", g.ClusterID, err)
		}
	}
	first := func(other client.Object, kind string) error {
		if other.GetUID() == g.UID {
			return nil
		}
		older := cmp.Or(other.GetCreationTimestamp().Compare(g.object.GetCreationTimestamp().Time), cmp.Compare(other.GetName(), g.Name)) < 0
		if kind == g.kind && !older || kind != g.kind && g.server != nil {
			return nil
		}
		return kube.WaitFor(secretDelay, "AnotherGateway", "%s %s/%s leads to cluster %s already: delete one of them", kind, g.Namespace, other.GetName(), g.ClusterID)
	}
	for i := range servers.Items {
		if err := first(&servers.Items[i], "GatewayServer"); err != nil {
			return err
		}
	}
	for i := range clients.Items {
		if err := first(&clients.Items[i], "GatewayClient"); err != nil {
			return err
		}
	}
	return nil
}

// finalize removes what no owner reference removes.
func (r *gateways) finalize(ctx context.Context, owner network.Owner) error {
	binding := &rbacv1.ClusterRoleBinding{}
	err := r.live.Get(ctx, client.ObjectKey{Name: owner.ClusterBinding()}, binding)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if binding.Labels[networkingv1beta1.LabelGatewayName] != owner.Name || binding.Labels[networkingv1beta1.LabelGatewayNamespace] != owner.Namespace ||
		binding.Annotations[annotationOwner] != string(owner.UID) {
		return nil // it belongs to a gateway of the other kind, or to nobody of us
	}
	return kube.Delete(ctx, r.around, binding)
}

// String names the gateway for people.
func (g *gateway) String() string { return fmt.Sprintf("%s %s/%s", g.kind, g.Namespace, g.Name) }
