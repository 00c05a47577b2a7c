package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
)

// +kubebuilder:rbac:groups="",namespace=liqo,resources=configmaps,resourceNames=liqo-clusterid-configmap,verbs=get;patch

// uidDigits is how much of a UID makes an ID: one of four billion clusters.
const uidDigits = 8

// ClusterID returns the ID of this cluster, for installations that were given none: the one written down in the namespace of the installation, else
// one that follows from the UID of kube-system, which stays as long as the cluster does. It is written down then, in the ConfigMap that belongs to the
// installation.
func ClusterID(ctx context.Context, c client.Client, namespace string) (string, error) {
	var known corev1.ConfigMap
	key := client.ObjectKey{Namespace: namespace, Name: api.ClusterIDConfigMap}
	if err := c.Get(ctx, key, &known); err != nil {
		return "", fmt.Errorf("reading ConfigMap %s, which the installation makes, for the ID of this cluster: %w", key, err)
	}
	if id := known.Data[api.ClusterIDKey]; id != "" {
		return id, nil
	}
	var system corev1.Namespace
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return "", fmt.Errorf("reading namespace %s, whose UID becomes the ID of this cluster: %w", metav1.NamespaceSystem, err)
	}
	id := "cluster-" + string(system.UID)[:min(uidDigits, len(system.UID))]
	wanted := corev1apply.ConfigMap(key.Name, key.Namespace).WithUID(known.UID).WithData(map[string]string{api.ClusterIDKey: id})
	if err := c.Apply(ctx, wanted, client.FieldOwner("liqo-cluster-id")); err != nil {
		return "", fmt.Errorf("writing the ID of this cluster, %s, into ConfigMap %s: %w", id, key, err)
	}
	return id, nil
}
