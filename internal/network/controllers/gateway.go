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
	"k8s.io/apimachinery/pkg/api/equality"
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
	"liqo.io/liqo/internal/network/gatewaypod"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=networking.liqo.io,resources=gatewayservers;gatewayclients,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=gatewayservers/status;gatewayclients/status,verbs=patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=gatewayservers/finalizers;gatewayclients/finalizers,verbs=update
// +kubebuilder:rbac:groups=networking.liqo.io,resources=wggatewayservertemplates;wggatewayclienttemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=secrets;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=bind,resourceNames=liqo-gateway
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=connections,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=publickeies,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// Permissions of the gateways. The controller needs them too, because RBAC prevents it from granting permissions that it lacks:
// +kubebuilder:rbac:groups="",resources=pods,verbs=patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=connections/status,verbs=patch

const (
	// staleDelay is the delay of a requeue after the cache turned out to be older than the API server.
	staleDelay = 50 * time.Millisecond
	// secretDelay is the interval at which the controller looks for a Secret that a user creates. Such a Secret may be outside the cache.
	secretDelay = 2 * time.Second
	// refusedDelay is the delay before a retry after the API server rejected an object.
	refusedDelay = 30 * time.Second
)

// gateways reconciles GatewayServers and GatewayClients. It creates a Deployment and the related objects for each of them.
type gateways struct {
	Options
	client client.Client
	around *surroundings
	// live reads directly from the API server. The caches contain only objects with Liqo's labels.
	live   client.Reader
	events events.EventRecorder
	scheme *runtime.Scheme
}

// gateway is the GatewayServer or GatewayClient that is being reconciled.
type gateway struct {
	gatewaypod.Owner
	object   client.Object
	kind     string
	side     networkingv1beta1.ConnectionType
	template template
	secret   *corev1.LocalObjectReference
	// server is nil for clients. Its endpoint has exactly one port.
	server *networkingv1beta1.GatewayServerSpec
	// dialed is the endpoint of the tunnel. A client has it in its spec. For a server, it is read from the Service.
	dialed *networkingv1beta1.Endpoint
	// spec is the spec that templates can use.
	spec map[string]any
	// The following fields point into the object's status.
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

// owner returns the properties of a gateway that its children depend on.
func (r *gateways) owner(o client.Object) gatewaypod.Owner {
	return gatewaypod.Owner{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ClusterID: o.GetLabels()[api.LabelRemoteClusterID],
		Labels: r.Labels, Annotations: r.Annotations,
	}
}

// sync creates and updates the children of a gateway and sets its status.
func (r *gateways) sync(ctx context.Context, g *gateway) error {
	if err := g.Check(); err != nil {
		return kube.Invalid(reasons.Invalid, "%v", err)
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
	// If the Service cannot be created, the status must still show the state of the gateway.
	measured := r.metricsService(ctx, g, rendered)
	if err := r.report(ctx, g, deployment, service, connection); err != nil {
		return err
	}
	return measured
}

// report sets the active pod and the endpoint in the gateway's status. It returns an error of kube.WaitFor if the gateway is not ready yet.
func (r *gateways) report(ctx context.Context, g *gateway, deployment *appsv1.Deployment, service *corev1.Service, connection *networkingv1beta1.Connection) error {
	pods := &corev1.PodList{}
	if err := r.around.List(ctx, pods, client.InNamespace(g.Namespace), client.MatchingLabels(g.Selector())); err != nil {
		return fmt.Errorf("listing the pods of %s: %w", g, err)
	}
	*g.internal = network.ActivePod(pods.Items, *g.internal)
	now := time.Now()
	exposed, err := r.expose(ctx, g, service, pods.Items, now)
	if err != nil {
		return err
	}
	// If no pod of the gateway runs, no other component reports that the tunnel is lost.
	before := connection.DeepCopy()
	var again time.Duration
	connection.Status, again = network.Unattended(connection.Status, connection.Generation, pods.Items, now)
	if !equality.Semantic.DeepEqual(connection.Status, before.Status) { // a replica may have reported the tunnel since
		lost := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.client.Status().Patch(ctx, connection, lost); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("writing the status of Connection %s/%s: %w", connection.Namespace, connection.Name, err)
		}
	}
	if err := r.connected(ctx, g, connection); err != nil {
		return err
	}
	switch {
	case exposed.Wait != "":
		return kube.WaitFor(shorter(again, exposed.Again), reasons.WaitingForEndpoint, "%s", exposed.Wait)
	case again > 0 || deployment.Status.ObservedGeneration != deployment.Generation || deployment.Status.AvailableReplicas == 0:
		return kube.WaitFor(again, reasons.GatewayStarting, "waiting for a pod of Deployment %s/%s to become available", deployment.Namespace, deployment.Name)
	}
	return nil
}

// expose sets the endpoint of a server in its status. For a client, it does nothing.
func (r *gateways) expose(ctx context.Context, g *gateway, service *corev1.Service, pods []corev1.Pod, now time.Time) (network.Exposure, error) {
	if service == nil {
		return network.Exposure{}, nil
	}
	nodes := &corev1.NodeList{}
	if err := r.around.List(ctx, nodes); err != nil {
		return network.Exposure{}, fmt.Errorf("listing nodes: %w", err)
	}
	present := *g.endpoint
	exposed := network.ExposureOf(service, nodes.Items, pods, present, waited(*g.conditions, service, now), r.Exposure)
	if exposed.InPlaceOf != "" && (present == nil || present.Port != exposed.Endpoint.Port) {
		r.events.Eventf(g.object, service, corev1.EventTypeWarning, reasons.NoLoadBalancer, "Expose", "%s has no address, so peers dial node port %d: "+
			"set spec.endpoint.serviceType to NodePort to use it without waiting", exposed.InPlaceOf, exposed.Endpoint.Port)
	}
	*g.endpoint, g.dialed = exposed.Endpoint, exposed.Endpoint
	return exposed, nil
}

// waited returns how long a gateway has not been ready, but at most the age of its Service.
func waited(conditions []metav1.Condition, service *corev1.Service, now time.Time) time.Duration {
	ready := meta.FindStatusCondition(conditions, kube.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return 0
	}
	return min(now.Sub(ready.LastTransitionTime.Time), now.Sub(service.CreationTimestamp.Time))
}

// shorter returns the shorter of two delays; 0 means no delay.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// connected sets the condition that follows the tunnel.
func (r *gateways) connected(ctx context.Context, g *gateway, connection *networkingv1beta1.Connection) error {
	keys := &networkingv1beta1.PublicKeyList{}
	if err := r.client.List(ctx, keys, client.InNamespace(g.Namespace), client.MatchingLabels{api.LabelRemoteClusterID: g.ClusterID}); err != nil {
		return fmt.Errorf("listing the PublicKeys of cluster %s: %w", g.ClusterID, err)
	}
	known := slices.ContainsFunc(keys.Items, func(k networkingv1beta1.PublicKey) bool { return len(k.Spec.PublicKey) == network.KeyLength })
	condition := metav1.Condition{Type: networkingv1beta1.ConditionConnected, Status: metav1.ConditionFalse, ObservedGeneration: g.object.GetGeneration()}
	through := "its endpoint"
	if g.dialed != nil {
		through = network.EndpointText(g.dialed)
	}
	switch value := connection.Status.Value; {
	case !known:
		condition.Reason = reasons.PublicKeyNotFound
		condition.Message = fmt.Sprintf("waiting for PublicKey %s/%s: the public key, of %d bytes, of the gateway in cluster %s",
			g.Namespace, g.ClusterID, network.KeyLength, g.ClusterID)
	case value == networkingv1beta1.Connected:
		condition.Status, condition.Reason = metav1.ConditionTrue, networkingv1beta1.Connected
		condition.Message = fmt.Sprintf("cluster %s answers through the tunnel", g.ClusterID)
	case g.server != nil:
		condition.Reason = cmp.Or(value, networkingv1beta1.Connecting)
		condition.Message = fmt.Sprintf("waiting for cluster %s to dial %s", g.ClusterID, through) + reported(connection)
	default:
		condition.Reason = cmp.Or(value, networkingv1beta1.Connecting)
		condition.Message = fmt.Sprintf("waiting for cluster %s to answer at %s", g.ClusterID, through) + reported(connection)
	}
	meta.SetStatusCondition(g.conditions, condition)
	return nil
}

// reported returns the cause that the Connection reports for a tunnel that does not work, for example an address of the peer that must not be
// dialed. The result is empty if the Connection reports no cause.
func reported(connection *networkingv1beta1.Connection) string {
	c := meta.FindStatusCondition(connection.Status.Conditions, networkingv1beta1.ConditionConnected)
	if c == nil || c.Status == metav1.ConditionTrue {
		return ""
	}
	return fmt.Sprintf("; Connection %s reports: %s", connection.Name, c.Message)
}

// render reads the template of the gateway and executes it.
func (r *gateways) render(ctx context.Context, g *gateway, secret string) (*gatewaypod.Rendered, error) {
	t := g.template
	if t.Kind != "" && t.Kind != t.kind {
		return nil, kube.Invalid(reasons.Invalid, "the template of %s is of kind %s: this version supports %s only", g, t.Kind, t.kind)
	}
	key := client.ObjectKey{Namespace: cmp.Or(t.Namespace, r.LiqoNamespace), Name: cmp.Or(t.Name, t.standard)}
	object := t.fresh()
	if err := r.client.Get(ctx, key, object); apierrors.IsNotFound(err) {
		return nil, kube.Wait(reasons.TemplateNotFound, "waiting for %s %s", t.kind, key)
	} else if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", t.kind, key, err)
	}
	rendered, err := gatewaypod.Render(t.spec(object).Template.Raw, gatewaypod.TemplateData{
		Name: g.Name, Namespace: g.Namespace, GatewayUID: string(g.UID), ClusterID: g.ClusterID, SecretName: secret, Spec: g.spec,
	})
	if err != nil {
		return nil, kube.Invalid(reasons.InvalidTemplate, "%s %s: %v", t.kind, key, err)
	}
	return rendered, nil
}

// rival returns an error if the namespace has another gateway to the same cluster that takes precedence. One tunnel is enough, and hosts
// use only one. A server takes precedence over a client, and an older gateway over a newer one of the same kind.
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
		older := api.CompareAge(other, g.object) < 0
		if kind == g.kind && !older || kind != g.kind && g.server != nil {
			return nil
		}
		return kube.WaitFor(secretDelay, reasons.Duplicate,
			"%s %s/%s connects cluster %s already: delete one of them", kind, g.Namespace, other.GetName(), g.ClusterID)
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

// finalize deletes the ClusterRoleBinding of the gateway, which garbage collection does not delete because it has no owner reference.
func (r *gateways) finalize(ctx context.Context, owner gatewaypod.Owner) error {
	binding := &rbacv1.ClusterRoleBinding{}
	err := r.live.Get(ctx, client.ObjectKey{Name: owner.ClusterBinding()}, binding)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if binding.Labels[networkingv1beta1.LabelGatewayName] != owner.Name || binding.Labels[networkingv1beta1.LabelGatewayNamespace] != owner.Namespace ||
		binding.Annotations[annotationOwner] != string(owner.UID) {
		return nil // it belongs to another gateway, or Liqo did not create it
	}
	return kube.Delete(ctx, r.around, binding)
}

// String returns kind, namespace and name of the gateway.
func (g *gateway) String() string { return fmt.Sprintf("%s %s/%s", g.kind, g.Namespace, g.Name) }
