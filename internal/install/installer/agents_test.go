package installer

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network/gatewaypod"
)

// gatewayPod returns the pod that the controller manager creates from a gateway template of the chart.
func gatewayPod(t *testing.T, kind, name string, values string) (corev1.PodTemplateSpec, *gatewaypod.Rendered) {
	t.Helper()
	var template networkingv1beta1.WgGatewayServerTemplate // client templates have the same fields
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(find(t, render(t, values), kind, name).Object, &template); err != nil {
		t.Fatal(err)
	}
	rendered, err := gatewaypod.Render(template.Spec.Template.Raw, gatewaypod.TemplateData{
		Name: "milan", Namespace: "liqo-tenant-milan", ClusterID: "milan", SecretName: "gw-milan", Spec: map[string]any{"mtu": 1300},
	})
	if err != nil {
		t.Fatal(err)
	}
	return rendered.Deployment.Spec.Template, rendered
}

// TestAgentsHaveLeastPrivileges: the containers of a gateway may change at most the network of their own namespace, and the container that holds the
// tunnel has no ServiceAccount token.
func TestAgentsHaveLeastPrivileges(t *testing.T) {
	const values = "discovery: {config: {clusterID: rome}}"
	var fabric appsv1.DaemonSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(find(t, render(t, values), "DaemonSet", "liqo-fabric").Object, &fabric); err != nil {
		t.Fatal(err)
	}
	server, _ := gatewayPod(t, "WgGatewayServerTemplate", "wireguard-server", values)
	client, _ := gatewayPod(t, "WgGatewayClientTemplate", "wireguard-client", values)
	for name, pod := range map[string]corev1.PodTemplateSpec{"fabric": fabric.Spec.Template, "server": server, "client": client} {
		for _, c := range pod.Spec.Containers {
			s := c.SecurityContext
			if s == nil || s.Privileged != nil && *s.Privileged || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
				s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.Capabilities == nil ||
				!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || !slices.Equal(s.Capabilities.Add, []corev1.Capability{"NET_ADMIN"}) {
				t.Errorf("%s: container %s runs with %+v", name, c.Name, s)
			}
		}
		if pod.Spec.HostPID || pod.Spec.HostIPC || pod.Spec.HostNetwork != (name == "fabric") {
			t.Errorf("%s is in namespaces of the host: %+v", name, pod.Spec)
		}
	}
	for _, pod := range []corev1.PodTemplateSpec{server, client} {
		if a := pod.Spec.AutomountServiceAccountToken; a == nil || *a {
			t.Error("every container of a gateway gets a token")
		}
		for _, c := range pod.Spec.Containers {
			token := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "token" })
			if token != (c.Name == "gateway") {
				t.Errorf("container %s: it has a token: %t", c.Name, token)
			}
		}
	}
}

func TestGatewayTemplates(t *testing.T) {
	for replicas, marked := range map[int]bool{1: true, 2: false} {
		values := fmt.Sprintf("{discovery: {config: {clusterID: rome}}, networking: {gatewayTemplates: {replicas: %d, wireguard: {implementation: userspace}}}}", replicas)
		pod, rendered := gatewayPod(t, "WgGatewayServerTemplate", "wireguard-server", values)
		if got := pod.Labels[networkingv1beta1.LabelActive] == "true"; got != marked {
			t.Errorf("with %d replicas pods are marked as the one at work by themselves: %t, want %t", replicas, got, marked)
		}
		if n := rendered.Deployment.Spec.Replicas; n == nil || int(*n) != replicas || !rendered.Service.Spec.PublishNotReadyAddresses {
			t.Errorf("it renders to %+v", rendered)
		}
		args := []string{}
		for _, c := range pod.Spec.Containers {
			args = append(args, c.Args...)
		}
		for _, want := range []string{"--implementation=userspace", "--mtu=1300", "--name=milan", "--cluster-id=rome", "--remote-cluster-id=milan", "--mode=server", "--secret-name=gw-milan"} {
			if !slices.Contains(args, want) {
				t.Errorf("arguments %q lack %s", args, want)
			}
		}
	}
}
