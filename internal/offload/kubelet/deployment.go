// Package kubelet decides how a virtual kubelet is deployed: the Deployment of its pods, its rights, the Service of its metrics, and which of several
// virtual kubelets of a provider leads.
package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
)

// Labels of the objects of a virtual kubelet, by which tools show what a program is.
const (
	labelName      = "app.kubernetes.io/name"
	labelComponent = "app.kubernetes.io/component"
)

// PathProviderHealth is the path of a virtual node's kubelet API that reports whether the API server of its provider responds now: with status 200 if so.
const PathProviderHealth = "/healthz/provider"

// AnnotationIdentityHash changes with the identity, the kubeconfig for the provider. It is set on the Deployment of a virtual kubelet and on its
// pods, but not in the pod template, so that the pods do not restart. A changed pod annotation makes the kubelet refresh the mounted Secret at once;
// otherwise that takes about a minute.
const AnnotationIdentityHash = "liqo.io/identity-hash"

const (
	// annotationPatchHash, on the pods of a virtual kubelet, changes with the VirtualNode's offloading patch, so that they restart.
	annotationPatchHash = "liqo.io/offloading-patch-hash"
	// annotationAddressHash, on the same pods, changes with the address of the provider's API server, so that they restart. Other changes of the
	// identity are loaded by the running virtual kubelet.
	annotationAddressHash = "liqo.io/provider-address-hash"
)

// Mount of the provider's identity in the pod of a virtual kubelet. The kubelet mounts the Secret, so a virtual kubelet needs no right to read
// Secrets outside offloaded namespaces. The kubelet refreshes a renewed Secret within a minute or two.
const (
	identityVolume = "identity"
	identityPath   = "/var/run/liqo/identity"
)

// kubeletPort is the port where a virtual kubelet serves logs, exec and the like.
const kubeletPort = 10250

// HealthPort is the port where a virtual kubelet serves its health checks, the same as that of a kubelet.
const HealthPort = 10248

// healthPortName is the name of HealthPort in the pod.
const healthPortName = "healthz"

// Name returns the name of the Deployment of a VirtualNode's virtual kubelet.
func Name(virtualNode string) string {
	return offloadingv1beta1.VirtualKubeletDeploymentPrefix + virtualNode
}

// Binding returns the name of the ClusterRoleBinding of a VirtualNode's virtual kubelet.
func Binding(virtualNode string) string { return "liqo-node-" + virtualNode }

// CreatesNode reports whether a VirtualNode gets a Node. The VirtualNode's own setting overrides the options.
func CreatesNode(node *offloadingv1beta1.VirtualNode, options *offloadingv1beta1.VkOptionsTemplateSpec) bool {
	if node.Spec.CreateNode != nil {
		return *node.Spec.CreateNode
	}
	return options.CreateNode
}

// SkipsNetworkCheck reports whether the Node of a VirtualNode stays ready while the network to the provider is down. The VirtualNode's own setting
// overrides the options.
func SkipsNetworkCheck(node *offloadingv1beta1.VirtualNode, options *offloadingv1beta1.VkOptionsTemplateSpec) bool {
	if node.Spec.DisableNetworkCheck != nil {
		return *node.Spec.DisableNetworkCheck
	}
	return options.DisableNetworkCheck
}

// Selector returns the labels that select the pods of a VirtualNode's virtual kubelet.
func Selector(node *offloadingv1beta1.VirtualNode) map[string]string {
	return map[string]string{
		api.LabelType: api.TypeVirtualNode, offloadingv1beta1.LabelComponent: offloadingv1beta1.ComponentVirtualKubelet,
		api.LabelVirtualNode: node.Name, api.LabelRemoteClusterID: node.Spec.ClusterID,
	}
}

// Labels returns the labels of all objects that are created for a virtual kubelet.
func Labels(node *offloadingv1beta1.VirtualNode, global map[string]string) map[string]string {
	return api.Layered(global, Selector(node), map[string]string{
		offload.LabelManagedBy: offload.ManagedBy, offload.LabelPartOf: offload.ManagedBy,
		labelName: offloadingv1beta1.ComponentVirtualKubelet, labelComponent: offloadingv1beta1.ComponentVirtualKubelet,
	})
}

// Rights returns the role and subjects of the ClusterRoleBinding that gives the ServiceAccount of a virtual kubelet its rights in this
// cluster.
func Rights(node *offloadingv1beta1.VirtualNode) (rbacv1.RoleRef, []rbacv1.Subject) {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: offload.ClusterRoleLocal},
		[]rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: node.Namespace, Name: node.Name}}
}

// Facts holds the inputs of a virtual kubelet's Deployment, besides its VirtualNode.
type Facts struct {
	// ClusterID is the ID of this cluster.
	ClusterID string
	// Options are the settings of virtual kubelets.
	Options *offloadingv1beta1.VkOptionsTemplateSpec
	// Labels and Annotations are set on every object.
	Labels, Annotations map[string]string
	// Identity is the kubeconfig for the provider; nil while it is unknown.
	Identity []byte
}

// Deployment returns the Deployment of a VirtualNode's virtual kubelet. The VirtualNode's own template takes precedence over a Deployment built from the
// options. The VirtualNode must name its kubeconfig Secret.
func Deployment(node *offloadingv1beta1.VirtualNode, facts Facts) *appsv1.Deployment {
	labels := Labels(node, facts.Labels)
	identity := map[string]string{AnnotationIdentityHash: hashOf(facts.Identity)}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: node.Namespace, Name: Name(node.Name), Labels: labels, Annotations: api.Layered(facts.Annotations, identity),
	}}
	if t := node.Spec.Template; t != nil {
		d.Labels = api.Layered(labels, t.Metadata.Labels)
		d.Annotations = api.Layered(facts.Annotations, t.Metadata.Annotations, identity)
		d.Spec = *t.Spec.DeepCopy()
		return d
	}
	options := facts.Options
	replicas := replicasOf(options)
	strategy := appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	if replicas > 1 {
		// Several replicas elect a leader. A single replica does not, so the old pod has to stop before the new one starts.
		strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	history := int32(1)
	d.Spec = appsv1.DeploymentSpec{
		Replicas: &replicas, Strategy: strategy, RevisionHistoryLimit: &history,
		Selector: &metav1.LabelSelector{MatchLabels: Selector(node)},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				Labels: api.Layered(options.ExtraLabels, labels),
				Annotations: api.Layered(facts.Annotations, options.ExtraAnnotations, map[string]string{
					annotationPatchHash: hashOf(node.Spec.OffloadingPatch), annotationAddressHash: hashOf(addresses(facts.Identity)),
				}),
			},
			Spec: kubeletPod(node, facts),
		},
	}
	return d
}

// addresses returns the API servers in a kubeconfig, or the whole kubeconfig if it can't be parsed. The result is only hashed.
func addresses(kubeconfig []byte) any {
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
			} `json:"cluster"`
		} `json:"clusters"`
	}
	if err := yaml.Unmarshal(kubeconfig, &config); err != nil {
		return kubeconfig
	}
	return config
}

// replicasOf returns the number of pods of a virtual kubelet.
func replicasOf(options *offloadingv1beta1.VkOptionsTemplateSpec) int32 {
	if options.Replicas == nil {
		return 1
	}
	return *options.Replicas
}

func kubeletPod(node *offloadingv1beta1.VirtualNode, facts Facts) corev1.PodSpec {
	options := facts.Options
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
	}
	user, yes, no := int64(65532), true, false
	container := corev1.Container{
		Name: "virtual-kubelet", Image: options.ContainerImage, ImagePullPolicy: options.PullPolicy,
		Args: append(kubeletArgs(node, facts), options.ExtraArgs...),
		Env: []corev1.EnvVar{
			field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"), field("POD_IP", "status.podIP"),
			{Name: "VIRTUALNODE_NAME", Value: node.Name},
		},
		Ports: []corev1.ContainerPort{
			{Name: "kubelet", ContainerPort: kubeletPort, Protocol: corev1.ProtocolTCP},
			{Name: healthPortName, ContainerPort: HealthPort, Protocol: corev1.ProtocolTCP},
		},
		ReadinessProbe: probe("/readyz", 2),
		// /healthz succeeds even if the provider is unreachable, since a restart would not help.
		LivenessProbe: probe("/healthz", 20),
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
		}, Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}},
		VolumeMounts: []corev1.VolumeMount{{Name: identityVolume, MountPath: identityPath, ReadOnly: true}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	if options.Resources != nil {
		container.Resources = *options.Resources.DeepCopy()
	}
	if port, ok := metricsPort(options); ok {
		container.Ports = append(container.Ports, corev1.ContainerPort{Name: "metrics", ContainerPort: port, Protocol: corev1.ProtocolTCP})
	}
	grace := int64(10)
	return corev1.PodSpec{
		ServiceAccountName: node.Name, ImagePullSecrets: slices.Clone(options.ImagePullSecrets),
		TerminationGracePeriodSeconds: &grace,
		Tolerations:                   slices.Clone(options.Tolerations),
		Containers:                    []corev1.Container{container},
		Volumes: []corev1.Volume{{Name: identityVolume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{
				SecretName: node.Spec.KubeconfigSecretRef.Name,
				Items:      []corev1.KeyToPath{{Key: authv1beta1.KubeconfigSecretKey, Path: authv1beta1.KubeconfigSecretKey}},
			},
		}}},
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		// A virtual kubelet never runs on a virtual node, least of all on its own.
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{offload.OnType(corev1.NodeSelectorOpNotIn)}},
		}},
	}
}

// probe returns an HTTP probe of a path on HealthPort.
func probe(path string, periodSeconds int32) *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: periodSeconds, ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(healthPortName)},
	}}
}

// reflectedKind is a kind, named as in the keys of VkOptionsTemplates and in the flags of virtual kubelets.
type reflectedKind struct {
	name string
	// choice reports whether users configure which objects of the kind are reflected (AllowList or DenyList). The other kinds have fixed rules.
	choice bool
}

func reflectedKinds() []reflectedKind {
	return []reflectedKind{
		{"pod", false}, {"service", true}, {"endpointslice", false}, {"ingress", true}, {"configmap", true}, {"secret", true},
		{"serviceaccount", false}, {"persistentvolumeclaim", false}, {"event", true}, {"networkpolicy", true}, {"poddisruptionbudget", true},
	}
}

func kubeletArgs(node *offloadingv1beta1.VirtualNode, facts Facts) []string {
	options := facts.Options
	args := []string{
		"--virtual-node=" + node.Name,
		"--node-name=" + node.Name,
		"--tenant-namespace=" + node.Namespace,
		"--cluster-id=" + facts.ClusterID,
		"--foreign-cluster-id=" + node.Spec.ClusterID,
		"--remote-kubeconfig=" + identityPath + "/" + authv1beta1.KubeconfigSecretKey,
		"--create-node=" + strconv.FormatBool(CreatesNode(node, options)),
		"--disable-network-check=" + strconv.FormatBool(SkipsNetworkCheck(node, options)),
		"--node-ip=$(POD_IP)",
		fmt.Sprintf("--listen=:%d", kubeletPort),
	}
	if replicasOf(options) > 1 {
		args = append(args, "--leader-election")
	}
	for _, kind := range reflectedKinds() {
		config, ok := options.ReflectorsConfig[kind.name]
		if !ok {
			continue
		}
		args = append(args, fmt.Sprintf("--%s-reflection-workers=%d", kind.name, config.NumWorkers))
		if kind.choice && config.Type != "" {
			args = append(args, fmt.Sprintf("--%s-reflection-type=%s", kind.name, config.Type))
		}
	}
	labels, annotations := options.LabelsNotReflected, options.AnnotationsNotReflected
	if p := node.Spec.OffloadingPatch; p != nil {
		labels, annotations = slices.Concat(labels, p.LabelsNotReflected), slices.Concat(annotations, p.AnnotationsNotReflected)
	}
	for _, list := range []struct{ flag, value string }{
		{"labels-not-reflected", strings.Join(labels, ",")},
		{"annotations-not-reflected", strings.Join(annotations, ",")},
		{"node-extra-labels", pairs(options.NodeExtraLabels)},
		{"node-extra-annotations", pairs(options.NodeExtraAnnotations)},
	} {
		if list.value != "" {
			args = append(args, "--"+list.flag+"="+list.value)
		}
	}
	if _, ok := metricsPort(options); ok {
		args = append(args, "--metrics-address="+options.MetricsAddress)
	}
	return args
}

// metricsPort returns the port of the metrics; false when metrics are off or their address is not host:port.
func metricsPort(options *offloadingv1beta1.VkOptionsTemplateSpec) (int32, bool) {
	if !options.MetricsEnabled {
		return 0, false
	}
	at := strings.LastIndexByte(options.MetricsAddress, ':')
	port, err := strconv.ParseUint(options.MetricsAddress[at+1:], 10, 16)
	if at < 0 || err != nil || port == 0 {
		return 0, false
	}
	return int32(port), true
}

func pairs(m map[string]string) string {
	list := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, k+"="+m[k])
	}
	return strings.Join(list, ",")
}
