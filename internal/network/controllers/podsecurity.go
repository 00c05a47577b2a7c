package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/kube"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;patch

// podSecurity lets the agents of the network into the namespaces where they run, whatever level of Pod Security the cluster has by default: those on
// the nodes use the network of their node, and gateways set up their own and open /dev/net/tun. Nothing else of ours needs more than level "restricted".
// A namespace that has a level already keeps it.
type podSecurity struct {
	Options
	client client.Client
}

// labelPodSecurity begins the labels that tell which pods a namespace takes; see https://kubernetes.io/docs/concepts/security/pod-security-admission.
const labelPodSecurity = "pod-security.kubernetes.io/"

func (r *podSecurity) setup(mgr ctrl.Manager) error {
	reconciler := &kube.Reconciler[*corev1.Namespace]{Name: "pod security", Client: r.client, Sync: r.sync}
	return kube.NewController(mgr, "pod-security").
		For(&corev1.Namespace{}, builder.WithPredicates(predicate.NewPredicateFuncs(r.hosts))).
		Complete(reconciler)
}

// hosts tells whether agents of the network run in a namespace, and nobody has said which pods it takes.
func (r *podSecurity) hosts(namespace client.Object) bool {
	labels := namespace.GetLabels()
	return labels[labelPodSecurity+"enforce"] == "" && (namespace.GetName() == r.LiqoNamespace || labels[api.LabelTenantNamespace] == api.True)
}

func (r *podSecurity) sync(ctx context.Context, namespace *corev1.Namespace) error {
	if !r.hosts(namespace) {
		return nil
	}
	before := namespace.DeepCopy()
	if namespace.Labels == nil {
		namespace.Labels = map[string]string{}
	}
	for _, mode := range []string{"enforce", "audit", "warn"} {
		namespace.Labels[labelPodSecurity+mode] = "privileged"
	}
	// The lock keeps a level that somebody chooses at this moment.
	if err := r.client.Patch(ctx, namespace, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("labelling namespace %s for the pods of the network: %w", namespace.Name, err)
	}
	return nil
}
