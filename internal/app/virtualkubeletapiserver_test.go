package app

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload/kinds"
	liqotesting "liqo.io/liqo/internal/testing"
)

// TestHowPodsReachTheAPIServer: pods reach the API server of their origin as the flags say, or through the IP object of the address that the virtual kubelet
// uses itself.
func TestHowPodsReachTheAPIServer(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "")
	ip := func(namespace, of, exposed string) *ipamv1alpha1.IP {
		return &ipamv1alpha1.IP{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "api-server", Labels: map[string]string{ipamv1alpha1.LabelIPType: ipamv1alpha1.IPTypeAPIServer}},
			Spec:       ipamv1alpha1.IPSpec{IP: of}, Status: ipamv1alpha1.IPStatus{IP: exposed},
		}
	}
	for name, test := range map[string]struct {
		args    []string
		network bool
		ips     []*ipamv1alpha1.IP
		want    kinds.APIServer
		waiting string
	}{
		"known to peers":            {nil, true, []*ipamv1alpha1.IP{ip("liqo", "10.96.0.1", "10.70.0.3")}, kinds.APIServer{Host: "kubernetes.default", Port: "443", Address: "10.70.0.3"}, ""},
		"somebody else's IP object": {nil, true, []*ipamv1alpha1.IP{ip("shop", "192.0.2.66", "10.70.0.66")}, kinds.APIServer{}, "wait until peers reach it"},
		"without an address yet":    {nil, true, []*ipamv1alpha1.IP{ip("liqo", "10.96.0.1", "")}, kinds.APIServer{}, ""},
		"without a network of ours": {nil, false, []*ipamv1alpha1.IP{ip("liqo", "10.96.0.1", "10.70.0.3")}, kinds.APIServer{}, "-"},
		"by a host":                 {[]string{"--home-api-server-host=api.rome.example", "--home-api-server-port=6443"}, false, nil, kinds.APIServer{Host: "api.rome.example", Port: "6443"}, ""},
		"turned off":                {[]string{"--enable-apiserver-support=false"}, true, nil, kinds.APIServer{}, "-"},
		"no workers":                {[]string{"--serviceaccount-reflection-workers=0", "--home-api-server-host=x"}, true, nil, kinds.APIServer{}, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parseVirtualKubelet(append([]string{"--virtual-node=vn", "--tenant-namespace=ns", "--cluster-id=rome", "--foreign-cluster-id=milan", "--remote-kubeconfig=f", "--node-ip=10.0.0.1"}, test.args...))
			if err != nil {
				t.Fatal(err)
			}
			b := fake.NewClientBuilder().WithScheme(kube.NewScheme())
			for _, object := range test.ips {
				b = b.WithObjects(object)
			}
			h := newOriginServer(o, func() bool { return test.network }, func() {})
			go func() { _ = h.run(t.Context(), listing{WithWatch: b.Build()}) }()
			liqotesting.Eventually(t, 10*time.Second, "the IP objects", func() error {
				if !h.ips.Synced() {
					return &waiting{"for its list"}
				}
				return nil
			})
			got := h.apiServer()
			switch {
			case test.waiting == "-" && got != (kinds.APIServer{}), test.want.Host != "" && got != test.want:
				t.Errorf("%+v, want %+v", got, test.want)
			case test.want.Host == "" && test.waiting != "-" && (got.Host != "" || got.Waiting == "" || !strings.Contains(got.Waiting, test.waiting)):
				t.Errorf("%+v, want to wait", got)
			}
		})
	}
}
