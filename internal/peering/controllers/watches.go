package controllers

import (
	"context"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=core,resources=namespaces,verbs=get;list;watch

// matching returns predicates that pass the events of objects for which match returns true.
func matching(match func(client.Object) bool) builder.Predicates {
	return builder.WithPredicates(predicate.NewPredicateFuncs(match))
}

// labelled matches objects with the label.
func labelled(key, value string) func(client.Object) bool {
	return func(o client.Object) bool { return o.GetLabels()[key] == value }
}

// copies matches the objects that other clusters replicated to this one.
func copies(o client.Object) bool { return peering.IsCopy(o, "") }

// sources matches the objects that this cluster replicates to others.
func sources(o client.Object) bool { return peering.Selected(o) }

func onlyTenantNamespaces() builder.Predicates {
	return matching(labelled(api.LabelTenantNamespace, api.True))
}

// sameNamespace enqueues all objects of the list's kind in the namespace of an object. For a Namespace, it enqueues those in that
// namespace.
func sameNamespace(c client.Reader, list func() client.ObjectList, opts ...client.ListOption) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		namespace := o.GetNamespace()
		if namespace == "" {
			namespace = o.GetName()
		}
		return kube.Requests(ctx, c, list(), append([]client.ListOption{client.InNamespace(namespace)}, opts...)...)
	})
}

func secretsOf(c client.Reader, key, value string) handler.EventHandler {
	return sameNamespace(c, func() client.ObjectList { return &corev1.SecretList{} }, client.MatchingLabels{key: value})
}

// requestedFor enqueues the object of the given kind that a CertificateSigningRequest was created for.
func requestedFor(kind string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		parts := strings.Split(o.GetAnnotations()[peering.AnnotationRequestedFor], "/")
		if len(parts) != 3 || parts[0] != kind {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: parts[1], Name: parts[2]}}}
	})
}

// inTenantNamespace returns nil if the namespace is the tenant namespace of the remote cluster. It returns a kube.Wait if the namespace is
// not known yet.
func inTenantNamespace(ctx context.Context, c client.Reader, name, remoteClusterID string) error {
	namespace := &corev1.Namespace{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return kube.Wait(reasons.TenantNamespaceNotFound, "waiting for namespace %s to appear in the cache", name)
	}
	if err != nil {
		return err
	}
	if err := peering.CheckTenantNamespace(namespace, remoteClusterID); err != nil {
		return kube.Invalid(reasons.WrongNamespace, "%v", err)
	}
	return nil
}

// announcer adds keys to the work queues of the controllers that subscribed to it. announce never blocks.
type announcer struct {
	mu     sync.Mutex
	queues []workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// source returns the source by which a controller subscribes.
func (a *announcer) source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.queues = append(a.queues, queue)
		return nil
	})
}

func (a *announcer) announce(key types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, queue := range a.queues {
		queue.Add(reconcile.Request{NamespacedName: key})
	}
}

// eachItem calls f with every object of a list.
func eachItem(list client.ObjectList, f func(client.Object) error) error {
	return meta.EachListItem(list, func(item runtime.Object) error { return f(item.(client.Object)) })
}

// mappedSource returns a source that maps each announced key to requests. It calls to for the key, and enqueues the requests that to returns.
func mappedSource(a *announcer, to func(context.Context, reconcile.Request) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.queues = append(a.queues, mappedQueue{queue, ctx, to})
		return nil
	})
}

// mappedQueue is a work queue that replaces each added request by those it maps to.
type mappedQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	ctx context.Context
	to  func(context.Context, reconcile.Request) []reconcile.Request
}

// Add adds the requests that req maps to.
func (q mappedQueue) Add(req reconcile.Request) {
	for _, mapped := range q.to(q.ctx, req) {
		q.TypedRateLimitingInterface.Add(mapped)
	}
}
