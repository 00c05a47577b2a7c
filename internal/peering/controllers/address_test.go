package controllers

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestPublishedAddressIsStable: the order in which several API servers are listed does not change Identities.
func TestPublishedAddressIsStable(t *testing.T) {
	ready, port := true, int32(6443)
	notReady := false
	endpoint := func(address string, ready *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}
	}
	a, b, c := endpoint("192.0.2.1", &notReady), endpoint("192.0.2.2", &ready), endpoint("192.0.2.3", nil)
	for _, endpoints := range [][]discoveryv1.Endpoint{{a, b, c}, {c, b, a}, {b, a, c}} {
		reader := fake.NewClientBuilder().WithObjects(&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
			Endpoints:  endpoints, Ports: []discoveryv1.EndpointPort{{Port: &port}},
		}).Build()
		if got, err := (&address{reader: reader}).published(t.Context()); err != nil || got != "https://192.0.2.2:6443" {
			t.Errorf("%v: %q, %v", endpoints, got, err)
		}
	}
	if got, err := (&address{reader: fake.NewClientBuilder().Build()}).published(t.Context()); err == nil {
		t.Errorf("an address without an endpoint: %q", got)
	}
}
