package move

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// theirs is the content of each claim of a provider that was not created for the claim of the world.
const theirs = "of somebody else"

// stranger lets a claim in a provider take the name of the claim there: one of a user of the provider, or one that was retained for an earlier claim. A user of the
// provider may also delete a copy that no pod mounts, and take its name before anybody knows. Then a pod that finds the claim by its name may write to it, and the
// move must not take it for the copy.
func (w *world) stranger(cluster string) {
	b, prefix := w.backing[cluster][claimName], "s"
	switch {
	case b == nil:
	case b.Annotations[storage.AnnotationRetained] == "copy" && b.DeletionTimestamp == nil && !w.used(shop, claimName, cluster) && !w.verified():
		w.note("a user of %s deletes the copy with %q", cluster, w.content[b.UID])
		delete(w.content, b.UID)
		prefix = "r"
	default:
		return
	}
	w.version++
	b = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claimName, UID: types.UID(fmt.Sprint(prefix, w.version))}}
	if w.r.IntN(2) == 0 {
		b.Labels = map[string]string{
			storage.LabelClaimNamespace: shop, storage.LabelClaimName: claimName, api.LabelOrigin: "rome", api.LabelDestination: cluster,
		}
		b.Annotations = map[string]string{
			storage.LabelClaimName: claimName, storage.AnnotationClaimUID: "earlier", storage.AnnotationRetained: api.True,
		}
	}
	mount(b)
	w.backing[cluster][claimName], w.content[b.UID] = b, theirs
	w.note("claim %s in %s has the name, with annotations %v", b.UID, cluster, b.Annotations)
}

// verified reports whether the record has a verified copy. Who deletes it from then on deletes the data of the claim.
func (w *world) verified() bool {
	for _, v := range w.volumes {
		if record, err := recordOf(v); err == nil && record != nil && record.Copy != "" {
			return true
		}
	}
	return false
}

// isStranger reports whether a claim in a provider was not created for a claim of the world.
func isStranger(b *corev1.PersistentVolumeClaim) bool {
	return b.UID[0] == 's' || b.UID[0] == 'r'
}

// strangersAreWhole fails if the command, or Liqo, has changed a claim of somebody else, or what is in it.
func (w *world) strangersAreWhole() {
	for _, cluster := range clusters[1:] {
		if b := w.backing[cluster][claimName]; b != nil && b.UID[0] == 's' && (w.content[b.UID] != theirs || b.DeletionTimestamp != nil) {
			w.fatal("claim %s of somebody else in %s has %q", b.UID, cluster, w.content[b.UID])
		}
	}
}

// strangersLeave lets their owners delete the claims that have the name of the claim.
func (w *world) strangersLeave() {
	for _, cluster := range clusters[1:] {
		if b := w.backing[cluster][claimName]; b != nil && isStranger(b) && !slices.ContainsFunc(sorted(w.pods), func(pod *corev1.Pod) bool {
			return providerNamed(pod.Spec.NodeName) == cluster && mounted(pod) == claimName
		}) {
			w.note("claim %s of somebody else is gone from %s", b.UID, cluster)
			delete(w.backing[cluster], claimName)
			delete(w.content, b.UID)
		}
	}
}
