package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
)

// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes;services,verbs=get;list;watch

// systemIPs keeps an IP for each address that peers always know: those of the nodes, the API server, Liqo's proxy in front of it, and the
// authentication service.
type systemIPs struct {
	Options
	client client.Client
	around *surroundings
}

// all maps every object to the same request, because the controller reconciles all IPs together.
func all(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "all"}}}
}

func (r *systemIPs) setup(mgr ctrl.Manager) error {
	return kube.NewController(mgr, "system-ips").
		Watches(&ipamv1alpha1.IP{}, handler.EnqueueRequestsFromMapFunc(all),
			builder.WithPredicates(ofThisCluster(r.LiqoNamespace, ipamv1alpha1.LabelIPType), predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		WatchesRawSource(r.around.watch(&corev1.Node{}, all)).
		WatchesRawSource(r.around.watch(&corev1.Service{}, all)).
		Complete(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			return requeueConflicts(r.sync(ctx))
		}))
}

// requeueConflicts requeues without an error if all errors in err are conflicts, because then only the cache was stale. Otherwise it returns err.
func requeueConflicts(err error) (reconcile.Result, error) {
	parts := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		parts = joined.Unwrap()
	}
	if err == nil || slices.ContainsFunc(parts, func(e error) bool { return !apierrors.IsConflict(e) }) {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: staleDelay}, nil
}

func (r *systemIPs) sync(ctx context.Context) error {
	wanted, err := r.gather(ctx)
	if err != nil {
		return err
	}
	have := &ipamv1alpha1.IPList{}
	if err := r.client.List(ctx, have, client.InNamespace(r.LiqoNamespace), client.HasLabels{ipamv1alpha1.LabelIPType}); err != nil {
		return fmt.Errorf("listing IPs: %w", err)
	}
	for i := range have.Items {
		if network.StaleSystemIP(&have.Items[i], wanted) {
			if err := kube.Delete(ctx, r.client, &have.Items[i]); err != nil {
				return err
			}
		}
	}
	var problems []error
	for _, w := range wanted {
		problems = append(problems, r.ensure(ctx, w))
	}
	return errors.Join(problems...)
}

// ensure creates or updates an IP. If an IP of that name has another address, it is either being deleted or not created by Liqo, and ensure
// returns an error.
func (r *systemIPs) ensure(ctx context.Context, w network.SystemIP) error {
	ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: r.LiqoNamespace, Name: w.Name}}
	_, err := kube.Ensure(ctx, r.client, ip, func() error {
		switch {
		case ip.UID == "" || ip.Spec.IP == w.Address:
		case ip.Labels[ipamv1alpha1.LabelIPType] != "":
			return staleCache(ip, errors.New("it is about to be deleted"))
		default:
			return fmt.Errorf("IP %s/%s for %s was not created by Liqo, which needs this name for %s: delete it", ip.Namespace, ip.Name, ip.Spec.IP, w.Address)
		}
		ip.Labels = api.Layered(r.Labels, ip.Labels, map[string]string{ipamv1alpha1.LabelIPType: w.Type})
		ip.Annotations = api.Layered(r.Annotations, ip.Annotations)
		ip.Spec.IP = w.Address
		return nil
	})
	if apierrors.IsAlreadyExists(err) {
		return staleCache(ip, err)
	}
	return err
}

func (r *systemIPs) gather(ctx context.Context) ([]network.SystemIP, error) {
	nodes, ours := &corev1.NodeList{}, &corev1.ServiceList{}
	if err := r.around.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	if err := r.around.List(ctx, ours, client.InNamespace(r.LiqoNamespace), client.HasLabels{labelComponent}); err != nil {
		return nil, fmt.Errorf("listing Services: %w", err)
	}
	services := map[ipamv1alpha1.IPType]*corev1.Service{}
	for i := range ours.Items {
		switch service := &ours.Items[i]; service.Labels[labelComponent] {
		case proxyComponent:
			services[ipamv1alpha1.IPTypeAPIServerProxy] = service
		case authComponent:
			services[ipamv1alpha1.IPTypeAuthentication] = service
		}
	}
	apiServer := &corev1.Service{}
	if err := r.around.Get(ctx, client.ObjectKey{Namespace: apiServerNamespace, Name: apiServerService}, apiServer); err != nil {
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading Service %s/%s: %w", apiServerNamespace, apiServerService, err)
		}
		apiServer = nil
	}
	services[ipamv1alpha1.IPTypeAPIServer] = apiServer
	return network.SystemIPs(nodes.Items, services), nil
}
