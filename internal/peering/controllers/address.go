package controllers

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/peering"
)

// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list
// +kubebuilder:rbac:groups=core,resources=configmaps,verbs=get,resourceNames=kube-root-ca.crt

// rootCA is the ConfigMap in which Kubernetes publishes the CA of the API server, in every namespace. rootCAKey is its key.
const (
	rootCA    = "kube-root-ca.crt"
	rootCAKey = "ca.crt"
)

// address provides the URL and the CA with which consumers reach this cluster's API server.
type address struct {
	reader    client.Reader
	namespace string
	given     APIServer
}

// params returns the AuthParams with a credential.
func (a *address) params(ctx context.Context, credential *authv1beta1.AuthParams, proxy *string) (*authv1beta1.AuthParams, error) {
	params := &authv1beta1.AuthParams{APIServer: a.given.Address, CA: a.given.CA, ProxyURL: proxy}
	peering.Adopt(params, credential)
	var err error
	if params.APIServer == "" {
		if params.APIServer, err = a.published(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case a.given.TrustedCA:
		params.CA = nil
	case len(params.CA) == 0:
		if params.CA, err = a.ca(ctx); err != nil {
			return nil, err
		}
	}
	return params, nil
}

// published returns the URL that the API servers publish in the EndpointSlices of Service default/kubernetes.
func (a *address) published(ctx context.Context) (string, error) {
	slices := &discoveryv1.EndpointSliceList{}
	err := a.reader.List(ctx, slices, client.InNamespace("default"), client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"})
	if err != nil {
		return "", fmt.Errorf("reading the EndpointSlices of Service default/kubernetes: %w", err)
	}
	if url := peering.PublishedAddress(slices.Items); url != "" {
		return url, nil
	}
	return "", errors.New("no endpoint of Service default/kubernetes is ready: set --api-server-address")
}

func (a *address) ca(ctx context.Context) ([]byte, error) {
	configMap := &corev1.ConfigMap{}
	if err := a.reader.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: rootCA}, configMap); err != nil {
		return nil, fmt.Errorf("reading the API server's CA: %w", err)
	}
	if configMap.Data[rootCAKey] == "" {
		return nil, fmt.Errorf("reading the API server's CA: ConfigMap %s/%s has no key %s", a.namespace, rootCA, rootCAKey)
	}
	return []byte(configMap.Data[rootCAKey]), nil
}
