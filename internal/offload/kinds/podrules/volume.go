package podrules

import (
	"cmp"
	"iter"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
)

// StorageClass is the default of Options.VirtualStorageClass.
const StorageClass = "liqo"

// ephemeral adapts the claim template of a generic ephemeral volume to the provider. Its annotation may name the storage class. Otherwise the
// template's own class stays, except for Liqo's class, which is left out: the provider gives such a claim its default class.
func ephemeral(v *corev1.Volume, virtualClass string) {
	if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
		return
	}
	claim := v.Ephemeral.VolumeClaimTemplate
	class := claim.Annotations[api.AnnotationRemoteStorageClass]
	if named := claim.Spec.StorageClassName; class == "" && named != nil && *named == cmp.Or(virtualClass, StorageClass) {
		claim.Spec.StorageClassName = nil
	}
	if class != "" {
		claim.Spec.StorageClassName = &class
	}
	if modes := commaList(claim.Annotations[api.AnnotationRemoteAccessModes]); len(modes) > 0 {
		claim.Spec.AccessModes = nil
		for _, mode := range modes {
			claim.Spec.AccessModes = append(claim.Spec.AccessModes, corev1.PersistentVolumeAccessMode(mode))
		}
	}
	claim.Spec.VolumeName = "" // it would refer to a volume of this cluster
}

// remoteClaim makes a volume mount a claim that exists only in the remote namespace. An annotation of the pod names it, as PLACEHOLDER=CLAIM. In this
// cluster, the pod mounts only the placeholder claim, so that it does not delay the deletion of any other claim.
func remoteClaim(v *corev1.Volume, annotation string) {
	placeholder, claim, found := strings.Cut(annotation, "=")
	if found && claim != "" && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == placeholder {
		v.PersistentVolumeClaim.ClaimName = claim
	}
}

// keepPaths replaces the namespace in the subPathExpr of volume mounts by the local one. The variable has the name of the remote namespace in the provider, so data
// that was written in one cluster would be in another folder in the other. The variable itself keeps its value, because pods need it to find Services.
func keepPaths(spec *corev1.PodSpec, namespace string) {
	room := maxGrowth
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			texts := namespaceTexts(list[i].Env, namespace, &room)
			for j := range list[i].VolumeMounts {
				mount := &list[i].VolumeMounts[j]
				mount.SubPathExpr = expandNamespace(mount.SubPathExpr, texts, &room)
			}
		}
	}
}

// namespaceTexts returns, for each variable whose value contains the namespace, this value with the given namespace. Other references in it stay. As in
// Kubernetes, a value can refer to the variables before it, and of several variables with one name the last one counts. The added length is taken from room.
func namespaceTexts(env []corev1.EnvVar, namespace string, room *int) map[string]string {
	definitions := map[string]int{}
	for i := range env {
		definitions[env[i].Name]++
	}
	texts, defined := map[string]string{}, map[string]bool{}
	constant := func(text string) bool {
		for r := range references(text + "()") { // completes a reference that the text only begins
			if !defined[r.name] || definitions[r.name] > 1 {
				return false
			}
		}
		return true
	}
	for i := range env {
		name, value := env[i].Name, env[i].Value
		text := expandNamespace(value, texts, room)
		if isNamespace(&env[i]) {
			text = namespace
		}
		delete(texts, name)
		if text != value && constant(text) { // a reference in it has the same value here and in a subPathExpr
			texts[name] = text
		}
		defined[name] = true
	}
	return texts
}

const (
	// maxPath is the maximum length of a path in Linux. A longer subPathExpr can't be mounted, so expandNamespace builds none.
	maxPath = 4096
	// maxGrowth limits the length that the expansion of all paths adds to a Pod. Without the limit, a Pod with many mounts could fill the memory and become too
	// large to be stored.
	maxGrowth = 64 * maxPath
)

// expandNamespace replaces the references to variables that have a text. It takes the added length from room. It returns the expression unchanged if the result would
// exceed maxPath or the room.
func expandNamespace(expression string, texts map[string]string, room *int) string {
	if len(texts) == 0 || len(expression) > maxPath {
		return expression
	}
	limit := min(maxPath, len(expression)+*room)
	var out strings.Builder
	copied := 0
	for r := range references(expression) {
		text, found := texts[r.name]
		if !found {
			continue
		}
		out.WriteString(expression[copied:r.start])
		if copied = r.end; out.Len()+len(text)+len(expression)-copied > limit {
			return expression
		}
		out.WriteString(text)
	}
	out.WriteString(expression[copied:])
	*room -= max(out.Len()-len(expression), 0)
	return out.String()
}

// reference is a reference $(NAME) to a variable, from start to end in its expression.
type reference struct {
	name       string
	start, end int
}

// references returns the references in an expression, as Kubernetes finds them: a name ends at the first parenthesis, and $$ is an escaped dollar sign. It reads
// the expression once, whatever is in it.
func references(expression string) iter.Seq[reference] {
	return func(yield func(reference) bool) {
		for at := 0; at+1 < len(expression); at++ {
			start := at
			if expression[at] != '$' {
				continue
			}
			at++
			if expression[at] != '(' {
				continue
			}
			length := strings.IndexByte(expression[at:], ')')
			if length < 0 || !yield(reference{name: expression[at+1 : at+length], start: start, end: at + length + 1}) {
				return // without a further parenthesis, there is no further reference
			}
			at += length
		}
	}
}

// isNamespace reports whether a variable has the namespace of the pod.
func isNamespace(variable *corev1.EnvVar) bool {
	from := variable.ValueFrom
	return from != nil && from.FieldRef != nil && from.FieldRef.FieldPath == fieldNamespace
}
