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
			Networks{[]string{"10.8.0.0/16"}, "the request", []string{"10.9.0.0/16"}, "the request"}},
		{"what the cluster declares", Kubeadm, nil, "", all,
			Networks{[]string{"10.1.0.0/16"}, "ConfigMap kubeadm-config", []string{"10.6.0.0/16", "fd00::/108"}, "ServiceCIDR objects"}},
		{"arguments", Kubeadm, nil, "", NetworkFacts{ControllerManagerArgs: all.ControllerManagerArgs},
			Networks{[]string{"10.3.0.0/16"}, "arguments of kube-controller-manager", []string{"10.4.0.0/16"}, "arguments of kube-controller-manager"}},
		{"nodes and the API server", Generic, nil, "",
			NetworkFacts{NodePodCIDRs: all.NodePodCIDRs, ServiceError: `Service "x" is invalid: spec.clusterIPs: failed to allocate IP 192.0.2.1: the provided IP (192.0.2.1) is not in the valid range. The range of valid IPs is 10.96.0.0/12`},
			Networks{[]string{"10.5.0.0/16"}, "a guess around spec.podCIDRs of the nodes", []string{"10.96.0.0/12"}, "the API server"}},
		{"k3s tells nothing", K3s, nil, "", NetworkFacts{NodePodCIDRs: []string{"10.42.0.0/24"}},
			Networks{[]string{K3sPodCIDR}, "the default of k3s", []string{K3sServiceCIDR}, "the default of k3s"}},
		{"k3s, told otherwise", K3s, nil, "", NetworkFacts{K3sArgs: []string{"server", "--cluster-cidr", "10.52.0.0/16", "--service-cidr=10.53.0.0/16"}},
			Networks{[]string{"10.52.0.0/16"}, "arguments of the k3s server", []string{"10.53.0.0/16"}, "arguments of the k3s server"}},
		{"openshift", OpenShift, nil, "", NetworkFacts{OpenShiftPods: []string{"10.128.0.0/14"}, OpenShiftServices: []string{"172.30.0.0/16"}, NodePodCIDRs: []string{"10.5.1.0/24"}},
			Networks{[]string{"10.128.0.0/14"}, "Network cluster of OpenShift", []string{"172.30.0.0/16"}, "Network cluster of OpenShift"}},
		{"Calico gives out addresses of its own", Kubeadm, nil, "",
			NetworkFacts{CalicoPools: []string{"192.168.0.0/16"}, KubeadmPodSubnet: "10.1.0.0/16", KubeadmServiceSubnet: "10.2.0.0/16"},
			Networks{[]string{"192.168.0.0/16"}, "IPPools of Calico", []string{"10.2.0.0/16"}, "ConfigMap kubeadm-config"}},
		{"so does Cilium", Kubeadm, nil, "", NetworkFacts{CiliumPool: "10.0.0.0/8 10.64.0.0/16", KubeadmPodSubnet: "10.1.0.0/16", KubeadmServiceSubnet: "10.2.0.0/16"},
			Networks{[]string{"10.0.0.0/8", "10.64.0.0/16"}, "ConfigMap cilium-config", []string{"10.2.0.0/16"}, "ConfigMap kubeadm-config"}},
		{"nothing", Generic, nil, "", NetworkFacts{}, Networks{}},
	} {
		request := Request{Provider: test.provider, PodCIDRs: test.pods, ServiceCIDR: test.service}
		if diff := cmp.Diff(test.want, DiscoverNetworks(request, Facts{Network: test.facts})); diff != "" {
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
		Nodes:   []Node{{Name: "rome-1", Kernel: "6.1.0-13-amd64", OS: "linux", Arch: "amd64"}},
	}
}

// ports are the default ports of the chart. The numbers are floats, as in parsed YAML.
var ports = map[string]any{"networking": map[string]any{
	"genevePort": float64(6091),
	"fabric":     map[string]any{"config": map[string]any{"healthProbeBindAddressPort": int64(8081), "metricsAddressPort": 8082}},
}}

func TestPreflight(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Request, *Facts)
		want   []string // a part of each problem
	}{
		{"all is well", func(*Request, *Facts) {}, nil},
		{"old", func(_ *Request, f *Facts) { f.ServerVersion = "v1.29.9" }, []string{"v1.29.9 is older than 1.30: upgrade the cluster"}},
		{"no Kubernetes", func(_ *Request, f *Facts) { f.ServerVersion = "" }, []string{"not a valid version"}},
		{"may not", func(_ *Request, f *Facts) { f.Denied = []string{"create namespaces"} }, []string{"may not create namespaces: use a user"}},
		{"elsewhere", func(_ *Request, f *Facts) { f.InstalledID, f.InstalledNamespace = "rome", "other" }, []string{"in namespace other already"}},
		{"same again", func(r *Request, f *Facts) { f.InstalledID, f.InstalledNamespace, r.ClusterID = "rome", "liqo", "rome" }, nil},
		{"another ID", func(r *Request, f *Facts) { f.InstalledID, f.InstalledNamespace, r.ClusterID = "rome", "liqo", "milan" },
			[]string{"has the ID rome already, and milan is requested"}},
		{"bad ID", func(r *Request, _ *Facts) { r.ClusterID = "Rome_1" }, []string{`cluster ID "Rome_1"`}},
		{"own address", func(r *Request, _ *Facts) { r.APIServerURL = "https://127.0.0.1:6443" }, []string{"leads peers to themselves"}},
		{"own address, on purpose", func(r *Request, _ *Facts) { r.APIServerURL, r.SkipAPIServerCheck = "https://127.0.0.1:6443", true }, nil},
		{"plain", func(r *Request, _ *Facts) { r.APIServerURL = "rome:6443" }, []string{"is not an https URL"}},
		{"unknown ranges", func(_ *Request, f *Facts) { f.Network = NetworkFacts{} }, []string{"--pod-cidr", "--service-cidr"}},
		{"overlap", func(r *Request, _ *Facts) { r.ServiceCIDR = "10.244.8.0/24" }, []string{"overlaps 10.244.0.0/16 (ConfigMap kubeadm-config)"}},
		{"host bits", func(r *Request, _ *Facts) { r.PodCIDRs = []string{"10.1.2.3/16"} }, []string{"write 10.1.0.0/16"}},
		{"not a range", func(r *Request, _ *Facts) { r.ReservedSubnets = []string{"10.0.0.0"} }, []string{"value ipam.reservedSubnets, is not a CIDR"}},
		{"six only", func(r *Request, _ *Facts) { r.PodCIDRs = []string{"fd00:10::/56"} }, []string{"IPv6 addresses only (fd00:10::/56, the request)"}},
		{"six and four", func(r *Request, _ *Facts) { r.PodCIDRs = []string{"fd00:10::/56", "10.1.0.0/16"} }, nil},
		{"six only, without a network", func(r *Request, _ *Facts) {
			*r = r.WithValues(map[string]any{"ipam": map[string]any{"podCIDRs": []any{"fd00:10::/56"}}}).WithAgents(map[string]any{"networking": map[string]any{"enabled": false}})
		}, nil},
		{"reserved by value", func(r *Request, _ *Facts) {
			*r = r.WithValues(map[string]any{"ipam": map[string]any{"reservedSubnets": []any{"10.0.0.1/8"}}})
		}, []string{"write 10.0.0.0/8"}},
		{"wrong service CIDR", func(_ *Request, f *Facts) { f.Network.ServiceAddress = "10.43.0.1" },
			[]string{"Service kubernetes has the address 10.43.0.1, which is not in the service CIDR 10.96.0.0/12 (ConfigMap kubeadm-config): give the right one with --service-cidr"}},
		{"wrong pod CIDR", func(_ *Request, f *Facts) {
			f.Network.PodAddresses = []PodAddress{{"default/a", "10.244.1.1"}, {"default/b", "192.168.3.4"}}
		},
			[]string{"pod default/b has the address 192.168.3.4, which is not in the pod CIDR 10.244.0.0/16 (ConfigMap kubeadm-config): give all ranges of the pods with --pod-cidr"}},
		{"the other family is not asked for", func(_ *Request, f *Facts) { f.Network.PodAddresses = []PodAddress{{"default/a", "fd00::1"}} }, nil},
		{"Pod Security", func(_ *Request, f *Facts) { f.PodSecurity = "restricted" },
			[]string{"namespace liqo enforces the Pod Security level restricted, which does not admit the agents of the network: kubectl label --overwrite namespace liqo"}},
		{"Pod Security, without a network", func(r *Request, f *Facts) { f.PodSecurity, r.NoNetwork = "baseline", true }, nil},
		{"going back", func(r *Request, f *Facts) { f.InstalledVersion, r.Version = "v1.3.0", "v1.2.9" },
			[]string{"version v1.3.0 is installed, and v1.2.9 is older: use the liqoctl of that version"}},
		{"going on", func(r *Request, f *Facts) { f.InstalledVersion, r.Version = "v1.2.0", "v1.3.0-rc.1" }, nil},
		{"who knows", func(r *Request, f *Facts) { f.InstalledVersion, r.Version = "main", "v1.3.0" }, nil},
		{"no node", func(_ *Request, f *Facts) { f.Nodes = nil }, []string{"none of the 0 nodes runs Linux on amd64 or arm64: add one"}},
		{"nodes of other kinds", func(_ *Request, f *Facts) {
			f.Nodes = []Node{{OS: "windows", Arch: "amd64"}, {OS: "linux", Arch: "s390x"}}
		},
			[]string{"none of the 2 nodes runs Linux"}},
		{"nodes that can't be read", func(_ *Request, f *Facts) { f.Nodes, f.NodesUnknown = nil, true }, nil},
		{"old kernels", func(_ *Request, f *Facts) {
			f.Nodes = append(f.Nodes, Node{Name: "b", Kernel: "4.18.0-553.el8.x86_64", OS: "linux"}, Node{Name: "c", Kernel: "4.18.0-553.el8.x86_64"},
				Node{Name: "d", Kernel: "5.4.0-150-generic"}, Node{Name: "e", Kernel: "5.10.0"}, Node{Name: "f", Kernel: "5.4-rc1"}, Node{Name: "g", Kernel: "odd"})
		}, []string{"kernel 4.18.0-553.el8.x86_64 of node b, c is older than 5.10: upgrade it, or install despite this with --disable-kernel-version-check",
			"kernel 5.4.0-150-generic of node d", "kernel 5.4-rc1 of node f"}},
		{"old kernels, on purpose", func(r *Request, f *Facts) { f.Nodes[0].Kernel, r.SkipKernelCheck = "4.18.0", true }, nil},
		{"old kernels, without a network", func(r *Request, f *Facts) { f.Nodes[0].Kernel, r.NoNetwork = "4.18.0", true }, nil},
		{"ports", func(r *Request, f *Facts) {
			*r = r.WithAgents(ports)
			f.Ports = []Port{{6091, "UDP", "kube-system/cni-a"}, {6091, "UDP", "kube-system/cni-b"}, {6091, "UDP", "kube-system/cni-c"}, {6091, "UDP", "kube-system/cni-d"},
				{6091, "UDP", "kube-system/cni-e"}, {6091, "TCP", "other/a"}, {8081, "TCP", "other/b"}, {8082, "TCP", "other/c"}}
		}, []string{"port 6091/UDP of the nodes is in use by pod kube-system/cni-a, kube-system/cni-b, kube-system/cni-c, 2 more: choose another one: --set networking.genevePort=<port>",
			"port 8081/TCP of the nodes is in use by pod other/b: choose another one: --set networking.fabric.config.healthProbeBindAddressPort=<port>"}},
		{"ports for metrics", func(r *Request, f *Facts) {
			*r = r.WithAgents(Merge(ports, map[string]any{"metrics": map[string]any{"enabled": true}}))
			f.Ports = []Port{{8082, "TCP", "other/c"}}
		}, []string{"port 8082/TCP of the nodes is in use by pod other/c"}},
		{"ports, without a network", func(r *Request, f *Facts) {
			*r = r.WithAgents(ports)
			r.NoNetwork, f.Ports = true, []Port{{6091, "UDP", "kube-system/cni-a"}}
		}, nil},
		{"another cluster's kubeconfig", func(_ *Request, f *Facts) {
			f.Cloud = Cloud{Name: "milan", APIServerURL: "https://milan.azmk8s.io:443"}
		},
			[]string{"the kubeconfig leads to https://rome.example.org:6443, but the API of KUBEADM says that the API server of milan is https://milan.azmk8s.io:443: check that both are the same"}},
		{"another cluster's kubeconfig, on purpose", func(r *Request, f *Facts) {
			f.Cloud.APIServerURL, r.SkipAPIServerCheck = "https://milan.azmk8s.io:443", true
		}, nil},
		{"another name of the same one", func(_ *Request, f *Facts) {
			f.Cloud = Cloud{APIServerURL: "https://rome.azmk8s.io:443", APIServerNames: []string{"ROME.example.org"}}
		}, nil},
		{"no percentage", func(r *Request, _ *Facts) { r.SharingPercentage = new(101) }, []string{"--sharing-percentage 101 is no percentage: give a number from 0 to 100"}},
		{"no service type", func(r *Request, _ *Facts) { r.ServiceType = "Ingress" }, []string{"--service-type Ingress is not known: give one of LoadBalancer, NodePort, ClusterIP"}},
		{"several at once", func(r *Request, f *Facts) { r.ClusterID, f.ServerVersion = "-", "v1.2.3" }, []string{"older", "cluster ID"}},
	} {
		request, facts := good()
		test.change(&request, &facts)
		problems := append(CheckCluster(request, facts), CheckRequest(request, facts)...)
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

// TestValuesOfProviders compares the complete values for each kind of cluster.
func TestValuesOfProviders(t *testing.T) {
	clusterID := func(id string, labels map[string]any) map[string]any {
		config := map[string]any{"clusterID": id}
		if len(labels) > 0 {
			config["clusterLabels"] = labels
		}
		return map[string]any{"config": config}
	}
	ranges := map[string]any{"podCIDRs": []any{"10.244.0.0/16"}, "serviceCIDR": "10.96.0.0/12"}
	service := func(kind string) map[string]any { return map[string]any{"service": map[string]any{"type": kind}} }
	gateways := func(kind string) map[string]any {
		return map[string]any{"gatewayTemplates": map[string]any{"server": service(kind)}}
	}
	address := map[string]any{"address": "https://rome.example.org:6443"}
	for _, test := range []struct {
		name   string
		change func(*Request, *Facts)
		want   map[string]any
	}{
		{"generic", func(r *Request, _ *Facts) { r.Provider = Generic },
			map[string]any{"discovery": clusterID("amber-acorn", nil), "apiServer": address, "ipam": ranges}},
		{"kind", func(r *Request, _ *Facts) { r.Provider = Kind },
			map[string]any{"discovery": clusterID("amber-acorn", map[string]any{"liqo.io/provider": "kind"}), "ipam": ranges,
				"auth": service("NodePort"), "networking": gateways("NodePort")}},
		{"k3s", func(r *Request, f *Facts) { r.Provider, f.Network, r.ServiceType = K3s, NetworkFacts{}, "LoadBalancer" },
			map[string]any{"discovery": clusterID("amber-acorn", map[string]any{"liqo.io/provider": "k3s"}), "apiServer": address,
				"ipam": map[string]any{"podCIDRs": []any{K3sPodCIDR}, "serviceCIDR": K3sServiceCIDR},
				"auth": service("LoadBalancer"), "networking": gateways("LoadBalancer")}},
		{"k3s, installed before with load balancers for the authentication service", func(r *Request, f *Facts) {
			r.Provider, f.Network, f.Installed = K3s, NetworkFacts{}, map[string]any{"auth": service("LoadBalancer")}
		}, map[string]any{"discovery": clusterID("amber-acorn", map[string]any{"liqo.io/provider": "k3s"}), "apiServer": address,
			"ipam": map[string]any{"podCIDRs": []any{K3sPodCIDR}, "serviceCIDR": K3sServiceCIDR},
			"auth": service("LoadBalancer"), "networking": gateways("NodePort")}},
		{"openshift", func(r *Request, _ *Facts) { r.Provider = OpenShift },
			map[string]any{"discovery": clusterID("amber-acorn", map[string]any{"liqo.io/provider": "openshift"}), "apiServer": address, "ipam": ranges,
				"openshiftConfig": map[string]any{"enabled": true}}},
		{"a cloud", func(r *Request, f *Facts) {
			r.Provider, r.ClusterLabels = AKS, map[string]string{"a": "b"}
			f.Cloud = Cloud{Name: "Rome_1", PodCIDRs: []string{"10.224.0.0/12"}, ServiceCIDR: "10.0.0.0/16", ReservedSubnets: []string{"10.240.0.0/16"},
				APIServerURL: "https://rome.azmk8s.io:443", Labels: map[string]string{"topology.kubernetes.io/region": "westeurope"}}
		}, map[string]any{"discovery": clusterID("rome-1", map[string]any{"liqo.io/provider": "aks", "topology.kubernetes.io/region": "westeurope", "a": "b"}),
			"apiServer":      map[string]any{"address": "https://rome.azmk8s.io:443"},
			"ipam":           map[string]any{"podCIDRs": []any{"10.224.0.0/12"}, "serviceCIDR": "10.0.0.0/16", "reservedSubnets": []any{"10.240.0.0/16"}},
			"virtualKubelet": map[string]any{"virtualNode": map[string]any{"extra": map[string]any{"labels": map[string]any{"kubernetes.azure.com/managed": "false"}}}}}},
		{"GKE, whose services have a range of Google", func(r *Request, f *Facts) {
			r.Provider = GKE
			f.Cloud = Cloud{Name: "rome", PodCIDRs: []string{"10.108.0.0/14"}, ServiceCIDR: "34.118.224.0/20", ReservedSubnets: []string{"10.132.0.0/20"}}
		}, map[string]any{"discovery": clusterID("rome", map[string]any{"liqo.io/provider": "gke"}), "apiServer": address,
			"ipam": map[string]any{"podCIDRs": []any{"10.108.0.0/14"}, "serviceCIDR": "34.118.224.0/20", "reservedSubnets": []any{"10.132.0.0/20"}}}},
		{"EKS", func(r *Request, _ *Facts) { r.Provider = EKS },
			map[string]any{"authentication": map[string]any{"identity": "token"}, "discovery": clusterID("amber-acorn", map[string]any{"liqo.io/provider": "eks"}), "apiServer": address, "ipam": ranges,
				"networking": map[string]any{
					"fabric": map[string]any{"config": map[string]any{"routeConfigurationRulePriority": 1024}},
					"gatewayTemplates": map[string]any{"server": map[string]any{"service": map[string]any{
						"annotations": map[string]any{"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}}}},
				}}},
		{"EKS, installed with other values", func(r *Request, f *Facts) {
			r.Provider = EKS
			f.Installed = Merge(setting("certificate", "authentication", "identity"), setting(500, "networking", "fabric", "config", "routeConfigurationRulePriority"),
				setting("external", "networking", "gatewayTemplates", "server", "service", "annotations", "service.beta.kubernetes.io/aws-load-balancer-type"))
		}, map[string]any{"discovery": clusterID("amber-acorn", map[string]any{"liqo.io/provider": "eks"}), "apiServer": address, "ipam": ranges}},
		{"highly available, measured, and generous", func(r *Request, _ *Facts) {
			r.Provider, r.HighlyAvailable, r.EnableMetrics, r.SharingPercentage = Generic, true, true, new(0)
		}, map[string]any{"discovery": clusterID("amber-acorn", nil), "apiServer": address, "ipam": ranges, "metrics": map[string]any{"enabled": true},
			"controllerManager": map[string]any{"replicas": 2, "config": map[string]any{"resourceSharingPercentage": 0}},
			"networking":        map[string]any{"gatewayTemplates": map[string]any{"replicas": 2}},
			"proxy":             map[string]any{"replicas": 2}, "virtualKubelet": map[string]any{"replicas": 2}}},
	} {
		request, facts := good()
		test.change(&request, &facts)
		got, _ := Values(request, facts, 0)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

// TestHowPeersReachIt: the parameters of an installation show the type of the Services that peers reach, and the source of that choice.
func TestHowPeersReachIt(t *testing.T) {
	before := func(auth string) map[string]any { return setting(auth, authServiceType...) }
	for name, test := range map[string]struct {
		change func(*Request, *Facts)
		want   string
	}{
		"nothing chosen":   {func(*Request, *Facts) {}, "Reached by: LoadBalancer, from the default for kubeadm (--service-type)"},
		"kind":             {func(r *Request, _ *Facts) { r.Provider = Kind }, "Reached by: NodePort, from the default for kind (--service-type)"},
		"asked for":        {func(r *Request, _ *Facts) { r.ServiceType = "ClusterIP" }, "Reached by: ClusterIP, from " + asked + " (--service-type)"},
		"installed before": {func(_ *Request, f *Facts) { f.Installed = before("NodePort") }, "Reached by: NodePort for the authentication service, LoadBalancer for new gateways, from " + has + " (--service-type)"},
	} {
		request, facts := good()
		test.change(&request, &facts)
		values, networks := Values(request, facts, 0)
		if got := Summary(Parameters(request, facts, values, networks, "")); !strings.Contains(got, test.want) {
			t.Errorf("%s: no %q in\n%s", name, test.want, got)
		}
	}
}

// TestUpgradeKeepsGivenValues: an upgrade keeps the values of the installation, even if detection finds others now, unless the user requests a change.
func TestUpgradeKeepsGivenValues(t *testing.T) {
	request, facts := good()
	facts.InstalledID = "milan"
	facts.Installed = map[string]any{
		"discovery": map[string]any{"config": map[string]any{"clusterID": "milan"}},
		"apiServer": map[string]any{"address": "https://milan:6443"},
		"ipam":      map[string]any{"podCIDRs": []any{"10.7.0.0/16"}, "serviceCIDR": "10.8.0.0/16", "reservedSubnets": []any{"10.9.0.0/16"}},
	}
	kept := Merge(facts.Installed, setting("kubeadm", "discovery", "config", "clusterLabels", LabelProvider))
	values, networks := Values(request, facts, 1)
	if diff := cmp.Diff(kept, values); diff != "" {
		t.Error(diff)
	}
	if networks.PodSource != "the installation" || networks.ServiceSource != "the installation" {
		t.Errorf("sources %q and %q", networks.PodSource, networks.ServiceSource)
	}
	request.PodCIDRs, request.ServiceCIDR, request.ReservedSubnets, request.APIServerURL = []string{"10.1.0.0/16"}, "10.2.0.0/16", []string{"10.3.0.0/16"}, "https://rome:6443"
	want := Merge(kept, setting("https://rome:6443", "apiServer", "address"),
		map[string]any{"ipam": map[string]any{"podCIDRs": []any{"10.1.0.0/16"}, "serviceCIDR": "10.2.0.0/16", "reservedSubnets": []any{"10.3.0.0/16"}}})
	values, _ = Values(request, facts, 1)
	if diff := cmp.Diff(want, values); diff != "" {
		t.Error(diff)
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

// TestDropNulls: a null stays where it removes a default of the chart, and removes any other key of the layers below.
func TestDropNulls(t *testing.T) {
	defaults := map[string]any{
		"pod":   map[string]any{"limits": map[string]any{"memory": "1Gi"}, "labels": map[string]any{}},
		"whole": map[string]any{"x": 1}, "unset": nil,
	}
	installed := map[string]any{
		"pod": map[string]any{"limits": map[string]any{"memory": "2Gi", "cpu": "1"}, "labels": map[string]any{"region": "north"}},
	}
	given := map[string]any{
		"pod":   map[string]any{"limits": map[string]any{"memory": nil, "cpu": nil}, "labels": map[string]any{"region": nil, "zone": "a"}},
		"whole": nil, "unset": nil, "unknown": nil, "list": []any{nil},
	}
	want := map[string]any{
		"pod":   map[string]any{"limits": map[string]any{"memory": nil}, "labels": map[string]any{"zone": "a"}},
		"whole": nil, "list": []any{nil},
	}
	if diff := cmp.Diff(want, DropNulls(Merge(installed, given), defaults)); diff != "" {
		t.Error(diff)
	}
}

// TestGivenValuesAreChecked: an ID or a range given as a value of the chart is checked like one given by a flag.
func TestGivenValuesAreChecked(t *testing.T) {
	request, facts := good()
	facts.InstalledID, facts.InstalledNamespace, facts.Network = "rome", "liqo", NetworkFacts{}
	given := map[string]any{
		"discovery": map[string]any{"config": map[string]any{"clusterID": "milan"}},
		"ipam":      map[string]any{"podCIDRs": []any{"10.1.0.0/16"}, "serviceCIDR": "10.2.0.0/16"},
	}
	problems := CheckRequest(request.WithValues(given), facts)
	if len(problems) != 1 || !strings.Contains(problems[0].String(), "has the ID rome already, and milan is requested") {
		t.Errorf("problems %v", problems)
	}
	if diff := cmp.Diff(request, request.WithValues(nil)); diff != "" {
		t.Errorf("no values change the request: %s", diff)
	}
	if got := request.WithValues(map[string]any{"ipam": map[string]any{"podCIDR": "10.3.0.0/16"}}).PodCIDRs; len(got) != 1 || got[0] != "10.3.0.0/16" {
		t.Errorf("pod CIDRs %v", got)
	}
}
