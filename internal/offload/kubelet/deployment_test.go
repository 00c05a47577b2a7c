package kubelet

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/podtest"
)

func kubeletFacts() Facts {
	return Facts{ClusterID: "rome", Labels: map[string]string{"liqo.io/managed": "true"}, Options: &offloadingv1beta1.VkOptionsTemplateSpec{
		ContainerImage: "registry.example/virtual-kubelet:v1", PullPolicy: corev1.PullIfNotPresent, CreateNode: true,
		ExtraArgs: []string{"--extra"}, NodeExtraLabels: map[string]string{"b": "2", "a": "1"}, LabelsNotReflected: []string{"secret"},
		ReflectorsConfig: map[string]offloadingv1beta1.ReflectorConfig{
			"pod": {NumWorkers: 7}, "service": {NumWorkers: 2, Type: offloadingv1beta1.AllowList}, "endpointslice": {Type: offloadingv1beta1.AllowList},
		}, MetricsEnabled: true, MetricsAddress: ":5872",
	}}
}

func virtualNode(name, cluster string) offloadingv1beta1.VirtualNode {
	return offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace(cluster), Name: name, UID: "uid-1"},
		Spec:       offloadingv1beta1.VirtualNodeSpec{ClusterID: cluster},
	}
}

func kubeletNode() *offloadingv1beta1.VirtualNode {
	node := virtualNode("milan", "milan")
	node.Spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "kubeconfig-resourceslice-milan"}
	return &node
}

func TestKubelet(t *testing.T) {
	node := kubeletNode()
	off := false
	node.Spec.CreateNode = &off
	node.Spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{LabelsNotReflected: []string{"also"}}
	d := Deployment(node, kubeletFacts())
	if d.Name != "vk-milan" || d.Namespace != "liqo-tenant-milan" {
		t.Errorf("%s/%s", d.Namespace, d.Name)
	}
	for key, value := range d.Spec.Selector.MatchLabels {
		if d.Spec.Template.Labels[key] != value || d.Labels[key] != value {
			t.Errorf("label %s=%s of the selector is missing", key, value)
		}
	}
	container := d.Spec.Template.Spec.Containers[0]
	want := []string{
		"--virtual-node=milan", "--node-name=milan", "--tenant-namespace=liqo-tenant-milan", "--cluster-id=rome", "--foreign-cluster-id=milan",
		"--remote-kubeconfig=/var/run/liqo/identity/kubeconfig", "--create-node=false", "--disable-network-check=false", "--node-ip=$(POD_IP)",
		"--listen=:10250", "--pod-reflection-workers=7", "--service-reflection-workers=2",
		"--service-reflection-type=AllowList", "--endpointslice-reflection-workers=0",
		"--labels-not-reflected=secret,also", "--node-extra-labels=a=1,b=2", "--metrics-address=:5872", "--extra",
	}
	if diff := cmp.Diff(want, container.Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || *d.Spec.Replicas != 1 {
		t.Errorf("a single virtual kubelet must be gone before the next comes: %+v", d.Spec.Strategy)
	}
	if d.Spec.Template.Spec.ServiceAccountName != "milan" || container.Image != "registry.example/virtual-kubelet:v1" {
		t.Errorf("service account %s, image %s", d.Spec.Template.Spec.ServiceAccountName, container.Image)
	}
	if d.Labels["liqo.io/managed"] != "true" {
		t.Errorf("global label is missing: %v", d.Labels)
	}
}

func TestKubeletOfSeveralReplicasElectsALeader(t *testing.T) {
	facts := kubeletFacts()
	replicas := int32(2)
	facts.Options.Replicas = &replicas
	d := Deployment(kubeletNode(), facts)
	if *d.Spec.Replicas != 2 || !slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--leader-election") {
		t.Errorf("%d replicas with arguments %v", *d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Args)
	}
}

// TestKubeletIsProbed: both probes use a port of the container, and the liveness probe does not depend on the provider.
func TestKubeletIsProbed(t *testing.T) {
	container := Deployment(kubeletNode(), kubeletFacts()).Spec.Template.Spec.Containers[0]
	for path, probe := range map[string]*corev1.Probe{"/readyz": container.ReadinessProbe, "/healthz": container.LivenessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path {
			t.Fatalf("%s is not probed: %+v", path, probe)
		}
		if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool {
			return p.Name == probe.HTTPGet.Port.StrVal && p.ContainerPort == HealthPort
		}) {
			t.Errorf("%s is probed at %v, the ports are %+v", path, probe.HTTPGet.Port, container.Ports)
		}
	}
}

// TestKubeletHasAMemoryLimit: the virtual kubelet has a memory limit, also with a template that names no resources. Resources in a template are not changed.
func TestKubeletHasAMemoryLimit(t *testing.T) {
	facts := kubeletFacts()
	facts.Options.Resources = nil
	if limit := Deployment(kubeletNode(), facts).Spec.Template.Spec.Containers[0].Resources.Limits.Memory(); limit.IsZero() {
		t.Error("no memory limit")
	}
	facts.Options.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}}
	if diff := cmp.Diff(*facts.Options.Resources, Deployment(kubeletNode(), facts).Spec.Template.Spec.Containers[0].Resources); diff != "" {
		t.Error(diff)
	}
}

// TestKubeletsHaveFewRights: the pod of a virtual kubelet may be no root, has no capabilities, and has the token of its account, by which it works for the API server.
func TestKubeletsHaveFewRights(t *testing.T) {
	podtest.Check(t, "virtual kubelet", &Deployment(kubeletNode(), kubeletFacts()).Spec.Template.Spec, map[string]string{"token": "it works for objects of the API server"})
}

func TestKubeletMountsOnlyItsIdentity(t *testing.T) {
	pod := Deployment(kubeletNode(), kubeletFacts()).Spec.Template.Spec
	if len(pod.Volumes) != 1 || pod.Volumes[0].Secret == nil || pod.Volumes[0].Secret.SecretName != "kubeconfig-resourceslice-milan" {
		t.Fatalf("volumes %+v", pod.Volumes)
	}
	mount := pod.Containers[0].VolumeMounts[0]
	if mount.Name != pod.Volumes[0].Name || mount.SubPath != "" || !mount.ReadOnly {
		t.Errorf("mount %+v: one with a subPath never sees a renewed identity", mount)
	}
	if at := mount.MountPath + "/" + pod.Volumes[0].Secret.Items[0].Path; !slices.Contains(pod.Containers[0].Args, "--remote-kubeconfig="+at) {
		t.Errorf("mounted at %s, arguments %v", at, pod.Containers[0].Args)
	}
}

// TestKubeletOutlivesItsIdentity: a renewed identity does not restart the pod of a virtual kubelet, because that would cut logs, exec and port-forward. The
// running pod loads the new certificate, CA and proxy. Only another address restarts it.
func TestKubeletOutlivesItsIdentity(t *testing.T) {
	of := func(server, ca, certificate string) *appsv1.Deployment {
		facts := kubeletFacts()
		facts.Identity = []byte("clusters:\n- cluster: {server: '" + server + "', certificate-authority-data: " + ca + "}\nusers:\n- user: {client-certificate-data: " + certificate + "}\n")
		return Deployment(kubeletNode(), facts)
	}
	before, renewed, moved := of("https://milan", "a", "a"), of("https://milan", "b", "b"), of("https://turin", "a", "a")
	if diff := cmp.Diff(before.Spec, renewed.Spec); diff != "" {
		t.Errorf("a renewed identity changes the pods (-before +renewed):\n%s", diff)
	}
	if before.Annotations[AnnotationIdentityHash] == renewed.Annotations[AnnotationIdentityHash] {
		t.Error("nothing tells that the identity was renewed")
	}
	if cmp.Equal(before.Spec, moved.Spec) {
		t.Error("another address does not change the pods")
	}
}

func TestKubeletRestartsWithTheOffloadingPatch(t *testing.T) {
	node := kubeletNode()
	hash := func() string { return Deployment(node, kubeletFacts()).Spec.Template.Annotations[annotationPatchHash] }
	none := hash()
	node.Spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{NodeSelector: map[string]string{"a": "b"}}
	if some := hash(); some == none || some != hash() {
		t.Errorf("hash %s without a patch, %s with one", none, some)
	}
}

func TestKubeletFollowsItsOwnTemplate(t *testing.T) {
	node := kubeletNode()
	node.Spec.Template = &offloadingv1beta1.DeploymentTemplate{
		Metadata: offloadingv1beta1.ObjectMeta{Labels: map[string]string{"mine": "yes"}},
		Spec:     appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "mine"}}}}},
	}
	d := Deployment(node, kubeletFacts())
	if d.Labels["mine"] != "yes" || d.Labels["offloading.liqo.io/component"] != "virtual-kubelet" || d.Spec.Template.Spec.Containers[0].Name != "mine" {
		t.Errorf("%+v", d)
	}
}

func TestUpdateKubelet(t *testing.T) {
	want := Deployment(kubeletNode(), kubeletFacts())
	have := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"deployment.kubernetes.io/revision": "1"}}}
	UpdateDeployment(have, want)
	have.Spec.Template.Spec.DNSPolicy = corev1.DNSClusterFirst // as the API server defaults it
	have.Spec.Template.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
	before := have.DeepCopy()
	UpdateDeployment(have, want)
	if diff := cmp.Diff(before, have); diff != "" {
		t.Errorf("an unchanged wish changes the Deployment:\n%s", diff)
	}
	have.Spec.Template.Spec.Containers[0].Image = "drifted"
	UpdateDeployment(have, want)
	if have.Spec.Template.Spec.Containers[0].Image == "drifted" {
		t.Error("drift is not repaired")
	}
	facts := kubeletFacts()
	facts.Options.ExtraArgs = nil
	UpdateDeployment(have, Deployment(kubeletNode(), facts))
	if slices.Contains(have.Spec.Template.Spec.Containers[0].Args, "--extra") {
		t.Error("an argument that is no longer wanted stays")
	}
	if have.Annotations["deployment.kubernetes.io/revision"] != "1" {
		t.Error("an annotation of somebody else is lost")
	}
}
