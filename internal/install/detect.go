package install

import (
	"fmt"
	"slices"
	"strings"
)

// Detect returns the distribution or cloud service that matches the facts, and the evidence for it. It checks specific ones first, because kubeadm
// also creates the clusters of kind.
func Detect(facts Facts) (provider Provider, evidence string) {
	for _, sign := range [...]struct {
		provider Provider
		seen     func(Facts) string
	}{
		{Kind, nodeProvider("kind://")},
		{K3s, firstSign(nodeProvider("k3s://"), serverVersion("+k3s"))},
		{OpenShift, apiGroup("config.openshift.io")},
		{AKS, firstSign(nodeLabel("kubernetes.azure.com/cluster"))},
		{EKS, firstSign(serverVersion("-eks-"), nodeLabel("eks.amazonaws.com/nodegroup"), nodeLabel("alpha.eksctl.io/cluster-name"))},
		{GKE, firstSign(serverVersion("-gke."), nodeLabel("cloud.google.com/gke-nodepool"))},
		{Kubeadm, func(f Facts) string {
			if f.Network.Kubeadm {
				return "ConfigMap kubeadm-config in namespace kube-system"
			}
			return ""
		}},
	} {
		if evidence := sign.seen(facts); evidence != "" {
			return sign.provider, evidence
		}
	}
	return Generic, "no sign of a specific distribution"
}

func firstSign(signs ...func(Facts) string) func(Facts) string {
	return func(facts Facts) string {
		for _, seen := range signs {
			if evidence := seen(facts); evidence != "" {
				return evidence
			}
		}
		return ""
	}
}

func nodeProvider(prefix string) func(Facts) string {
	return func(facts Facts) string {
		for _, node := range facts.Nodes {
			if strings.HasPrefix(node.ProviderID, prefix) {
				return fmt.Sprintf("spec.providerID %s of node %s", node.ProviderID, node.Name)
			}
		}
		return ""
	}
}

func nodeLabel(key string) func(Facts) string {
	return func(facts Facts) string {
		for _, node := range facts.Nodes {
			if value, ok := node.Labels[key]; ok {
				return fmt.Sprintf("label %s=%s of node %s", key, value, node.Name)
			}
		}
		return ""
	}
}

func serverVersion(part string) func(Facts) string {
	return func(facts Facts) string {
		if strings.Contains(facts.ServerVersion, part) {
			return "version " + facts.ServerVersion + " of the API server"
		}
		return ""
	}
}

func apiGroup(group string) func(Facts) string {
	return func(facts Facts) string {
		if slices.Contains(facts.Groups, group) {
			return "API group " + group
		}
		return ""
	}
}

// Doubt returns the evidence against the requested provider, or an empty string. It accepts any cluster as generic, and a cluster of
// kind as a kubeadm cluster, because kind uses kubeadm.
func Doubt(asked Provider, facts Facts) string {
	found, evidence := Detect(facts)
	switch {
	case asked == found, asked == Generic, found == Generic, asked == Kubeadm && found == Kind:
		return ""
	}
	return fmt.Sprintf("%s is requested, but the cluster looks like %s: %s", asked, found, evidence)
}
