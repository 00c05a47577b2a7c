package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network/gatewaypod"
	"liqo.io/liqo/internal/offload/kubelet"
	"liqo.io/liqo/test/apitest"
)

// restricted is the admission configuration by which an API server enforces the restricted level in namespaces without a label.
const restricted = `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
  - name: PodSecurity
    configuration:
      apiVersion: pod-security.admission.config.k8s.io/v1
      kind: PodSecurityConfiguration
      defaults: {enforce: restricted, enforce-version: latest}
`

// ourPods returns a pod of each component that runs in a cluster, as the chart and the programs create it.
func ourPods(t *testing.T) map[string]corev1.PodTemplateSpec {
	t.Helper()
	chart, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := installer.Render(chart, "liqo", map[string]any{"discovery": map[string]any{"config": map[string]any{"clusterID": "rome"}}})
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]corev1.PodTemplateSpec{}
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		var meta metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
			t.Fatal(err)
		}
		into := map[string]any{
			"Deployment": &appsv1.Deployment{}, "DaemonSet": &appsv1.DaemonSet{}, "VkOptionsTemplate": &offloadingv1beta1.VkOptionsTemplate{},
			"WgGatewayServerTemplate": &networkingv1beta1.WgGatewayServerTemplate{}, "WgGatewayClientTemplate": &networkingv1beta1.WgGatewayServerTemplate{},
		}[meta.Kind]
		if into == nil {
			continue
		}
		if err := yaml.Unmarshal([]byte(document), into); err != nil {
			t.Fatal(err)
		}
		switch made := into.(type) {
		case *appsv1.Deployment:
			pods[meta.Name] = made.Spec.Template
		case *appsv1.DaemonSet:
			pods[meta.Name] = made.Spec.Template
		case *offloadingv1beta1.VkOptionsTemplate:
			node := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
			node.Spec.ClusterID, node.Spec.KubeconfigSecretRef = "milan", &corev1.LocalObjectReference{Name: "x"}
			pods["virtual-kubelet"] = kubelet.Deployment(node, kubelet.Facts{ClusterID: "rome", Options: &made.Spec}).Spec.Template
		case *networkingv1beta1.WgGatewayServerTemplate:
			rendered, err := gatewaypod.Render(made.Spec.Template.Raw, gatewaypod.TemplateData{Name: "milan", ClusterID: "milan"})
			if err != nil {
				t.Fatal(err)
			}
			pods[meta.Name] = rendered.Deployment.Spec.Template
		}
	}
	return pods
}

// TestPodSecurityOnAPIServer: in a cluster that enforces the restricted level in namespaces without a label, all pods of Liqo are admitted without
// labels by an administrator. Only the agents of the network need another level.
func TestPodSecurityOnAPIServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, []byte(restricted), 0o600); err != nil {
		t.Fatal(err)
	}
	_, config := apitest.Environment(t, [2]string{"admission-control-config-file", file})
	c := apitest.Client(t, config)
	tenant := map[string]string{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: "milan"}
	const level = "pod-security.kubernetes.io/enforce"
	for name, labels := range map[string]map[string]string{
		"nothing": nil, "liqo": nil, "liqo-tenant-milan": tenant,
		"liqo-tenant-turin": {api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: "turin", level: "baseline"},
	} {
		if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
			t.Fatal(err)
		}
	}
	create := func(namespace, component string, pod corev1.PodTemplateSpec) error {
		spec := pod.Spec.DeepCopy()
		spec.ServiceAccountName, spec.PriorityClassName = "default", ""
		return c.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: component}, Spec: *spec}, client.DryRunAll)
	}
	privileged := map[string]bool{"liqo-fabric": true, "wireguard-server": true, "wireguard-client": true}
	pods := ourPods(t)
	if len(pods) < 6 {
		t.Fatalf("only %d kinds of pods were found", len(pods))
	}
	for component, pod := range pods {
		if err := create("nothing", component, pod); privileged[component] != apierrors.IsForbidden(err) || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s needs more than level restricted: %t, want %t: %v", component, err != nil, privileged[component], err)
		}
	}

	opts := &ControllerManagerOptions{ClusterID: "rome", LiqoNamespace: "liqo"}
	again := true
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: kube.NewScheme(), Cache: controllerManagerCache(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: controllerconfig.Controller{SkipNameValidation: &again},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := setupNetwork(mgr, opts); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager: %v", err)
		}
	}()
	for component, pod := range pods {
		namespace := "liqo"
		if component == "virtual-kubelet" || strings.HasPrefix(component, "wireguard-") {
			namespace = "liqo-tenant-milan"
		}
		apitest.Eventually(t, time.Minute, fmt.Sprintf("%s to be let into namespace %s", component, namespace), func() error {
			return create(namespace, component, pod)
		})
	}
	for name, want := range map[string]string{"nothing": "", "liqo-tenant-turin": "baseline"} {
		var namespace corev1.Namespace
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &namespace); err != nil || namespace.Labels[level] != want {
			t.Errorf("namespace %s has level %q, want %q: %v", name, namespace.Labels[level], want, err)
		}
	}
}
