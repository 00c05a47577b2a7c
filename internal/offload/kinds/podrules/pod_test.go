package podrules

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/test/fieldtest"
)

var options = Options{Origin: "rome", Destination: "milan", Node: "milan-node", HostIP: "10.0.0.1", RuntimeClass: "elsewhere"}

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "u1", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "milan-node", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if change != nil {
		change(p)
	}
	return p
}

// TestEveryFieldOfASpecHasARule checks all fields of a PodSpec, including those of later Kubernetes releases: the table below must list each as
// copied, replaced or dropped.
func TestEveryFieldOfASpecHasARule(t *testing.T) {
	const copied, changed, dropped = "copied", "changed", "dropped"
	rules := map[string]string{
		"Volumes": copied, "InitContainers": copied, "Containers": copied, "RestartPolicy": copied, "TerminationGracePeriodSeconds": copied,
		"ActiveDeadlineSeconds": copied, "DNSPolicy": copied, "DNSConfig": copied, "ShareProcessNamespace": copied, "SecurityContext": copied,
		"ImagePullSecrets": copied, "Hostname": copied, "Subdomain": copied, "HostAliases": copied, "ReadinessGates": copied,
		"EnableServiceLinks": copied, "TopologySpreadConstraints": copied, "SetHostnameAsFQDN": copied, "Tolerations": copied, "RuntimeClassName": copied,

		"AutomountServiceAccountToken": changed,

		"EphemeralContainers": dropped, "NodeSelector": dropped, "ServiceAccountName": dropped, "DeprecatedServiceAccount": dropped,
		"NodeName": dropped, "HostNetwork": dropped, "HostPID": dropped, "HostIPC": dropped, "Affinity": dropped, "SchedulerName": dropped,
		"PriorityClassName": dropped, "Priority": dropped, "PreemptionPolicy": dropped, "Overhead": dropped, "OS": dropped, "HostUsers": dropped,
		"SchedulingGates": dropped, "ResourceClaims": dropped, "Resources": dropped, "HostnameOverride": dropped,
		"EvictionResponders": dropped,
		"SchedulingGroup":    dropped,
	}
	for field := range reflect.TypeFor[corev1.PodSpec]().Fields() {
		t.Run(field.Name, func(t *testing.T) {
			rule, found := rules[field.Name]
			if !found {
				t.Fatal("a field without a rule: decide whether it travels")
			}
			in := pod(func(p *corev1.Pod) {
				p.Spec = corev1.PodSpec{}
				fieldtest.Fill(reflect.ValueOf(&p.Spec).Elem().FieldByName(field.Name))
			})
			before := in.DeepCopy()
			out := reflect.ValueOf(ShadowPod(in, "shop-rome", options).Spec.Pod).FieldByName(field.Name)
			value := reflect.ValueOf(in.Spec).FieldByName(field.Name)
			switch rule {
			case copied:
				if !reflect.DeepEqual(out.Interface(), value.Interface()) {
					t.Errorf("not copied: %s", cmp.Diff(value.Interface(), out.Interface()))
				}
			case changed:
				if out.IsZero() || reflect.DeepEqual(out.Interface(), value.Interface()) {
					t.Errorf("unchanged: %v", out.Interface())
				}
			default:
				if !out.IsZero() {
					t.Errorf("not dropped: %v", out.Interface())
				}
			}
			if !reflect.DeepEqual(before, in) {
				t.Error("the local pod was changed")
			}
		})
		delete(rules, field.Name)
	}
	for name := range maps.Keys(rules) {
		t.Errorf("rule for %s, which no PodSpec has", name)
	}
}

func TestShadowPod(t *testing.T) {
	soft := func(labels map[string]string) *corev1.Affinity {
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: labels}},
		}}}}
	}
	propagated := &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}}}
	nodeAffinity := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}
	ours := map[string]string{api.LabelOrigin: "rome", api.LabelDestination: "milan", offloadingv1beta1.LabelNodeName: "milan-node"}
	with := func(m map[string]string) map[string]string { out := maps.Clone(ours); maps.Copy(out, m); return out }

	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		patch  *offloadingv1beta1.OffloadingPatch
		tune   func(*Options)
		got    func(*offloadingv1beta1.ShadowPod) any
		want   any
	}{
		"labels": {
			change: func(p *corev1.Pod) {
				p.Labels[offloadingv1beta1.LabelShadowPod] = "true"
				p.Labels[LabelRemoteUnavailable] = "true"
			},
			got: func(s *offloadingv1beta1.ShadowPod) any { return s.Labels }, want: with(map[string]string{"app": "web"}),
		},
		"labels that stay here": {
			change: func(p *corev1.Pod) { p.Labels["a.b/c"] = "1"; p.Labels["a.b/d"] = "2"; p.Labels["team"] = "x" },
			tune:   func(o *Options) { o.LabelsNotReflected = []string{"a.b/*"} },
			patch:  &offloadingv1beta1.OffloadingPatch{LabelsNotReflected: []string{"team"}},
			got:    func(s *offloadingv1beta1.ShadowPod) any { return s.Labels }, want: with(map[string]string{"app": "web"}),
		},
		"annotations": {
			change: func(p *corev1.Pod) {
				p.Annotations = map[string]string{
					"note": "x", "secret": "y", AnnotationRestarts: "c=1", "checksum/config": "1", "iam.amazonaws.com/role": "admin", "prometheus.io/scrape": "true",
				}
			},
			tune: func(o *Options) {
				o.AnnotationsNotReflected, o.AnnotationsReflected = []string{"secret"}, []string{"prometheus.io/*"}
			},
			got: func(s *offloadingv1beta1.ShadowPod) any {
				return kinds.Without(s.Annotations, slices.Collect(maps.Keys(notPruned))...)
			},
			want: map[string]string{"note": "x", "checksum/config": "1", "prometheus.io/scrape": "true", kinds.AnnotationLocalUID: "u1", kinds.AnnotationLabels: "app", kinds.AnnotationAnnotations: "checksum/config,note,prometheus.io/scrape", AnnotationSpec: specNotes(&pod(nil).Spec)},
		},
		"tolerations": {
			change: func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: api.TaintVirtualNode, Operator: corev1.TolerationOpExists}, {Key: "mine"}}
			},
			patch: &offloadingv1beta1.OffloadingPatch{Tolerations: []corev1.Toleration{{Key: "theirs"}}},
			got:   func(s *offloadingv1beta1.ShadowPod) any { return s.Spec.Pod.Tolerations }, want: []corev1.Toleration{{Key: "mine"}, {Key: "theirs"}},
		},
		"node selector": {
			change: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"here": "only"} },
			patch:  &offloadingv1beta1.OffloadingPatch{NodeSelector: map[string]string{"disk": "ssd"}},
			got:    func(s *offloadingv1beta1.ShadowPod) any { return s.Spec.Pod.NodeSelector }, want: map[string]string{"disk": "ssd"},
		},
		"anti-affinity soft": {
			change: func(p *corev1.Pod) {
				p.Annotations = map[string]string{AnnotationAntiAffinity: AntiAffinitySoft}
				p.Labels["pod-template-hash"] = "h"
			},
			got: func(s *offloadingv1beta1.ShadowPod) any { return s.Spec.Pod.Affinity }, want: soft(with(map[string]string{"app": "web"})),
		},
		"anti-affinity of listed labels": {
			change: func(p *corev1.Pod) {
				p.Annotations = map[string]string{AnnotationAntiAffinity: AntiAffinitySoft, AnnotationAntiAffinityLabels: "app, absent"}
			},
			got: func(s *offloadingv1beta1.ShadowPod) any { return s.Spec.Pod.Affinity }, want: soft(map[string]string{"app": "web"}),
		},
		"anti-affinity of labels that there are none of": {
			change: func(p *corev1.Pod) {
				p.Annotations = map[string]string{AnnotationAntiAffinity: AntiAffinitySoft, AnnotationAntiAffinityLabels: "absent"}
			},
			got: func(s *offloadingv1beta1.ShadowPod) any { return s.Spec.Pod.Affinity }, want: soft(with(map[string]string{"app": "web"})),
		},
		"anti-affinity propagated, namespaces": {
			change: func(p *corev1.Pod) {
				p.Annotations = map[string]string{AnnotationAntiAffinity: AntiAffinityPropagate}
				term := func() corev1.PodAffinityTerm { return corev1.PodAffinityTerm{Namespaces: []string{"shop", "other"}} }
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution:  []corev1.PodAffinityTerm{term()},
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: term()}},
				}}
			},
			got: func(s *offloadingv1beta1.ShadowPod) any {
				a := s.Spec.Pod.Affinity.PodAntiAffinity
				return append(a.RequiredDuringSchedulingIgnoredDuringExecution[0].Namespaces, a.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.Namespaces...)
			},
			want: []string{"shop-rome", "other", "shop-rome", "other"},
		},
		"volume of its own, class of virtual storage": {
			change: func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{ownVolume(StorageClass, nil)} },
			got: func(s *offloadingv1beta1.ShadowPod) any {
				return s.Spec.Pod.Volumes[0].Ephemeral.VolumeClaimTemplate.Spec
			},
			want: corev1.PersistentVolumeClaimSpec{},
		},
		"volume of its own, renamed class of virtual storage": {
			change: func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{ownVolume("spread", nil)} },
			tune:   func(o *Options) { o.VirtualStorageClass = "spread" },
			got: func(s *offloadingv1beta1.ShadowPod) any {
				return s.Spec.Pod.Volumes[0].Ephemeral.VolumeClaimTemplate.Spec
			},
			want: corev1.PersistentVolumeClaimSpec{},
		},
		"volume of its own, by annotation": {
			change: func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{ownVolume("local", map[string]string{api.AnnotationRemoteStorageClass: "ssd", api.AnnotationRemoteAccessModes: "ReadWriteMany, ReadOnlyMany"})}
			},
			got: func(s *offloadingv1beta1.ShadowPod) any {
				return s.Spec.Pod.Volumes[0].Ephemeral.VolumeClaimTemplate.Spec
			},
			want: corev1.PersistentVolumeClaimSpec{StorageClassName: new("ssd"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany, corev1.ReadOnlyMany}},
		},
		"anti-affinity hard": {
			change: func(p *corev1.Pod) {
				p.Annotations = map[string]string{AnnotationAntiAffinity: AntiAffinityHard, AnnotationAntiAffinityLabels: "app"}
			},
			got: func(s *offloadingv1beta1.ShadowPod) any {
				return s.Spec.Pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			},
			want: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}},
		},
		"anti-affinity propagated, node affinity of the patch": {
			change: func(p *corev1.Pod) {
				p.Annotations = map[string]string{AnnotationAntiAffinity: AntiAffinityPropagate}
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: propagated, NodeAffinity: &corev1.NodeAffinity{}}
			},
			patch: &offloadingv1beta1.OffloadingPatch{Affinity: &offloadingv1beta1.Affinity{NodeAffinity: nodeAffinity}},
			got:   func(s *offloadingv1beta1.ShadowPod) any { return s.Spec.Pod.Affinity },
			want:  &corev1.Affinity{PodAntiAffinity: propagated, NodeAffinity: nodeAffinity},
		},
		"runtime class of virtual nodes": {
			change: func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("elsewhere") },
			got:    func(s *offloadingv1beta1.ShadowPod) any { return s.Spec.Pod.RuntimeClassName }, want: (*string)(nil),
		},
		"runtime class of the provider's pods": {
			change: func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("elsewhere") },
			patch:  &offloadingv1beta1.OffloadingPatch{RuntimeClassName: new("gvisor")},
			got:    func(s *offloadingv1beta1.ShadowPod) any { return *s.Spec.Pod.RuntimeClassName }, want: "gvisor",
		},
		"another runtime class": {
			change: func(p *corev1.Pod) { p.Spec.RuntimeClassName = new(DefaultRuntimeClass) },
			patch:  &offloadingv1beta1.OffloadingPatch{RuntimeClassName: new("gvisor")},
			got:    func(s *offloadingv1beta1.ShadowPod) any { return *s.Spec.Pod.RuntimeClassName }, want: DefaultRuntimeClass,
		},
		"runtime class by annotation": {
			change: func(p *corev1.Pod) {
				p.Annotations = map[string]string{AnnotationRemoteRuntimeClass: "kata"}
				p.Spec.RuntimeClassName = new("local")
			},
			patch: &offloadingv1beta1.OffloadingPatch{RuntimeClassName: new("gvisor")},
			got:   func(s *offloadingv1beta1.ShadowPod) any { return *s.Spec.Pod.RuntimeClassName }, want: "kata",
		},
		"service account in the provider": {
			change: func(p *corev1.Pod) {
				p.Annotations = map[string]string{AnnotationAPIServerSupport: APIServerRemote}
				p.Spec.ServiceAccountName = "app"
			},
			got: func(s *offloadingv1beta1.ShadowPod) any {
				return []any{s.Spec.Pod.ServiceAccountName, *s.Spec.Pod.AutomountServiceAccountToken}
			}, want: []any{"app", true},
		},
		"service account by annotation": {
			change: func(p *corev1.Pod) {
				p.Annotations = map[string]string{AnnotationAPIServerSupport: APIServerRemote, AnnotationRemoteServiceAccount: "other"}
			},
			got: func(s *offloadingv1beta1.ShadowPod) any { return s.Spec.Pod.ServiceAccountName }, want: "other",
		},
		"device claims": {
			change: func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}} },
			got:    func(s *offloadingv1beta1.ShadowPod) any { return len(s.Spec.Pod.Containers[0].Resources.Claims) }, want: 0,
		},
		"credentials of a projected volume": {
			change: func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{apiAccess()} },
			got:    func(s *offloadingv1beta1.ShadowPod) any { return s.Spec.Pod.Volumes[0].Projected.Sources },
			want: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt.rome"}, Optional: new(true)}},
				{DownwardAPI: &corev1.DownwardAPIProjection{}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options
			o.Patch = test.patch
			if test.tune != nil {
				test.tune(&o)
			}
			shadow := ShadowPod(pod(test.change), "shop-rome", o)
			if shadow.Name != "web" || shadow.Namespace != "shop-rome" {
				t.Errorf("it is called %s/%s", shadow.Namespace, shadow.Name)
			}
			if diff := cmp.Diff(test.want, test.got(shadow)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func ownVolume(class string, annotations map[string]string) corev1.Volume {
	return corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
	}}}}
}

func TestProblemsAreReported(t *testing.T) {
	if got := Problems(pod(func(p *corev1.Pod) {
		p.Annotations = map[string]string{AnnotationAntiAffinity: AntiAffinityHard, AnnotationAPIServerSupport: APIServerRemote}
	})); len(got) > 0 {
		t.Errorf("an ordinary pod: %q", got)
	}
	for says, change := range map[string]func(*corev1.Pod){
		`annotation liqo.io/anti-affinity-preset is "harder" and has no effect: use one of soft, hard, propagate`: func(p *corev1.Pod) {
			p.Annotations = map[string]string{AnnotationAntiAffinity: "harder"}
		},
		`annotation liqo.io/api-server-support is "" and has no effect: use one of remote, disabled`: func(p *corev1.Pod) {
			p.Annotations = map[string]string{AnnotationAPIServerSupport: ""}
		},
		"spec.hostPID is true and has no effect: offloaded pods do not share host namespaces of the provider's nodes; keep it on a node of this cluster if it needs one": func(p *corev1.Pod) {
			p.Spec.HostPID = true
		},
		"spec.resourceClaims have no effect: devices are not claimed in other clusters; ask for an extended resource of the virtual node instead": func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
		},
		"spec.resources have no effect: resources of the whole pod are not copied; set them on its containers": func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{}
		},
		"spec.hostUsers is false and has no effect: the pod gets no user namespace of its own there; keep it on a node of this cluster if it needs one": func(p *corev1.Pod) {
			p.Spec.HostUsers = new(bool)
		},
		`spec.hostnameOverride is "db" and has no effect: use spec.hostname and spec.subdomain`: func(p *corev1.Pod) {
			p.Spec.HostnameOverride = new("db")
		},
	} {
		if diff := cmp.Diff([]string{says}, Problems(pod(change))); diff != "" {
			t.Error(diff)
		}
	}
}

func apiAccess() corev1.Volume {
	return corev1.Volume{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: kinds.LocalRootCA}}},
		{DownwardAPI: &corev1.DownwardAPIProjection{}},
	}}}}
}

func TestMetadataFollows(t *testing.T) {
	local := pod(func(p *corev1.Pod) {
		p.Labels["old"] = "1"
		p.Annotations = map[string]string{"former": "1"}
	})
	shadow := ShadowPod(local, "shop-rome", options)
	if _, changed := ShadowPodMetadata(shadow, local, nil, options); changed {
		t.Error("a new ShadowPod differs from its pod")
	}
	shadow.Labels[offloadingv1beta1.LabelCreatorUser], shadow.Annotations["theirs"] = "u", "x"
	if _, changed := ShadowPodMetadata(shadow, local, nil, options); changed {
		t.Error("what the provider adds counts as a difference")
	}
	delete(local.Labels, "old")
	local.Labels["new"], local.Annotations = "1", nil
	out, changed := ShadowPodMetadata(shadow, local, nil, options)
	_, old := out.Labels["old"]
	_, former := out.Annotations["former"]
	if !changed || old || former || out.Labels["new"] != "1" || out.Labels[offloadingv1beta1.LabelCreatorUser] != "u" || out.Annotations["theirs"] != "x" {
		t.Errorf("changed %v: %v %v", changed, out.Labels, out.Annotations)
	}
	if _, again := ShadowPodMetadata(out, local, nil, options); again {
		t.Error("it never settles")
	}
}

func TestOwnership(t *testing.T) {
	local := pod(nil)
	shadow := ShadowPod(local, "shop-rome", options)
	if !OwnsShadowPod(shadow, options) || !kinds.MadeFor(shadow, local) {
		t.Error("a ShadowPod is not its maker's")
	}
	other := options
	other.Node = "another"
	if OwnsShadowPod(shadow, other) {
		t.Error("another node owns it")
	}
	local.UID = "u2"
	if kinds.MadeFor(shadow, local) {
		t.Error("it belongs to a later pod of the same name")
	}
	delete(shadow.Annotations, kinds.AnnotationLocalUID)
	if !kinds.MadeFor(shadow, local) {
		t.Error("one that does not say belongs to the pod of its name")
	}
}
