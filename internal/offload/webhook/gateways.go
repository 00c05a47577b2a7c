package webhook

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gateways;httproutes;grpcroutes;tlsroutes,verbs=list;watch

const (
	gatewayGroup     = "gateway.networking.k8s.io"
	gatewayResources = "gateways"
	// gatewaysEvery is the interval for checking which kinds of the Gateway API are installed.
	gatewaysEvery = 30 * time.Second
)

// gateways watches the Gateways and routes of the Gateway API, while their definitions are installed. It runs in each replica. The readiness of the
// controller manager does not depend on it: until a list is complete, the hosts in it are not claimed.
type gateways struct {
	served  func(groupVersion string) (*metav1.APIResourceList, error)
	objects dynamic.Interface
	log     logr.Logger
	every   time.Duration
	// changed receives an event after each change of the claims.
	changed chan event.TypedGenericEvent[client.Object]

	mu      sync.Mutex
	watched map[schema.GroupVersionResource]*watchedRoutes
}

// watchedRoutes is a cache of the objects of one kind.
type watchedRoutes struct {
	kind string
	toolscache.Store
	stop context.CancelFunc
}

func newGateways(mgr ctrl.Manager) (*gateways, error) {
	discover, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("creating a discovery client: %w", err)
	}
	objects, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("creating a client of the Gateway API: %w", err)
	}
	g := &gateways{
		served: discover.ServerResourcesForGroupVersion, objects: objects, log: mgr.GetLogger().WithName("ingress-hosts"), every: gatewaysEvery,
		changed: make(chan event.TypedGenericEvent[client.Object], 1), watched: map[schema.GroupVersionResource]*watchedRoutes{},
	}
	if err := mgr.Add(g); err != nil {
		return nil, fmt.Errorf("adding the watches of the Gateway API: %w", err)
	}
	return g, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*gateways) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (g *gateways) Start(ctx context.Context) error {
	failed := false
	for {
		err := g.follow(ctx)
		if err != nil && !failed {
			g.log.Error(err, "Failed to read which kinds of the Gateway API are installed: until a retry succeeds, hosts in objects of newly installed kinds are not protected")
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(g.every):
		}
	}
}

// follow starts the watches of kinds that are installed, and stops those of kinds that no longer are.
func (g *gateways) follow(ctx context.Context) error {
	installed, err := g.installed()
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for resource, watched := range g.watched {
		if _, still := installed[resource]; !still {
			watched.stop()
			delete(g.watched, resource)
			notify(g.changed)
		}
	}
	for resource, kind := range installed {
		if g.watched[resource] == nil {
			g.watched[resource] = g.watch(ctx, resource, kind)
		}
	}
	return nil
}

// installed returns the resources with hosts that the API server serves, each in one version, and their kinds.
func (g *gateways) installed() (map[schema.GroupVersionResource]string, error) {
	found, out := map[string]bool{}, map[schema.GroupVersionResource]string{}
	for _, version := range []string{"v1", "v1beta1", "v1alpha3", "v1alpha2"} {
		group := schema.GroupVersion{Group: gatewayGroup, Version: version}
		list, err := g.served(group.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the resources of API group %s: %w", group, err)
		}
		for _, resource := range list.APIResources {
			if slices.Contains([]string{gatewayResources, "httproutes", "grpcroutes", "tlsroutes"}, resource.Name) && !found[resource.Name] {
				found[resource.Name], out[group.WithResource(resource.Name)] = true, resource.Kind
			}
		}
	}
	return out, nil
}

// watch starts to watch the objects of a kind.
func (g *gateways) watch(ctx context.Context, resource schema.GroupVersionResource, kind string) *watchedRoutes {
	ctx, stop := context.WithCancel(ctx)
	objects := g.objects.Resource(resource)
	store, controller := toolscache.NewInformerWithOptions(toolscache.InformerOptions{
		ListerWatcher: &toolscache.ListWatch{
			ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return objects.Watch(ctx, o) },
		},
		ObjectType: &unstructured.Unstructured{},
		Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { notify(g.changed) }, UpdateFunc: func(any, any) { notify(g.changed) }, DeleteFunc: func(any) { notify(g.changed) },
		},
		Transform: kube.Reduced(keepRouteHosts),
	})
	go controller.RunWithContext(ctx)
	return &watchedRoutes{kind: kind, Store: store, stop: stop}
}

// keepRouteHosts reduces a cached object of the Gateway API to the fields that its hosts depend on.
func keepRouteHosts(object *unstructured.Unstructured) *unstructured.Unstructured {
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	kept := map[string]any{}
	for _, field := range []string{"hostnames", "parentRefs"} {
		if value, found := spec[field]; found {
			kept[field] = value
		}
	}
	if listeners, _ := spec["listeners"].([]any); len(listeners) > 0 {
		var reduced []any
		for _, listener := range listeners {
			fields, _ := listener.(map[string]any)
			one := map[string]any{}
			for _, field := range []string{"name", "hostname"} {
				if value, found := fields[field]; found {
					one[field] = value
				}
			}
			reduced = append(reduced, one)
		}
		kept["listeners"] = reduced
	}
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": object.GetAPIVersion(), "kind": object.GetKind(), "spec": kept}}
	out.SetNamespace(object.GetNamespace())
	out.SetName(object.GetName())
	out.SetUID(object.GetUID())
	out.SetResourceVersion(object.GetResourceVersion())
	out.SetCreationTimestamp(object.GetCreationTimestamp())
	return out
}

// claims calls add with the hosts of each object.
func (g *gateways) claims(add func(kind string, o client.Object, hosts []string)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for resource, watched := range g.watched {
		for _, item := range watched.List() {
			object, ok := item.(*unstructured.Unstructured)
			switch {
			case !ok:
			case resource.Resource == gatewayResources:
				add(watched.kind, object, offload.HostsOfGateway(object))
			default:
				add(watched.kind, object, offload.HostsOfRoute(object, g.gateway))
			}
		}
	}
}

// gateway returns a Gateway, nil if there is none. The caller holds the lock.
func (g *gateways) gateway(namespace, name string) *unstructured.Unstructured {
	for resource, watched := range g.watched {
		if resource.Resource != gatewayResources {
			continue
		}
		if item, found, err := watched.GetByKey(namespace + "/" + name); err == nil && found {
			object, _ := item.(*unstructured.Unstructured)
			return object
		}
	}
	return nil
}
