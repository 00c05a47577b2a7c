package scenario

import (
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// whole returns a pod that sets every field with a meaning in two clusters.
func whole(namespace string) *corev1.Pod {
	pod := story.PodOn("milan", namespace, "whole", playground.TestServer)
	pod.Annotations = map[string]string{"liqo.io/anti-affinity-preset": "propagate", "note": "kept", "example.com/note": "obeyed by a controller of milan"}
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")}
	spec := &pod.Spec
	spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "rival"}}, Namespaces: []string{namespace},
	}}}}
	spec.ActiveDeadlineSeconds = new(int64(3600))
	spec.DNSPolicy = corev1.DNSNone
	spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.53"}, Searches: []string{"shop.example"}}
	spec.EnableServiceLinks = new(false)
	spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"oracle"}}}
	spec.Hostname, spec.Subdomain = "delphi", "greece"
	spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000)), FSGroup: new(int64(2000)), SupplementalGroups: []int64{3000}}
	spec.ShareProcessNamespace = new(true)
	spec.PriorityClassName = "system-cluster-critical" // a class of rome only
	spec.SchedulerName = corev1.DefaultSchedulerName
	spec.Tolerations = []corev1.Toleration{{Key: "example.com/slow", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 2, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}}
	spec.Volumes = []corev1.Volume{
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
		{Name: "about", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "note", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['note']"}},
		}}}},
	}
	always := corev1.ContainerRestartPolicyAlways
	spec.InitContainers = []corev1.Container{
		{Name: "first", Image: playground.TestServer, Command: []string{"/testserver", "exit", "0"}},
		{Name: "beside", Image: playground.Shell, Command: []string{"sleep", "1000"}, RestartPolicy: &always},
	}
	main := &spec.Containers[0]
	main.Env = []corev1.EnvVar{
		{Name: "PLAIN", Value: "text"},
		{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "SETTING", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "a"}}},
	}
	main.Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
	// The limit is enough for the commands that the story runs in the container.
	large := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: small[corev1.ResourceMemory]}
	main.Resources = corev1.ResourceRequirements{Requests: small, Limits: large}
	main.SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false)}
	main.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}, {Name: "settings", MountPath: "/settings"}, {Name: "about", MountPath: "/about"}}
	healthy := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("web")}}
	main.StartupProbe = &corev1.Probe{ProbeHandler: healthy, PeriodSeconds: 1, FailureThreshold: 30}
	main.ReadinessProbe = &corev1.Probe{ProbeHandler: healthy, PeriodSeconds: 2}
	main.LivenessProbe = &corev1.Probe{ProbeHandler: healthy, PeriodSeconds: 20}
	main.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/testserver", "exit", "0"}}}}
	return pod
}

// carried checks that milan's pod equals rome's pod except for fields that only have a meaning in rome, and that rome shows its status.
func carried(s *story.Story, here, there *corev1.Pod) {
	s.Helper()
	if _, obeyed := there.Annotations["example.com/note"]; obeyed || there.Annotations["note"] != "kept" || there.Labels["app"] != "whole" {
		s.Errorf("it has the labels %v and annotations %v", there.Labels, there.Annotations)
	}
	want, got := here.Spec.DeepCopy(), there.Spec.DeepCopy()
	want.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].Namespaces = []string{there.Namespace}
	want.AutomountServiceAccountToken = new(false)
	// Fields that milan sets itself.
	want.NodeName, want.NodeSelector, want.ServiceAccountName, want.DeprecatedServiceAccount = got.NodeName, got.NodeSelector, got.ServiceAccountName, got.DeprecatedServiceAccount
	want.Priority, want.PriorityClassName, want.PreemptionPolicy = got.Priority, "", got.PreemptionPolicy
	// The token of the local API server is left out; the other sources of its volume are kept.
	token := func(v corev1.Volume) bool { return strings.HasPrefix(v.Name, "kube-api-access-") }
	for _, spec := range []*corev1.PodSpec{want, got} {
		spec.Volumes = slices.DeleteFunc(spec.Volumes, token)
		spec.Tolerations = slices.DeleteFunc(spec.Tolerations, func(t corev1.Toleration) bool {
			return t.Key == api.TaintVirtualNode || strings.HasPrefix(t.Key, "node.kubernetes.io/")
		})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("the pod is another one in milan (- rome, + milan):\n%s", diff)
	}

	kubelet := s.Only(s.Rome, api.TenantNamespace("milan"), client.MatchingLabels{api.LabelVirtualNode: "milan"})
	shown, is := here.Status.DeepCopy(), there.Status.DeepCopy()
	if shown.HostIP != kubelet.Status.PodIP {
		s.Errorf("its host has the address %s, want %s, that of the virtual kubelet", shown.HostIP, kubelet.Status.PodIP)
	}
	if shown.QOSClass != is.QOSClass || len(shown.InitContainerStatuses) != 2 {
		s.Errorf("rome shows class %s and init containers %+v, in milan they are %s and %+v", shown.QOSClass, shown.InitContainerStatuses, is.QOSClass, is.InitContainerStatuses)
	}
}
