// Package clusterid finds the installation of Liqo in a cluster, and reads its cluster ID. It depends on no chart, so that clients can use it that install nothing.
package clusterid

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
)

// labelClusterID selects the cluster-ID ConfigMap of an installation.
var labelClusterID = client.MatchingLabels{"app.kubernetes.io/name": "clusterid-configmap"}

// Find returns the ID of this cluster and the namespace of its installation. It prefers the given namespace, and falls back to
// any namespace with an installation. Both results are empty if there is none.
func Find(ctx context.Context, c client.Reader, namespace string) (id, where string, err error) {
	for _, within := range [][]client.ListOption{{client.InNamespace(namespace)}, nil} {
		var list corev1.ConfigMapList
		if err := c.List(ctx, &list, append(within, labelClusterID)...); err != nil {
			if within == nil && apierrors.IsForbidden(err) { // the user may read one namespace only
				return "", "", nil
			}
			return "", "", fmt.Errorf("looking for the cluster-ID ConfigMap in namespace %s: %w", namespace, err)
		}
		for _, found := range list.Items {
			if id := found.Data[api.ClusterIDKey]; id != "" {
				return id, found.Namespace, nil
			}
		}
	}
	return "", "", nil
}
