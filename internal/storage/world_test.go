package storage

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
)

// claimName is the name of every claim of a world: claims follow one another.
const claimName = "data"

// objects are the objects of both clusters at one moment.
type objects struct {
	claim *corev1.PersistentVolumeClaim
	// volumes are the volumes of this cluster by name, virtual and real ones.
	volumes map[string]*corev1.PersistentVolume
	// backing are the claims in the storage namespace, by name, and the claim with claimName in the provider.
	backing [2]map[string]*corev1.PersistentVolumeClaim
}

func (o *objects) copy() *objects {
	out := &objects{claim: o.claim.DeepCopy(), volumes: map[string]*corev1.PersistentVolume{}}
	for name, v := range o.volumes {
		out.volumes[name] = v.DeepCopy()
	}
	for i := range o.backing {
		out.backing[i] = map[string]*corev1.PersistentVolumeClaim{}
		for name, b := range o.backing[i] {
			out.backing[i][name] = b.DeepCopy()
		}
	}
	return out
}

// world is one claim name in two clusters, with a user, a scheduler, Kubernetes and drivers, all of which do what they like.
type world struct {
	t       *testing.T
	r       *rand.Rand
	version int
	now     *objects
	// past are earlier states, the newest last. Each cache may lag behind by some of them.
	past    []*objects
	places  [2]Place
	uids    []types.UID
	history []string
	quiet   bool
	// backup is a backup of the cluster, nil if there is none. restored tells that the cluster was restored from one.
	backup   *objects
	restored bool
	// used are the UIDs of the backing claims that had a bound virtual volume.
	used map[types.UID]bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), now: (&objects{}).copy(), places: [2]Place{here(), there()}, used: map[types.UID]bool{}}
	w.note("seed %d", seed)
	return w
}

func (w *world) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nhistory: %q", fmt.Sprintf(format, args...), w.history)
}

// changed gives an object a new version and remembers the state.
func (w *world) changed(obj Object) {
	if obj != nil {
		w.version++
		obj.SetResourceVersion(strconv.Itoa(w.version))
	}
	w.past = append(w.past, w.now.copy())
	w.past = w.past[max(0, len(w.past)-4):]
}

// state returns what the process of a place knows about a claim, with each cache at the given moment.
func (w *world) state(uid types.UID, place int, claims, volumes, backing *objects) State {
	s := State{UID: uid, Classes: classes(), Place: w.places[place]}
	if place == 0 {
		s.Tenant = w.places[1].Tenant
	} else {
		s.Key, s.Listed = types.NamespacedName{Namespace: "shop", Name: claimName}, true
		for _, name := range slices.Sorted(maps.Keys(volumes.volumes)) {
			if v := volumes.volumes[name]; VolumeUID(v) != "" {
				s.Reserved = append(s.Reserved, v.DeepCopy())
			}
		}
	}
	s.Volume = volumes.volumes[VolumeName(uid)].DeepCopy()
	if c := claims.claim; c != nil && (c.UID == uid || place == 0 && s.Volume != nil && s.Volume.Spec.ClaimRef.UID == "") {
		s.Claim = c.DeepCopy()
		s.Node = node(c.Annotations[AnnotationSelectedNode])
	}
	key := string(uid)
	if place == 1 {
		key = claimName
	}
	if s.Place.Waiting != "" {
		return s
	}
	s.Backing = backing.backing[place][key].DeepCopy()
	if place == 0 && s.Backing != nil {
		s.BackingVolume = volumes.volumes[s.Backing.Spec.VolumeName].DeepCopy()
	}
	return s
}

func (w *world) present(uid types.UID, place int) State {
	return w.state(uid, place, w.now, w.now, w.now)
}

// stale returns a state from caches that lag behind, each by another time.
func (w *world) stale(uid types.UID, place int) State {
	at := func() *objects {
		if i := w.r.IntN(len(w.past) + 1); i < len(w.past) {
			return w.past[i]
		}
		return w.now
	}
	s := w.state(uid, place, at(), at(), at())
	if s.Volume != nil && s.Volume.Labels[LabelVirtual] != api.True && place == 1 { // a virtual kubelet watches the volumes with this label
		s.Volume = nil
	}
	return s
}

// act lets the process of a place decide and act.
func (w *world) act(uid types.UID, place int, s State) Action {
	step := Next(s)
	if step.Confirm {
		decided := step.Action
		if step = Next(w.present(uid, place)); step.Action != decided {
			return Nothing
		}
	}
	if step.Action != Nothing {
		w.obey(uid, place, step)
	}
	return step.Action
}

// obey does what an API server would do for the step.
func (w *world) obey(uid types.UID, place int, step Step) {
	w.note("STEP of place %d for %s: %s: %s", place, uid, step.Action, step.Why)
	backing := w.now.backing[place]
	if step.Old != nil && equality.Semantic.DeepEqual(step.Old, step.Object) {
		w.fatal("a write that changes nothing")
	}
	switch step.Action {
	case CreateBacking:
		obj, _ := step.Object.(*corev1.PersistentVolumeClaim)
		if backing[obj.Name] == nil {
			obj.UID = types.UID(fmt.Sprint("b", w.version))
			obj.Status.Phase = corev1.ClaimPending
			backing[obj.Name] = obj
			w.changed(obj)
		}
	case PatchBacking, DeleteBacking:
		obj, _ := step.Object.(*corev1.PersistentVolumeClaim)
		have := backing[obj.Name]
		if have == nil || have.UID != obj.UID {
			return
		}
		if BackingUID(have) != uid {
			w.fatal("a claim of somebody else was changed")
		}
		if step.Action == DeleteBacking {
			w.deleteBacking(uid, place, have)
		} else if have.ResourceVersion == step.Old.GetResourceVersion() {
			backing[obj.Name] = obj
			w.changed(obj)
		}
	case CreateVolume:
		obj, _ := step.Object.(*corev1.PersistentVolume)
		if w.now.volumes[obj.Name] == nil {
			obj.UID = types.UID(fmt.Sprint("v", w.version))
			w.now.volumes[obj.Name] = obj
			w.changed(obj)
		}
	case PatchVolume, DeleteVolume:
		obj, _ := step.Object.(*corev1.PersistentVolume)
		have := w.now.volumes[obj.Name]
		if have == nil || have.UID != obj.UID {
			return
		}
		if VolumeUID(have) != uid {
			w.fatal("a volume of somebody else was changed")
		}
		if step.Action == DeleteVolume {
			have.DeletionTimestamp = &metav1.Time{}
			w.changed(have)
		} else if have.ResourceVersion == step.Old.GetResourceVersion() {
			w.now.volumes[obj.Name] = obj
			w.changed(obj)
		}
	case PatchClaim, PatchClaimStatus:
		obj, _ := step.Object.(*corev1.PersistentVolumeClaim)
		if w.now.claim != nil && w.now.claim.ResourceVersion == step.Old.GetResourceVersion() {
			w.now.claim = obj
			w.changed(obj)
		}
	}
}

// deleteBacking fails the test if the claim needs the data, or if the data is to be retained.
func (w *world) deleteBacking(uid types.UID, place int, have *corev1.PersistentVolumeClaim) {
	volume := w.now.volumes[VolumeName(uid)]
	if volume != nil && ClusterOf(volume) == w.places[place].Cluster {
		if c := w.now.claim; c != nil && c.UID == uid {
			w.fatal("the data of a claim was deleted")
		}
		if volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
			w.fatal("retained data was deleted")
		}
	} else if volume == nil && w.used[have.UID] {
		w.fatal("data that the cluster has forgotten was deleted")
	} else if have.Annotations[AnnotationRetained] == api.True {
		w.fatal("retained data was deleted after its volume")
	}
	if have.DeletionTimestamp == nil {
		have.DeletionTimestamp = &metav1.Time{}
		w.changed(have)
	}
}

// event lets somebody do something.
func (w *world) event() {
	switch c := w.now.claim; w.r.IntN(18) {
	case 0, 1:
		w.create()
	case 2:
		if c != nil && c.DeletionTimestamp == nil {
			c.DeletionTimestamp = &metav1.Time{}
			w.note("user deletes the claim")
			w.changed(c)
		}
	case 3:
		if c != nil && c.Status.Phase == corev1.ClaimBound {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(fmt.Sprint(2+w.r.IntN(3), "Gi"))
			w.note("user enlarges the claim")
			w.changed(c)
		}
	case 4:
		if v := w.someVolume(); v != nil {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			if w.r.IntN(2) == 0 && v.Status.Phase != corev1.VolumeReleased && v.DeletionTimestamp == nil { // later is too late
				v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			}
			w.note("administrator sets policy %s of %s", v.Spec.PersistentVolumeReclaimPolicy, v.Name)
			w.changed(v)
		}
	case 5:
		if v := w.someVolume(); v != nil && v.DeletionTimestamp == nil && w.r.IntN(3) == 0 {
			v.DeletionTimestamp = &metav1.Time{}
			w.note("administrator deletes volume %s", v.Name)
			w.changed(v)
		}
	case 6, 7:
		w.schedule([]string{"n1", "n2", "milan", "milan-2", "gone"}[w.r.IntN(5)])
	case 8:
		if w.places[1].Waiting = ""; w.r.IntN(2) == 0 {
			w.places[1].Waiting = "the provider is unreachable"
		}
		w.note("link: %q", w.places[1].Waiting)
	case 9:
		w.stranger()
	case 10:
		w.restore()
	case 11:
		switch v := w.someVolume(); {
		case v == nil || ClusterOf(v) != "" || v.DeletionTimestamp != nil:
		case v.Spec.ClaimRef.UID == "":
			v.DeletionTimestamp = &metav1.Time{}
			w.note("administrator deletes the reserved volume %s", v.Name)
			w.changed(v)
		case v.Status.Phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain:
			v.Spec.ClaimRef.UID, v.Status.Phase = "", corev1.VolumeAvailable
			w.note("administrator reserves volume %s for the next claim, which it does not fit", v.Name)
			w.changed(v)
		}
	case 12:
		if v := w.someVolume(); v != nil && len(v.Labels) > 0 {
			v.Labels = nil
			w.note("administrator removes the labels of volume %s", v.Name)
			w.changed(v)
		}
	default:
		w.kubernetes()
	}
}

// restore makes a backup of this cluster, or restores it. The provider knows nothing of it, and caches are read again.
func (w *world) restore() {
	if w.backup == nil || w.r.IntN(3) > 0 {
		w.backup = w.now.copy()
		w.note("backup")
		return
	}
	former := w.backup.copy()
	for _, backing := range []map[string]*corev1.PersistentVolumeClaim{w.now.backing[0], former.backing[0]} {
		for _, b := range backing { // the backup knows what was in use here
			if v := former.volumes[VolumeName(BackingUID(b))]; v == nil || v.Status.Phase == "" {
				delete(w.used, b.UID)
			}
		}
	}
	w.now.claim, w.now.volumes, w.now.backing[0] = former.claim, former.volumes, former.backing[0]
	w.restored = true
	w.note("the cluster is restored")
	w.changed(nil)
	w.past = nil
}

func (w *world) create() {
	if w.now.claim != nil {
		return
	}
	class := []string{"liqo", "liqo-retain"}[w.r.IntN(2)]
	uid := types.UID(fmt.Sprint("u", len(w.uids)))
	w.uids = append(w.uids, uid)
	w.now.claim = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claimName, Namespace: "shop", UID: uid},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	w.note("user creates claim %s of class %s", uid, class)
	w.changed(w.now.claim)
}

// schedule lets the scheduler select a node for an unbound claim.
func (w *world) schedule(name string) {
	if c := w.now.claim; c != nil && c.Spec.VolumeName == "" && c.DeletionTimestamp == nil && c.Annotations[AnnotationSelectedNode] != name {
		annotate(&c.ObjectMeta, AnnotationSelectedNode, name)
		w.note("scheduler selects %s", name)
		w.changed(c)
	}
}

// stranger lets a user of the provider take the name of the claim there, or give it back.
func (w *world) stranger() {
	switch b := w.now.backing[1][claimName]; {
	case b == nil:
		b = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claimName, UID: types.UID(fmt.Sprint("f", w.version))}}
		w.now.backing[1][claimName] = b
		w.note("a stranger takes the name")
		w.changed(b)
	case BackingUID(b) == "":
		delete(w.now.backing[1], claimName)
		w.note("the stranger gives the name back")
		w.changed(nil)
	}
}

// someVolume returns a virtual volume.
func (w *world) someVolume() *corev1.PersistentVolume {
	for _, uid := range w.uids {
		if v := w.now.volumes[VolumeName(uid)]; v != nil && w.r.IntN(2) == 0 {
			return v
		}
	}
	return nil
}

// kubernetes lets a controller of Kubernetes, or a driver, do everything that is due, in an order of its own.
func (w *world) kubernetes() {
	tasks := []func(){w.bind, w.finish, func() { w.drive(0) }, func() { w.drive(1) }}
	for _, i := range w.r.Perm(len(tasks))[:1+w.r.IntN(len(tasks))] {
		tasks[i]()
	}
}

// bind binds claims to volumes that are reserved for them, and releases volumes whose claim is gone.
func (w *world) bind() {
	c := w.now.claim
	for _, uid := range w.uids {
		v := w.now.volumes[VolumeName(uid)]
		switch {
		case v == nil:
		case c == nil || c.UID != uid:
			if v.Status.Phase != corev1.VolumeReleased && v.Spec.ClaimRef.UID != "" {
				v.Status.Phase = corev1.VolumeReleased
				w.note("volume %s is released", v.Name)
				w.changed(v)
			}
		case c.Spec.VolumeName == "" && v.DeletionTimestamp == nil:
			c.Spec.VolumeName, c.Status.Phase, c.Status.Capacity, v.Status.Phase = v.Name, corev1.ClaimBound, v.Spec.Capacity.DeepCopy(), corev1.VolumeBound
			w.note("volume %s is bound", v.Name)
			if b := w.now.backing[1][claimName]; b != nil && BackingUID(b) == uid && ClusterOf(v) != "" {
				w.used[b.UID] = true
			} else if b := w.now.backing[0][string(uid)]; b != nil && ClusterOf(v) == "" {
				w.used[b.UID] = true
			}
			w.changed(c)
			w.changed(v)
		}
	}
}

// finish removes what is being deleted and has no finalizer.
func (w *world) finish() {
	if c := w.now.claim; c != nil && c.DeletionTimestamp != nil {
		w.now.claim = nil
		w.note("the claim is gone")
		w.changed(nil)
	}
	for _, uid := range w.uids {
		v := w.now.volumes[VolumeName(uid)]
		if v != nil && v.DeletionTimestamp != nil && len(v.Finalizers) == 0 && (w.now.claim == nil || w.now.claim.Spec.VolumeName != v.Name) {
			delete(w.now.volumes, v.Name)
			w.note("volume %s is gone", v.Name)
			w.changed(nil)
		}
	}
}

// drive creates, enlarges and deletes the volumes of backing claims, or refuses the selected node.
func (w *world) drive(place int) {
	for _, key := range slices.Sorted(maps.Keys(w.now.backing[place])) {
		b := w.now.backing[place][key]
		size := b.Spec.Resources.Requests[corev1.ResourceStorage]
		real := "real-" + string(b.UID)
		switch {
		case BackingUID(b) == "":
		case b.DeletionTimestamp != nil:
			delete(w.now.backing[place], key)
			delete(w.now.volumes, real)
			w.note("backing claim %s is gone", key)
			w.changed(nil)
		case b.Spec.VolumeName == "" && place == 0 && b.Annotations[AnnotationSelectedNode] == "":
		case b.Spec.VolumeName == "" && place == 0 && !w.quiet && w.r.IntN(2) == 0:
			annotate(&b.ObjectMeta, AnnotationSelectedNode, "")
			w.note("the driver refuses the node")
			w.changed(b)
		case b.Spec.VolumeName == "" || less(b.Status.Capacity, size):
			b.Spec.VolumeName, b.Status.Phase, b.Status.Capacity = real, corev1.ClaimBound, corev1.ResourceList{corev1.ResourceStorage: size}
			if place == 0 {
				v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: real}, Spec: corev1.PersistentVolumeSpec{Capacity: b.Status.Capacity.DeepCopy()}}
				w.now.volumes[real] = v
				w.changed(v)
			}
			w.note("backing claim %s has %s", key, size.String())
			w.changed(b)
		}
	}
}
