package offload

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

func shadowPod(change ...func(*offloadingv1beta1.ShadowPod)) *offloadingv1beta1.ShadowPod {
	sp := &offloadingv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "web-1", UID: "shadow", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "x"}},
		Spec:       offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}},
	}
	for _, c := range change {
		c(sp)
	}
	return sp
}

func phaseOf(phase corev1.PodPhase) func(*offloadingv1beta1.ShadowPod) {
	return func(sp *offloadingv1beta1.ShadowPod) { sp.Status.Phase = phase }
}

// running returns the Pod of shadowPod as the provider has it.
func running(phase corev1.PodPhase, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := Pod(shadowPod(), PodMetadata{})
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Status.Phase = phase
	for _, c := range change {
		c(pod)
	}
	return pod
}

func TestShadow(t *testing.T) {
	deleting := func(p *corev1.Pod) { p.DeletionTimestamp = &noon }
	once := func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }
	onFailure := func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }
	older := func(p *corev1.Pod) { p.OwnerReferences[0].UID = "earlier" }
	within5 := func(sp *offloadingv1beta1.ShadowPod) { sp.Annotations[podrules.AnnotationGrace] = "5" }
	slowly := func(p *corev1.Pod) { deleting(p); p.DeletionGracePeriodSeconds = new(int64(30)) }
	soon := func(p *corev1.Pod) { deleting(p); p.DeletionGracePeriodSeconds = new(int64(5)) }
	changed := func(sp *offloadingv1beta1.ShadowPod) { sp.Annotations[podrules.AnnotationSpec] = "2" }
	gate := func(sp *offloadingv1beta1.ShadowPod) {
		sp.Annotations[podrules.AnnotationGates] = "a=True"
		sp.Spec.Pod.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "a"}}
	}
	for name, c := range map[string]struct {
		sp     *offloadingv1beta1.ShadowPod
		pod    *corev1.Pod
		action PodAction
		phase  corev1.PodPhase
	}{
		"new":                                {shadowPod(), nil, PodCreate, ""},
		"pending is not told":                {shadowPod(), running(corev1.PodPending), PodKeep, ""},
		"unknown is not told":                {shadowPod(phaseOf(corev1.PodRunning)), running(corev1.PodUnknown), PodKeep, corev1.PodRunning},
		"running is not told":                {shadowPod(), running(corev1.PodRunning), PodKeep, ""},
		"succeeded":                          {shadowPod(phaseOf(corev1.PodRunning)), running(corev1.PodSucceeded, once), PodKeep, corev1.PodSucceeded},
		"failed, evicted by its node":        {shadowPod(phaseOf(corev1.PodRunning)), running(corev1.PodFailed), PodKeep, corev1.PodFailed},
		"gone: again":                        {shadowPod(phaseOf(corev1.PodRunning)), nil, PodCreate, corev1.PodRunning},
		"gone after success: never again":    {shadowPod(phaseOf(corev1.PodSucceeded)), nil, PodKeep, corev1.PodSucceeded},
		"gone after failure: never again":    {shadowPod(phaseOf(corev1.PodFailed)), nil, PodKeep, corev1.PodFailed},
		"finished stays finished":            {shadowPod(phaseOf(corev1.PodFailed)), running(corev1.PodRunning), PodKeep, corev1.PodFailed},
		"being deleted: waits":               {shadowPod(phaseOf(corev1.PodRunning)), running(corev1.PodRunning, deleting), PodKeep, corev1.PodRunning},
		"deleted, so it failed":              {shadowPod(phaseOf(corev1.PodRunning)), running(corev1.PodFailed, deleting), PodKeep, corev1.PodRunning},
		"deleted, so a server succeeded":     {shadowPod(phaseOf(corev1.PodRunning)), running(corev1.PodSucceeded, deleting), PodKeep, corev1.PodRunning},
		"deleted, but a job succeeded":       {shadowPod(phaseOf(corev1.PodRunning)), running(corev1.PodSucceeded, deleting, once), PodKeep, corev1.PodSucceeded},
		"drained, not to run twice":          {shadowPod(phaseOf(corev1.PodRunning)), running(corev1.PodFailed, deleting, once), PodKeep, corev1.PodFailed},
		"drained, to run until it succeeds":  {shadowPod(phaseOf(corev1.PodRunning)), running(corev1.PodFailed, deleting, onFailure), PodKeep, corev1.PodRunning},
		"of an earlier one: removed":         {shadowPod(), running(corev1.PodRunning, older), PodDelete, ""},
		"of an earlier one, going":           {shadowPod(), running(corev1.PodRunning, older, deleting), PodKeep, ""},
		"of an earlier one: says nothing":    {shadowPod(), running(corev1.PodSucceeded, older, once), PodDelete, ""},
		"foreign, with our label":            {shadowPod(), running(corev1.PodRunning, func(p *corev1.Pod) { p.OwnerReferences = nil }), PodKeep, ""},
		"of a kind that is only called so":   {shadowPod(), running(corev1.PodRunning, older, func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "example.org/v1" }), PodKeep, ""},
		"itself being deleted":               {shadowPod(func(sp *offloadingv1beta1.ShadowPod) { sp.DeletionTimestamp = &noon }), nil, PodKeep, ""},
		"label changed":                      {shadowPod(func(sp *offloadingv1beta1.ShadowPod) { sp.Labels["app"] = "other" }), running(corev1.PodRunning), PodRelabel, ""},
		"label removed":                      {shadowPod(func(sp *offloadingv1beta1.ShadowPod) { sp.Labels = nil }), running(corev1.PodRunning), PodRelabel, ""},
		"annotation added":                   {shadowPod(func(sp *offloadingv1beta1.ShadowPod) { sp.Annotations["b"] = "c" }), running(corev1.PodRunning), PodRelabel, ""},
		"nobody cares for finished ones":     {shadowPod(phaseOf(corev1.PodSucceeded), func(sp *offloadingv1beta1.ShadowPod) { sp.Labels = nil }), running(corev1.PodSucceeded), PodKeep, corev1.PodSucceeded},
		"to end within 5 s":                  {shadowPod(phaseOf(corev1.PodRunning), within5), running(corev1.PodRunning), PodEnd, corev1.PodRunning},
		"to end sooner than it does":         {shadowPod(phaseOf(corev1.PodRunning), within5), running(corev1.PodRunning, slowly), PodEnd, corev1.PodRunning},
		"ends within 5 s":                    {shadowPod(phaseOf(corev1.PodRunning), within5), running(corev1.PodRunning, soon), PodKeep, corev1.PodRunning},
		"has ended within 5 s":               {shadowPod(phaseOf(corev1.PodRunning), within5), nil, PodKeep, corev1.PodRunning},
		"specification changed":              {shadowPod(changed), running(corev1.PodRunning), PodChange, ""},
		"specification and label changed":    {shadowPod(changed, func(sp *offloadingv1beta1.ShadowPod) { sp.Labels = nil }), running(corev1.PodRunning), PodRelabel, ""},
		"readiness gate":                     {shadowPod(gate), running(corev1.PodRunning, func(p *corev1.Pod) { p.Annotations[podrules.AnnotationGates] = "a=True" }), PodGates, ""},
		"specification and readiness gate":   {shadowPod(changed, gate), running(corev1.PodRunning, func(p *corev1.Pod) { p.Annotations[podrules.AnnotationGates] = "a=True" }), PodGates, ""},
		"pending again after it was deleted": {shadowPod(phaseOf(corev1.PodRunning)), running(corev1.PodPending), PodKeep, corev1.PodRunning},
	} {
		t.Run(name, func(t *testing.T) {
			action, phase := Shadow(c.sp, c.pod, PodMetadata{})
			if action != c.action || phase != c.phase {
				t.Errorf("action %d phase %q, want %d %q", action, phase, c.action, c.phase)
			}
		})
	}
}

// TestPodGrace: a consumer neither deletes a Pod before its kubelet ends it nor keeps it for years.
func TestPodGrace(t *testing.T) {
	for said, want := range map[string]int64{"0": 1, "1": 1, "7": 7, "315360000": 86400} {
		sp := shadowPod(func(sp *offloadingv1beta1.ShadowPod) { sp.Annotations[podrules.AnnotationGrace] = said })
		if got, ending := PodGrace(sp); got != want || !ending {
			t.Errorf("%s s: %d, %v", said, got, ending)
		}
		ends := running(corev1.PodRunning, func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &noon, &want })
		if action, _ := Shadow(sp, ends, PodMetadata{}); action != PodKeep {
			t.Errorf("%s s: it is ended again and again", said)
		}
	}
	if _, ending := PodGrace(shadowPod()); ending {
		t.Error("one that nobody ends")
	}
}

// TestPodOfAShadowPodIsNotOffloaded: tolerations of a consumer do not keep its Pods on tainted nodes of this cluster.
func TestPodOfAShadowPodIsNotOffloaded(t *testing.T) {
	sp := shadowPod(func(sp *offloadingv1beta1.ShadowPod) { sp.Annotations[podrules.AnnotationOffloaded] = "uid" })
	if _, annotations := Relabelled(sp, running(corev1.PodRunning), PodMetadata{}); Pod(sp, PodMetadata{}).Annotations[podrules.AnnotationOffloaded] != "" || annotations[podrules.AnnotationOffloaded] != "" {
		t.Errorf("annotations %v, then %v", Pod(sp, PodMetadata{}).Annotations, annotations)
	}
}

// TestPodAnnotations: the Pod of a consumer has no annotation that a controller or runtime of this cluster could obey, unless an administrator
// accepts it. Annotations from an earlier release are removed.
func TestPodAnnotations(t *testing.T) {
	sp := shadowPod(func(sp *offloadingv1beta1.ShadowPod) {
		sp.Annotations = map[string]string{
			"note": "x", "checksum/config": "1", "batch.kubernetes.io/job-completion-index": "3",
			"k8s.v1.cni.cncf.io/networks": "host", "iam.amazonaws.com/role": "admin", "vault.hashicorp.com/agent-inject": "true",
			"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "io.kubernetes.cri-o.Devices": "/dev/sda", "prometheus.io/scrape": "true",
		}
	})
	for _, row := range []struct{ accepted, want []string }{
		{nil, []string{"batch.kubernetes.io/job-completion-index", "checksum/config", "note"}},
		{[]string{"prometheus.io/*"}, []string{"batch.kubernetes.io/job-completion-index", "checksum/config", "note", "prometheus.io/scrape"}},
	} {
		before := running(corev1.PodRunning)
		maps.Copy(before.Annotations, sp.Annotations)
		_, after := Relabelled(sp, before, PodMetadata{Annotations: row.accepted})
		for when, annotations := range map[string]map[string]string{"made": Pod(sp, PodMetadata{Annotations: row.accepted}).Annotations, "upgraded": after} {
			if diff := cmp.Diff(row.want, slices.Sorted(maps.Keys(annotations))); diff != "" {
				t.Errorf("%s, accepted %v: %s", when, row.accepted, diff)
			}
		}
		if action, _ := Shadow(sp, before, PodMetadata{Annotations: row.accepted}); action != PodRelabel {
			t.Errorf("a Pod of an earlier release: %v", action)
		}
	}
}

// TestPodLabels: the Pod of a consumer has all labels except those that controllers of this cluster are known to obey, and those of the node that this cluster
// chooses. An administrator accepts some of these, and refuses others. Labels from an earlier release are removed.
func TestPodLabels(t *testing.T) {
	sp := shadowPod(func(sp *offloadingv1beta1.ShadowPod) {
		sp.Labels = map[string]string{
			"app": "web", "app.kubernetes.io/name": "web", "team.example.org/tier": "1", "apps.kubernetes.io/pod-index": "0", "notistio.io/x": "1",
			"offloading.liqo.io/origin":    "rome",
			"networking.liqo.io/component": "gateway", "networking.liqo.io/gateway-name": "turin", "offloading.liqo.io/component": "virtual-kubelet",
			"istio.io/rev": "canary", "sidecar.istio.io/inject": "true", "azure.workload.identity/use": "true", "aadpodidbinding": "admin",
			"admission.datadoghq.com/enabled": "true", "kueue.x-k8s.io/queue-name": "team", "linkerd.io/control-plane-ns": "linkerd",
			"topology.kubernetes.io/zone": "of-rome",
		}
	})
	always := []string{"app", "app.kubernetes.io/name", "apps.kubernetes.io/pod-index", "notistio.io/x", "offloading.liqo.io/origin", offloadingv1beta1.LabelManagedBy, "team.example.org/tier"}
	for name, row := range map[string]struct {
		keys        PodMetadata
		more, fewer []string
	}{
		"by default": {PodMetadata{}, nil, nil},
		"accepted":   {PodMetadata{Labels: []string{"istio.io/rev", "kueue.x-k8s.io/*", "networking.liqo.io/*", "offloading.liqo.io/component"}}, []string{"istio.io/rev", "kueue.x-k8s.io/queue-name"}, nil},
		"refused":    {PodMetadata{RefusedLabels: []string{"team.example.org/*", "istio.io/rev"}, Labels: []string{"istio.io/rev"}}, nil, []string{"team.example.org/tier"}},
		"all but ours": {PodMetadata{RefusedLabels: []string{"*"}}, nil,
			[]string{"app", "app.kubernetes.io/name", "apps.kubernetes.io/pod-index", "notistio.io/x", "team.example.org/tier"}},
		"all but those accepted": {PodMetadata{RefusedLabels: []string{"*"}, Labels: []string{"app", "app.kubernetes.io/*", "istio.io/rev"}}, []string{"istio.io/rev"},
			[]string{"apps.kubernetes.io/pod-index", "notistio.io/x", "team.example.org/tier"}},
		"all of a domain but one": {PodMetadata{RefusedLabels: []string{"team.example.org/*"}, Labels: []string{"team.example.org/tier"}}, nil, nil},
		"one of a domain that is accepted": {PodMetadata{RefusedLabels: []string{"team.example.org/tier"}, Labels: []string{"team.example.org/*"}}, nil,
			[]string{"team.example.org/tier"}},
	} {
		want := slices.DeleteFunc(slices.Concat(always, row.more), func(key string) bool { return slices.Contains(row.fewer, key) })
		slices.Sort(want)
		before := running(corev1.PodRunning)
		maps.Copy(before.Labels, sp.Labels)
		after, _ := Relabelled(sp, before, row.keys)
		for when, labels := range map[string]map[string]string{"made": Pod(sp, row.keys).Labels, "upgraded": after} {
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(labels))); diff != "" {
				t.Errorf("%s, %s: %s", name, when, diff)
			}
		}
		if action, _ := Shadow(sp, before, row.keys); action != PodRelabel {
			t.Errorf("%s: a Pod of an earlier release: %v", name, action)
		}
	}
}

// TestGitOpsToolsOfTheProviderLeavePods: an Argo CD of the provider with an application of the same name deletes no ShadowPod, and Helm adopts no Pod. The Pod
// keeps the labels by which Services and NetworkPolicies select it.
func TestGitOpsToolsOfTheProviderLeavePods(t *testing.T) {
	labels := map[string]string{"app.kubernetes.io/instance": "shop", "app.kubernetes.io/name": "web", "app.kubernetes.io/managed-by": "Helm"}
	local := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", Labels: maps.Clone(labels), Annotations: map[string]string{
		"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "shop", "argocd.argoproj.io/tracking-id": "shop:/Pod:shop/web", "note": "x",
	}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}
	options := podrules.Options{Origin: "rome", Destination: "milan", Node: "milan"}
	shadow := podrules.ShadowPod(local, "shop-rome", options)
	for key, want := range map[string]string{"argocd.argoproj.io/sync-options": "Prune=false,Delete=false", "argocd.argoproj.io/compare-options": "IgnoreExtraneous"} {
		if got := shadow.Annotations[key]; got != want {
			t.Errorf("annotation %s of the ShadowPod is %q, want %q", key, got, want)
		}
		delete(shadow.Annotations, key) // an earlier release created it
	}
	shadow, changed := podrules.ShadowPodMetadata(shadow, local, nil, options)
	if _, again := podrules.ShadowPodMetadata(shadow, local, nil, options); !changed || again || shadow.Annotations["argocd.argoproj.io/sync-options"] == "" {
		t.Errorf("the annotations of an earlier ShadowPod: changed %v, again %v, %v", changed, again, shadow.Annotations)
	}
	pod := Pod(shadow, PodMetadata{})
	for key, want := range labels {
		if pod.Labels[key] != want {
			t.Errorf("label %s of the Pod is %q, want %q", key, pod.Labels[key], want)
		}
	}
	if !OwnedBy(pod, shadow) { // Argo CD deletes no object that has an owner
		t.Errorf("the Pod has the owners %v", pod.OwnerReferences)
	}
	for key := range pod.Annotations {
		if prefix, _, _ := strings.Cut(key, "/"); prefix == "meta.helm.sh" || prefix == "argocd.argoproj.io" {
			t.Errorf("the Pod has annotation %s", key)
		}
	}
}

// TestShadowIsIdempotentAndFinal: a status is reported once: computing it again from the same Pod changes nothing.
func TestShadowIsIdempotentAndFinal(t *testing.T) {
	phases := []corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown}
	for _, before := range phases {
		for _, now := range phases {
			for _, gone := range []bool{true, false} {
				pod := running(now)
				if gone {
					pod = nil
				}
				sp := shadowPod(phaseOf(before))
				action, phase := Shadow(sp, pod, PodMetadata{})
				if api.PhaseFinal(before) && (phase != before || action != PodKeep) {
					t.Errorf("%s is final, but with %s it becomes %s, action %d", before, now, phase, action)
				}
				sp.Status.Phase = phase
				if _, again := Shadow(sp, pod, PodMetadata{}); again != phase {
					t.Errorf("%s with %s: %s, then %s", before, now, phase, again)
				}
			}
		}
	}
}

// TestClaimTemplatesBringNoMetadata: a consumer cannot choose a storage class or a directory by the metadata of an ephemeral volume's claim.
func TestClaimTemplatesBringNoMetadata(t *testing.T) {
	sp := shadowPod()
	sp.Spec.Pod.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"app": "web"},
			Annotations: map[string]string{"volume.beta.kubernetes.io/storage-class": "", "nfs.io/storage-path": "../../others"},
		}},
	}}}, {Name: "plain"}}
	got := Pod(sp, PodMetadata{Annotations: []string{"*"}}).Spec.Volumes[0].Ephemeral.VolumeClaimTemplate
	if len(got.Labels) > 0 || len(got.Annotations) > 0 {
		t.Errorf("the claim has labels %v and annotations %v", got.Labels, got.Annotations)
	}
	if len(sp.Spec.Pod.Volumes[0].Ephemeral.VolumeClaimTemplate.Annotations) != 2 {
		t.Error("the ShadowPod was changed")
	}
}

func TestPod(t *testing.T) {
	sp := shadowPod()
	pod := Pod(sp, PodMetadata{})
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo-rome", Name: "web-1",
			Labels: map[string]string{"app": "web", "liqo.io/managed-by": "shadowpod"}, Annotations: map[string]string{"note": "x"},
		},
		Spec: sp.Spec.Pod,
	}
	owner := pod.OwnerReferences
	pod.OwnerReferences = nil
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(owner) != 1 || owner[0].Kind != "ShadowPod" || owner[0].APIVersion != "offloading.liqo.io/v1beta1" || owner[0].UID != "shadow" || !*owner[0].Controller {
		t.Errorf("owner %+v", owner)
	}
	pod.Spec.Containers[0].Image, pod.Annotations["note"] = "changed", "changed"
	if sp.Spec.Pod.Containers[0].Image != "web:1" || sp.Annotations["note"] != "x" {
		t.Error("the Pod shares memory with its ShadowPod")
	}
}
