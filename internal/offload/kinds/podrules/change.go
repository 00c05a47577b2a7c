package podrules

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Annotations that report changes of an existing Pod to the provider.
const (
	// AnnotationSpec, on a ShadowPod and its Pod, holds hashes of the mutable parts of the specification that were last applied: part=hash, separated
	// by commas. A comparison with it shows which parts have changed, without the earlier specification. Only changed parts are applied, so a change
	// that another program made to an unchanged part is not reverted.
	AnnotationSpec = "offloading.liqo.io/spec-hash"
	// AnnotationGates, on a ShadowPod, holds the conditions for readiness gates that are set in the consumer: type=status, separated by commas.
	AnnotationGates = "offloading.liqo.io/readiness-gates"
	// AnnotationGrace, on a ShadowPod, is the grace period in seconds with which the provider has to delete its Pod. The Pod is not recreated then.
	AnnotationGrace = "offloading.liqo.io/deletion-grace-period-seconds"
)

// SpecPart is a part of a Pod's specification that can be changed separately. If the API server refuses one part, the others are still applied. That
// matters because some changes can't be reverted, such as an added ephemeral container.
type SpecPart struct {
	// Field is the name of the part: the field of the Pod's spec, for an ephemeral container followed by its name.
	Field string
	// Subresource is the subresource of a Pod through which the part is changed; empty for the Pod itself.
	Subresource string

	asked any
	take  func(to *corev1.PodSpec)
}

// SubresourceResize is the subresource of a Pod through which its resources are changed.
const SubresourceResize = "resize"

// changing holds the fields of a container that Kubernetes lets change.
type changing struct {
	Name      string
	Image     string                      `json:",omitempty"`
	Resources corev1.ResourceRequirements `json:",omitzero"`
}

// SpecParts returns the mutable parts of a specification. Parts that the specification does not set are left out, since Kubernetes does not allow to
// remove a part again.
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
		eachPair(to, from, func(to, from *corev1.Container) { to.Image = from.Image })
	}}}
	if sized {
		parts = append(parts, SpecPart{Field: PartResources, Subresource: SubresourceResize, asked: resources, take: func(to *corev1.PodSpec) {
			eachPair(to, from, func(to, from *corev1.Container) {
				overlay(&to.Resources.Requests, from.Resources.Requests)
				overlay(&to.Resources.Limits, from.Resources.Limits)
			})
		}})
	}
	if deadline := from.ActiveDeadlineSeconds; deadline != nil {
		parts = append(parts, SpecPart{Field: "activeDeadlineSeconds", asked: *deadline, take: func(to *corev1.PodSpec) {
			if to.ActiveDeadlineSeconds == nil || *to.ActiveDeadlineSeconds > *deadline { // the deadline may only decrease
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

// eachPair calls take for each pair of containers that have the same name in both specifications.
func eachPair(to, from *corev1.PodSpec, take func(to, from *corev1.Container)) {
	for _, lists := range [][2][]corev1.Container{{to.InitContainers, from.InitContainers}, {to.Containers, from.Containers}} {
		for i := range lists[0] {
			if j := slices.IndexFunc(lists[1], func(c corev1.Container) bool { return c.Name == lists[0][i].Name }); j >= 0 {
				take(&lists[0][i], &lists[1][j])
			}
		}
	}
}

// overlay copies the amounts in want into have. It keeps the other amounts in have, such as those that admission set.
func overlay(have *corev1.ResourceList, want corev1.ResourceList) {
	if *have == nil && len(want) > 0 {
		*have = corev1.ResourceList{}
	}
	maps.Copy(*have, want)
}

// Over returns a copy of spec with the part applied, and whether that changes anything.
func (p SpecPart) Over(spec *corev1.PodSpec) (*corev1.PodSpec, bool) {
	with := spec.DeepCopy()
	p.take(with)
	return with, !equality.Semantic.DeepEqual(with, spec)
}

// hash returns a short hash of the requested state of the part.
func (p SpecPart) hash() string { return hash(p.asked) }

func hash(state any) string {
	text, err := json.Marshal(state)
	if err != nil {
		panic(fmt.Sprintf("marshalling the mutable parts of a pod: %v", err)) // API types always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// specNotes returns the value of AnnotationSpec for a specification that is applied completely.
func specNotes(spec *corev1.PodSpec) string {
	var notes []string
	for _, part := range SpecParts(spec) {
		notes = append(notes, part.Field+"="+part.hash())
	}
	return strings.Join(notes, ",")
}

// Noted returns the hash that a value of AnnotationSpec holds for a part; empty if it holds none. Up to v0.1 the value was a single hash for all
// parts.
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

// NotedBut returns the value of AnnotationSpec after all parts of wanted were applied except those in but. For each of these it contains the hash
// given in but, or no entry if that hash is empty.
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

// SpecChanged reports whether a change of the local Pod's specification has to be applied to the ShadowPod.
func SpecChanged(shadow *offloadingv1beta1.ShadowPod, local *corev1.Pod) bool {
	noted := shadow.Annotations[AnnotationSpec]
	if !strings.Contains(noted, "=") { // an upgrade does not rewrite the annotation of an unchanged specification
		return noted != formerHash(&local.Spec)
	}
	return noted != specNotes(&local.Spec)
}

// formerHash returns the single hash of a specification that releases up to v0.1 wrote.
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

// SpecChange is a ShadowPod with the first changed part of a specification applied.
type SpecChange struct {
	// Part is the Field of the applied part; empty if only AnnotationSpec had to be updated.
	Part string
	// Shadow is the ShadowPod with the part applied.
	Shadow *offloadingv1beta1.ShadowPod
	// More reports whether other parts remain to be applied.
	More bool
}

// ChangeSpec applies to shadow the first changed part of local's specification that AnnotationSpec does not record. Parts in leftOut are skipped. The
// result is false if nothing else has changed. shadow and local must be complete objects if the result is to be written.
func ChangeSpec(shadow *offloadingv1beta1.ShadowPod, local *corev1.Pod, leftOut []string, o Options) (SpecChange, bool) {
	out, in := shadow.DeepCopy(), local.DeepCopy()
	adaptEphemeral(in, o)
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
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, AnnotationSpec, noted)
	return change, true
}

// adaptEphemeral changes, in place, the ephemeral containers of a local Pod as podSpec changes its other containers.
func adaptEphemeral(local *corev1.Pod, o Options) {
	if local.Annotations[AnnotationAPIServerSupport] == APIServerRemote {
		return
	}
	list := make([]corev1.Container, len(local.Spec.EphemeralContainers))
	for i := range list {
		list[i] = corev1.Container(local.Spec.EphemeralContainers[i].EphemeralContainerCommon)
	}
	renameRootCA(&corev1.PodSpec{Containers: list}, o)
	nameServiceAccount(list, local.Spec.ServiceAccountName)
	if usesOriginAPIServer(local, o) {
		withAPIServerEnv(list, o.APIServer)
	}
	for i := range list {
		local.Spec.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(list[i])
	}
}

// readinessGates returns the value of AnnotationGates: the conditions of readiness gates that are set in the consumer. The provider's controllers set
// the conditions of the other gates. A gate that is already in the annotation stays there. Another gate is added if its condition is set on the local
// Pod but not on the remote Pod, provided that the status of this remote Pod was copied to the local Pod.
func readinessGates(shadow *offloadingv1beta1.ShadowPod, local, remote *corev1.Pod) string {
	reported := ParseGates(shadow.Annotations[AnnotationGates])
	shown := remote != nil && local.Annotations[AnnotationRemoteUID] == string(remote.UID)
	gates := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, gate := range local.Spec.ReadinessGates {
		here := condition(local, gate.ConditionType)
		if here == nil {
			continue
		}
		if _, ours := reported[gate.ConditionType]; ours || shown && condition(remote, gate.ConditionType) == nil {
			gates[gate.ConditionType] = here.Status
		}
	}
	parts := make([]string, 0, len(gates))
	for _, gate := range slices.Sorted(maps.Keys(gates)) {
		parts = append(parts, string(gate)+"="+string(gates[gate]))
	}
	return strings.Join(parts, ",")
}

// ParseGates reads a value of AnnotationGates. Invalid entries are left out.
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

// defaultGrace is Kubernetes' default grace period of a Pod, in seconds.
const defaultGrace = int64(corev1.DefaultTerminationGracePeriodSeconds)

// RequestedGrace returns the grace period, in seconds, of a Pod that is being deleted, false if it equals the grace period in the Pod's spec.
func RequestedGrace(local *corev1.Pod) (int64, bool) {
	usual := defaultGrace
	if own := local.Spec.TerminationGracePeriodSeconds; own != nil {
		usual = *own
	}
	if asked := local.DeletionGracePeriodSeconds; asked != nil && *asked != usual {
		return *asked, true
	}
	return 0, false
}

// Grace returns the grace period, in seconds, with which the Pod of a ShadowPod has to be deleted, false if it does not have to be deleted.
func Grace(shadow *offloadingv1beta1.ShadowPod) (int64, bool) {
	seconds, err := strconv.ParseInt(shadow.Annotations[AnnotationGrace], 10, 64)
	return seconds, err == nil && seconds >= 0
}

// WithGrace returns a copy of shadow with an annotation that makes the provider delete the Pod with that grace period, in seconds.
func WithGrace(shadow *offloadingv1beta1.ShadowPod, seconds int64) *offloadingv1beta1.ShadowPod {
	out := shadow.DeepCopy()
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, AnnotationGrace, strconv.FormatInt(seconds, 10))
	return out
}
