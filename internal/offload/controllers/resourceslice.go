package controllers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices/finalizers,verbs=update
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=identities,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=get;list;watch;create;patch;delete

// sliceNodes creates VirtualNodes for accepted ResourceSlices. The deletion of a ResourceSlice revokes the permissions of the virtual kubelet.
// Therefore the ResourceSlice has a finalizer until its VirtualNode, and with it the last pod, is gone.
type sliceNodes struct {
	client.Client
	Options
	events events.EventRecorder
}

func setupVirtualNodeCreation(mgr ctrl.Manager, opts Options) error {
	r := &sliceNodes{Client: mgr.GetClient(), Options: opts, events: kube.EventRecorder(mgr, "resourceslice-virtualnode")}
	return kube.NewController(mgr, "resourceslice-virtualnode").
		For(&authv1beta1.ResourceSlice{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return !isCopy(o) }))).
		Owns(&offloadingv1beta1.VirtualNode{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&authv1beta1.Identity{}, handler.EnqueueRequestsFromMapFunc(sliceOf)).
		Complete(&kube.Reconciler[*authv1beta1.ResourceSlice]{
			Name: "resourceslice-virtualnode", Client: mgr.GetClient(), Finalizer: FinalizerVirtualNode, Sync: r.sync, Finalize: r.finalize,
			Wanted: func(s *authv1beta1.ResourceSlice) bool {
				return !isCopy(s) && s.Annotations[authv1beta1.AnnotationCreateVirtualNode] == api.True
			},
		})
}

func (r *sliceNodes) sync(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	if !offload.Grants(slice) {
		return kube.Wait(reasons.ResourceSliceNotAccepted, "waiting for cluster %s to accept ResourceSlice %s", slice.Spec.ProviderClusterID, slice.Name)
	}
	identity := &authv1beta1.Identity{}
	found, err := exists(ctx, r.Client, identity, client.ObjectKey{Namespace: slice.Namespace, Name: authv1beta1.IdentityResourceSlicePrefix + slice.Name})
	if err != nil {
		return err
	}
	if !found || identity.Status.KubeconfigSecretRef == nil {
		return kube.Wait(reasons.WaitingForIdentity, "waiting for the kubeconfig of Identity %s%s", authv1beta1.IdentityResourceSlicePrefix, slice.Name)
	}
	node := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: slice.Name}}
	missing := false
	_, err = kube.Ensure(ctx, r.Client, node, func() error {
		missing = node.UID == ""
		if node.UID != "" && !metav1.IsControlledBy(node, slice) {
			return kube.Wait(reasons.NameTaken, "VirtualNode %s/%s was not created for this ResourceSlice: delete the VirtualNode, or create the ResourceSlice again under another name", node.Namespace, node.Name)
		}
		if !node.DeletionTimestamp.IsZero() {
			return kube.Wait(reasons.VirtualNodeTerminating, "VirtualNode %s/%s is being deleted", node.Namespace, node.Name)
		}
		node.Labels, node.Annotations = api.Layered(r.GlobalLabels, node.Labels), api.Layered(r.GlobalAnnotations, node.Annotations)
		offload.Fill(node, slice, identity.Status.KubeconfigSecretRef.Name)
		return controllerutil.SetControllerReference(slice, node, r.Scheme())
	})
	if err == nil && missing {
		r.events.Eventf(slice, node, corev1.EventTypeNormal, reasons.VirtualNodeCreated, "Create", "created VirtualNode %s", node.Name)
	}
	return err
}

func (r *sliceNodes) finalize(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	node := &offloadingv1beta1.VirtualNode{}
	found, err := exists(ctx, r.Client, node, client.ObjectKey{Namespace: slice.Namespace, Name: slice.Name})
	if err != nil || !found || !metav1.IsControlledBy(node, slice) {
		return err
	}
	if node.DeletionTimestamp.IsZero() {
		if err := kube.Delete(ctx, r.Client, node); err != nil {
			return err
		}
	}
	return kube.Wait(string(offloadingv1beta1.VirtualNodeDraining), "waiting for the deletion of VirtualNode %s", node.Name)
}

// sliceOf returns the ResourceSlice for which an Identity was created.
func sliceOf(_ context.Context, obj client.Object) []reconcile.Request {
	name := obj.GetLabels()[api.LabelResourceSliceName]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}}}
}
