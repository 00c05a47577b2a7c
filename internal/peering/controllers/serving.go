package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,verbs=approve,resourceNames=kubernetes.io/kubelet-serving
// +kubebuilder:rbac:groups=core,resources=pods,verbs=get;list;watch

// nodeChanges passes only those updates of Nodes that a ForeignCluster shows: changes of readiness, not heartbeats.
func nodeChanges() builder.Predicates {
	return builder.WithPredicates(kube.Updates(func(before, after *corev1.Node) bool { return readiness(before) != readiness(after) }))
}

func readiness(node *corev1.Node) corev1.ConditionStatus {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return node.Status.Conditions[i].Status
		}
	}
	return ""
}

// servingCertificates approves the serving certificates of virtual kubelets. It approves a request only if it is from the ServiceAccount of a
// VirtualNode, for that VirtualNode's Node and the addresses of its pods. It leaves other requests to other approvers. When a VirtualNode is deleted,
// the controller deletes the requests that it approved for that VirtualNode.
type servingCertificates struct {
	client client.Client
	pods   cache.Cache
	now    func() time.Time
}

func (r *servingCertificates) setup(mgr ctrl.Manager) error {
	return kube.NewController(mgr, "serving-certificate").
		For(&certificatesv1.CertificateSigningRequest{}, matching(func(o client.Object) bool {
			csr, ok := o.(*certificatesv1.CertificateSigningRequest)
			return ok && (pending(csr) || approvedHere(csr))
		})).
		WatchesRawSource(source.Kind(r.pods, client.Object(&corev1.Pod{}), r.ofNamespace())).
		Watches(&offloadingv1beta1.VirtualNode{}, r.ofNamespace(), builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(event.UpdateEvent) bool { return false }, // the fields that matter here never change
		})).
		Complete(reconcile.Func(r.reconcile))
}

// pending matches requests of ServiceAccounts for kubelet serving certificates that are neither approved nor denied.
func pending(csr *certificatesv1.CertificateSigningRequest) bool {
	_, _, ok := peering.ServingRequester(csr)
	approved, refused := verdict(csr)
	return ok && !approved && refused == ""
}

// approvalReason is the condition reason by which this approver recognizes its own approvals.
const approvalReason = reasons.LiqoApproval

// approvedHere matches requests of virtual kubelets that this controller approved.
func approvedHere(csr *certificatesv1.CertificateSigningRequest) bool {
	if _, _, ok := peering.ServingRequester(csr); !ok {
		return false
	}
	for _, condition := range csr.Status.Conditions {
		if condition.Type == certificatesv1.CertificateApproved && condition.Reason == approvalReason {
			return true
		}
	}
	return false
}

// ofNamespace enqueues the requests that ServiceAccounts in the namespace of an object made.
func (r *servingCertificates) ofNamespace() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return kube.Matching(ctx, r.client, &certificatesv1.CertificateSigningRequestList{}, func(csr *certificatesv1.CertificateSigningRequest) bool {
			namespace, _, _ := peering.ServingRequester(csr)
			return namespace == o.GetNamespace() && (pending(csr) || approvedHere(csr))
		})
	})
}

func (r *servingCertificates) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := r.client.Get(ctx, req.NamespacedName, csr); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if approvedHere(csr) {
		return reconcile.Result{}, r.tidy(ctx, csr)
	}
	if !pending(csr) {
		return reconcile.Result{}, nil
	}
	log := ctrl.LoggerFrom(ctx)
	err := r.check(ctx, csr)
	switch {
	case kube.IsWait(err), errors.Is(err, peering.ErrNotPodIP):
		log.V(1).Info("Waiting to approve a serving certificate", "reason", err.Error()) // the event of the missing pod or VirtualNode requeues the request
		return reconcile.Result{}, nil
	case kube.IsInvalid(err):
		log.Info("Did not approve a serving certificate", "requester", csr.Spec.Username, "reason", err.Error())
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return outcome(approve(ctx, r.client, csr, approvalReason, "the serving certificate of a virtual kubelet, checked by Liqo", r.now()))
}

// tidy deletes an approved request if its VirtualNode no longer exists. Kubernetes would do so by itself an hour later.
func (r *servingCertificates) tidy(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	namespace, name, _ := peering.ServingRequester(csr)
	err := r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &offloadingv1beta1.VirtualNode{})
	if apierrors.IsNotFound(err) {
		return kube.Delete(ctx, r.client, csr)
	}
	return err
}

// check returns nil if the request may be approved.
func (r *servingCertificates) check(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	namespace, name, _ := peering.ServingRequester(csr)
	node := &offloadingv1beta1.VirtualNode{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, node)
	if apierrors.IsNotFound(err) {
		return kube.Wait(reasons.VirtualNodeNotFound, "waiting for VirtualNode %s/%s", namespace, name)
	}
	if err != nil {
		return fmt.Errorf("reading VirtualNode %s/%s: %w", namespace, name, err)
	}
	if err := inTenantNamespace(ctx, r.client, namespace, node.Spec.ClusterID); err != nil {
		return err
	}
	pods := &corev1.PodList{}
	if err := r.pods.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{api.LabelVirtualNode: name}); err != nil {
		return fmt.Errorf("listing the pods of virtual kubelet %s/%s: %w", namespace, name, err)
	}
	if err := peering.CheckServing(csr, node, pods.Items); err != nil {
		if errors.Is(err, peering.ErrNotPodIP) {
			return err
		}
		return kube.Invalid(reasons.InvalidCSR, "%v", err)
	}
	return nil
}
