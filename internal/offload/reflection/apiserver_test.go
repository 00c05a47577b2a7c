package reflection

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/test/apitest"
)

// listsFirst is a client whose watches don't start with a list, since the fake client does not support that.
type listsFirst struct{ client.WithWatch }

func (listsFirst) IsWatchListSemanticsUnSupported() bool { return true }

// TestHowPodsReachTheAPIServer: pods reach the API server of their origin cluster at the address in the flags. Without flags they use the IP object for the
// address that the virtual kubelet itself uses.
func TestHowPodsReachTheAPIServer(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "")
	ip := func(namespace, of, exposed string) *ipamv1alpha1.IP {
		return &ipamv1alpha1.IP{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "api-server", Labels: map[string]string{ipamv1alpha1.LabelIPType: ipamv1alpha1.IPTypeAPIServer}},
			Spec:       ipamv1alpha1.IPSpec{IP: of}, Status: ipamv1alpha1.IPStatus{IP: exposed},
		}
	}
	on := OriginServerOptions{On: true}
	for name, test := range map[string]struct {
		opts    OriginServerOptions
		network bool
		ips     []*ipamv1alpha1.IP
		want    podrules.APIServer
		waiting string
	}{
		"known to peers":            {on, true, []*ipamv1alpha1.IP{ip("liqo", "10.96.0.1", "10.70.0.3")}, podrules.APIServer{Host: "kubernetes.default", Port: "443", Address: "10.70.0.3"}, ""},
		"somebody else's IP object": {on, true, []*ipamv1alpha1.IP{ip("shop", "192.0.2.66", "10.70.0.66")}, podrules.APIServer{}, "wait until peers reach it"},
		"without an address yet":    {on, true, []*ipamv1alpha1.IP{ip("liqo", "10.96.0.1", "")}, podrules.APIServer{}, ""},
		"without a network of ours": {on, false, []*ipamv1alpha1.IP{ip("liqo", "10.96.0.1", "10.70.0.3")}, podrules.APIServer{}, "-"},
		"by a host":                 {OriginServerOptions{On: true, Host: "api.rome.example", Port: "6443"}, false, nil, podrules.APIServer{Host: "api.rome.example", Port: "6443"}, ""},
		"turned off":                {OriginServerOptions{}, true, nil, podrules.APIServer{}, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			b := fake.NewClientBuilder().WithScheme(kube.NewScheme())
			for _, object := range test.ips {
				b = b.WithObjects(object)
			}
			test.opts.Network, test.opts.Changed = func() bool { return test.network }, func() {}
			h := NewOriginServer(test.opts)
			go func() { _ = h.Run(t.Context(), listsFirst{WithWatch: b.Build()}) }()
			apitest.Eventually(t, 10*time.Second, "the IP objects", func() error {
				if !h.ips.Synced() {
					return errors.New("they were not listed")
				}
				return nil
			})
			got := h.APIServer()
			switch {
			case test.waiting == "-" && got != (podrules.APIServer{}), test.want.Host != "" && got != test.want:
				t.Errorf("%+v, want %+v", got, test.want)
			case test.want.Host == "" && test.waiting != "-" && (got.Host != "" || got.Waiting == "" || !strings.Contains(got.Waiting, test.waiting)):
				t.Errorf("%+v, want to wait", got)
			}
		})
	}
}
