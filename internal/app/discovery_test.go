package app

import (
	"context"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/internal/peering/invite"
)

// discoveryFlags parses flags and returns the resulting options.
func discoveryFlags(args ...string) (*ControllerManagerOptions, *DiscoveryOptions, error) {
	flags := flag.NewFlagSet("controller-manager", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	manager, discovery := &ControllerManagerOptions{}, &DiscoveryOptions{}
	manager.AddFlags(flags)
	discovery.AddFlags(flags)
	return manager, discovery, flags.Parse(args)
}

// TestWhoIsJoined: by default this cluster joins no discovered cluster. With patterns it joins the clusters that match.
func TestWhoIsJoined(t *testing.T) {
	for _, row := range []struct {
		flag, cluster string
		want          bool
	}{
		{"", "milan", false}, {"--auto-join=", "milan", false}, {"--auto-join=*", "milan", true}, {"--auto-join=lab-*,milan", "milan", true},
		{"--auto-join=lab-*,milan", "lab-7", true}, {"--auto-join=lab-*", "milan", false},
	} {
		manager, _, err := discoveryFlags(strings.Fields(row.flag)...)
		if err != nil {
			t.Fatal(err)
		}
		if got := manager.joins(row.cluster); got != row.want {
			t.Errorf("%s: %s is joined: %t", row.flag, row.cluster, got)
		}
	}
	if _, _, err := discoveryFlags("--auto-join=[a"); err == nil {
		t.Error("a pattern that is none")
	}
}

// TestDiscoveryOptionsAreChecked: each problem names its flag.
func TestDiscoveryOptionsAreChecked(t *testing.T) {
	_, good, err := discoveryFlags("--discovery", "--discovery-domains=clusters.example.org, lab.example.org", "--discovery-ttl=60s")
	if err != nil || good.Validate() != nil || !good.Enabled {
		t.Errorf("%+v: %v, %v", good, err, good.Validate())
	}
	if diff := cmp.Diff([]string{"clusters.example.org", "lab.example.org"}, good.Domains); diff != "" {
		t.Errorf("domains (-want +got):\n%s", diff)
	}
	_, bad, err := discoveryFlags("--discovery", "--discovery-ttl=1s")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"--discovery-browse", "--discovery-ttl"} {
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
	if _, _, err := discoveryFlags("--discovery-domains=https://example.org"); err == nil {
		t.Error("a domain that is none")
	}
}

// TestAnnouncedURL: the announced URL is the one that generate peer-command prints. A service without TLS is not announced, and nodes are listed only
// for a node port.
func TestAnnouncedURL(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: invite.Service}, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Port: 443, NodePort: 30443}},
	}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.7.1"}},
	}}
	balanced := service.DeepCopy()
	balanced.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.7"}}
	annotated := service.DeepCopy()
	annotated.Annotations = map[string]string{invite.AnnotationAddress: "203.0.113.8"}
	plain := balanced.DeepCopy()
	plain.Spec.Ports[0].Name = invite.PlainPort
	proxied := plain.DeepCopy()
	proxied.Annotations = annotated.Annotations
	for name, row := range map[string]struct {
		service     *corev1.Service
		url, refuse string
		lists       int
	}{
		"node port":        {service: service, url: "https://192.168.7.1:30443", lists: 1},
		"load balancer":    {service: balanced, url: "https://203.0.113.7"},
		"annotation":       {service: annotated, url: "https://203.0.113.8"},
		"without TLS":      {service: plain, refuse: "serves no TLS"},
		"behind a proxy":   {service: proxied, url: "https://203.0.113.8"},
		"no such Service":  {service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "other"}}, refuse: "liqo/liqo-auth"},
		"no port, no node": {service: &corev1.Service{ObjectMeta: service.ObjectMeta}, refuse: "has no port", lists: 1},
	} {
		t.Run(name, func(t *testing.T) {
			lists := 0
			c := fake.NewClientBuilder().WithObjects(row.service, node).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					lists++
					return c.List(ctx, list, opts...)
				},
			}).Build()
			got, err := authenticationURL(t.Context(), c, "liqo")
			if got != row.url || (err != nil) != (row.refuse != "") || err != nil && !strings.Contains(err.Error(), row.refuse) {
				t.Errorf("%q, %v; want %q, %q", got, err, row.url, row.refuse)
			}
			if lists != row.lists {
				t.Errorf("the nodes were listed %d times, want %d", lists, row.lists)
			}
		})
	}
}
