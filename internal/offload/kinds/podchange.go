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
	// AnnotationSpec, on a ShadowPod and its Pod, stands for what of the specification may change, as it was last taken over: part=hash, separated by
	// commas. It tells that a change is due without the specification at hand, and keeps what others made of a part from being undone.
	AnnotationSpec = "offloading.liqo.io/spec-hash"
	// AnnotationGates, on a ShadowPod, holds the conditions for readiness gates that are set in the consumer: type=status, separated by commas.
	AnnotationGates = "offloading.liqo.io/readiness-gates"
	// AnnotationGrace, on a ShadowPod, tells that its Pod is to end within so many seconds, and is not made again.
	AnnotationGrace = "offloading.liqo.io/deletion-grace-period-seconds"
)

// SpecPart is a part of a specification that changes by itself: who is asked for it may refuse it, and what was asked for before or later must not wait
// for that. A container for debugging can't even be taken back.
type SpecPart struct {
	// Field is what it is called in a Pod.
	Field string
	// Subresource of a Pod through which it changes; empty for the Pod itself.
	Subresource string

	asked any
	take  func(to *corev1.PodSpec)
}

// SubresourceResize is that of a Pod through which its resources change.
const SubresourceResize = "resize"

// changing is what of a container Kubernetes lets change.
type changing struct {
	Name      string
	Image     string                      `json:",omitempty"`
	Resources corev1.ResourceRequirements `json:",omitzero"`
}

// SpecParts are what Kubernetes lets change of a specification. What it does not say is not among them: none of it can be taken back.
func SpecParts(from *corev1.PodSpec) []SpecPart {
	var images, resources []changing
	sized := false
	for _, list := range [][]corev1.Container{from.InitContainers, from.Containers} {
		for i := range list {
			c := changing{Name: list[i].Name, Resources: list[i].Resources}
			c.Resources.Claims = nil
			images, resources = append(images, changing{Name: c.Name, Image: list[i].Image}), append(resources, c)
			sized = sized || len(c.Resources.Requests)+len(c.Resources.Limits) > 0
		}
	}
	parts := []SpecPart{{Field: "image", asked: images, take: func(to *corev1.PodSpec) {
		each(to, from, func(to, from *corev1.Container) { to.Image = from.Image })
	}}}
	if sized {
		parts = append(parts, SpecPart{Field: PartResources, Subresource: SubresourceResize, asked: resources, take: func(to *corev1.PodSpec) {
			each(to, from, func(to, from *corev1.Container) {
				overlay(&to.Resources.Requests, from.Resources.Requests)
				overlay(&to.Resources.Limits, from.Resources.Limits)
			})
		}})
	}
	if deadline := from.ActiveDeadlineSeconds; deadline != nil {
		parts = append(parts, SpecPart{Field: "activeDeadlineSeconds", asked: *deadline, take: func(to *corev1.PodSpec) {
			if to.ActiveDeadlineSeconds == nil || *to.ActiveDeadlineSeconds > *deadline { // it only comes nearer
				to.ActiveDeadlineSeconds = new(*deadline)
			}
		}})
	}
	for i := range from.EphemeralContainers {
		c := &from.EphemeralContainers[i]
		parts = append(parts, SpecPart{Field: "ephemeralContainers/" + c.Name, Subresource: "ephemeralcontainers", asked: c.Name, take: func(to *corev1.PodSpec) {
			if !slices.ContainsFunc(to.EphemeralContainers, func(have corev1.EphemeralContainer) bool { return have.Name == c.Name }) {
				added := c.DeepCopy()
				added.Resources.Claims = nil
				to.EphemeralContainers = append(to.EphemeralContainers, *added)
			}
		}})
	}
	return parts
}

// each hands the containers of one specification over, with those of the same names in another one.
func each(to, from *corev1.PodSpec, take func(to, from *corev1.Container)) {
	for _, lists := range [][2][]corev1.Container{{to.InitContainers, from.InitContainers}, {to.Containers, from.Containers}} {
		for i := range lists[0] {
			if j := slices.IndexFunc(lists[1], func(c corev1.Container) bool { return c.Name == lists[0][i].Name }); j >= 0 {
				take(&lists[0][i], &lists[1][j])
			}
		}
	}
}

// overlay sets the amounts in have that want names: what admission set beside, stays.
func overlay(have *corev1.ResourceList, want corev1.ResourceList) {
	if *have == nil && len(want) > 0 {
		*have = corev1.ResourceList{}
	}
	maps.Copy(*have, want)
}

// Over returns a copy of another specification with the part taken over, and whether that makes a difference.
func (p SpecPart) Over(spec *corev1.PodSpec) (*corev1.PodSpec, bool) {
	with := spec.DeepCopy()
	p.take(with)
	return with, !equality.Semantic.DeepEqual(with, spec)
}

// hash is short, and another one when something else is asked for.
func (p SpecPart) hash() string { return hash(p.asked) }

func hash(state any) string {
	text, err := json.Marshal(state)
	if err != nil {
		panic(fmt.Sprintf("marshalling what changes of a pod: %v", err)) // API types always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// specNotes is AnnotationSpec when all of a specification is taken over.
func specNotes(spec *corev1.PodSpec) string {
	var notes []string
	for _, part := range SpecParts(spec) {
		notes = append(notes, part.Field+"="+part.hash())
	}
	return strings.Join(notes, ",")
}

// Noted returns what a text of AnnotationSpec says of a part; empty is nothing. Up to v0.1 it was one word for all parts.
func Noted(text, field string) string {
	if !strings.Contains(text, "=") {
		return text
	}
	for _, note := range commaList(text) {
		if name, hash, _ := strings.Cut(note, "="); name == field {
			return hash
		}
	}
	return ""
}

// NotedBut returns AnnotationSpec when all that wanted says was taken over but some parts, of which it says what is given, nothing if that is empty.
func NotedBut(wanted string, but map[string]string) string {
	if len(but) == 0 {
		return wanted
	}
	var notes []string
	for _, note := range commaList(wanted) {
		field, hash, _ := strings.Cut(note, "=")
		if instead, found := but[field]; found {
			hash = instead
		}
		if hash != "" {
			notes = append(notes, field+"="+hash)
		}
	}
	return strings.Join(notes, ",")
}

// SpecChanged tells whether the ShadowPod has to hear of a change of the local Pod's specification.
func SpecChanged(shadow *offv1.ShadowPod, local *corev1.Pod) bool {
	noted := shadow.Annotations[AnnotationSpec]
	if !strings.Contains(noted, "=") { // what is as it was is not written anew for an upgrade
		return noted != formerHash(&local.Spec)
	}
	return noted != specNotes(&local.Spec)
}

// formerHash is the one word of a specification up to v0.1.
func formerHash(spec *corev1.PodSpec) string {
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
	return hash(state)
}

// SpecChange is a ShadowPod with the first part of what changed of a specification.
type SpecChange struct {
	// Part is its field; empty if there was nothing to take over but a note.
	Part string
	// Shadow is the ShadowPod with it.
	Shadow *offv1.ShadowPod
	// More tells that it was not all.
	More bool
}

// ChangeSpec returns the first part of what changed of local that shadow has taken no note of, apart from those that are left out. When nothing but
// those is left, it is false. Both are to be read whole if it is to be written.
func ChangeSpec(shadow *offv1.ShadowPod, local *corev1.Pod, leftOut []string) (SpecChange, bool) {
	out, in := shadow.DeepCopy(), local.DeepCopy()
	change := SpecChange{Shadow: out}
	before := shadow.Annotations[AnnotationSpec]
	due := map[string]string{}
	for _, part := range SpecParts(&in.Spec) {
		noted := Noted(before, part.Field)
		if noted == part.hash() {
			continue
		}
		with, differs := part.Over(&out.Spec.Pod)
		switch {
		case slices.Contains(leftOut, part.Field):
			due[part.Field] = noted
		case !differs:
		case change.Part == "":
			change.Part, out.Spec.Pod = part.Field, *with
		default:
			due[part.Field], change.More = noted, true
		}
	}
	noted := NotedBut(specNotes(&in.Spec), due)
	if noted == before {
		return SpecChange{}, false
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[AnnotationSpec] = noted
	return change, true
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
