package installer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/internal/install/clusterid"
)

// needed lists permissions that an installation requires. Each is checked separately, so that the missing ones can be named.
var needed = [...]authorizationv1.ResourceAttributes{
	{Verb: "create", Resource: "namespaces"},
	{Verb: "create", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
	{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Verb: "bind", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Verb: "create", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
	{Verb: "create", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
	{Verb: "create", Group: "node.k8s.io", Resource: "runtimeclasses"},
	{Verb: "create", Group: "apps", Resource: "deployments"},
	{Verb: "create", Group: "apps", Resource: "daemonsets"},
}

// Gather collects the facts about a cluster. It fails if the API server does not respond, and if the installed cluster ID or the user's
// permissions cannot be read. Other facts that cannot be read stay empty.
func Gather(ctx context.Context, config *rest.Config, c client.Client, namespace string) (install.Facts, error) {
	facts := install.Facts{KubeconfigServer: config.Host}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return facts, fmt.Errorf("connecting to the API server %s: %w", config.Host, err)
	}
	info, err := server.ServerVersion()
	if err != nil {
		return facts, fmt.Errorf("reading the version of API server %s: %w", config.Host, err)
	}
	facts.ServerVersion = info.GitVersion

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		facts.InstalledID, facts.InstalledNamespace, err = clusterid.Find(ctx, c, namespace)
		return err
	})
	group.Go(func() (err error) {
		facts.Denied, err = denied(ctx, c)
		return err
	})
	group.Go(func() error {
		if groups, err := server.ServerGroups(); err == nil {
			for _, group := range groups.Groups {
				facts.Groups = append(facts.Groups, group.Name)
			}
		}
		return nil
	})
	group.Go(func() error {
		var found corev1.Namespace
		if err := c.Get(ctx, client.ObjectKey{Name: namespace}, &found); err == nil {
			facts.PodSecurity = found.Labels[labelPodSecurity]
		}
		return nil
	})
	group.Go(func() error {
		var nodes corev1.NodeList
		if err := c.List(ctx, &nodes); err != nil {
			facts.NodesUnknown = true
		}
		readNodes(&facts, nodes.Items)
		return nil
	})
	var network install.NetworkFacts
	group.Go(func() error {
		network = gatherNetwork(ctx, c)
		return nil
	})
	var pods []corev1.Pod
	group.Go(func() error {
		pods = runningPods(ctx, c)
		return nil
	})
	err = group.Wait()
	network.NodePodCIDRs, network.K3sArgs = facts.Network.NodePodCIDRs, facts.Network.K3sArgs
	facts.Network = network
	readPods(&facts, pods, namespace)
	return facts, err
}

// labelPodSecurity is the namespace label with the Pod Security level that its pods must meet.
const labelPodSecurity = "pod-security.kubernetes.io/enforce"

func denied(ctx context.Context, c client.Client) ([]string, error) {
	allowed := make([]bool, len(needed))
	group, ctx := errgroup.WithContext(ctx)
	for i, attributes := range needed {
		group.Go(func() error {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}
			if err := c.Create(ctx, review); err != nil {
				return fmt.Errorf("checking the permission to %s %s: %w", attributes.Verb, attributes.Resource, err)
			}
			allowed[i] = review.Status.Allowed
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var out []string
	for i, attributes := range needed {
		if !allowed[i] {
			out = append(out, strings.TrimSuffix(attributes.Verb+" "+attributes.Resource+"."+attributes.Group, "."))
		}
	}
	return out, nil
}

// enough is the maximum number of pods read per list. It suffices to detect the used ports and addresses: in a larger cluster, the
// remaining pods belong to the same DaemonSets and address ranges.
const enough = 500

func runningPods(ctx context.Context, c client.Client) (out []corev1.Pod) {
	for _, selected := range []string{"spec.hostNetwork=true,status.phase=Running", "spec.hostNetwork=false,status.phase=Running"} {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.Limit(enough), &client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: selected}}); err == nil {
			out = append(out, pods.Items...)
		}
	}
	return out
}

// readPods adds the host ports of pods outside of Liqo on the ordinary nodes, and the addresses of pods without host network. It skips pods
// that run in another cluster, because their addresses are from the ranges of that cluster.
func readPods(facts *install.Facts, pods []corev1.Pod, namespace string) {
	ordinary := map[string]bool{}
	for _, node := range facts.Nodes {
		ordinary[node.Name] = true
	}
	for i := range pods {
		pod := &pods[i]
		if !ordinary[pod.Spec.NodeName] || pod.Namespace == namespace || pod.Labels[api.LabelManaged] == api.True {
			continue
		}
		name := pod.Namespace + "/" + pod.Name
		facts.Ports = append(facts.Ports, portsOf(pod, name)...)
		if pod.Spec.HostNetwork {
			continue
		}
		for _, ip := range pod.Status.PodIPs {
			facts.Network.PodAddresses = append(facts.Network.PodAddresses, install.PodAddress{Pod: name, Address: ip.IP})
		}
	}
}

func portsOf(pod *corev1.Pod, name string) (out []install.Port) {
	for _, container := range slices.Concat(pod.Spec.Containers, sidecars(pod)) {
		for _, port := range container.Ports {
			number := port.HostPort
			if pod.Spec.HostNetwork {
				number = port.ContainerPort
			}
			protocol := string(port.Protocol)
			if number != 0 {
				out = append(out, install.Port{Number: number, Protocol: orTCP(protocol), Pod: name})
			}
		}
	}
	return out
}

// sidecars returns the init containers that run, and so listen, until the pod ends.
func sidecars(pod *corev1.Pod) []corev1.Container {
	return slices.DeleteFunc(slices.Clone(pod.Spec.InitContainers), func(c corev1.Container) bool {
		return c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways
	})
}

func orTCP(protocol string) string {
	if protocol == "" {
		return string(corev1.ProtocolTCP)
	}
	return protocol
}
