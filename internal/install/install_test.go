package install

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiscoverNetworks(t *testing.T) {
	all := NetworkFacts{
		KubeadmPodSubnet: "10.1.0.0/16", KubeadmServiceSubnet: "10.2.0.0/16",
		ControllerManagerArgs: []string{"kube-controller-manager", "--cluster-cidr=10.3.0.0/16", "--service-cluster-ip-range", "10.4.0.0/16"},
		NodePodCIDRs:          []string{"10.5.1.0/24", "10.5.2.0/24"},
		ServiceCIDRs:          []string{"10.6.0.0/16", "fd00::/108"},
	}
	for _, test := range []struct {
		name     string
		provider Provider
		pods     []string
		service  string
		facts    NetworkFacts
		want     Networks
	}{
		{"flags win", Generic, []string{"10.8.0.0/16"}, "10.9.0.0/16", all,
			Networks{[]string{"10.8.0.0/16"}, "what was asked for", []string{"10.9.0.0/16"}, "what was asked for"}},
		{"what the cluster declares", Kubeadm, nil, "", all,
			Networks{[]string{"10.1.0.0/16"}, "ConfigMap kubeadm-config", []string{"10.6.0.0/16", "fd00::/108"}, "ServiceCIDR objects"}},
		{"arguments", Kubeadm, nil, "", NetworkFacts{ControllerManagerArgs: all.ControllerManagerArgs},
			Networks{[]string{"10.3.0.0/16"}, "arguments of kube-controller-manager", []string{"10.4.0.0/16"}, "arguments of kube-controller-manager"}},
		{"nodes and the API server", Generic, nil, "",
			NetworkFacts{NodePodCIDRs: all.NodePodCIDRs, ServiceError: `Service "x" is invalid: spec.clusterIPs: failed to allocate IP 192.0.2.1: the provided IP (192.0.2.1) is not in the valid range. The range of valid IPs is 10.96.0.0/12`},
			Networks{[]string{"10.5.0.0/16"}, "spec.podCIDRs of the nodes", []string{"10.96.0.0/12"}, "the API server"}},
		{"k3s tells nothing", K3s, nil, "", NetworkFacts{NodePodCIDRs: []string{"10.42.0.0/24"}},
			Networks{[]string{K3sPodCIDR}, "the default of k3s", []string{K3sServiceCIDR}, "the default of k3s"}},
		{"nothing", Generic, nil, "", NetworkFacts{}, Networks{}},
	} {
		if diff := cmp.Diff(test.want, DiscoverNetworks(test.provider, test.pods, test.service, test.facts)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func TestCovering(t *testing.T) {
	for _, test := range []struct {
		nodes, want []string
	}{
		{nil, nil},
		{[]string{"10.244.3.0/24"}, []string{"10.244.0.0/16"}},
		{[]string{"10.244.3.0/24", "10.245.0.0/24"}, []string{"10.244.0.0/15"}},
		{[]string{"10.0.0.0/12"}, []string{"10.0.0.0/12"}},
		{[]string{"10.244.0.0/24", "fd00:1::/64", "nonsense"}, []string{"10.244.0.0/16", "fd00:1::/48"}},
	} {
		if diff := cmp.Diff(test.want, covering(test.nodes)); diff != "" {
			t.Errorf("%v: %s", test.nodes, diff)
		}
	}
}

func good() (Request, Facts) {
	return Request{Provider: Kubeadm, Namespace: "liqo"}, Facts{
		ServerVersion: "v1.34.2+k3s1", KubeconfigServer: "https://rome.example.org:6443",
		Network: NetworkFacts{KubeadmPodSubnet: "10.244.0.0/16", KubeadmServiceSubnet: "10.96.0.0/12"},
	}
}

func TestPreflight(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Request, *Facts)
		want   []string // a part of each problem
	}{
		{"all is well", func(*Request, *Facts) {}, nil},
		{"old", func(_ *Request, f *Facts) { f.ServerVersion = "v1.29.9" }, []string{"v1.29.9 is older than 1.30: upgrade the cluster"}},
		{"no Kubernetes", func(_ *Request, f *Facts) { f.ServerVersion = "" }, []string{"not understood"}},
		{"may not", func(_ *Request, f *Facts) { f.Denied = []string{"create namespaces"} }, []string{"may not create namespaces: use a user"}},
		{"elsewhere", func(_ *Request, f *Facts) { f.InstalledID, f.InstalledNamespace = "rome", "other" }, []string{"in namespace other already"}},
		{"same again", func(r *Request, f *Facts) { f.InstalledID, f.InstalledNamespace, r.ClusterID = "rome", "liqo", "rome" }, nil},
		{"another ID", func(r *Request, f *Facts) { f.InstalledID, f.InstalledNamespace, r.ClusterID = "rome", "liqo", "milan" },
			[]string{"has the ID rome already, and milan is asked for"}},
		{"bad ID", func(r *Request, _ *Facts) { r.ClusterID = "Rome_1" }, []string{`cluster ID "Rome_1"`}},
		{"own address", func(r *Request, _ *Facts) { r.APIServerURL = "https://127.0.0.1:6443" }, []string{"leads peers to themselves"}},
		{"own address, on purpose", func(r *Request, _ *Facts) { r.APIServerURL, r.SkipAPIServerCheck = "https://127.0.0.1:6443", true }, nil},
		{"plain", func(r *Request, _ *Facts) { r.APIServerURL = "rome:6443" }, []string{"is not an https URL"}},
		{"unknown ranges", func(_ *Request, f *Facts) { f.Network = NetworkFacts{} }, []string{"--pod-cidr", "--service-cidr"}},
		{"overlap", func(r *Request, _ *Facts) { r.ServiceCIDR = "10.244.8.0/24" }, []string{"overlaps 10.244.0.0/16 (ConfigMap kubeadm-config)"}},
		{"host bits", func(r *Request, _ *Facts) { r.PodCIDRs = []string{"10.1.2.3/16"} }, []string{"write 10.1.0.0/16"}},
		{"not a range", func(r *Request, _ *Facts) { r.ReservedSubnets = []string{"10.0.0.0"} }, []string{"value ipam.reservedSubnets, is not a CIDR"}},
		{"six only", func(r *Request, _ *Facts) { r.PodCIDRs = []string{"fd00:10::/56"} }, []string{"IPv6 addresses only (fd00:10::/56, what was asked for)"}},
		{"six and four", func(r *Request, _ *Facts) { r.PodCIDRs = []string{"fd00:10::/56", "10.1.0.0/16"} }, nil},
		{"six only, without a network", func(r *Request, _ *Facts) {
			*r = r.WithValues(map[string]any{"networking": map[string]any{"enabled": false}, "ipam": map[string]any{"podCIDRs": []any{"fd00:10::/56"}}})
		}, nil},
		{"reserved by value", func(r *Request, _ *Facts) {
			*r = r.WithValues(map[string]any{"ipam": map[string]any{"reservedSubnets": []any{"10.0.0.1/8"}}})
		}, []string{"write 10.0.0.0/8"}},
		{"several at once", func(r *Request, f *Facts) { r.ClusterID, f.ServerVersion = "-", "v1.2.3" }, []string{"older", "cluster ID"}},
	} {
		request, facts := good()
		test.change(&request, &facts)
		problems := Preflight(request, facts)
		if len(problems) != len(test.want) {
			t.Errorf("%s: %d problems, want %d: %v", test.name, len(problems), len(test.want), problems)
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(problems[i].String(), want) {
				t.Errorf("%s: problem %q, want %q in it", test.name, problems[i], want)
			}
			if problems[i].Cure == "" {
				t.Errorf("%s: problem %q has no cure", test.name, problems[i])
			}
		}
	}
}

func TestValues(t *testing.T) {
	request, facts := good()
	request.ClusterLabels = map[string]string{"topology.kubernetes.io/region": "europe"}
	request.GlobalLabels = map[string]string{"team": "blue"}
	values, _ := Values(request, facts, 0)
	want := map[string]any{
		"apiServer": map[string]any{"address": "https://rome.example.org:6443"},
		"discovery": map[string]any{"config": map[string]any{
			"clusterID":     "amber-acorn",
			"clusterLabels": map[string]any{"liqo.io/provider": "kubeadm", "topology.kubernetes.io/region": "europe"},
		}},
		"ipam": map[string]any{
			"podCIDRs": []any{"10.244.0.0/16"}, "serviceCIDR": "10.96.0.0/12",
		},
		"common": map[string]any{"globalLabels": map[string]any{"team": "blue"}},
	}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Error(diff)
	}
}

func TestClusterIDPrecedence(t *testing.T) {
	for _, test := range []struct{ asked, installed, want string }{
		{"rome", "", "rome"}, {"", "milan", "milan"}, {"", "", GeneratedClusterID(7)},
	} {
		request, facts := good()
		request.ClusterID, facts.InstalledID = test.asked, test.installed
		values, _ := Values(request, facts, 7)
		got := values["discovery"].(map[string]any)["config"].(map[string]any)["clusterID"]
		if got != test.want {
			t.Errorf("asked %q, installed %q: %v, want %q", test.asked, test.installed, got, test.want)
		}
	}
}

func TestAPIServerAddress(t *testing.T) {
	for _, test := range []struct {
		provider          Provider
		asked, kubeconfig string
		want              any
	}{
		{Generic, "", "https://1.2.3.4:6443", "https://1.2.3.4:6443"},
		{Generic, "https://a:1", "https://1.2.3.4:6443", "https://a:1"},
		{Generic, "", "https://127.0.0.1:6443", nil},
		{Generic, "", "https://localhost:6443", nil},
		{Generic, "", "https://[::1]:6443", nil},
		{Generic, "", "https://0.0.0.0:6443", nil},
		{Kind, "", "https://1.2.3.4:6443", nil},
	} {
		request, facts := good()
		request.Provider, request.APIServerURL, facts.KubeconfigServer = test.provider, test.asked, test.kubeconfig
		values, _ := Values(request, facts, 0)
		server, _ := values["apiServer"].(map[string]any)
		if server["address"] != test.want {
			t.Errorf("%+v: %v", test, server["address"])
		}
	}
}

func TestGeneratedClusterIDs(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(len(adjectives) * len(nouns)) {
		id := GeneratedClusterID(seed)
		if err := ValidateClusterID(id); err != nil {
			t.Fatal(err)
		}
		seen[id] = true
	}
	if len(seen) != len(adjectives)*len(nouns) {
		t.Errorf("%d different names of %d", len(seen), len(adjectives)*len(nouns))
	}
}

// TestMergeIsLayering: later layers win key by key, lists are replaced, and the layers themselves stay as they are.
func TestMergeIsLayering(t *testing.T) {
	below := map[string]any{"a": map[string]any{"x": 1, "y": 2}, "l": []any{1, 2}, "k": "kept"}
	above := map[string]any{"a": map[string]any{"y": 3, "z": 4}, "l": []any{9}, "a2": map[string]any{"n": 1}}
	want := map[string]any{"a": map[string]any{"x": 1, "y": 3, "z": 4}, "l": []any{9}, "k": "kept", "a2": map[string]any{"n": 1}}
	got := Merge(below, above)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{"x": 1, "y": 2}, below["a"]); diff != "" {
		t.Errorf("a layer was changed: %s", diff)
	}
	if diff := cmp.Diff(got, Merge(got, above)); diff != "" {
		t.Errorf("merging twice is not like once: %s", diff)
	}
}

// TestValuesAreAskedFor: an ID or a range given as a value of the chart is checked, and found, as one given by a flag is.
func TestValuesAreAskedFor(t *testing.T) {
	request, facts := good()
	facts.InstalledID, facts.InstalledNamespace, facts.Network = "rome", "liqo", NetworkFacts{}
	given := map[string]any{
		"discovery": map[string]any{"config": map[string]any{"clusterID": "milan"}},
		"ipam":      map[string]any{"podCIDRs": []any{"10.1.0.0/16"}, "serviceCIDR": "10.2.0.0/16"},
	}
	problems := Preflight(request.WithValues(given), facts)
	if len(problems) != 1 || !strings.Contains(problems[0].String(), "has the ID rome already, and milan is asked for") {
		t.Errorf("problems %v", problems)
	}
	if diff := cmp.Diff(request, request.WithValues(nil)); diff != "" {
		t.Errorf("no values change the request: %s", diff)
	}
	if got := request.WithValues(map[string]any{"ipam": map[string]any{"podCIDR": "10.3.0.0/16"}}).PodCIDRs; len(got) != 1 || got[0] != "10.3.0.0/16" {
		t.Errorf("pod CIDRs %v", got)
	}
}
