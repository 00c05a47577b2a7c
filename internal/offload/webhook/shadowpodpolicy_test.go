package webhook

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/test/apitest"
)

// TestShadowPodPolicyOnAPIServer tries forbidden requests with the groups and permissions of a consumer, against the policies of the chart.
func TestShadowPodPolicyOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	vals := values()
	vals["offloading"] = map[string]any{"podPolicy": map[string]any{"storageClasses": []any{"fast"}}}
	for _, policy := range chart(t, vals, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRole") {
		if err := admin.Create(t.Context(), policy); err != nil {
			t.Fatalf("creating %s %s: %v", policy.GetKind(), policy.GetName(), err)
		}
	}
	namespace(t, admin, "demo-rome", map[string]string{"liqo.io/remote-cluster-id": "rome"})
	namespace(t, admin, "local", nil)
	for _, in := range []string{"demo-rome", "local"} { // the binding in namespace local simulates a mistake of the administrator
		ref, subjects := offload.RemoteNamespaceRights("rome")
		if err := admin.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "twin"}, RoleRef: ref, Subjects: subjects}); err != nil {
			t.Fatal(err)
		}
	}
	consumer := rest.CopyConfig(config)
	consumer.Impersonate = rest.ImpersonationConfig{UserName: "rome-a1b2c3", Groups: []string{"rome", "system:authenticated"}}
	c := apitest.Client(t, consumer)

	yes, unmasked := true, corev1.UnmaskedProcMount
	always := corev1.ContainerRestartPolicyAlways
	runtimeClass := "gvisor"
	priority := int32(1000)
	context := func(s corev1.SecurityContext) func(*offloadingv1beta1.ShadowPod) {
		return func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.Containers[0].SecurityContext = &s }
	}
	claims := func(change func(*corev1.PersistentVolumeClaimSpec)) func(*offloadingv1beta1.ShadowPod) {
		claim := corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}
		change(&claim)
		return func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claim}}}}}
		}
	}
	made := 0
	shadow := func(change func(*offloadingv1beta1.ShadowPod)) *offloadingv1beta1.ShadowPod {
		made++
		sp := &offloadingv1beta1.ShadowPod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: fmt.Sprintf("web-%d", made), Labels: map[string]string{
				"offloading.liqo.io/origin": "rome", "liqo.io/creator-user": "rome-a1b2c3",
			}},
			Spec: offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "web", Image: "web:1"}}, AutomountServiceAccountToken: new(false),
			}},
		}
		change(sp)
		return sp
	}
	type mutation = func(*offloadingv1beta1.ShadowPod)
	refused := map[string]struct {
		change mutation
		says   string
	}{
		"host network": {func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.HostNetwork = true }, "hostNetwork is refused"},
		"host PIDs":    {func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.HostPID = true }, "hostPID is refused"},
		"host IPC":     {func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.HostIPC = true }, "hostIPC is refused"},
		"host path": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.Volumes = []corev1.Volume{{Name: "root", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}, "volume root is of type hostPath"},
		"disk by name": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{
				AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-0"}}}}
		}, "a volume is of a type that is refused"},
		"a disk of ours": {claims(func(s *corev1.PersistentVolumeClaimSpec) { s.VolumeName = "pv-0" }),
			"volume disk: volumeName in the claim of an ephemeral volume is refused"},
		"disks of ours": {claims(func(s *corev1.PersistentVolumeClaimSpec) { s.Selector = &metav1.LabelSelector{} }), "volume disk: selector in"},
		"a copy of a disk": {claims(func(s *corev1.PersistentVolumeClaimSpec) {
			s.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "data"}
		}), "volume disk: dataSource in"},
		"a copy of a disk of others": {claims(func(s *corev1.PersistentVolumeClaimSpec) {
			s.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "data", Namespace: new("local")}
		}), "volume disk: dataSourceRef in"},
		"the attributes of disks": {claims(func(s *corev1.PersistentVolumeClaimSpec) { s.VolumeAttributesClassName = new("gold") }),
			"volume disk: volumeAttributesClassName in"},
		"any disk": {claims(func(s *corev1.PersistentVolumeClaimSpec) { s.StorageClassName = new("") }), "volume disk: storageClassName '' is refused"},
		"disks of a class": {claims(func(s *corev1.PersistentVolumeClaimSpec) { s.StorageClassName = new("manual") }),
			"volume disk: storageClassName 'manual' is refused by the provider (value offloading.podPolicy.storageClasses lists those allowed)"},
		"driver": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.Volumes = []corev1.Volume{{Name: "driver", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "x"}}}}
		}, "a volume is of a type that is refused"},
		"no AppArmor, annotation": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/web": "unconfined"}
		}, "with value unconfined is refused"},
		"host port": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		}, "hostPort is refused"},
		"privileged": {context(corev1.SecurityContext{Privileged: &yes}), "privileged is refused"},
		"privileged init container": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.InitContainers = []corev1.Container{{Name: "init", Image: "x:1", RestartPolicy: &always, SecurityContext: &corev1.SecurityContext{Privileged: &yes}}}
		}, "privileged is refused"},
		"privileged ephemeral container": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "debug", Image: "x:1", SecurityContext: &corev1.SecurityContext{Privileged: &yes}}}}
		}, "privileged is refused"},
		"capability":       {context(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE", "SYS_ADMIN"}}}), "capability SYS_ADMIN in"},
		"all capabilities": {context(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"ALL"}}}), "capability ALL in"},
		"line break":       {context(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS\nADMIN"}}}), "the ShadowPod is refused by the provider"},
		"unmasked /proc":   {context(corev1.SecurityContext{ProcMount: &unmasked}), "procMount is refused"},
		"no seccomp":       {context(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}), "seccompProfile"},
		"no seccomp, pod": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}
		}, "seccompProfile"},
		"sysctls": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.shmmax", Value: "1"}}}
		}, "sysctl kernel.shmmax in spec.pod.securityContext.sysctls is refused by the provider (sysctls in value offloading.podPolicy.allow allows it)"},
		"priority class":           {func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.PriorityClassName = "system-node-critical" }, "priority class system-node-critical is refused"},
		"priority":                 {func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.Priority = &priority }, "priority is refused"},
		"runtime class":            {func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.RuntimeClassName = &runtimeClass }, "runtime class gvisor is refused"},
		"a confinement of its own": {context(corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}}), "seLinuxOptions"},
		"a confinement of its own, pod": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Role: "sysadm_r"}}
		}, "seLinuxOptions"},
		"a certificate of ours": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.Volumes = []corev1.Volume{{Name: "c", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{SignerName: "a/b", KeyType: "ED25519"}}}}}}}
		}, "podCertificate"},
		"a probe of another host": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "169.254.169.254"}}}
		}, "host in a probe or a hook"},
		"a hook to another host": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "10.96.0.1"}}}
		}, "host in a probe or a hook"},
		"nodes of the control plane": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.Tolerations = []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists}}
		}, "or of everything"},
		"nodes of etcd": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.Tolerations = []corev1.Toleration{{Key: "node-role.kubernetes.io/etcd", Operator: corev1.TolerationOpExists}}
		}, "or of everything"},
		"nodes of system components": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.Tolerations = []corev1.Toleration{{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}}
		}, "or of everything"},
		"all nodes": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}, "or of everything"},
		"nodes for itself": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{}}}}}
		}, "pods of other namespaces"},
		"nodes of others": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, Namespaces: []string{"kube-system"}}}}}}
		}, "pods of other namespaces"},
		"a device": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
		}, "resourceClaims are refused"},
		"a service account":              {func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.ServiceAccountName = "operator" }, "service account is refused"},
		"a service account, former name": {func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.DeprecatedServiceAccount = "operator" }, "service account is refused"},
		"a scheduler":                    {func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.SchedulerName = "mine" }, "schedulerName is refused"},
		"an end that never comes": {func(sp *offloadingv1beta1.ShadowPod) {
			sp.Spec.Pod.TerminationGracePeriodSeconds = new(int64(1 << 40))
		}, "more than a day"},
		"a node of its own":   {func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.NodeName = "control-plane" }, "nodeName is refused"},
		"another's origin":    {func(sp *offloadingv1beta1.ShadowPod) { sp.Labels["offloading.liqo.io/origin"] = "turin" }, "is 'turin', but namespace demo-rome belongs to cluster 'rome'"},
		"no origin":           {func(sp *offloadingv1beta1.ShadowPod) { delete(sp.Labels, "offloading.liqo.io/origin") }, "belongs to cluster 'rome'"},
		"a finalizer":         {func(sp *offloadingv1beta1.ShadowPod) { sp.Finalizers = []string{"example.org/never"} }, "finalizers are refused"},
		"a namespace of ours": {func(sp *offloadingv1beta1.ShadowPod) { sp.Namespace = "local" }, "belongs to cluster ''"},
	}
	apitest.InForce(t, admin)
	for name, r := range refused {
		t.Run(name, func(t *testing.T) {
			err := c.Create(t.Context(), shadow(r.change))
			if err == nil || !strings.Contains(err.Error(), r.says) {
				t.Errorf("%v, want %q", err, r.says)
			}
		})
	}
	for name, allowed := range map[string]mutation{
		"plain":             func(*offloadingv1beta1.ShadowPod) {},
		"a disk":            claims(func(s *corev1.PersistentVolumeClaimSpec) { s.VolumeMode = new(corev1.PersistentVolumeFilesystem) }),
		"a disk of a class": claims(func(s *corev1.PersistentVolumeClaimSpec) { s.StorageClassName = new("fast") }),
		"ordinary": func(sp *offloadingv1beta1.ShadowPod) {
			zero, runtimeDefault := int32(0), &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
			sp.Spec.Pod.Priority = &zero
			sp.Spec.Pod.ServiceAccountName, sp.Spec.Pod.SchedulerName, sp.Spec.Pod.TerminationGracePeriodSeconds = "default", "default-scheduler", new(int64(3600))
			sp.Spec.Pod.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists}}
			sp.Spec.Pod.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}, Namespaces: []string{"demo-rome"}}}}}
			sp.Spec.Pod.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz"}}}
			sp.Spec.Pod.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: runtimeDefault, Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}, {Name: "net.ipv4.tcp_rmem", Value: "4096 87380 16777216"}}}
			sp.Spec.Pod.Containers[0].SecurityContext = &corev1.SecurityContext{SeccompProfile: runtimeDefault, Capabilities: &corev1.Capabilities{
				Add: []corev1.Capability{"NET_BIND_SERVICE"}, Drop: []corev1.Capability{"ALL"},
			}}
			sp.Spec.Pod.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}}
			sp.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/web": "runtime/default", "note": "unconfined"}
			for name, source := range map[string]corev1.VolumeSource{
				"tmp": {EmptyDir: &corev1.EmptyDirVolumeSource{}}, "data": {PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
				"token": {Projected: &corev1.ProjectedVolumeSource{}}, "key": {Secret: &corev1.SecretVolumeSource{SecretName: "key"}},
			} {
				sp.Spec.Pod.Volumes = append(sp.Spec.Pod.Volumes, corev1.Volume{Name: name, VolumeSource: source})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.Create(t.Context(), shadow(allowed)); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("updates", func(t *testing.T) {
		sp := shadow(func(*offloadingv1beta1.ShadowPod) {})
		if err := c.Create(t.Context(), sp); err != nil {
			t.Fatal(err)
		}
		for name, u := range map[string]struct {
			change mutation
			says   string
		}{
			"label": {func(sp *offloadingv1beta1.ShadowPod) { sp.Labels["app"] = "web" }, ""},
			"image": {func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.Containers[0].Image = "web:2" }, ""},
			"resize": {func(sp *offloadingv1beta1.ShadowPod) {
				sp.Spec.Pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
			}, ""},
			"debug": {func(sp *offloadingv1beta1.ShadowPod) {
				sp.Spec.Pod.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "x:1"}}}
			}, ""},
			"privileged debug": {refused["privileged ephemeral container"].change, "is forbidden: ValidatingAdmissionPolicy"},
			"command":          {func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.Containers[0].Command = []string{"sh"} }, "only images and resources change"},
			"privileged later": {context(corev1.SecurityContext{Privileged: &yes}), "is forbidden: ValidatingAdmissionPolicy"},
			"another container": {func(sp *offloadingv1beta1.ShadowPod) {
				sp.Spec.Pod.Containers = append(sp.Spec.Pod.Containers, corev1.Container{Name: "more", Image: "x:1"})
			}, "only images and resources change"},
			"another init container": {func(sp *offloadingv1beta1.ShadowPod) {
				sp.Spec.Pod.InitContainers = append(sp.Spec.Pod.InitContainers, corev1.Container{Name: "more", Image: "x:1"})
			}, "only images and resources change"},
			"volume later":       {refused["host path"].change, "is forbidden: ValidatingAdmissionPolicy"},
			"host network later": {refused["host network"].change, "is forbidden: ValidatingAdmissionPolicy"},
			"AppArmor": {func(sp *offloadingv1beta1.ShadowPod) {
				sp.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/web": "unconfined"}
			}, "with value unconfined is refused"},
			"creator":     {func(sp *offloadingv1beta1.ShadowPod) { sp.Labels["liqo.io/creator-user"] = "admin" }, "creator-user is immutable"},
			"a finalizer": {func(sp *offloadingv1beta1.ShadowPod) { sp.Finalizers = []string{"orphan"} }, "finalizers are refused"},
			"origin":      {func(sp *offloadingv1beta1.ShadowPod) { sp.Labels["offloading.liqo.io/origin"] = "turin" }, "belongs to cluster 'rome'"},
		} {
			changed := sp.DeepCopy()
			u.change(changed)
			err := c.Patch(t.Context(), changed, client.MergeFrom(sp))
			if (u.says == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), u.says)) {
				t.Errorf("%s: %v, want %q", name, err, u.says)
			}
		}
		if err := c.Delete(t.Context(), sp, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err == nil || !strings.Contains(err.Error(), "together with its Pod") {
			t.Errorf("orphaned: %v", err)
		}
		if err := c.Delete(t.Context(), sp, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			t.Errorf("deleted in the foreground: %v", err)
		}
		sp = shadow(func(*offloadingv1beta1.ShadowPod) {})
		if err := c.Create(t.Context(), sp); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), sp); err != nil {
			t.Errorf("deleted: %v", err)
		}
	})
	t.Run("what the provider allows", func(t *testing.T) {
		vals["offloading"] = map[string]any{"podPolicy": map[string]any{
			"allow":          []any{"hostNetwork", "hostPID", "hostIPC", "hostPath", "hostPort", "privileged", "capabilities", "sysctls", "volumes", "controlPlane", "affinity", "resourceClaims", "probeHosts"},
			"runtimeClasses": []any{"gvisor"}, "priorityClasses": []any{"system-node-critical"}, "serviceAccounts": []any{"operator"},
		}}
		for _, policy := range chart(t, vals, "ValidatingAdmissionPolicy") {
			if err := admin.Patch(t.Context(), policy, client.Merge); err != nil {
				t.Fatal(err)
			}
		}
		still := map[string]bool{"priority": true, "a node of its own": true, "another's origin": true, "no origin": true, "a namespace of ours": true, "a finalizer": true, "a scheduler": true, "an end that never comes": true}
		apitest.InForce(t, admin)
		for name, r := range refused {
			if err := c.Create(t.Context(), shadow(r.change)); (err != nil) != still[name] {
				t.Errorf("%s: %v", name, err)
			}
		}
		// Service account default is not accepted here, and a pod without a service account name uses it.
		for name, row := range map[string]struct {
			change mutation
			says   string
		}{
			"no token": {func(*offloadingv1beta1.ShadowPod) {}, ""},
			"a token":  {func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.AutomountServiceAccountToken = nil }, "a token of service account default is refused"},
			"a token in a volume": {func(sp *offloadingv1beta1.ShadowPod) {
				sp.Spec.Pod.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
					Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}}}
			}, "a token of service account default is refused"},
			"a token of a listed account": {func(sp *offloadingv1beta1.ShadowPod) {
				sp.Spec.Pod.ServiceAccountName, sp.Spec.Pod.AutomountServiceAccountToken = "operator", nil
			}, ""},
		} {
			err := c.Create(t.Context(), shadow(row.change))
			if (row.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), row.says) {
				t.Errorf("%s: %v, want %q", name, err, row.says)
			}
		}
	})
}
