package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/kube"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;patch

// podSecurity sets the Pod Security level of the namespaces in which the agents of the network run, whatever the cluster's default level
// is. The agents on the nodes use the host network. Gateways configure their own network namespace and open /dev/net/tun. All other
// components need at most the level "restricted". If a namespace has a level already, podSecurity keeps it.
type podSecurity struct {
	Options
	client client.Client
}

// labelPodSecurity is the prefix of the labels with the Pod Security levels; see
// https://kubernetes.io/docs/concepts/security/pod-security-admission.
const labelPodSecurity = "pod-security.kubernetes.io/"

func (r *podSecurity) setup(mgr ctrl.Manager) error {
	reconciler := &kube.Reconciler[*corev1.Namespace]{Name: "pod security", Client: r.client, Sync: r.sync}
	return kube.NewController(mgr, "pod-security").
		For(&corev1.Namespace{}, builder.WithPredicates(predicate.NewPredicateFuncs(r.hosts))).
		Complete(reconciler)
}

// hosts reports whether agents of the network run in a namespace, and the namespace has no Pod Security level yet.
func (r *podSecurity) hosts(namespace client.Object) bool {
	labels := namespace.GetLabels()
	return labels[labelPodSecurity+"enforce"] == "" && (namespace.GetName() == r.LiqoNamespace || labels[api.LabelTenantNamespace] == api.True)
}

func (r *podSecurity) sync(ctx context.Context, namespace *corev1.Namespace) error {
	if !r.hosts(namespace) {
		return nil
	}
	before := namespace.DeepCopy()
	for _, mode := range []string{"enforce", "audit", "warn"} {
		metav1.SetMetaDataLabel(&namespace.ObjectMeta, labelPodSecurity+mode, "privileged")
	}
	// The optimistic lock preserves a level that a user sets at the same moment.
	if err := r.client.Patch(ctx, namespace, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("labelling namespace %s for the pods of the network: %w", namespace.Name, err)
	}
	return nil
}
