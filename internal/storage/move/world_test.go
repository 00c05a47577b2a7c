package move

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/storage"
)

// The claim of a world, and what its volume contains.
const (
	shop      = "shop"
	claimName = "data"
	precious  = "precious"
	storageNS = "liqo-storage"
)

// objects are the objects of one kind, by namespace and name.
type objects[T storage.Object] map[types.NamespacedName]T

func key(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// world is a claim in a cluster with two providers, with Kubernetes, drivers, the processes of Liqo and users. Nothing but its objects remembers anything.
type world struct {
	t        *testing.T
	r        *rand.Rand
	version  int
	claims   objects[*corev1.PersistentVolumeClaim]
	volumes  objects[*corev1.PersistentVolume]
	pods     objects[*corev1.Pod]
	secrets  objects[*corev1.Secret]
	services objects[*corev1.Service]
	// backing are the backing claims of a cluster; content is what their volumes contain, by their UID.
	backing map[string]map[string]*corev1.PersistentVolumeClaim
	content map[types.UID]string
	history []string
	// deployments and statefulSets own the application, if it runs while its volume moves. acked is what it has written last.
	deployments  objects[*appsv1.Deployment]
	statefulSets objects[*appsv1.StatefulSet]
	acked        string
	// home is the namespace of the claim. seen is what the API server knows of it when it admits objects, because its cache lags behind.
	home, seen *corev1.Namespace
	// told are the pods that were told to finish.
	told map[types.UID]bool
	// quiet worlds have no faults.
	quiet bool
}

// clusters are this cluster and the providers.
var clusters = []string{"", "milan", "naples"}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{
		t: t, r: rand.New(rand.NewPCG(seed, 3)), claims: objects[*corev1.PersistentVolumeClaim]{}, volumes: objects[*corev1.PersistentVolume]{},
		pods: objects[*corev1.Pod]{}, secrets: objects[*corev1.Secret]{}, services: objects[*corev1.Service]{},
		backing: map[string]map[string]*corev1.PersistentVolumeClaim{}, content: map[types.UID]string{}, quiet: true,
		deployments: objects[*appsv1.Deployment]{}, statefulSets: objects[*appsv1.StatefulSet]{}, told: map[types.UID]bool{},
	}
	for _, c := range clusters {
		w.backing[c] = map[string]*corev1.PersistentVolumeClaim{}
	}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}})
	w.create(userClaim(w.someNode()))
	w.settle(20)
	claim := w.claim()
	if claim.Status.Phase != corev1.ClaimBound {
		w.fatal("the claim is not bound: %+v", claim)
	}
	backing := w.backingOf(claim.Spec.VolumeName)
	w.content[backing.UID], w.acked = precious, precious
	mount(backing)
	w.quiet = false
	return w
}

func userClaim(node string) *corev1.PersistentVolumeClaim {
	class := "liqo"
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: shop, Name: claimName, Labels: map[string]string{"app": "db"},
			Annotations: map[string]string{"team": "blue", storage.AnnotationSelectedNode: node},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func (w *world) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nhistory: %q", fmt.Sprintf(format, args...), w.history)
}

func nodes() []corev1.Node {
	var out []corev1.Node
	for _, name := range []string{"n1", "n2", "milan", "milan-2", "naples"} {
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
		if provider := map[string]string{"milan": "milan", "milan-2": "milan", "naples": "naples"}[name]; provider != "" {
			node.Labels[api.LabelType], node.Labels[api.LabelRemoteClusterID] = api.TypeVirtualNode, provider
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		out = append(out, node)
	}
	return out
}

func classes() []storagev1.StorageClass {
	waits, retain := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimRetain
	class := func(name string) storagev1.StorageClass {
		return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: storage.Provisioner, VolumeBindingMode: &waits}
	}
	kept, real := class("a-retaining-one"), class("standard")
	kept.ReclaimPolicy, real.Provisioner = &retain, "example.org/disk"
	real.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": api.True}
	return []storagev1.StorageClass{kept, class("liqo"), real}
}

func (w *world) someNode() string { return nodes()[w.r.IntN(len(nodes()))].Name }

func (w *world) claim() *corev1.PersistentVolumeClaim {
	return w.claims[types.NamespacedName{Namespace: shop, Name: claimName}]
}

// create, changed and remove are what an API server does.
func (w *world) create(obj storage.Object) {
	w.version++
	obj.SetUID(types.UID(fmt.Sprint("u", w.version)))
	w.changed(obj)
	switch obj := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		obj.Status.Phase = corev1.ClaimPending
		w.claims[key(obj)] = obj
	case *corev1.PersistentVolume:
		obj.Status.Phase = corev1.VolumeAvailable
		w.volumes[key(obj)] = obj
	case *corev1.Pod:
		obj.Status.Phase = corev1.PodPending
		w.pods[key(obj)] = obj
	case *corev1.Namespace:
		w.home, w.seen = obj, obj
	case *corev1.Secret:
		w.secrets[key(obj)] = obj
	case *corev1.Service:
		w.services[key(obj)] = obj
	case *appsv1.Deployment:
		w.deployments[key(obj)] = obj
	case *appsv1.StatefulSet:
		w.statefulSets[key(obj)] = obj
	default:
		w.fatal("created %T", obj)
	}
}

func (w *world) changed(obj storage.Object) {
	w.version++
	obj.SetResourceVersion(strconv.Itoa(w.version))
}

// have returns the present version of an object, nil if it is gone.
func (w *world) have(obj storage.Object) storage.Object {
	var out storage.Object
	switch obj := obj.(type) {
	case *corev1.Namespace:
		out = w.home
	case *corev1.PersistentVolumeClaim:
		if have := w.claims[key(obj)]; have != nil {
			out = have
		}
	case *corev1.PersistentVolume:
		if have := w.volumes[key(obj)]; have != nil {
			out = have
		}
	case *corev1.Pod:
		if have := w.pods[key(obj)]; have != nil {
			out = have
		}
	case *corev1.Secret:
		if have := w.secrets[key(obj)]; have != nil {
			out = have
		}
	case *corev1.Service:
		if have := w.services[key(obj)]; have != nil {
			out = have
		}
	case *appsv1.Deployment:
		if have := w.deployments[key(obj)]; have != nil {
			out = have
		}
	case *appsv1.StatefulSet:
		if have := w.statefulSets[key(obj)]; have != nil {
			out = have
		}
	}
	return out
}

// obey writes what a step of the command says, as an API server does.
func (w *world) obey(step Step) {
	w.note("MOVE %s: %s (%v)", step.Action, step.Why, step.Err)
	for _, obj := range step.Unused {
		if have := w.have(obj); step.Err != nil && have != nil && have.GetUID() == obj.GetUID() {
			w.remove(have)
		}
	}
	switch step.Action {
	case Nothing:
		return
	case Finish:
		w.tell(step.Pods)
		return
	}
	have := w.have(step.Object)
	switch {
	case step.Action == Create && have == nil:
		w.create(step.Object)
	case step.Action == Delete && have != nil && have.GetUID() == step.Object.GetUID():
		if step.Unchanged && have.GetResourceVersion() != step.Object.GetResourceVersion() {
			return
		}
		if c, ok := have.(*corev1.PersistentVolumeClaim); ok && c.Labels[LabelMove] == "" && c.Spec.VolumeName == "" && c.Annotations[storage.AnnotationMove] == "" {
			w.fatal("the command deletes a claim that somebody else created: %+v", c)
		}
		w.remove(have)
	case step.Action == Patch && have != nil && have.GetResourceVersion() == step.Old.GetResourceVersion():
		w.changed(step.Object)
		switch obj := step.Object.(type) {
		case *corev1.Namespace:
			w.home = obj
		case *corev1.PersistentVolumeClaim:
			w.claims[key(obj)] = obj
		case *corev1.PersistentVolume:
			w.volumes[key(obj)] = obj
		case *appsv1.Deployment:
			w.deployments[key(obj)] = obj
		case *appsv1.StatefulSet:
			w.statefulSets[key(obj)] = obj
		default:
			w.fatal("patched %T", obj)
		}
	}
}

func (w *world) remove(obj storage.Object) {
	switch obj := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		obj.DeletionTimestamp = &metav1.Time{}
		w.changed(obj)
	case *corev1.PersistentVolume:
		obj.DeletionTimestamp = &metav1.Time{}
		w.changed(obj)
	case *corev1.Pod:
		delete(w.pods, key(obj))
	case *corev1.Secret:
		delete(w.secrets, key(obj))
	case *corev1.Service:
		delete(w.services, key(obj))
	}
}

// state is what the command reads.
func (w *world) state(request Request) (s State) {
	s = State{Request: request, Nodes: nodes(), Classes: classes(), Home: w.home.DeepCopy()}
	if c := w.claim(); c != nil {
		s.Claim = c.DeepCopy()
	}
	defer func() { s.Enforced = w.enforces(s) }()
	for _, v := range sorted(w.volumes) {
		if ref := v.Spec.ClaimRef; ref != nil && ref.Namespace == shop && ref.Name == claimName {
			s.Volumes = append(s.Volumes, *v.DeepCopy())
		}
	}
	for _, pod := range sorted(w.pods) {
		s.Pods = append(s.Pods, *pod.DeepCopy())
	}
	for _, c := range sorted(w.claims) {
		if c.Labels[LabelMove] != "" {
			s.Claims = append(s.Claims, *c.DeepCopy())
		}
	}
	for _, secret := range sorted(w.secrets) {
		s.Secrets = append(s.Secrets, *secret)
	}
	for _, service := range sorted(w.services) {
		s.Services = append(s.Services, *service)
	}
	for _, d := range sorted(w.deployments) {
		s.Deployments, s.ReplicaSets = append(s.Deployments, *d.DeepCopy()), append(s.ReplicaSets, replicaSet(d))
	}
	for _, d := range sorted(w.statefulSets) {
		s.StatefulSets = append(s.StatefulSets, *d.DeepCopy())
	}
	return s
}

func sorted[T storage.Object](all objects[T]) []T {
	return slices.SortedFunc(maps.Values(all), func(a, b T) int {
		return slices.Compare([]string{a.GetNamespace(), a.GetName()}, []string{b.GetNamespace(), b.GetName()})
	})
}

// place is what a process of Liqo decides for.
func place(cluster string) storage.Place {
	out := storage.Place{Origin: "rome", Namespace: storageNS}
	if cluster != "" {
		out = storage.Place{
			Origin: "rome", Cluster: cluster, Tenant: "liqo-tenant-" + cluster, Namespace: "shop-rome",
			Offered: []authv1beta1.StorageType{{StorageClassName: "standard", Default: true}},
		}
	}
	return out
}

// provision lets the process of a cluster do one step for each claim.
func (w *world) provision(cluster string) {
	uids := map[types.UID]bool{}
	for _, c := range w.claims {
		for _, uid := range storage.UIDs(c) {
			uids[uid] = true
		}
	}
	for _, v := range w.volumes {
		uids[storage.VolumeUID(v)] = true
	}
	for _, b := range w.backing[cluster] {
		uids[storage.BackingUID(b)] = true
	}
	delete(uids, "")
	acted := false
	for _, uid := range slices.Sorted(maps.Keys(uids)) {
		step := storage.Next(w.stateOfClaim(cluster, uid))
		acted = acted || step.Action != storage.Nothing
		w.storageStep(cluster, step)
	}
	if c := w.claim(); !acted && c != nil && (w.quiet || w.r.IntN(4) > 0) { // the virtual kubelet is slow at times
		s := storage.State{UID: c.UID, Claim: c.DeepCopy(), Place: place(cluster), Backing: w.backing[cluster][claimName].DeepCopy()}
		w.storageStep(cluster, storage.Vouch(s, w.reserved()))
	}
}

// reserved returns the volumes that are reserved for the claim.
func (w *world) reserved() (out []*corev1.PersistentVolume) {
	for _, v := range sorted(w.volumes) {
		if ref := v.Spec.ClaimRef; ref != nil && ref.Namespace == shop && ref.Name == claimName {
			out = append(out, v)
		}
	}
	return out
}

func (w *world) stateOfClaim(cluster string, uid types.UID) storage.State {
	s := storage.State{UID: uid, Classes: classes(), Place: place(cluster), Volume: w.volumes[types.NamespacedName{Name: storage.VolumeName(uid)}].DeepCopy()}
	for _, c := range w.claims {
		if s.Volume != nil && c.UID == s.Volume.Spec.ClaimRef.UID || s.Volume == nil && storage.Owns(c, w.volumes[types.NamespacedName{Name: c.Spec.VolumeName}], uid) {
			s.Claim = c.DeepCopy()
		}
	}
	name := string(uid)
	if cluster != "" {
		name = claimName
		if s.Claim != nil {
			name = s.Claim.Name
		} else if s.Volume != nil {
			name = s.Volume.Spec.ClaimRef.Name
		} else {
			for _, b := range w.backing[cluster] {
				if storage.BackingUID(b) == uid {
					name = b.Name
				}
			}
		}
	}
	if s.Claim != nil {
		s.Moving = storage.Moving(sorted(w.volumes), s.Claim)
		for _, node := range nodes() {
			if node.Name == storage.SelectedNode(s.Claim, uid) && (cluster == "" || storage.ProviderOf(&node) == cluster) {
				s.Node = &node
			}
		}
	}
	if s.Backing = w.backing[cluster][name].DeepCopy(); s.Backing != nil && cluster == "" && s.Backing.Spec.VolumeName != "" {
		s.BackingVolume = w.volumes[types.NamespacedName{Name: s.Backing.Spec.VolumeName}].DeepCopy()
	}
	return s
}

func (w *world) storageStep(cluster string, step storage.Step) {
	if step.Action != storage.Nothing {
		w.note("liqo in %q: %s: %s", cluster, step.Action, step.Why)
	}
	switch obj := step.Object.(type) {
	case *corev1.PersistentVolume:
		switch step.Action {
		case storage.CreateVolume:
			w.create(obj)
		case storage.DeleteVolume:
			w.remove(w.have(obj))
		default:
			w.changed(obj)
			w.volumes[key(obj)] = obj
		}
	case *corev1.PersistentVolumeClaim:
		switch step.Action {
		case storage.CreateBacking:
			w.version++
			obj.UID = types.UID(fmt.Sprint("b", w.version))
			w.backing[cluster][obj.Name] = obj
		case storage.PatchBacking:
			w.backing[cluster][obj.Name] = obj
		case storage.DeleteBacking:
			w.backing[cluster][obj.Name].DeletionTimestamp = &metav1.Time{}
		default:
			w.changed(obj)
			w.claims[key(obj)] = obj
		}
	}
}

// resultMessage is what a pod reports.
func resultMessage(content string) string {
	text, err := json.Marshal(Result{Checksum: content, Files: 1, Bytes: int64(len(content))})
	if err != nil {
		panic(err)
	}
	return string(text)
}
