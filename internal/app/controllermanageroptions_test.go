package app

import (
	"flag"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/sharing"
	"liqo.io/liqo/internal/remote"
)

func parse(args ...string) (*ControllerManagerOptions, error) {
	opts := &ControllerManagerOptions{}
	flags := flag.NewFlagSet("controller-manager", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	opts.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return opts, opts.Validate()
}

func TestControllerManagerOptions(t *testing.T) {
	opts, err := parse("--cluster-id=rome")
	if err != nil {
		t.Fatal(err)
	}
	want := &ControllerManagerOptions{
		ClusterID: "rome", LiqoNamespace: "liqo", Sharing: sharing.Policy{Percentage: 90, Threshold: 5, SliceLimit: 32},
		DefaultLimitsEnforcement: offloadingv1beta1.EnforcementNone, RuntimeClass: "liqo", EnforceResources: true, DefaultClassEnabled: true,
		EnableAuthentication: true, EnableNetworking: true, EnableOffloading: true, EnableStorage: true, StorageNamespace: "liqo-storage",
		Replicas: 1, WebhookPort: 9443, AuthAddress: ":5000",
		WatchGatewayTemplates: true, ConnectionUpdateInterval: 10 * time.Second, Exposure: network.ExposureRules{Timeout: 2 * time.Minute}, ChosenNamespaces: []string{"*"},
		WebhookService: "liqo-controller-manager-webhook", HealthAddress: ":8081", Identity: IdentityCertificate, TokenLifetime: 7 * 24 * time.Hour,
		PeerCheck: remote.HealthOptionsOf(nil),
	}
	if diff := cmp.Diff(want, opts); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if opts.algorithm() != peering.Ed25519 {
		t.Errorf("algorithm %v", opts.algorithm())
	}

	opts, err = parse("--cluster-id=rome", "--cluster-labels=region=eu,zone=", "--default-node-resources=cpu=1,nvidia.com/gpu=2",
		"--default-limits-enforcement=hard", "--tls-compatibility-mode", "--api-server-ca=Q0E=", "--api-server-address=https://rome:6443",
		"--own-cidrs=10.1.0.0/16, fd00::/48,", "--protected-namespaces=vault, *-secrets,", "--chosen-namespaces=")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"region": "eu", "zone": ""}, opts.ClusterLabels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	resources := corev1.ResourceList{"cpu": resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("2")}
	if diff := cmp.Diff(resources, opts.Sharing.Defaults); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if want := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/48")}; !slices.Equal(opts.OwnCIDRs, want) {
		t.Errorf("own ranges %v, want %v", opts.OwnCIDRs, want)
	}
	if want := []string{"vault", "*-secrets"}; !slices.Equal(opts.ProtectedNamespaces, want) {
		t.Errorf("protected namespaces %q, want %q", opts.ProtectedNamespaces, want)
	}
	if len(opts.ChosenNamespaces) != 0 {
		t.Errorf("consumers may choose %q, want no name", opts.ChosenNamespaces)
	}
	if opts.DefaultLimitsEnforcement != offloadingv1beta1.EnforcementHard || opts.algorithm() != peering.RSA2048 || string(opts.APIServerCA) != "CA" {
		t.Errorf("got %+v", opts)
	}
}

// TestControllerManagerOptionsRefuse: each error names the flag, and no field of an API object, which the administrator did not type.
func TestControllerManagerOptionsRefuse(t *testing.T) {
	for name, args := range map[string][]string{
		"no cluster":           {},
		"no storage namespace": {"--cluster-id=rome", "--storage-namespace="},
		"no namespace":         {"--cluster-id=a", "--liqo-namespace="},
		"no TLS":               {"--cluster-id=a", "--api-server-address=http://a"},
		"no pair":              {"--cluster-id=a", "--cluster-labels=region"},
		"no quantity":          {"--cluster-id=a", "--default-node-resources=cpu=many"},
		"less than nothing":    {"--cluster-id=a", "--autoscaled-resources=cpu=-1"},
		"a negative share":     {"--cluster-id=a", "--resource-sharing-percentage=-1"},
		"a huge threshold":     {"--cluster-id=a", "--offer-update-threshold-percentage=101"},
		"unknown enforcement":  {"--cluster-id=a", "--default-limits-enforcement=Harder"},
		"no range":             {"--cluster-id=a", "--own-cidrs=10.0.0.1"},
		"unknown identity":     {"--cluster-id=a", "--identity=password"},
		"no lifetime":          {"--cluster-id=a", "--identity=token", "--token-lifetime=0s"},
		"no time to answer":    {"--cluster-id=a", "--peer-check-timeout=1ms"},
		"a tiny tunnel":        {"--cluster-id=a", "--tunnel-mtu=100"},
		"a local node port":    {"--cluster-id=a", "--node-port-addresses=10.99.0.11,127.0.0.1"},
		"CA that is no base64": {"--cluster-id=a", "--api-server-ca=-"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(args...)
			if err == nil {
				t.Fatal("accepted")
			}
			flag := "cluster-id"
			if len(args) > 0 {
				flag, _, _ = strings.Cut(strings.TrimPrefix(args[len(args)-1], "--"), "=")
			}
			if !strings.Contains(err.Error(), "-"+flag) || strings.Contains(err.Error(), "spec.") {
				t.Errorf("%q does not name --%s alone", err, flag)
			}
		})
	}
}

// TestCachedNodesKeepTheirReadiness: a Node in the cache keeps its readiness and loses its heartbeat, which changes often and is not used.
func TestCachedNodesKeepTheirReadiness(t *testing.T) {
	for object, restriction := range controllerManagerCache().ByObject {
		if _, ok := object.(*corev1.Node); !ok {
			continue
		}
		out, err := restriction.Transform(&corev1.Node{Status: corev1.NodeStatus{
			Images: []corev1.ContainerImage{{}},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue},
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		want := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
		if diff := cmp.Diff(want, out.(*corev1.Node).Status); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		return
	}
	t.Error("Nodes are cached without restriction")
}
