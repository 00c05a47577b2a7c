package installer

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/install"
)

// readNodes adds the facts from the ordinary nodes, without virtual nodes.
func readNodes(facts *install.Facts, nodes []corev1.Node) {
	for i := range nodes {
		node := &nodes[i]
		if node.Labels[api.LabelType] == api.TypeVirtualNode {
			continue
		}
		facts.Nodes = append(facts.Nodes, install.Node{
			Name: node.Name, ProviderID: node.Spec.ProviderID, Labels: node.Labels,
			Kernel: node.Status.NodeInfo.KernelVersion, OS: node.Status.NodeInfo.OperatingSystem, Arch: node.Status.NodeInfo.Architecture,
		})
		facts.Network.NodePodCIDRs = append(facts.Network.NodePodCIDRs, node.Spec.PodCIDRs...)
		// Agents of k3s write their arguments into this annotation too, but only the arguments of a server start with "server".
		var args []string
		if json.Unmarshal([]byte(node.Annotations["k3s.io/node-args"]), &args) == nil && len(args) > 0 && args[0] == "server" {
			facts.Network.K3sArgs = args
		}
	}
}

// gatherNetwork reads all objects that may contain the address ranges of the cluster. It skips objects that do not exist or that the user
// may not read.
func gatherNetwork(ctx context.Context, c client.Client) install.NetworkFacts {
	var facts install.NetworkFacts
	var kubeadm corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"}, &kubeadm); err == nil {
		var configuration struct {
			Networking struct{ PodSubnet, ServiceSubnet string }
		}
		facts.Kubeadm = true
		if yaml.Unmarshal([]byte(kubeadm.Data["ClusterConfiguration"]), &configuration) == nil {
			facts.KubeadmPodSubnet = configuration.Networking.PodSubnet
			facts.KubeadmServiceSubnet = configuration.Networking.ServiceSubnet
		}
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"component": controllerManager}); err == nil {
		facts.ControllerManagerArgs = controllerManagerArgs(pods.Items)
	}
	var cidrs networkingv1.ServiceCIDRList
	if err := c.List(ctx, &cidrs); err == nil {
		for _, cidr := range cidrs.Items {
			facts.ServiceCIDRs = append(facts.ServiceCIDRs, cidr.Spec.CIDRs...)
		}
	} else if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		facts.ServiceError = provoke(ctx, c)
	}
	var service corev1.Service
	if err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, &service); err == nil {
		facts.ServiceAddress = service.Spec.ClusterIP
	}
	facts.OpenShiftPods, facts.OpenShiftServices = openShift(ctx, c)
	facts.CalicoPools = calico(ctx, c)
	var cilium corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "cilium-config"}, &cilium); err == nil && cilium.Data["ipam"] == "cluster-pool" {
		facts.CiliumPool = cilium.Data["cluster-pool-ipv4-cidr"]
	}
	return facts
}

// controllerManager is the name of a component of Kubernetes and of its container.
const controllerManager = "kube-controller-manager"

// controllerManagerArgs returns the command line of the kube-controller-manager in one of its pods. It skips other containers, such as
// sidecars, in any order.
func controllerManagerArgs(pods []corev1.Pod) []string {
	for i := range pods {
		for _, container := range pods[i].Spec.Containers {
			if container.Name == controllerManager {
				return slices.Concat(container.Command, container.Args)
			}
		}
	}
	return nil
}

// openShift reads the pod and service ranges from the status of OpenShift's Network object.
func openShift(ctx context.Context, c client.Client) (pods, services []string) {
	network := &unstructured.Unstructured{}
	network.SetGroupVersionKind(schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "Network"})
	if err := c.Get(ctx, client.ObjectKey{Name: "cluster"}, network); err != nil {
		return nil, nil
	}
	clusterNetwork, _, _ := unstructured.NestedSlice(network.Object, "status", "clusterNetwork")
	for _, entry := range clusterNetwork {
		if fields, ok := entry.(map[string]any); ok {
			if cidr, _, _ := unstructured.NestedString(fields, "cidr"); cidr != "" {
				pods = append(pods, cidr)
			}
		}
	}
	services, _, _ = unstructured.NestedStringSlice(network.Object, "status", "serviceNetwork")
	return pods, services
}

// calico reads the ranges of the Calico IPPools that assign addresses to pods.
func calico(ctx context.Context, c client.Client) (out []string) {
	pools := &unstructured.UnstructuredList{}
	pools.SetGroupVersionKind(schema.GroupVersionKind{Group: "crd.projectcalico.org", Version: "v1", Kind: "IPPoolList"})
	if err := c.List(ctx, pools); err != nil {
		return nil
	}
	for _, pool := range pools.Items {
		var spec struct {
			CIDR        string   `json:"cidr"`
			Disabled    bool     `json:"disabled"`
			AllowedUses []string `json:"allowedUses"`
		}
		data, err := json.Marshal(pool.Object["spec"])
		if err != nil || json.Unmarshal(data, &spec) != nil || spec.CIDR == "" || spec.Disabled {
			continue
		}
		if len(spec.AllowedUses) == 0 || slices.Contains(spec.AllowedUses, "Workload") {
			out = append(out, spec.CIDR)
		}
	}
	return out
}

// provoke creates a Service, as a dry run, with an address that no cluster uses. It returns the API server's error message, which names the
// service range.
func provoke(ctx context.Context, c client.Client) string {
	err := c.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "liqo-probe-", Namespace: metav1.NamespaceDefault},
		// 192.0.2.0/24 is reserved for documentation (RFC 5737), so no cluster uses it.
		Spec: corev1.ServiceSpec{ClusterIP: "192.0.2.1", Ports: []corev1.ServicePort{{Port: 443}}},
	}, client.DryRunAll)
	if err == nil {
		return ""
	}
	return err.Error()
}
