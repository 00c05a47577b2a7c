package install

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDetect recognizes each kind of cluster by a property that other kinds do not have.
func TestDetect(t *testing.T) {
	node := func(providerID string, labels map[string]string) []Node {
		return []Node{{Name: "other"}, {Name: "n1", ProviderID: providerID, Labels: labels}}
	}
	kubeadm := NetworkFacts{Kubeadm: true}
	for _, test := range []struct {
		name, evidence string
		want           Provider
		facts          Facts
	}{
		{"kind", "spec.providerID kind://docker/rome/n1 of node n1", Kind, Facts{Network: kubeadm, Nodes: node("kind://docker/rome/n1", nil)}},
		{"k3s by its nodes", "spec.providerID k3s://n1 of node n1", K3s, Facts{Nodes: node("k3s://n1", nil)}},
		{"k3s by its version", "version v1.34.2+k3s1 of the API server", K3s, Facts{ServerVersion: "v1.34.2+k3s1", Nodes: node("aws:///eu-west-1a/i-1", nil)}},
		{"openshift on AWS", "API group config.openshift.io", OpenShift, Facts{Groups: []string{"apps", "config.openshift.io"}, Nodes: node("aws:///eu-west-1a/i-1", nil)}},
		{"aks", "label kubernetes.azure.com/cluster=MC_rg_rome_westeurope of node n1", AKS,
			Facts{Nodes: node("azure:///subscriptions/1", map[string]string{"kubernetes.azure.com/cluster": "MC_rg_rome_westeurope"})}},
		{"eks by its version", "version v1.34.1-eks-113cf36 of the API server", EKS, Facts{ServerVersion: "v1.34.1-eks-113cf36"}},
		{"eks by its nodes", "label eks.amazonaws.com/nodegroup=a of node n1", EKS, Facts{Nodes: node("aws:///eu-west-1a/i-1", map[string]string{"eks.amazonaws.com/nodegroup": "a"})}},
		{"gke", "version v1.34.1-gke.1829001 of the API server", GKE, Facts{ServerVersion: "v1.34.1-gke.1829001"}},
		{"kubeadm on Google's machines", "ConfigMap kubeadm-config in namespace kube-system", Kubeadm, Facts{ServerVersion: "v1.34.1", Network: kubeadm, Nodes: node("gce://p/z/n", nil)}},
		{"anything else", "no sign of a specific distribution", Generic, Facts{ServerVersion: "v1.34.1", Nodes: node("hcloud://1", nil)}},
	} {
		got, evidence := Detect(test.facts)
		if got != test.want || evidence != test.evidence {
			t.Errorf("%s: %s, by %q; want %s, by %q", test.name, got, evidence, test.want, test.evidence)
		}
	}
}

// TestProviderThatDiffersFromDetection: if the user names another kind than the detected one, the installation warns and goes on.
func TestProviderThatDiffersFromDetection(t *testing.T) {
	kind := Facts{Network: NetworkFacts{Kubeadm: true}, Nodes: []Node{{Name: "n1", ProviderID: "kind://docker/rome/n1"}}}
	for _, test := range []struct {
		asked Provider
		facts Facts
		want  string
	}{
		{Kind, kind, ""}, {Generic, kind, ""}, {Kubeadm, kind, ""}, {K3s, Facts{}, ""},
		{K3s, kind, "k3s is requested, but the cluster looks like kind: spec.providerID kind://docker/rome/n1 of node n1"},
	} {
		if diff := cmp.Diff(test.want, Doubt(test.asked, test.facts)); diff != "" {
			t.Errorf("%s: %s", test.asked, diff)
		}
	}
}
