package storage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
)

// TestLawsInRandomWorlds lets both processes act at any moment of any history, on caches that lag behind. Then everything comes to rest. Laws that hold at
// every moment are in obey: no data of a claim and no retained data is deleted, nothing of somebody else is touched, and no write changes nothing. The cluster may be
// restored from a backup, which knows nothing of the claims since then. Their data in the provider stays, and gets its volume again.
func TestLawsInRandomWorlds(t *testing.T) {
	const worlds = 1000
	claims, bound, retained, refused, recovered := 0, 0, 0, 0, 0
	for seed := range uint64(worlds) {
		w := newWorld(t, seed)
		for range 80 {
			w.event()
			for range w.r.IntN(4) { // the processes are slow, or dead, at times
				if len(w.uids) > 0 {
					uid, place := w.uids[w.r.IntN(len(w.uids))], w.r.IntN(2)
					w.act(uid, place, w.stale(uid, place))
				}
			}
		}
		w.rest()
		claims += len(w.uids)
		for _, uid := range w.uids {
			switch {
			case w.now.claim == nil || w.now.claim.UID != uid:
				retained += w.gone(uid)
				if v := w.now.volumes[VolumeName(uid)]; v != nil && v.Annotations[annotationRecovered] != "" {
					recovered++
				}
			case w.pending(uid):
				refused++
			default:
				w.provisioned(uid)
				bound++
			}
		}
	}
	// The worlds are worth something only if all ends occur.
	if claims < worlds || bound < worlds/10 || retained < worlds/20 || refused == 0 || recovered < worlds/100 {
		t.Errorf("%d claims in %d worlds, %d bound, %d retained, %d refused, %d recovered", claims, worlds, bound, retained, refused, recovered)
	}
}

// rest lets everything come to rest: the link is up, strangers are gone, the scheduler selects nodes that exist, and drivers refuse none.
func (w *world) rest() {
	w.quiet, w.places[1].Waiting = true, ""
	if b := w.now.backing[1][claimName]; b != nil && BackingUID(b) == "" {
		w.stranger()
	}
	for range 60 {
		if c := w.now.claim; c != nil && node(c.Annotations[AnnotationSelectedNode]) == nil {
			w.schedule("n1")
		}
		w.bind()
		w.finish()
		w.drive(0)
		w.drive(1)
		for _, uid := range w.uids {
			for place := range w.places {
				w.act(uid, place, w.present(uid, place))
			}
		}
	}
	for _, uid := range w.uids {
		for place := range w.places {
			if step := Next(w.present(uid, place)); step.Action != Nothing {
				w.fatal("it does not settle: place %d, claim %s: %s, %s", place, uid, step.Action, step.Why)
			}
		}
	}
}

// parts returns the backing claims of a claim, by place.
func (w *world) parts(uid types.UID) (out [2]*corev1.PersistentVolumeClaim) {
	for place := range w.now.backing {
		for _, b := range w.now.backing[place] {
			if BackingUID(b) == uid {
				out[place] = b
			}
		}
	}
	return out
}

// gone checks a claim that is gone, and returns the number of its retained backing claims.
func (w *world) gone(uid types.UID) int {
	volume := w.now.volumes[VolumeName(uid)]
	if volume != nil && volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && volume.Status.Phase != corev1.VolumeAvailable {
		w.fatal("the volume of %s is left", uid)
	}
	kept := 0
	for place, b := range w.parts(uid) {
		switch {
		case b == nil:
		case place == 1 && volume == nil && w.used[b.UID]:
			w.fatal("the data of %s in the provider has no volume in this cluster, so nothing holds its namespace", uid)
		case b.Annotations[AnnotationRetained] == api.True:
			kept++
		case volume == nil || ClusterOf(volume) != w.places[place].Cluster:
			w.fatal("the backing claim of %s in place %d is left", uid, place)
		default:
			kept++
		}
	}
	if volume != nil && kept == 0 && !w.restored { // it may have been deleted since the backup
		w.fatal("the data of the retained volume of %s is gone", uid)
	}
	return kept
}

// pending reports whether a claim has no volume, and checks that the user is told why.
func (w *world) pending(uid types.UID) bool {
	if w.now.volumes[VolumeName(uid)] != nil {
		return false
	}
	for place := range w.places {
		if Next(w.present(uid, place)).Refused != "" {
			return true
		}
	}
	w.fatal("claim %s has no volume, and nobody says why", uid)
	return true
}

// provisioned checks a claim with a volume.
func (w *world) provisioned(uid types.UID) {
	volume, c, parts := w.now.volumes[VolumeName(uid)], w.now.claim, w.parts(uid)
	at := 0
	if ClusterOf(volume) != "" {
		at = 1
	}
	if parts[at] == nil && w.restored && Next(w.present(uid, at)).Refused != "" {
		return // it was deleted since the backup
	}
	if other := parts[1-at]; parts[at] == nil || other != nil && (at == 1 || other.Annotations[AnnotationRetained] != api.True) {
		w.fatal("the parts of %s are not in place %d: %v", uid, at, parts)
	}
	if c.Spec.VolumeName != volume.Name {
		w.fatal("claim %s is not bound", uid)
	}
	// Kubernetes deletes a volume together with its claim; until then the volume stays as it is.
	if less(c.Status.Capacity, c.Spec.Resources.Requests[corev1.ResourceStorage]) && volume.DeletionTimestamp == nil {
		w.fatal("claim %s is too small: %+v", uid, c.Status)
	}
}
