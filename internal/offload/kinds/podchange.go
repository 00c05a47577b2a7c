package kinds

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	offv1 "liqo.io/liqo/api/offloading/v1beta1"
)

// What of a Pod changes after it was made, and how the provider hears of it.
const (
	// AnnotationSpec, on a ShadowPod and its Pod, stands for what of the specification may change, as it was last taken over: it tells that a
	// change is due without the specification at hand.
	AnnotationSpec = "offloading.liqo.io/spec-hash"
	// AnnotationGates, on a ShadowPod, holds the conditions for readiness gates that are set in the consumer: type=status, separated by commas.
	AnnotationGates = "offloading.liqo.io/readiness-gates"
	// AnnotationGrace, on a ShadowPod, tells that its Pod is to end within so many seconds, and is not made again.
	AnnotationGrace = "offloading.liqo.io/deletion-grace-period-seconds"
)

// changing is what of a container Kubernetes lets change.
type changing struct {
	Name      string
	Image     string                      `json:",omitempty"`
	Resources corev1.ResourceRequirements `json:",omitzero"`
}

// specHash is short, and another one when anything changed that may change: images, resources, the deadline, and the containers for debugging.
func specHash(spec *corev1.PodSpec) string {
	state := struct {
		Containers []changing
		Deadline   *int64
	}{Deadline: spec.ActiveDeadlineSeconds}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			c := changing{Name: list[i].Name, Image: list[i].Image, Resources: list[i].Resources}
			c.Resources.Claims = nil
			state.Containers = append(state.Containers, c)
		}
	}
	for i := range spec.EphemeralContainers {
		state.Containers = append(state.Containers, changing{Name: spec.EphemeralContainers[i].Name})
	}
	text, err := json.Marshal(state)
	if err != nil {
		panic(fmt.Sprintf("marshalling what changes of a pod: %v", err)) // API types always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// SpecChanged tells whether the ShadowPod has to hear of a change of the local Pod's specification.
func SpecChanged(shadow *offv1.ShadowPod, local *corev1.Pod) bool {
	return shadow.Annotations[AnnotationSpec] != specHash(&local.Spec)
}

// SpecChange is a part of what changed of a specification, which is passed on by itself: the provider may refuse it, and what was asked for before
// or later must not wait for what is refused. A container for debugging can't even be taken back.
type SpecChange struct {
	// Part names it, for people and to leave it out.
	Part string
	// Shadow is the ShadowPod with it.
	Shadow *offv1.ShadowPod
	// More tells that it was not all.
	More bool
}

// ChangeSpec returns the first part of what changed of local that shadow, both read whole, does not have, apart from the parts that are left out.
// When nothing but those is left, it is false.
func ChangeSpec(shadow *offv1.ShadowPod, local *corev1.Pod, leftOut []string) (SpecChange, bool) {
	out, in := shadow.DeepCopy(), local.DeepCopy()
	change := SpecChange{Shadow: out}
	for _, part := range specParts(&in.Spec) {
		with := out.Spec.Pod.DeepCopy()
		part.take(with)
		switch {
		case slices.Contains(leftOut, part.name) || equality.Semantic.DeepEqual(*with, out.Spec.Pod):
		case change.Part == "":
			change.Part, out.Spec.Pod = part.name, *with
		default:
			change.More = true
		}
	}
	if change.Part == "" && len(leftOut) > 0 {
		return SpecChange{}, false
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[AnnotationSpec] = specHash(&in.Spec)
	if change.More || len(leftOut) > 0 {
		out.Annotations[AnnotationSpec] = specHash(&out.Spec.Pod)
	}
	return change, true
}

// specPart takes a part of one specification over into another one.
type specPart struct {
	name string
	take func(to *corev1.PodSpec)
}

// specParts are the parts in which a specification changes: all that is asked for of images and resources at once, and each container for debugging.
func specParts(from *corev1.PodSpec) []specPart {
	each := func(to *corev1.PodSpec, take func(to, from *corev1.Container)) {
		for _, lists := range [][2][]corev1.Container{{to.InitContainers, from.InitContainers}, {to.Containers, from.Containers}} {
			for i := range lists[0] {
				if j := slices.IndexFunc(lists[1], func(c corev1.Container) bool { return c.Name == lists[0][i].Name }); j >= 0 {
					take(&lists[0][i], &lists[1][j])
				}
			}
		}
	}
	parts := []specPart{
		{"images or activeDeadlineSeconds", func(to *corev1.PodSpec) {
			to.ActiveDeadlineSeconds = from.ActiveDeadlineSeconds
			each(to, func(to, from *corev1.Container) { to.Image = from.Image })
		}},
		{"resources", func(to *corev1.PodSpec) {
			each(to, func(to, from *corev1.Container) {
				to.Resources = from.Resources
				to.Resources.Claims = nil
			})
		}},
	}
	for i := range from.EphemeralContainers {
		c := from.EphemeralContainers[i]
		c.Resources.Claims = nil
		parts = append(parts, specPart{"container " + c.Name + " for debugging", func(to *corev1.PodSpec) {
			if !slices.ContainsFunc(to.EphemeralContainers, func(have corev1.EphemeralContainer) bool { return have.Name == c.Name }) {
				to.EphemeralContainers = append(to.EphemeralContainers, c)
			}
		}})
	}
	return parts
}

// readinessGates are the conditions that the provider is to set on the remote Pod for readiness gates of local controllers. A gate that is told
// once stays with the consumer; another one becomes the consumer's when it is set here and not on the remote Pod that the local one shows. The
// rest are those of the provider's own controllers.
func readinessGates(shadow *offv1.ShadowPod, local, remote *corev1.Pod) string {
	told := ParseGates(shadow.Annotations[AnnotationGates])
	shown := remote != nil && local.Annotations[AnnotationRemoteUID] == string(remote.UID)
	gates := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, gate := range local.Spec.ReadinessGates {
		here := condition(local, gate.ConditionType)
		if here == nil {
			continue
		}
		if _, ours := told[gate.ConditionType]; ours || shown && condition(remote, gate.ConditionType) == nil {
			gates[gate.ConditionType] = here.Status
		}
	}
	parts := make([]string, 0, len(gates))
	for _, gate := range slices.Sorted(maps.Keys(gates)) {
		parts = append(parts, string(gate)+"="+string(gates[gate]))
	}
	return strings.Join(parts, ",")
}

// ParseGates reads AnnotationGates; what is no condition is left out.
func ParseGates(text string) map[corev1.PodConditionType]corev1.ConditionStatus {
	gates := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, part := range commaList(text) {
		gate, value, _ := strings.Cut(part, "=")
		switch status := corev1.ConditionStatus(value); status {
		case corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown:
			gates[corev1.PodConditionType(gate)] = status
		}
	}
	return gates
}

func condition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// defaultGrace is what Kubernetes gives a Pod that does not say how long it takes to end.
const defaultGrace = int64(corev1.DefaultTerminationGracePeriodSeconds)

// AskedGrace returns within how many seconds a Pod that is being deleted is to end, false if it is as many as its own specification says.
func AskedGrace(local *corev1.Pod) (int64, bool) {
	usual := defaultGrace
	if own := local.Spec.TerminationGracePeriodSeconds; own != nil {
		usual = *own
	}
	if asked := local.DeletionGracePeriodSeconds; asked != nil && *asked != usual {
		return *asked, true
	}
	return 0, false
}

// Grace returns within how many seconds the Pod of a ShadowPod is to end, false if it is not to.
func Grace(shadow *offv1.ShadowPod) (int64, bool) {
	seconds, err := strconv.ParseInt(shadow.Annotations[AnnotationGrace], 10, 64)
	return seconds, err == nil && seconds >= 0
}

// WithGrace returns shadow with the order to end its Pod within so many seconds.
func WithGrace(shadow *offv1.ShadowPod, seconds int64) *offv1.ShadowPod {
	out := shadow.DeepCopy()
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[AnnotationGrace] = strconv.FormatInt(seconds, 10)
	return out
}
