// Package controllers has the controllers of the network, which apply the plans of package network to Kubernetes objects. For a
// Configuration, they create Networks and report the ranges under which this cluster sees the peer. For a GatewayServer or GatewayClient,
// they create a Deployment. For each address that peers always know, they create an IP.
//
// Every controller reads from caches, plans with a pure function and applies the plan. Controllers communicate only through API objects. So
// each may be restarted at any moment, and users may create objects in any order. The IPs of addresses that peers always know are reconciled
// together, so their controller does not run through kube.Reconciler, which has one object.
package controllers

import (
	"crypto/rand"
	"fmt"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
)

// Options configure the controllers.
type Options struct {
	// ClusterID is the ID of this cluster.
	ClusterID string
	// LiqoNamespace is the namespace of the installation. It contains the Networks of this cluster and the gateway templates.
	LiqoNamespace string
	// WatchTemplates applies a changed template to its gateways at once. Without it, a gateway uses the changed template at the next reconcile that
	// another event triggers.
	WatchTemplates bool
	// MTU is the upper bound of the MTU of tunnels that NetworkRequests connect, in bytes; 0: none.
	MTU int
	// Exposure has the rules for the endpoints of gateways.
	Exposure network.ExposureRules
	// Labels and Annotations are added to every object that the controllers create.
	Labels, Annotations map[string]string
	// Random is the source of keys; nil: crypto/rand.
	Random io.Reader
	// Metrics is where the metrics about gateways are registered; nil: none.
	Metrics prometheus.Registerer
}

// Names and labels of the Services that Liqo always exposes to peers.
const (
	apiServerNamespace = metav1.NamespaceDefault
	apiServerService   = "kubernetes"
	// proxyComponent and authComponent are the values of the label app.kubernetes.io/component of two Services: Liqo's API server proxy and the
	// authentication service.
	proxyComponent = "proxy"
	authComponent  = "authentication"
	labelComponent = "app.kubernetes.io/component"
)

// Setup adds the controllers to the manager. It also adds a cache for objects outside the manager's cache: children of gateways, real
// nodes, and the Services whose addresses peers know. It returns an error if the namespace of the installation is empty.
func Setup(mgr ctrl.Manager, opts Options) error {
	if opts.LiqoNamespace == "" {
		return fmt.Errorf("setting up the network: the namespace of the installation is empty")
	}
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	around, err := newSurroundings(mgr, opts)
	if err != nil {
		return err
	}
	if opts.Metrics != nil {
		if err := opts.Metrics.Register(GatewayMetrics(mgr.GetClient(), around, mgr.GetLogger().WithName("metrics"))); err != nil {
			return fmt.Errorf("registering the metrics about gateways: %w", err)
		}
	}
	events := kube.EventRecorder(mgr, "network")
	gateways := gateways{
		Options: opts, client: mgr.GetClient(), around: around, live: mgr.GetAPIReader(), events: events, scheme: mgr.GetScheme(),
	}
	for _, part := range []struct {
		name  string
		setup func(ctrl.Manager) error
	}{
		{"configuration", (&configurations{Options: opts, client: mgr.GetClient()}).setup},
		{"gateway server", gateways.setupServers},
		{"gateway client", gateways.setupClients},
		{"pod security", (&podSecurity{Options: opts, client: mgr.GetClient()}).setup},
		{"network request", (&networkRequests{Options: opts, client: mgr.GetClient(), around: around}).setup},
		{"system addresses", (&systemIPs{Options: opts, client: mgr.GetClient(), around: around}).setup},
	} {
		if err := part.setup(mgr); err != nil {
			return fmt.Errorf("setting up %s: %w", part.name, err)
		}
	}
	return nil
}

// surroundings reads and writes the Kubernetes objects that the network consists of. It reads from its own cache, because the cache of the
// manager selects other pods, nodes and Deployments, by other labels.
type surroundings struct {
	client.Client
	cache cache.Cache
}

func newSurroundings(mgr ctrl.Manager, opts Options) (*surroundings, error) {
	ofGateways := labels.SelectorFromSet(labels.Set{networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway})
	gateway := cache.ByObject{Label: ofGateways}
	held, err := kube.NewCache(mgr, "gateways and nodes", map[client.Object]cache.ByObject{
		&corev1.Pod{}:                {Label: ofGateways, Transform: kube.Reduced(stripPod)},
		&corev1.Node{}:               {Label: kube.Selecting(api.LabelType, selection.NotIn, api.TypeVirtualNode), Transform: kube.Reduced(stripNode)},
		&appsv1.Deployment{}:         gateway,
		&corev1.Secret{}:             gateway,
		&corev1.ServiceAccount{}:     gateway,
		&rbacv1.Role{}:               gateway,
		&rbacv1.RoleBinding{}:        gateway,
		&rbacv1.ClusterRoleBinding{}: gateway,
		&corev1.Service{}: {Namespaces: map[string]cache.Config{
			apiServerNamespace:  {FieldSelector: fields.OneTermEqualSelector("metadata.name", apiServerService)},
			opts.LiqoNamespace:  {LabelSelector: kube.Selecting(labelComponent, selection.In, proxyComponent, authComponent)},
			cache.AllNamespaces: {LabelSelector: ofGateways},
		}},
	})
	if err != nil {
		return nil, err
	}
	c, err := client.New(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), Cache: &client.CacheOptions{Reader: held},
	})
	if err != nil {
		return nil, fmt.Errorf("creating a client for gateways and nodes: %w", err)
	}
	return &surroundings{Client: c, cache: held}, nil
}

// stripPod reduces a gateway's Pod to its metadata, node, phase, address, readiness and running containers, to save memory in the cache.
func stripPod(pod *corev1.Pod) *corev1.Pod {
	stripped := &corev1.Pod{
		ObjectMeta: kube.Identity(&pod.ObjectMeta),
		Spec:       corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status:     corev1.PodStatus{Phase: pod.Status.Phase, PodIP: pod.Status.PodIP},
	}
	stripped.Labels = pod.Labels
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			stripped.Status.Conditions = append(stripped.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		status := corev1.ContainerStatus{Name: c.Name}
		if c.State.Running != nil {
			status.State.Running = &corev1.ContainerStateRunning{}
		}
		stripped.Status.ContainerStatuses = append(stripped.Status.ContainerStatuses, status)
	}
	return stripped
}

// stripNode reduces a Node to its metadata, addresses and readiness, to save memory in the cache.
func stripNode(node *corev1.Node) *corev1.Node {
	stripped := &corev1.Node{ObjectMeta: kube.Identity(&node.ObjectMeta), Status: corev1.NodeStatus{Addresses: node.Status.Addresses}}
	stripped.Labels = node.Labels
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			stripped.Status.Conditions = []corev1.NodeCondition{{Type: condition.Type, Status: condition.Status}}
		}
	}
	return stripped
}
