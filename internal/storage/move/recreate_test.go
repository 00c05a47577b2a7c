package move

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/storage"
)

// refuses reports whether the API server refuses the creation of a claim, as policy liqo-moving-claims says.
func (w *world) refuses(c *corev1.PersistentVolumeClaim, administrator bool) bool {
	volume, _, _ := strings.Cut(movingClaims(w.seen)[c.Name], "/")
	mark := administrator && c.Annotations[storage.AnnotationMove] == volume
	return volume != "" && !mark && c.Spec.VolumeName != volume
}

// enforces reports whether the command sees that the API server refuses the claims of others, and permits its own.
func (w *world) enforces(s State) bool {
	other, own := s.Probes()
	return other != nil && w.refuses(other, true) && !w.refuses(own, true)
}

// recreate lets the owner of the claim, such as a StatefulSet, create an empty claim whenever there is none and the API server permits that. The scheduler
// selects a node for its first pod.
func (w *world) recreate() {
	if w.claim() != nil {
		return
	}
	if created := userClaim(w.someNode()); !w.refuses(created, false) {
		w.note("the owner creates an empty claim")
		w.create(created)
	}
}

// replace lets a user write the claim as it was in the manifest, without the mark of the move.
func (w *world) replace() {
	c := w.claim()
	if c == nil || c.Annotations[storage.AnnotationMove] == "" || movingClaims(w.seen)[c.Name] != "" {
		return
	}
	w.note("a user removes the mark of the claim")
	delete(c.Annotations, storage.AnnotationMove)
	w.changed(c)
}

// bound fails if the claim is bound to a volume without the data.
func (w *world) bound(c *corev1.PersistentVolumeClaim, volume string) {
	if b := w.backingOf(volume); key(c) == key(userClaim("")) && (b == nil || w.content[b.UID] != w.acked) {
		w.fatal("the claim is bound to volume %s without the data: %+v", volume, b)
	}
}
