package webhook

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=list;watch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// hosts knows which hosts the objects of this cluster serve. It withdraws an Ingress of a consumer if another object claims its host with precedence. The
// webhook can't refuse such an Ingress if the other claim is created later or at the same time.
type hosts struct {
	client.Client
	gateways *gateways
	events   events.EventRecorder
}

// setupHosts adds the watches of all objects with hosts, in each replica, and the controller, in the leader.
func setupHosts(mgr ctrl.Manager) (*hosts, error) {
	gateways, err := newGateways(mgr)
	if err != nil {
		return nil, err
	}
	h := &hosts{Client: mgr.GetClient(), gateways: gateways, events: kube.EventRecorder(mgr, "liqo-ingress-hosts")}
	for _, object := range []client.Object{&networkingv1.Ingress{}, &corev1.Namespace{}} {
		if _, err := mgr.GetCache().GetInformer(context.Background(), object); err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
	}
	ctl, err := controller.New("ingress-hosts", mgr, kube.ControllerOptions(controller.Options{Reconciler: h}))
	if err != nil {
		return nil, fmt.Errorf("creating controller ingress-hosts: %w", err)
	}
	// All events lead to the same request, since the decision is about all objects.
	to := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} })
	ofConsumers := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[api.LabelRemoteClusterID] != "" })
	for _, s := range []source.Source{
		source.Kind[client.Object](mgr.GetCache(), &networkingv1.Ingress{}, to, predicate.GenerationChangedPredicate{}), // not each change of a status
		source.Kind[client.Object](mgr.GetCache(), &corev1.Namespace{}, to, ofConsumers),
		source.Channel[client.Object](gateways.changed, to),
	} {
		if err := ctl.Watch(s); err != nil {
			return nil, fmt.Errorf("watching objects with hosts: %w", err)
		}
	}
	return h, nil
}

// withdrawRetry is the delay after an Ingress was found to have changed since its withdrawal was decided.
const withdrawRetry = time.Second

// Reconcile deletes the Ingresses of consumers whose hosts belong to others. The consumer's virtual kubelet recreates each of them, is refused by the
// webhook, and reports the refusal in an Event on the Ingress that the user created. It is no kube.Reconciler, because it decides about all objects together.
func (h *hosts) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	claims, err := h.claims(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	var result reconcile.Result
	for _, w := range offload.WithdrawHosts(claims) {
		if w.Claim.Terminating {
			continue
		}
		ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: w.Claim.Namespace, Name: w.Claim.Name, UID: w.Claim.UID}}
		err := h.Delete(ctx, ingress, client.Preconditions{UID: &w.Claim.UID, ResourceVersion: &w.Claim.ResourceVersion})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case apierrors.IsConflict(err):
			result.RequeueAfter = withdrawRetry
			continue
		case err != nil:
			return reconcile.Result{}, fmt.Errorf("deleting %s of cluster %s: %w", &w.Claim, w.Claim.Owner, err)
		}
		log.FromContext(ctx).Info("Deleted an Ingress of a consumer, because another object claims one of its hosts", "namespace", w.Claim.Namespace, "name", w.Claim.Name,
			"clusterID", w.Claim.Owner, "claimedBy", w.By.String(), "reason", w.Why)
		h.events.Eventf(ingress, nil, corev1.EventTypeWarning, reasons.IngressWithdrawn, "Withdraw", "deleted the Ingress: %s", w.Why) // the consumer reads it, too
	}
	return result, nil
}

// claims returns the hosts that all objects of this cluster claim. It reads only caches.
func (h *hosts) claims(ctx context.Context) ([]offload.HostClaim, error) {
	var namespaces corev1.NamespaceList
	if err := h.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Namespaces: %w", err)
	}
	owners := make(map[string]string, len(namespaces.Items))
	for i := range namespaces.Items {
		owners[namespaces.Items[i].Name] = namespaces.Items[i].Labels[api.LabelRemoteClusterID]
	}
	var list networkingv1.IngressList
	if err := h.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Ingresses: %w", err)
	}
	var out []offload.HostClaim
	add := func(kind string, o client.Object, hosts []string) {
		owner, known := owners[o.GetNamespace()]
		if !known || len(hosts) == 0 { // the event of a Namespace that the cache lacks triggers another decision
			return
		}
		out = append(out, offload.HostClaim{
			Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
			Terminating: o.GetDeletionTimestamp() != nil, Created: o.GetCreationTimestamp().Time,
			Owner: owner, Provided: kind != kindIngress || owner == "" || o.GetLabels()[api.LabelOrigin] != owner, Hosts: hosts,
		})
	}
	for i := range list.Items {
		add(kindIngress, &list.Items[i], offload.HostsOfIngress(&list.Items[i].Spec))
	}
	h.gateways.claims(add)
	return out, nil
}

const kindIngress = "Ingress"

// KeepHosts reduces a cached Ingress to its hosts and the metadata that the controller reads.
func KeepHosts(ingress *networkingv1.Ingress) *networkingv1.Ingress {
	out := &networkingv1.Ingress{ObjectMeta: kube.Identity(&ingress.ObjectMeta)}
	out.Generation = ingress.Generation
	kube.KeepLabels(&out.ObjectMeta, ingress.Labels, api.LabelOrigin)
	if ingress.Spec.DefaultBackend != nil {
		out.Spec.DefaultBackend = &networkingv1.IngressBackend{}
	}
	for _, rule := range ingress.Spec.Rules {
		out.Spec.Rules = append(out.Spec.Rules, networkingv1.IngressRule{Host: rule.Host})
	}
	for _, certificate := range ingress.Spec.TLS {
		out.Spec.TLS = append(out.Spec.TLS, networkingv1.IngressTLS{Hosts: certificate.Hosts})
	}
	return out
}

// notify triggers the controller without blocking. One pending event is enough, since the decision is about all objects.
func notify(changed chan event.TypedGenericEvent[client.Object]) {
	select {
	case changed <- event.TypedGenericEvent[client.Object]{Object: &networkingv1.Ingress{}}:
	default:
	}
}
