package move

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/storage"
)

// safe fails unless the data is where the record, or the claim, says.
func (w *world) safe() {
	volume := ""
	for _, v := range w.volumes {
		if v.Annotations[storage.AnnotationMove] != "" {
			volume = v.Name
			// From there on pods may write to the copy.
			if record, err := recordOf(v); err == nil && w.claim() != nil && record.Copy == w.claim().UID && w.claim().Status.Phase == corev1.ClaimBound {
				volume = w.claim().Spec.VolumeName
			}
		}
	}
	if c := w.claim(); volume == "" && c != nil {
		volume = c.Spec.VolumeName
	}
	b := w.backingOf(volume)
	if b == nil || w.content[b.UID] != w.acked || b.DeletionTimestamp != nil {
		w.fatal("the data is not in volume %q any more: %+v", volume, b)
	}
	w.strangersAreWhole()
}

// disturb lets somebody do something while a move may be under way.
func (w *world) disturb() {
	c := w.claim()
	underway := slices.ContainsFunc(sorted(w.volumes), func(v *corev1.PersistentVolume) bool { return v.Annotations[storage.AnnotationMove] != "" })
	switch w.r.IntN(10) {
	case 9:
		if w.r.IntN(4) == 0 {
			w.stranger(clusters[1+w.r.IntN(2)])
		} else {
			w.strangersLeave()
		}
	case 0:
		w.note("a user starts the application")
		w.create(w.application())
	case 1:
		for _, pod := range sorted(w.pods) {
			if pod.Labels[LabelMove] == "" || w.r.IntN(4) == 0 { // a pod of the move is lost with its node
				w.note("pod %s is gone", pod.Name)
				w.remove(pod)
			}
		}
	case 2:
		w.recreate()
	case 3:
		if underway && c != nil && c.Spec.VolumeName == "" && w.r.IntN(4) == 0 {
			w.note("a user deletes the claim that waits")
			w.remove(c)
		}
	case 4:
		for _, pod := range sorted(w.pods) {
			if pod.Labels[LabelMove] == "" && pod.Status.Phase == corev1.PodRunning && metav1.GetControllerOf(pod) == nil {
				w.note("pod %s ends", pod.Name)
				pod.Status.Phase = corev1.PodSucceeded
				w.changed(pod)
			}
		}
	default:
		w.settle(1)
	}
}

// TestLawsOfAMove has users move a claim to and fro, and kills the command between any two of its steps, and between its reading and its writing. At every
// moment the data is whole where the record or the claim says, and a pod of the application never runs without it. The owner of the claim creates an empty one
// whenever it may, but no claim of the name is ever bound to a volume without the data. Claims of others that have the name in a provider are not written to.
// At last the same command ends well.
func TestLawsOfAMove(t *testing.T) {
	const worlds = 600
	moved, returned, errors, unequal, foreign := 0, 0, 0, 0, 0
	for seed := range uint64(worlds) {
		w := newWorld(t, seed)
		before := w.claim().DeepCopy()
		first := w.clusterOf(before)
		for range 6 {
			request := Request{Namespace: shop, Name: claimName, Node: w.someNode(), StorageNamespace: storageNS}
			w.note("liqoctl move volume --target-node %s", request.Node)
			for range w.r.IntN(80) { // then it is killed
				step := Next(w.state(request))
				for range w.r.IntN(3) {
					w.disturb()
				}
				w.obey(step)
				w.safe()
				w.settle(w.r.IntN(2))
				w.safe()
				if step.Late != nil && strings.Contains(step.Late.Error(), "Liqo does not touch that claim") {
					foreign++
				}
				if step.Err != nil || step.Done {
					errors++
					if step.Err != nil && strings.Contains(step.Err.Error(), "has checksum") {
						unequal++
					}
					break
				}
			}
		}
		w.end()
		target := w.someNode()
		if w.finishAt(target) {
			returned++
		}
		w.ended(target, before)
		if w.clusterOf(w.claim()) != first {
			moved++
		}
	}
	// The worlds are worth something only if all ends occur.
	if moved < worlds/3 || returned < worlds/20 || errors < worlds || unequal < worlds/75 || foreign < worlds/20 {
		t.Errorf("%d moved to another cluster, %d given up before, %d commands ended, %d unequal copies, %d claims of others", moved, returned, errors, unequal, foreign)
	}
}

// clusterOf returns the cluster that has the data of a bound claim.
func (w *world) clusterOf(c *corev1.PersistentVolumeClaim) string {
	return providerOf(w.volumes[types.NamespacedName{Name: c.Spec.VolumeName}])
}

// end lets the faults end: no application, no other claim of the name.
func (w *world) end() {
	w.quiet = true
	for _, pod := range sorted(w.pods) {
		if pod.Labels[LabelMove] == "" && metav1.GetControllerOf(pod) == nil {
			w.remove(pod)
		}
	}
	w.settle(20)
}

// finishAt runs the command until the data is at the target. If another move is unfinished, it gives that one up, or finishes it if it is too late for
// that, as the error says. It reports whether it gave one up.
func (w *world) finishAt(target string) (gaveUp bool) {
	request, late := w.request(target), 0
	for range 400 {
		request.NewUID = w.request("").NewUID
		step := Next(w.state(request))
		if step.Late == nil {
			late = 0
		} else if late++; late > 40 { // the command ends with an error that offers to cancel the move
			request.Node, gaveUp, late = w.sourceNode(), true, 0
			continue
		}
		w.obey(step)
		w.safe()
		w.settle(2)
		w.safe()
		switch {
		case step.Done && request.Node == target:
			return gaveUp
		case step.Done:
			request.Node = target
		case step.Err != nil:
			_, finish, found := strings.Cut(step.Err.Error(), "finish it with --target-node ")
			if !found {
				continue // it failed before, and the command has to run again
			}
			gaveUp = strings.Contains(step.Err.Error(), "is unfinished")
			if request.Node = strings.FieldsFunc(finish, func(r rune) bool { return r == ' ' || r == ',' })[0]; gaveUp {
				request.Node = w.sourceNode()
			}
		}
	}
	w.fatal("the command does not come to an end")
	return false
}

// sourceNode returns a node that the data of the unfinished move is on.
func (w *world) sourceNode() string {
	for _, v := range w.volumes {
		for _, node := range nodes() {
			if v.Annotations[storage.AnnotationMove] != "" && admits(v, &node) {
				return node.Name
			}
		}
	}
	w.fatal("no node has the data")
	return ""
}

// ended fails unless the claim is as it was, with its data at the target, and nothing else is left.
func (w *world) ended(target string, before *corev1.PersistentVolumeClaim) {
	w.settle(20)
	c := w.claim()
	if c == nil || c.Status.Phase != corev1.ClaimBound {
		w.fatal("the claim is not bound: %+v", c)
	}
	want, got := before.DeepCopy(), c.DeepCopy()
	for _, claim := range []*corev1.PersistentVolumeClaim{want, got} {
		claim.Spec.VolumeName = ""
		delete(claim.Annotations, storage.AnnotationSelectedNode)
	}
	if !reflect.DeepEqual(want.Spec, got.Spec) || !reflect.DeepEqual(want.Labels, got.Labels) || !reflect.DeepEqual(want.Annotations, got.Annotations) {
		w.fatal("the claim was %+v and is %+v", want, got)
	}
	if len(c.Status.Conditions) != 0 {
		w.fatal("the claim keeps conditions of the move: %+v", c.Status.Conditions)
	}
	v := w.volumes[types.NamespacedName{Name: c.Spec.VolumeName}]
	for _, node := range nodes() {
		if node.Name == target && !admits(v, &node) {
			w.fatal("volume %s is not on node %s", v.Name, target)
		}
	}
	b := w.backingOf(v.Name)
	if w.content[b.UID] != w.acked {
		w.fatal("the data is %q", w.content[b.UID])
	}
	if mark := b.Annotations[storage.AnnotationRetained]; mark != "" { // a copy may be deleted, the data may not
		w.fatal("the data is marked as %q", mark)
	}
	if v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || v.Annotations[storage.AnnotationMove] != "" {
		w.fatal("the volume keeps the traces of the move: %+v", v)
	}
	count := len(w.backing[""]) + len(w.backing["milan"]) + len(w.backing["naples"])
	if len(w.claims) != 1 || count != 1 || w.applicationLeft()+len(w.secrets)+len(w.services) != 0 || len(w.content) != 1 {
		w.fatal("left: claims %v, backing claims %v, pods %v, content %v", sorted(w.claims), w.backing, sorted(w.pods), w.content)
	}
}
