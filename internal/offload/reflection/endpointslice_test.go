package reflection

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// TestEndpointsOfNodesAreReported: a pod in the network of its node has an address that peers can't reach until the user exposes it.
func TestEndpointsOfNodesAreReported(t *testing.T) {
	o := EndpointSliceOptions{Translate: true, OfNode: func(address string) bool { return address == "192.0.2.10" }}
	o.Origin, o.Destination = "rome", "milan"
	kind := EndpointSlices(1, func() EndpointSliceOptions { return o })
	local := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "onhost-1", Labels: map[string]string{discoveryv1.LabelServiceName: "onhost"}}, AddressType: discoveryv1.AddressTypeIPv4,
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "onhost"}}
	exposed := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "onhost"}, Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.10"}, Status: ipamv1alpha1.IPStatus{IP: "10.70.0.4"}}
	for name, c := range map[string]struct {
		address string
		ips     []client.Object
		action  offload.Action
		says    string
	}{
		"of a node":                  {"192.0.2.10", nil, offload.Nothing, "create one with spec.ip 192.0.2.10"},
		"of a node, exposed":         {"192.0.2.10", []client.Object{exposed}, offload.CreateRemote, ""},
		"of a pod at another peer's": {"10.75.0.9", nil, offload.Nothing, ""}, // its IP object is created automatically
	} {
		local.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{c.address}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "p"}}}
		services := newStore(kind.Dependencies[0].Resource, func(types.NamespacedName, client.Object, client.Object) {}, func() {})
		ips := newStore(kind.Dependencies[1].Resource, func(types.NamespacedName, client.Object, client.Object) {}, func() {})
		list(t, services, service)
		list(t, ips, c.ips...)
		step := kind.Next(Facts{
			Local: local, Remote: []client.Object{nil}, Mapping: offload.Mapping{State: offload.Mapped, Namespace: "shop-rome"}, RemoteSynced: true,
			Dependencies: []DependencyObjects{{services, "shop"}, {ips, "shop"}},
		})
		if step.Action != c.action || (step.Warning == "") != (c.says == "") || !strings.Contains(step.Warning, c.says) {
			t.Errorf("%s: %s, %q", name, step.Action, step.Warning)
		}
	}
}

// TestEndpointsFollowTheirService: the slices of a Service reach the clusters that the Service reaches, and no others.
func TestEndpointsFollowTheirService(t *testing.T) {
	o := EndpointSliceOptions{}
	o.Origin, o.Destination = "rome", "milan"
	kind := EndpointSlices(1, func() EndpointSliceOptions { return o })
	for name, c := range map[string]struct {
		annotations map[string]string
		action      offload.Action
	}{
		"reflected to all":   {nil, offload.CreateRemote},
		"to this cluster":    {map[string]string{api.AnnotationReflectTo: "naples,milan"}, offload.CreateRemote},
		"to another cluster": {map[string]string{api.AnnotationReflectTo: "naples"}, offload.Nothing},
		"reflected to none":  {map[string]string{kinds.AnnotationSkip: ""}, offload.Nothing},
	} {
		services := newStore(kind.Dependencies[0].Resource, func(types.NamespacedName, client.Object, client.Object) {}, func() {})
		ips := newStore(kind.Dependencies[1].Resource, func(types.NamespacedName, client.Object, client.Object) {}, func() {})
		list(t, services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: c.annotations}})
		list(t, ips)
		step := kind.Next(Facts{
			Local: &discoveryv1.EndpointSlice{
				ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
				AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
			},
			Remote: []client.Object{nil}, Mapping: offload.Mapping{State: offload.Mapped, Namespace: "shop-rome"}, RemoteSynced: true,
			Dependencies: []DependencyObjects{{services, "shop"}, {ips, "shop"}},
		})
		if step.Action != c.action {
			t.Errorf("%s: %s, %s", name, step.Action, step.Why)
		}
	}
}
