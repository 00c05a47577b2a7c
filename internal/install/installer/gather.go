package installer

import (
	"context"
	"fmt"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/install"
)

// labelClusterID selects the cluster-ID ConfigMap of an installation.
var labelClusterID = client.MatchingLabels{"app.kubernetes.io/name": "clusterid-configmap"}

// InstalledCluster returns the ID of this cluster and the namespace of its installation: the given one when it holds an installation, else
// any that does. Both are empty when there is none.
func InstalledCluster(ctx context.Context, c client.Client, namespace string) (id, where string, err error) {
	for _, within := range [][]client.ListOption{{client.InNamespace(namespace)}, nil} {
		var list corev1.ConfigMapList
		if err := c.List(ctx, &list, append(within, labelClusterID)...); err != nil {
			if within == nil && apierrors.IsForbidden(err) { // a user of one namespace only
				return "", "", nil
			}
			return "", "", fmt.Errorf("looking for the cluster-ID ConfigMap in namespace %s: %w", namespace, err)
		}
		for _, found := range list.Items {
			if id := found.Data[api.ClusterIDKey]; id != "" {
				return id, found.Namespace, nil
			}
		}
	}
	return "", "", nil
}

// needed is what an installation does, asked for one by one to name what is missing.
var needed = [...]authorizationv1.ResourceAttributes{
	{Verb: "create", Resource: "namespaces"},
	{Verb: "create", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
	{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Verb: "bind", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Verb: "create", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
	{Verb: "create", Group: "node.k8s.io", Resource: "runtimeclasses"},
	{Verb: "create", Group: "apps", Resource: "deployments"},
}

// Gather finds out about the cluster. Only an API server that can not be reached is an error; what can not be read is left empty.
func Gather(ctx context.Context, config *rest.Config, c client.Client, namespace string) (install.Facts, error) {
	facts := install.Facts{KubeconfigServer: config.Host}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return facts, fmt.Errorf("connecting to the API server %s: %w", config.Host, err)
	}
	info, err := server.ServerVersion()
	if err != nil {
		return facts, fmt.Errorf("asking the API server %s for its version: %w", config.Host, err)
	}
	facts.ServerVersion = info.GitVersion

	var group sync.WaitGroup
	var idErr, accessErr error
	group.Go(func() { facts.InstalledID, facts.InstalledNamespace, idErr = InstalledCluster(ctx, c, namespace) })
	group.Go(func() { facts.Denied, accessErr = denied(ctx, c) })
	group.Go(func() { facts.Network = gatherNetwork(ctx, c) })
	group.Wait()
	if idErr != nil {
		return facts, idErr
	}
	return facts, accessErr
}

func denied(ctx context.Context, c client.Client) ([]string, error) {
	var out []string
	for _, attributes := range needed {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}
		if err := c.Create(ctx, review); err != nil {
			return nil, fmt.Errorf("asking whether %s of %s is allowed: %w", attributes.Verb, attributes.Resource, err)
		}
		if !review.Status.Allowed {
			out = append(out, strings.TrimSuffix(attributes.Verb+" "+attributes.Resource+"."+attributes.Group, "."))
		}
	}
	return out, nil
}

func gatherNetwork(ctx context.Context, c client.Client) install.NetworkFacts {
	var facts install.NetworkFacts
	var kubeadm corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"}, &kubeadm); err == nil {
		var configuration struct {
			Networking struct{ PodSubnet, ServiceSubnet string }
		}
		if yaml.Unmarshal([]byte(kubeadm.Data["ClusterConfiguration"]), &configuration) == nil {
			facts.KubeadmPodSubnet = configuration.Networking.PodSubnet
			facts.KubeadmServiceSubnet = configuration.Networking.ServiceSubnet
		}
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"component": "kube-controller-manager"}); err == nil {
		for _, pod := range pods.Items {
			for _, container := range pod.Spec.Containers {
				facts.ControllerManagerArgs = append(append([]string{}, container.Command...), container.Args...)
			}
		}
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err == nil {
		for _, node := range nodes.Items {
			if node.Labels[api.LabelType] != api.TypeVirtualNode {
				facts.NodePodCIDRs = append(facts.NodePodCIDRs, node.Spec.PodCIDRs...)
			}
		}
	}
	var cidrs networkingv1.ServiceCIDRList
	if err := c.List(ctx, &cidrs); err == nil {
		for _, cidr := range cidrs.Items {
			facts.ServiceCIDRs = append(facts.ServiceCIDRs, cidr.Spec.CIDRs...)
		}
	} else if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		facts.ServiceError = provoke(ctx, c)
	}
	return facts
}

// provoke asks for a Service outside every range, as a dry run, and returns how the API server refuses it: its message names the range.
func provoke(ctx context.Context, c client.Client) string {
	err := c.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "liqo-probe-", Namespace: metav1.NamespaceDefault},
		// An address of the range kept for documentation, which no cluster uses.
		Spec: corev1.ServiceSpec{ClusterIP: "192.0.2.1", Ports: []corev1.ServicePort{{Port: 443}}},
	}, client.DryRunAll)
	if err == nil {
		return ""
	}
	return err.Error()
}
