package move

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// settle lets everything but the command work.
func (w *world) settle(rounds int) {
	for range rounds {
		if w.quiet {
			w.strangersLeave()
		}
		if w.quiet || w.r.IntN(2) == 0 {
			w.seen = w.home
		}
		w.recreate()
		w.replace()
		w.control()
		w.bind()
		w.finish()
		w.drive()
		w.kubelet()
		for _, cluster := range clusters {
			w.provision(cluster)
		}
	}
}

// bind binds claims to volumes that are reserved for them, and releases volumes whose claim is gone.
func (w *world) bind() {
	for _, v := range sorted(w.volumes) {
		ref := v.Spec.ClaimRef
		if ref == nil {
			continue
		}
		c := w.claims[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}]
		mine := c != nil && (ref.UID == "" || ref.UID == c.UID)
		switch {
		case !mine && ref.UID != "" && v.Status.Phase != corev1.VolumeReleased:
			v.Status.Phase = corev1.VolumeReleased
			w.changed(v)
		case mine && v.DeletionTimestamp == nil && (c.Spec.VolumeName == "" || c.Spec.VolumeName == v.Name) && c.Status.Phase != corev1.ClaimBound:
			ref.UID, v.Status.Phase = c.UID, corev1.VolumeBound
			c.Spec.VolumeName, c.Status.Phase = v.Name, corev1.ClaimBound
			w.note("claim %s (%s) is bound to %s", c.Name, c.UID, v.Name)
			w.bound(c, v.Name)
			w.changed(v)
			w.changed(c)
		}
	}
}

// finish removes claims that no pod uses, and volumes without a finalizer, if they are being deleted.
func (w *world) finish() {
	for k, c := range w.claims {
		if c.DeletionTimestamp != nil && !w.used(c.Namespace, c.Name, "") {
			w.note("claim %s (%s) is gone", c.Name, c.UID)
			delete(w.claims, k)
		}
	}
	for k, v := range w.volumes {
		if v.DeletionTimestamp != nil && len(v.Finalizers) == 0 && v.Status.Phase != corev1.VolumeBound {
			delete(w.volumes, k)
		}
	}
	for _, cluster := range clusters {
		for name, b := range w.backing[cluster] {
			namespace := storageNS
			if cluster != "" {
				namespace = shop
			}
			if b.DeletionTimestamp != nil && !w.used(namespace, name, cluster) {
				w.note("backing claim %s of %q is gone with %q", name, cluster, w.content[b.UID])
				delete(w.backing[cluster], name)
				delete(w.content, b.UID)
				delete(w.volumes, types.NamespacedName{Name: "real-" + string(b.UID)})
			}
		}
	}
}

// used reports whether a pod that has a node mounts a claim: until it is deleted, even if it has ended. cluster, if it is a provider, selects pods on its nodes.
func (w *world) used(namespace, claim, cluster string) bool {
	for _, pod := range w.pods {
		if pod.Namespace == namespace && pod.Spec.NodeName != "" && (storage.Uses(pod, claim) || cluster != "" && mounted(pod) == claim) && (cluster == "" || providerNamed(pod.Spec.NodeName) == cluster) {
			return true
		}
	}
	return false
}

func providerNamed(node string) string {
	for _, n := range nodes() {
		if n.Name == node {
			return storage.ProviderOf(&n)
		}
	}
	return ""
}

// drive creates the volumes of backing claims of this cluster. In the providers, the first pod of a backing claim does that.
func (w *world) drive() {
	for _, name := range slices.Sorted(maps.Keys(w.backing[""])) {
		b := w.backing[""][name]
		node := b.Annotations[storage.AnnotationSelectedNode]
		switch {
		case b.Spec.VolumeName != "" || b.DeletionTimestamp != nil || node == "":
		case !w.quiet && w.r.IntN(6) == 0: // the disks of the node are full
			b = b.DeepCopy()
			delete(b.Annotations, storage.AnnotationSelectedNode)
			w.backing[""][name] = b
		default:
			real := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "real-" + string(b.UID)}}
			real.Spec.Capacity, real.Spec.AccessModes = b.Spec.Resources.Requests.DeepCopy(), b.Spec.AccessModes
			if w.version%3 == 0 { // a driver that makes large volumes only
				real.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("5Gi")
			}
			real.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}}
			w.create(real)
			b.Spec.VolumeName, b.Status.Phase = real.Name, corev1.ClaimBound
		}
	}
}

// kubelet schedules and runs pods. Application pods check that they find the data.
func (w *world) kubelet() {
	for _, pod := range sorted(w.pods) {
		switch role := pod.Labels[labelRole]; {
		case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		case role != "" && !w.quiet && w.r.IntN(12) == 0:
			pod.Status.Phase, pod.Status.Message = corev1.PodFailed, "evicted"
			w.changed(pod)
		case role == store:
			w.runStore(pod)
		case role == sender || role == receiver:
			w.runMover(pod, role)
		case role == checkSource || role == checkTarget || role == checkStore:
			pod.Status.Phase = corev1.PodSucceeded
			w.changed(pod)
		default:
			w.runApplication(pod)
		}
	}
}

func (w *world) runStore(pod *corev1.Pod) {
	c := w.claims[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName}]
	if c == nil {
		return
	}
	node := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
	if c.Status.Phase == corev1.ClaimBound && w.secrets[key(c)] != nil && w.services[key(c)] != nil {
		pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	} else if c.Spec.VolumeName == "" && c.Annotations[storage.AnnotationSelectedNode] == "" {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, storage.AnnotationSelectedNode, node)
		w.changed(c)
	}
}

// runMover copies the content of a backing claim to that of the repository, or back. Only pods in the right place with the right Secret do.
func (w *world) runMover(pod *corev1.Pod, role string) {
	if report := pod.Annotations[annotationResult]; report != "" { // it has ended
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Message: report},
		}}}
		w.changed(pod)
		return
	}
	cluster := providerNamed(pod.Spec.NodeName)
	if (cluster == "") != (pod.Namespace == storageNS) {
		w.fatal("pod %s in namespace %s of node %q", pod.Name, pod.Namespace, pod.Spec.NodeName)
	}
	name := pod.Spec.Containers[0].Env[1].ValueFrom.SecretKeyRef.Name
	repository := w.claims[types.NamespacedName{Namespace: shop, Name: name}]
	mine := w.backing[cluster][mounted(pod)]
	if mine == nil || mine.DeletionTimestamp != nil || repository == nil || w.secrets[types.NamespacedName{Namespace: pod.Namespace, Name: name}] == nil {
		return
	}
	if cluster != "" {
		mount(mine)
	} else if mine.Status.Phase != corev1.ClaimBound {
		return
	}
	kept := w.backingOf(repository.Spec.VolumeName)
	if kept == nil {
		return
	}
	mount(kept)
	if role == sender {
		if w.content[kept.UID] = w.content[mine.UID]; !w.quiet && w.r.IntN(4) == 0 {
			w.content[kept.UID] = "corrupt" // it copies something else than what its checksum covers
		}
	} else if w.content[mine.UID] = w.content[kept.UID]; !w.quiet && w.r.IntN(4) == 0 {
		w.content[mine.UID] = "corrupt"
	}
	if cluster == "" {
		pod.Spec.NodeName = "n1"
	}
	if follows(pod) && !w.told[pod.UID] { // it copies data that is in use, so its checksum does not count
		pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		w.changed(pod)
		return
	}
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "mover", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: resultMessage(w.content[mine.UID])},
	}}}
	w.note("%s has read %q", role, w.content[mine.UID])
	w.changed(pod)
}

// mounted returns the claim that a pod of the move mounts in its cluster.
func mounted(pod *corev1.Pod) string {
	if len(pod.Spec.Volumes) == 0 {
		return ""
	}
	name := pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName
	if placeholder, claim, found := strings.Cut(pod.Annotations[api.AnnotationRemoteClaim], "="); found && placeholder == name {
		return claim
	}
	return name
}

// nodeFor returns a node where pods can use a claim.
func (w *world) nodeFor(c *corev1.PersistentVolumeClaim) string {
	for _, node := range nodes() {
		if v := w.volumes[types.NamespacedName{Name: c.Spec.VolumeName}]; v != nil && admits(v, &node) {
			return node.Name
		}
	}
	return ""
}

// runApplication runs a pod whose claim is bound. It must find its data, and never an empty or a half copied volume.
func (w *world) runApplication(pod *corev1.Pod) {
	c := w.claim()
	if pod.Status.Phase == corev1.PodRunning && metav1.GetControllerOf(pod) != nil {
		w.write(pod)
		return
	}
	if pod.Status.Phase != corev1.PodPending || c == nil || c.Status.Phase != corev1.ClaimBound || c.DeletionTimestamp != nil {
		return
	}
	pod.Spec.NodeName, pod.Status.Phase = w.nodeFor(c), corev1.PodRunning
	w.note("the application runs")
	w.changed(pod)
	if b := w.backingOf(c.Spec.VolumeName); b == nil || w.content[b.UID] != w.acked {
		w.fatal("the application found other data than its own: %+v", b)
	}
}

// mount binds a backing claim of a provider, as its first pod there does.
func mount(backing *corev1.PersistentVolumeClaim) {
	if backing.Spec.VolumeName == "" {
		backing.Spec.VolumeName, backing.Status.Phase = "disk-"+string(backing.UID), corev1.ClaimBound
	}
}

// backingOf returns the backing claim of a virtual volume, nil if there is none.
func (w *world) backingOf(volume string) *corev1.PersistentVolumeClaim {
	v := w.volumes[types.NamespacedName{Name: volume}]
	if v == nil {
		return nil
	}
	for _, b := range w.backing[providerOf(v)] {
		if storage.BackingUID(b) == storage.VolumeUID(v) {
			return b
		}
	}
	return nil
}

// application is a pod of a user that mounts the claim.
func (w *world) application() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: fmt.Sprint("db-", w.version)}}
	pod.Spec.Volumes = []corev1.Volume{claimVolume("data", claimName)}
	return pod
}
