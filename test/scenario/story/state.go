package story

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/playground"
)

// lastLines is the number of lines of a component's log that are printed.
const lastLines = 60

// Describe prints the state of the clusters, for the analysis of a failed test. namespaces are the namespaces that the test uses.
func Describe(ctx context.Context, namespaces []string, clusters ...*playground.Cluster) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, c := range clusters {
		fmt.Printf("---- state of %s\n", c.ID)
		for _, list := range []client.ObjectList{
			&networkingv1beta1.ConfigurationList{}, &networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{},
			&networkingv1beta1.ConnectionList{}, &ipamv1alpha1.NetworkList{}, &ipamv1alpha1.IPList{},
			&corev1.NodeList{}, &corev1beta1.ForeignClusterList{}, &authv1beta1.TenantList{}, &authv1beta1.IdentityList{},
			&authv1beta1.ResourceSliceList{}, &offloadingv1beta1.QuotaList{}, &offloadingv1beta1.VirtualNodeList{},
			&offloadingv1beta1.NamespaceMapList{}, &offloadingv1beta1.NamespaceOffloadingList{},
		} {
			print(ctx, c, list)
		}
		describePods(ctx, c)
		describeEvents(ctx, c, namespaces)
		components(ctx, c)
	}
}

// print writes the status of objects, and the finalizers of those that are being deleted.
func print(ctx context.Context, c *playground.Cluster, list client.ObjectList) {
	if err := c.List(ctx, list); err != nil {
		fmt.Printf("%T: %v\n", list, err)
		return
	}
	data, err := yaml.Marshal(list)
	if err != nil {
		fmt.Println(err)
		return
	}
	var objects struct {
		Items []struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
			Spec     map[string]any    `json:"spec"`
			Status   map[string]any    `json:"status"`
		} `json:"items"`
	}
	if err := yaml.Unmarshal(data, &objects); err != nil {
		fmt.Println(err)
		return
	}
	kind := strings.TrimSuffix(fmt.Sprintf("%T", list), "List")
	for _, o := range objects.Items {
		// Leave out long values with little information, such as certificates and images.
		for _, long := range []string{"images", "authParams", "template", "csr", "publicKey", "signature"} {
			delete(o.Status, long)
			delete(o.Spec, long)
		}
		text, err := yaml.Marshal(map[string]any{"spec": o.Spec, "status": o.Status})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%s %s/%s deleted=%v finalizers=%v\n%s", kind, o.Metadata.Namespace, o.Metadata.Name, o.Metadata.DeletionTimestamp, o.Metadata.Finalizers,
			"    "+strings.TrimSuffix(strings.ReplaceAll(string(text), "\n", "\n    "), "    "))
	}
}

func describePods(ctx context.Context, c *playground.Cluster) {
	all, err := pods(ctx, c, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range all {
		if p.Namespace == "kube-system" {
			continue
		}
		fmt.Printf("pod %s/%s uid=%s node=%s phase=%s reason=%q ready=%t restarts=%d deleted=%v\n", p.Namespace, p.Name, p.UID, p.Spec.NodeName,
			p.Status.Phase, p.Status.Reason, Ready(p), Restarts(p), p.DeletionTimestamp)
		for _, status := range p.Status.ContainerStatuses {
			if !status.Ready {
				fmt.Printf("    container %s: %s\n", status.Name, strings.TrimSpace(status.State.String()))
			}
		}
	}
	var shadows offloadingv1beta1.ShadowPodList
	if err := c.List(ctx, &shadows); err == nil {
		for _, p := range shadows.Items {
			fmt.Printf("shadowpod %s/%s phase=%s deleted=%v finalizers=%v\n", p.Namespace, p.Name, p.Status.Phase, p.DeletionTimestamp, p.Finalizers)
		}
	}
}

func describeEvents(ctx context.Context, c *playground.Cluster, namespaces []string) {
	ours := func(namespace string) bool {
		return slices.ContainsFunc(namespaces, func(name string) bool { return namespace == name || namespace == Twin(name) })
	}
	var events corev1.EventList
	if err := c.List(ctx, &events); err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range events.Items {
		if e.Type == corev1.EventTypeWarning || ours(e.Namespace) {
			fmt.Printf("event %s/%s %s %s: %s\n", e.Namespace, e.InvolvedObject.Name, e.Type, e.Reason, e.Message)
		}
	}
}

// components prints the ends of the logs of Liqo's components.
func components(ctx context.Context, c *playground.Cluster) {
	all, err := pods(ctx, c, "")
	if err != nil {
		return
	}
	for _, p := range all {
		if p.Namespace != "liqo" && !strings.HasPrefix(p.Namespace, "liqo-tenant-") {
			continue
		}
		for _, container := range p.Spec.Containers {
			for _, previous := range []bool{true, false} {
				lines := int64(lastLines)
				options := corev1.PodLogOptions{Container: container.Name, TailLines: &lines, Previous: previous}
				if data, err := c.Set.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &options).DoRaw(ctx); err == nil {
					fmt.Printf("---- log of %s of %s/%s in %s, before its last restart: %t\n", container.Name, p.Namespace, p.Name, c.ID, previous)
					fmt.Println(string(data))
				}
			}
		}
	}
}
