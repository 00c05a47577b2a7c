package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
)

// +kubebuilder:rbac:groups=authentication.liqo.io,resources=identities,verbs=delete
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices,verbs=create;delete
// +kubebuilder:rbac:groups=core,resources=namespaces,verbs=create
// +kubebuilder:rbac:groups=core,resources=nodes,verbs=get
// +kubebuilder:rbac:groups=core,resources=secrets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=networkrequests,verbs=create;delete
// +kubebuilder:rbac:groups=networking.liqo.io,resources=wggatewayservertemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=delete

// secretOfWish returns the ID of the cluster whose peering depends on a Secret: on its token, an invitation, or a control-plane kubeconfig.
func secretOfWish(o client.Object) string {
	if id, is := strings.CutPrefix(o.GetName(), corev1beta1.TokenSecretPrefix); is {
		return id
	}
	if o.GetName() == invite.Secret || controlPlaneSecret(o) {
		return byLabel(o)
	}
	return ""
}

// wish reads the further objects that the next step of a ForeignCluster depends on.
func (r *foreignClusters) wish(ctx context.Context, facts *peering.Facts, fc *corev1beta1.ForeignCluster) (*peering.Wish, error) {
	w := &peering.Wish{ForeignCluster: fc, Own: r.own, Namespace: r.namespace, Now: r.now()}
	w.Joins = fc.Labels[corev1beta1.LabelDiscoveryType] != "" && r.joins != nil && r.joins(fc.Spec.ClusterID)
	asks := fc.Spec.OutgoingPeeringEnabled == corev1beta1.PeeringYes || fc.Spec.OutgoingPeeringEnabled == corev1beta1.PeeringNo || w.Joins
	if !asks && !slices.Contains(fc.Finalizers, peering.FinalizerOutgoing) {
		return w, nil
	}
	id := fc.Name
	requests, secrets, maps := &networkingv1beta1.NetworkRequestList{}, &corev1.SecretList{}, &offloadingv1beta1.NamespaceMapList{}
	for _, q := range []struct {
		list client.ObjectList
		opts client.MatchingLabels
	}{
		{requests, client.MatchingLabels{api.LabelRemoteID: id}}, {secrets, client.MatchingLabels{api.LabelRemoteClusterID: id}},
		{maps, client.MatchingLabels{api.LabelRemoteID: id}},
	} {
		if err := r.client.List(ctx, q.list, q.opts); err != nil {
			return nil, fmt.Errorf("listing the objects that ForeignCluster %s depends on: %w", id, err)
		}
	}
	w.Requests, w.Mapped = requests.Items, len(maps.Items) > 0
	for i := range secrets.Items {
		switch secret := &secrets.Items[i]; {
		case !peering.InNamespaces(facts.TenantNamespaces, secret.Namespace): // a user who may write Secrets in other namespaces is not necessarily an administrator of this peering
		case secret.Name == invite.Secret:
			w.Invitation = secret
		case secret.Name == peering.KubeconfigSecretName(peering.ControlPlaneIdentityName(id)) && linkSecret(secret):
			w.Kubeconfig = secret
		}
	}
	if fc.Spec.OutgoingPeeringEnabled == corev1beta1.PeeringNo || fc.DeletionTimestamp != nil {
		return w, nil
	}
	return w, r.wishToPeer(ctx, facts, w)
}

// wishToPeer reads the objects that only the start of a peering depends on.
func (r *foreignClusters) wishToPeer(ctx context.Context, facts *peering.Facts, w *peering.Wish) error {
	id := w.ForeignCluster.Name
	if len(facts.TenantNamespaces) == 0 {
		err := r.client.Get(ctx, client.ObjectKey{Name: api.TenantNamespace(id)}, &corev1.Namespace{})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading namespace %s: %w", api.TenantNamespace(id), err)
		}
		w.NamespaceTaken = err == nil
	}
	if facts.Identity == nil || !peering.Granted(&facts.Identity.Spec.AuthParams) {
		secret := &corev1.Secret{}
		err := r.reader.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: corev1beta1.TokenSecretPrefix + id}, secret)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the token for cluster %s: %w", id, err)
		}
		w.Token, w.TokenURL = secret.Data[corev1beta1.TokenSecretKey], string(secret.Data[corev1beta1.TokenURLKey])
		return nil
	}
	if r.connects {
		templates := &networkingv1beta1.WgGatewayServerTemplateList{}
		if err := r.client.List(ctx, templates); err != nil {
			return fmt.Errorf("listing WgGatewayServerTemplates: %w", err)
		}
		w.Connectable = len(templates.Items) > 0
	}
	if len(facts.Asked)+len(facts.VirtualNodes) > 0 {
		return nil
	}
	node := &corev1.Node{}
	err := r.reader.Get(ctx, client.ObjectKey{Name: id}, node)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Node %s: %w", id, err)
	}
	if err == nil && (node.Labels[api.LabelType] != api.TypeVirtualNode || node.Labels[api.LabelRemoteClusterID] != id) {
		w.NodeTaken = "Node " + id + " exists in this cluster"
	}
	return nil
}

// carryOut carries out a plan. Each part may be repeated, so the caller may retry the plan after an error.
func (r *foreignClusters) carryOut(ctx context.Context, fc *corev1beta1.ForeignCluster, plan *peering.Plan) error {
	if plan.Held {
		if err := r.hold(ctx, fc, controllerutil.AddFinalizer); err != nil {
			return err
		}
	}
	for _, object := range plan.Create {
		if err := r.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %T %s for ForeignCluster %s: %w", object, object.GetName(), fc.Name, err)
		}
	}
	if plan.Invitation != nil {
		if err := r.invite(ctx, plan.Invitation); err != nil {
			return err
		}
	}
	if accept := plan.Accept; accept != nil {
		before := accept.DeepCopy()
		delete(before.Annotations, peering.AnnotationAcceptedInvitation)
		if err := r.client.Patch(ctx, accept.DeepCopy(), client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("accepting the invitation of cluster %s: %w", accept.Spec.ClusterID, err)
		}
	}
	if plan.Resign != nil {
		marked := plan.Resign.DeepCopy()
		metav1.SetMetaDataAnnotation(&marked.ObjectMeta, peering.AnnotationResign, api.True)
		if err := r.client.Patch(ctx, marked, client.MergeFrom(plan.Resign)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("marking Secret %s/%s: %w", marked.Namespace, marked.Name, err)
		}
	}
	for _, object := range plan.Delete {
		if err := kube.Delete(ctx, r.client, object); err != nil {
			return err
		}
	}
	if !plan.Held {
		return r.hold(ctx, fc, controllerutil.RemoveFinalizer)
	}
	return nil
}

// invite writes an invitation.
func (r *foreignClusters) invite(ctx context.Context, want *corev1.Secret) error {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = want.Namespace, want.Name
	_, err := kube.Ensure(ctx, r.client, secret, func() error {
		kube.AddLabels(secret, want.Labels)
		secret.OwnerReferences, secret.Data = want.OwnerReferences, want.Data
		return nil
	})
	return err
}

// hold adds or removes the finalizer of a ForeignCluster. The optimistic lock keeps it from overwriting finalizers of others.
func (r *foreignClusters) hold(ctx context.Context, fc *corev1beta1.ForeignCluster, change func(o client.Object, finalizer string) bool) error {
	before := fc.DeepCopy()
	if !change(fc, peering.FinalizerOutgoing) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, fc, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("changing the finalizers of ForeignCluster %s: %w", fc.Name, err)
	}
	return nil
}

// announceWish emits an event when the state of a requested peering changes.
func (r *foreignClusters) announceWish(fc *corev1beta1.ForeignCluster, now *corev1beta1.Condition) {
	if now == nil || slices.ContainsFunc(fc.Status.Conditions, func(c corev1beta1.Condition) bool { return c.Type == now.Type && c.Reason == now.Reason }) {
		return
	}
	kind := corev1.EventTypeNormal
	if now.Status == corev1beta1.StatusError {
		kind = corev1.EventTypeWarning
	}
	r.events.Eventf(fc, nil, kind, now.Reason, "Peer", "%s", now.Message)
}
