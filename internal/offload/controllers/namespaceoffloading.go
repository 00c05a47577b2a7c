package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/reasons"
)

// FinalizerNamespaceOffloading holds a NamespaceOffloading until its remote namespaces are gone.
const FinalizerNamespaceOffloading = "namespaceoffloading-controller.liqo.io/finalizer"

// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespaceoffloadings,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespaceoffloadings/status,verbs=patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes;namespacemaps,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;patch

// namespaceOffloadings labels offloaded namespaces and reports the state of their remote namespaces. The mappings controller requests these
// namespaces.
type namespaceOffloadings struct {
	client.Client
	Options
	// live reads without the cache, which does not hold pods of users.
	live   client.Reader
	events events.EventRecorder
}

// admissionDelay is how long the API server may take, after a namespace was labelled, to call the webhook for its pods.
const admissionDelay = time.Second

func setupNamespaceOffloading(mgr ctrl.Manager, opts Options) error {
	r := &namespaceOffloadings{Client: mgr.GetClient(), Options: opts, live: mgr.GetAPIReader(), events: kube.EventRecorder(mgr, "namespaceoffloading")}
	controller := kube.NewController(mgr, "namespaceoffloading").
		For(&offloadingv1beta1.NamespaceOffloading{}, builder.WithPredicates(changedByUser)).
		Watches(&offloadingv1beta1.VirtualNode{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(offloadingIn), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false }, UpdateFunc: becameTenantOrEnds,
		})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&offloadingv1beta1.NamespaceMap{}, handler.EnqueueRequestsFromMapFunc(offloadingsOf))
	return r.watchVolumes(controller, offloadingOf).Complete(&kube.Reconciler[*offloadingv1beta1.NamespaceOffloading]{
		Name: "namespaceoffloading", Client: mgr.GetClient(), Finalizer: FinalizerNamespaceOffloading, Sync: r.sync, Finalize: r.finalize,
	})
}

func (r *namespaceOffloadings) sync(ctx context.Context, o *offloadingv1beta1.NamespaceOffloading) error {
	if ends, err := r.endWithNamespace(ctx, o); ends || err != nil {
		return err
	}
	protected, err := r.protected(ctx, r.Client, []offloadingv1beta1.NamespaceOffloading{*o})
	if err != nil {
		return err
	}
	if why := protected[o.Namespace]; why != "" {
		return r.refuse(ctx, o, why)
	}
	follows := o.Spec.PodOffloadingStrategy != offloadingv1beta1.PodsLocal
	labelled, err := r.label(ctx, o.Namespace, follows)
	if err != nil {
		return err
	}
	observed := o.Status.ObservedGeneration
	asked, held, err := r.report(ctx, o, "")
	if err != nil {
		return err
	}
	if err := r.letRead(ctx, o, asked, held); err != nil {
		return err
	}
	if !follows || observed == o.Generation {
		return nil
	}
	if labelled { // observedGeneration means that the strategy applies to new pods, so it waits until the API server calls the webhook
		o.Status.ObservedGeneration = observed
		return kube.WaitFor(admissionDelay, reasons.WaitingForAdmission, "waiting for the API server to call the webhook for pods of namespace %s", o.Namespace)
	}
	return r.warnPodsBefore(ctx, o)
}

// endWithNamespace deletes the NamespaceOffloading of a namespace that is being deleted, so that the providers delete the remote namespaces at once.
// Kubernetes would delete it too, but some seconds later, and would check for remaining objects only every eight seconds.
func (r *namespaceOffloadings) endWithNamespace(ctx context.Context, o *offloadingv1beta1.NamespaceOffloading) (bool, error) {
	ns := &corev1.Namespace{}
	if err := r.Get(ctx, client.ObjectKey{Name: o.Namespace}, ns); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if ns.DeletionTimestamp.IsZero() {
		return false, nil
	}
	return true, kube.Delete(ctx, r.Client, o)
}

// warnPodsBefore emits an event that lists the pods created before the strategy.
func (r *namespaceOffloadings) warnPodsBefore(ctx context.Context, o *offloadingv1beta1.NamespaceOffloading) error {
	var pods corev1.PodList
	if err := r.live.List(ctx, &pods, client.InNamespace(o.Namespace)); err != nil {
		return fmt.Errorf("listing the pods of namespace %s: %w", o.Namespace, err)
	}
	left := offload.PodsBeforeStrategy(pods.Items, &o.Spec, r.RuntimeClass)
	if len(left) == 0 {
		return nil
	}
	r.events.Eventf(o, nil, corev1.EventTypeWarning, reasons.PodsNotRescheduled, "Offload",
		"%d pods were created before strategy %s took effect, and it does not move them. Delete them to have them created again: %s",
		len(left), o.Spec.PodOffloadingStrategy, strings.Join(left[:min(len(left), leftShown)], ", "))
	return nil
}

// leftShown is the maximum number of pods that the event lists by name.
const leftShown = 5

// finalize completes when no provider has the remote namespace or is requested to have it.
func (r *namespaceOffloadings) finalize(ctx context.Context, o *offloadingv1beta1.NamespaceOffloading) error {
	if _, err := r.label(ctx, o.Namespace, false); err != nil {
		return err
	}
	asked, held, err := r.report(ctx, o, "")
	if err != nil {
		return err
	}
	if left := sets.List(sets.New(asked...).Insert(held...)); len(left) > 0 {
		return kube.Wait(offloadingv1beta1.ReasonTerminating, "waiting for clusters %v to delete the remote namespaces of namespace %s", left, o.Namespace)
	}
	return nil
}

// refuse withdraws the offloading of a protected namespace and reports why. It revokes the permissions of the virtual kubelets at once. The providers
// delete the remote namespaces when the changed NamespaceMap reaches them.
func (r *namespaceOffloadings) refuse(ctx context.Context, o *offloadingv1beta1.NamespaceOffloading, why string) error {
	if err := r.forbidRead(ctx, o.Namespace); err != nil {
		return err
	}
	if _, err := r.label(ctx, o.Namespace, false); err != nil {
		return err
	}
	before := o.Status.DeepCopy()
	if _, _, err := r.report(ctx, o, why); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(*before, o.Status) {
		r.events.Eventf(o, nil, corev1.EventTypeWarning, offloadingv1beta1.ReasonNamespaceProtected, "Offload", "%s", offload.ProtectedMessage(o.Namespace, why))
	}
	return nil
}

// report updates the status. It returns the clusters that are requested to have the remote namespace, and the clusters that report having it. why is
// the reason why the namespace is protected, empty if it is not.
func (r *namespaceOffloadings) report(ctx context.Context, o *offloadingv1beta1.NamespaceOffloading, why string) (asked, held []string, err error) {
	nodes, lost, err := selectable(ctx, r.Client)
	if err != nil {
		return nil, nil, err
	}
	var maps offloadingv1beta1.NamespaceMapList
	if err := r.List(ctx, &maps); err != nil {
		return nil, nil, fmt.Errorf("listing NamespaceMaps: %w", err)
	}
	current := map[string]map[string]offloadingv1beta1.RemoteNamespaceStatus{}
	for i := range maps.Items {
		m := &maps.Items[i]
		if isCopy(m) {
			continue
		}
		current[m.Name] = m.Status.CurrentMapping
		if _, reported := m.Status.CurrentMapping[o.Namespace]; reported {
			held = append(held, m.Name)
		}
		if _, wanted := m.Spec.DesiredMapping[o.Namespace]; wanted {
			asked = append(asked, m.Name)
		}
	}
	volumes, err := r.volumes(ctx, r.Client)
	if err != nil {
		return nil, nil, err
	}
	before := o.Status
	o.Status = offload.Compile(o, nodes, lost, current, volumes, why, r.ClusterID, r.now())
	r.warnVolumesKept(o, before.RemoteNamespacesConditions)
	if offload.AbandonmentUsed(o, before, maps.Items) {
		if err := r.keepDataAgain(ctx, o); err != nil {
			o.Status = before // so that the next pass observes the release again
			return nil, nil, err
		}
	}
	return asked, held, nil
}

// keepDataAgain removes the annotation that allows the deletion of data. The optimistic lock leaves the annotation on an object that a user has changed or
// deleted meanwhile.
func (r *namespaceOffloadings) keepDataAgain(ctx context.Context, o *offloadingv1beta1.NamespaceOffloading) error {
	after := o.DeepCopy()
	delete(after.Annotations, api.AnnotationDeleteVolumes)
	if err := r.Patch(ctx, after, client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing annotation %s of NamespaceOffloading %s/%s: %w", api.AnnotationDeleteVolumes, o.Namespace, o.Name, err)
	}
	return nil
}

// warnVolumesKept emits an Event for each cluster whose remote namespace is now kept because volumes in it hold data.
func (r *namespaceOffloadings) warnVolumesKept(o *offloadingv1beta1.NamespaceOffloading, before map[string][]offloadingv1beta1.RemoteNamespaceCondition) {
	kept := func(c offloadingv1beta1.RemoteNamespaceCondition) bool {
		return c.Reason == offloadingv1beta1.ReasonVolumesKept
	}
	for id, conditions := range o.Status.RemoteNamespacesConditions {
		if i := slices.IndexFunc(conditions, kept); i >= 0 && !slices.ContainsFunc(before[id], kept) {
			r.events.Eventf(o, nil, corev1.EventTypeWarning, offloadingv1beta1.ReasonVolumesKept, "Offload", "%s", conditions[i].Message)
		}
	}
}

// label adds or removes the label that makes the API server call the webhook for the namespace's pods. It reports whether the label changed.
func (r *namespaceOffloadings) label(ctx context.Context, name string, on bool) (bool, error) {
	ns := &corev1.Namespace{}
	if err := r.Get(ctx, client.ObjectKey{Name: name}, ns); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if _, is := ns.Labels[offloadingv1beta1.LabelSchedulingEnabled]; is == on && (!on || ns.Labels[offloadingv1beta1.LabelSchedulingEnabled] == api.True) {
		return false, nil
	}
	before := ns.DeepCopy()
	if on {
		metav1.SetMetaDataLabel(&ns.ObjectMeta, offloadingv1beta1.LabelSchedulingEnabled, api.True)
	} else {
		delete(ns.Labels, offloadingv1beta1.LabelSchedulingEnabled)
	}
	if err := r.Patch(ctx, ns, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("labelling namespace %s: %w", name, err)
	}
	return true, nil
}

// selectable returns the VirtualNodes with the actual labels of their Nodes merged in: the scheduler evaluates cluster selectors against Nodes, too.
// lost are the clusters with a VirtualNode whose Node is missing at the moment although it should exist.
func selectable(ctx context.Context, c client.Client) (nodes []offloadingv1beta1.VirtualNode, lost sets.Set[string], err error) {
	var list offloadingv1beta1.VirtualNodeList
	if err := c.List(ctx, &list); err != nil {
		return nil, nil, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	lost = sets.New[string]()
	for i := range list.Items {
		node, host := &list.Items[i], &corev1.Node{}
		found, err := exists(ctx, c, host, client.ObjectKey{Name: node.Name})
		if err != nil {
			return nil, nil, err
		}
		switch {
		case found && host.Labels[api.LabelRemoteClusterID] == node.Spec.ClusterID:
			node.Labels = api.Layered(node.Labels, host.Labels)
		case !found && node.DeletionTimestamp.IsZero() && !withoutNode(node):
			lost.Insert(node.Spec.ClusterID)
		}
	}
	return list.Items, lost, nil
}

// withoutNode reports whether a VirtualNode intentionally has no Node, according to its controller: it should have none, it can't have one, or
// another object has its name.
func withoutNode(node *offloadingv1beta1.VirtualNode) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c offloadingv1beta1.VirtualNodeCondition) bool {
		return c.Type == offloadingv1beta1.VirtualNodeNode && c.Status == offloadingv1beta1.VirtualNodeNone
	})
}

// all returns every NamespaceOffloading: any of them may select a changed virtual node.
func (r *namespaceOffloadings) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return kube.Requests(ctx, r, &offloadingv1beta1.NamespaceOffloadingList{})
}

// offloadingIn returns a request for the NamespaceOffloading of a namespace.
func offloadingIn(_ context.Context, namespace client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace.GetName(), Name: offloadingv1beta1.NamespaceOffloadingName}}}
}

// offloadingsOf returns the NamespaceOffloadings of the namespaces in a NamespaceMap of this cluster.
func offloadingsOf(_ context.Context, obj client.Object) []reconcile.Request {
	m, ok := obj.(*offloadingv1beta1.NamespaceMap)
	if !ok || isCopy(m) {
		return nil
	}
	var requests []reconcile.Request
	add := func(ns string) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: ns, Name: offloadingv1beta1.NamespaceOffloadingName}})
	}
	for ns := range m.Spec.DesiredMapping {
		add(ns)
	}
	for ns := range m.Status.CurrentMapping {
		add(ns)
	}
	return requests
}
