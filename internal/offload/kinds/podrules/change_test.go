package podrules

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func debugging(name string) corev1.EphemeralContainer {
	return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "busybox"}, TargetContainerName: "c"}
}

func cpu(amount string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}}
}

func TestChangesOfASpecificationAreCopied(t *testing.T) {
	made := func() *corev1.Pod {
		return pod(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "side", Image: "s"}}
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{}
		})
	}
	shadow := ShadowPod(made(), "shop-rome", options)
	if SpecChanged(shadow, made()) {
		t.Fatal("a new ShadowPod is not the one of its pod")
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		got    func(*offloadingv1beta1.ShadowPod) any
		want   any
	}{
		"image": {
			func(p *corev1.Pod) { p.Spec.Containers[0].Image = "i:2" },
			func(s *offloadingv1beta1.ShadowPod) any { return s.Spec.Pod.Containers[0].Image }, "i:2",
		},
		"image of an init container": {
			func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "s:2" },
			func(s *offloadingv1beta1.ShadowPod) any { return s.Spec.Pod.InitContainers[0].Image }, "s:2",
		},
		"resize": {
			func(p *corev1.Pod) { p.Spec.Containers[0].Resources = cpu("2") },
			func(s *offloadingv1beta1.ShadowPod) any { return s.Spec.Pod.Containers[0].Resources }, cpu("2"),
		},
		"deadline": {
			func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(5)) },
			func(s *offloadingv1beta1.ShadowPod) any { return s.Spec.Pod.ActiveDeadlineSeconds }, new(int64(5)),
		},
		"debug": {
			func(p *corev1.Pod) { p.Spec.EphemeralContainers = []corev1.EphemeralContainer{debugging("d")} },
			func(s *offloadingv1beta1.ShadowPod) any { return s.Spec.Pod.EphemeralContainers }, []corev1.EphemeralContainer{debugging("d")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			local := made()
			test.change(local)
			if !SpecChanged(shadow, local) {
				t.Fatal("it is not noticed")
			}
			change, found := ChangeSpec(shadow, local, nil, options)
			if !found || change.More || change.Part == "" {
				t.Fatalf("%+v, %v", change, found)
			}
			out := change.Shadow
			if diff := cmp.Diff(test.want, test.got(out)); diff != "" {
				t.Error(diff)
			}
			if SpecChanged(out, local) {
				t.Error("it never settles")
			}
			if again, found := ChangeSpec(out, local, nil, options); found {
				t.Errorf("twice is not once: %s", cmp.Diff(out, again.Shadow))
			}
			if change, found := ChangeSpec(shadow, local, []string{change.Part}, options); found {
				t.Errorf("refused, and tried again at once: %+v", change)
			}
		})
	}
	if local := pod(func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "x"}} }); SpecChanged(ShadowPod(pod(nil), "", options), local) {
		t.Error("what the provider does not hear of counts as a change")
	}
}

// TestNoPartWaitsForAnother: if a part of a change is refused, the other parts are applied, and the provider detects each of them.
func TestNoPartWaitsForAnother(t *testing.T) {
	made := pod(func(p *corev1.Pod) { p.Spec.Containers[0].Resources = cpu("1") })
	local := made.DeepCopy()
	local.Spec.Containers[0].Image, local.Spec.Containers[0].Resources = "i:2", cpu("2")
	local.Spec.EphemeralContainers = []corev1.EphemeralContainer{debugging("a"), debugging("b")}
	parts := []string{"image", "resources", "ephemeralContainers/a", "ephemeralContainers/b"}
	for refused := range 1 << len(parts) {
		shadow := ShadowPod(made, "shop-rome", options)
		var leftOut, taken []string
		for {
			change, found := ChangeSpec(shadow, local, leftOut, options)
			if !found || change.Part == "" {
				break
			}
			if refused&(1<<slices.Index(parts, change.Part)) != 0 {
				leftOut = append(leftOut, change.Part)
				continue
			}
			if change.Shadow.Annotations[AnnotationSpec] == shadow.Annotations[AnnotationSpec] {
				t.Fatalf("%04b: the provider does not hear of %s", refused, change.Part)
			}
			taken, shadow = append(taken, change.Part), change.Shadow
		}
		if got := len(leftOut) + len(taken); got != len(parts) {
			t.Errorf("%04b: %v refused, %v taken", refused, leftOut, taken)
		}
		if changed := SpecChanged(shadow, local); changed != (refused != 0) {
			t.Errorf("%04b: it is to be tried again: %v", refused, changed)
		}
		for range leftOut { // the provider now accepts all parts
			change, found := ChangeSpec(shadow, local, nil, options)
			if !found {
				t.Fatalf("%04b: what was refused is not tried again", refused)
			}
			shadow = change.Shadow
		}
		if SpecChanged(shadow, local) {
			t.Errorf("%04b: it never settles: %s", refused, shadow.Annotations[AnnotationSpec])
		}
	}
}

// TestChangesByAdmissionOfTheProviderStay: changes of ShadowPods or Pods by others in the provider are not reverted, neither at once nor with a later
// change.
func TestChangesByAdmissionOfTheProviderStay(t *testing.T) {
	made := pod(func(p *corev1.Pod) { p.Spec.Containers[0].Resources = cpu("1") })
	local := made.DeepCopy()
	local.Spec.EphemeralContainers = []corev1.EphemeralContainer{debugging("a")}
	shadow := ShadowPod(made, "shop-rome", options)
	shadow.Spec.Pod.Containers[0].Image = "mirror/i"
	change, found := ChangeSpec(shadow, local, nil, options)
	if !found || change.Part != "ephemeralContainers/a" || change.More || SpecChanged(change.Shadow, local) {
		t.Errorf("%+v, %v", change, found)
	}

	spec := made.Spec.DeepCopy()
	spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")} // a LimitRange
	spec.ActiveDeadlineSeconds = new(int64(5))
	made.Spec.ActiveDeadlineSeconds = new(int64(9))
	for _, part := range SpecParts(&made.Spec) {
		if with, differs := part.Over(spec); differs {
			t.Errorf("%s is taken away: %s", part.Field, cmp.Diff(spec, with))
		}
	}
	made.Spec.Containers[0].Resources, made.Spec.ActiveDeadlineSeconds = cpu("2"), new(int64(3))
	for _, part := range SpecParts(&made.Spec) {
		spec, _ = part.Over(spec)
	}
	if c := spec.Containers[0]; c.Resources.Requests.Cpu().Value() != 2 || len(c.Resources.Limits) != 1 || *spec.ActiveDeadlineSeconds != 3 {
		t.Errorf("%+v, %d s", c, *spec.ActiveDeadlineSeconds)
	}
}

// TestSpecificationsOfTheFormerRelease: a specification recorded by the former release causes no write while nothing changes. After a change, its
// parts are compared.
func TestSpecificationsOfTheFormerRelease(t *testing.T) {
	made := pod(func(p *corev1.Pod) { p.Spec.Containers[0].Resources = cpu("1") })
	shadow := ShadowPod(made, "shop-rome", options)
	shadow.Annotations[AnnotationSpec] = formerHash(&made.Spec)
	if SpecChanged(shadow, made) {
		t.Error("an upgrade writes what did not change")
	}
	local := made.DeepCopy()
	local.Spec.Containers[0].Image = "i:2"
	change, found := ChangeSpec(shadow, local, nil, options)
	if !SpecChanged(shadow, local) || !found || change.Part != "image" || change.More || SpecChanged(change.Shadow, local) {
		t.Errorf("%+v, %v", change, found)
	}
	for text, want := range map[string]string{"word": "word", "image=a,resources=b": "b", "image=a": "", "": ""} {
		if got := Noted(text, "resources"); got != want {
			t.Errorf("%q says %q of resources, want %q", text, got, want)
		}
	}
	if got := NotedBut("image=a,resources=b", map[string]string{"resources": "word"}); got != "image=a,resources=word" {
		t.Errorf("noted %q", got)
	}
	for wanted, want := range map[string]string{"image=a,resources=b": "resources=b", "word": ""} { // unknown whether the image was applied: no hash is recorded
		if got := NotedBut(wanted, map[string]string{"image": ""}); got != want {
			t.Errorf("noted %q of %q", got, wanted)
		}
	}
}

func gated(status corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "lb.example/attached"}}
		p.Annotations = map[string]string{AnnotationOffloaded: "u1", AnnotationRemoteUID: "p1"}
		if status != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: "lb.example/attached", Status: status}}
		}
	}
}

func TestReadinessGates(t *testing.T) {
	const here = "lb.example/attached=True"
	remote := func(uid string, status corev1.ConditionStatus) *corev1.Pod {
		p := pod(gated(status))
		p.UID, p.Annotations = "", nil
		p.UID = "p1"
		if uid != "p1" {
			p.UID = "p2"
		}
		return p
	}
	for name, test := range map[string]struct {
		told   string
		local  corev1.ConditionStatus
		remote *corev1.Pod
		want   string
	}{
		"set here":                                       {"", corev1.ConditionTrue, remote("p1", ""), here},
		"set there":                                      {"", corev1.ConditionTrue, remote("p1", corev1.ConditionFalse), ""},
		"set by nobody":                                  {"", "", remote("p1", ""), ""},
		"told, and set there since":                      {here, corev1.ConditionFalse, remote("p1", corev1.ConditionTrue), "lb.example/attached=False"},
		"told, the remote pod is gone":                   {here, corev1.ConditionTrue, nil, here},
		"told, and taken back":                           {here, "", remote("p1", corev1.ConditionTrue), ""},
		"shown, of the remote pod before":                {"", corev1.ConditionTrue, remote("p2", ""), ""},
		"told, and the remote pod is another one by now": {here, corev1.ConditionTrue, remote("p2", ""), here},
	} {
		shadow := &offloadingv1beta1.ShadowPod{}
		shadow.Annotations = map[string]string{AnnotationGates: test.told}
		if got := readinessGates(shadow, pod(gated(test.local)), test.remote); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if got := ParseGates("a=True, b=Yes,c,=,d=False"); len(got) != 2 || got["a"] != corev1.ConditionTrue || got["d"] != corev1.ConditionFalse {
		t.Errorf("%v", got)
	}

	// A gate that the consumer reports is not overwritten by the provider's copy of it. A gate of another remote Pod does not stay.
	theirs := remote("p1", corev1.ConditionFalse)
	theirs.Annotations = map[string]string{AnnotationGates: here}
	if c := condition(PodStatus(pod(gated(corev1.ConditionTrue)), theirs, options), "lb.example/attached"); c == nil || c.Status != corev1.ConditionTrue {
		t.Errorf("told from here: %+v", c)
	}
	if c := condition(PodStatus(pod(gated(corev1.ConditionTrue)), remote("p1", corev1.ConditionFalse), options), "lb.example/attached"); c == nil || c.Status != corev1.ConditionFalse {
		t.Errorf("set there: %+v", c)
	}
	if c := condition(PodStatus(pod(gated(corev1.ConditionTrue)), remote("p2", ""), options), "lb.example/attached"); c != nil {
		t.Errorf("of the remote pod before: %+v", c)
	}
}

func TestRequestedGracePeriod(t *testing.T) {
	for name, test := range map[string]struct {
		own, asked *int64
		want       int64
		ok         bool
	}{
		"as its specification says": {new(int64(5)), new(int64(5)), 0, false},
		"as Kubernetes says":        {nil, new(int64(30)), 0, false},
		"sooner":                    {nil, new(int64(1)), 1, true},
		"later":                     {new(int64(5)), new(int64(60)), 60, true},
		"at once":                   {nil, new(int64(0)), 0, true},
		"nobody said":               {nil, nil, 0, false},
	} {
		got, ok := RequestedGrace(pod(func(p *corev1.Pod) {
			p.Spec.TerminationGracePeriodSeconds, p.DeletionGracePeriodSeconds = test.own, test.asked
		}))
		if got != test.want || ok != test.ok {
			t.Errorf("%s: %d, %v", name, got, ok)
		}
	}
	shadow := &offloadingv1beta1.ShadowPod{}
	if _, ok := Grace(shadow); ok {
		t.Error("a ShadowPod that nobody ends is to end")
	}
	if got, ok := Grace(WithGrace(shadow, 7)); got != 7 || !ok {
		t.Errorf("%d, %v", got, ok)
	}
	shadow.Annotations = map[string]string{AnnotationGrace: "-1"}
	if _, ok := Grace(shadow); ok {
		t.Error("it ends before it began")
	}
}
