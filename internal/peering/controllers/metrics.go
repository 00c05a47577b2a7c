package controllers

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/metrics"
	"liqo.io/liqo/internal/peering"
)

// Metrics returns the metrics about peers. They are computed from the objects in c, which should be a cache.
func Metrics(c client.Reader, now func() time.Time, log logr.Logger) prometheus.Collector {
	return metrics.Computed(func(ctx context.Context, emit metrics.Emit) {
		clusters, identities, nodes := &corev1beta1.ForeignClusterList{}, &authv1beta1.IdentityList{}, &corev1.NodeList{}
		for _, list := range []client.ObjectList{clusters, identities, nodes} {
			if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
				log.Error(err, "Failed to compute the metrics about peers")
				return
			}
		}
		for i := range clusters.Items {
			emitCluster(emit, &clusters.Items[i])
		}
		for i := range identities.Items {
			identity := &identities.Items[i]
			if credential, err := peering.CredentialOf(&identity.Spec.AuthParams); err == nil && credential.Expires() {
				metrics.EmitLifetime(emit, credential.From, credential.Until, now(), identity.Spec.ClusterID, "Identity", identity.Namespace, identity.Name)
			}
		}
		for i := range nodes.Items {
			if node := &nodes.Items[i]; node.Labels[api.LabelType] == api.TypeVirtualNode {
				emit(metrics.VirtualNodeReady, metrics.Bool(api.NodeReady(node)), byLabel(node), node.Name)
			}
		}
	})
}

// reachability are the statuses of condition APIServerStatus that say whether the API server responds.
var reachability = []corev1beta1.ConditionStatus{corev1beta1.StatusEstablished, corev1beta1.StatusSomeNotReady, corev1beta1.StatusError}

// emitCluster reports the conditions of a peer.
func emitCluster(emit metrics.Emit, fc *corev1beta1.ForeignCluster) {
	modules := &fc.Status.Modules
	for _, c := range slices.Concat(fc.Status.Conditions, modules.Networking.Conditions, modules.Authentication.Conditions, modules.Offloading.Conditions) {
		emit(metrics.PeerCondition, 1, fc.Spec.ClusterID, string(c.Type), string(c.Status))
		if c.Type == corev1beta1.APIServerStatus && slices.Contains(reachability, c.Status) {
			emit(metrics.PeerAPIServerReachable, metrics.Bool(c.Status != corev1beta1.StatusError), fc.Spec.ClusterID)
		}
	}
}

// registerMetrics registers the metrics about peers, and makes the links record their requests.
func registerMetrics(mgr ctrl.Manager, opts Options, links *links) error {
	if opts.Metrics == nil {
		return nil
	}
	requests := metrics.PeerAPIServerRequests.NewHistogram()
	links.observe = func(clusterID, method string, took time.Duration) {
		requests.WithLabelValues(clusterID, method).Observe(took.Seconds())
	}
	return errors.Join(
		opts.Metrics.Register(requests),
		opts.Metrics.Register(Metrics(mgr.GetClient(), opts.Now, mgr.GetLogger().WithName("metrics"))),
	)
}
