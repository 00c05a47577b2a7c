package move

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// Request describes the move that the user wants.
type Request struct {
	// Namespace and Name identify the claim.
	Namespace, Name string
	// Node is the target node: a real one, or the virtual node of a provider.
	Node string
	// KeepSource keeps the old data.
	KeepSource bool
	// Live copies the data while pods use it, and stops their owner only to copy the last changes. NewUID is a random UID for the new volume.
	Live   bool
	NewUID types.UID
	// Image is the image of the move's pods, Resources are the requests and limits of their containers.
	Image     string
	Resources corev1.ResourceRequirements
	// StorageNamespace is the namespace of the backing claims in this cluster.
	StorageNamespace string
	// RealClass is the configured class of the backing claims in this cluster; empty means the default class.
	RealClass string
	// Credentials are the data of a new Secret for the repository, if one is needed.
	Credentials map[string][]byte
}

// State is everything that the next step of a move depends on. All objects are in the cluster of the claim.
type State struct {
	Request
	// Claim is the claim with that name, nil if there is none.
	Claim *corev1.PersistentVolumeClaim
	// Home is the namespace of the claim.
	Home *corev1.Namespace
	// Enforced means that the API server was seen to refuse claims with that name, except those of the move that the namespace names. Unprotected, if not empty,
	// says why that is not so, and what to do.
	Enforced    bool
	Unprotected string
	// Volumes are all volumes whose claimRef has, or had, that name.
	Volumes []corev1.PersistentVolume
	// Classes are the StorageClasses of this cluster.
	Classes []storagev1.StorageClass
	// Nodes are all nodes.
	Nodes []corev1.Node
	// Pods are the pods of the namespace of the claim, and the pods of moves in the storage namespace.
	Pods []corev1.Pod
	// Secrets, Services and Claims are the objects of moves, in both namespaces.
	Secrets  []corev1.Secret
	Services []corev1.Service
	Claims   []corev1.PersistentVolumeClaim
	// Deployments, StatefulSets, ReplicaSets and Autoscalers are the objects in the namespace of the claim. They are read only for live moves.
	Deployments  []appsv1.Deployment
	StatefulSets []appsv1.StatefulSet
	ReplicaSets  []appsv1.ReplicaSet
	Autoscalers  []autoscalingv2.HorizontalPodAutoscaler
	// Obstacle, if not empty, says why pods of the namespace can't run on the target node, and what to do.
	Obstacle string
	// Refusals are the creations that the API server refused in the dry run of the objects in Rehearsed.
	Refusals []Refusal
	// Quotas are the ResourceQuotas of the storage namespace. They are needed only before the move begins.
	Quotas []corev1.ResourceQuota
	// Available are the PersistentVolumes of all classes that are Available, and Capacities are what drivers report. They are needed only before the move begins.
	Available  []corev1.PersistentVolume
	Capacities []storagev1.CSIStorageCapacity
}

// Action is the write of a Step.
type Action int

// Actions.
const (
	Nothing Action = iota
	Create
	Patch
	Delete
	// Finish makes the pods of a live move copy the last changes and end, because no program uses the data any more.
	Finish
)

func (a Action) String() string {
	return [...]string{"nothing", "create", "patch", "delete", "finish"}[a]
}

// Phase is a part of a move, as shown to users.
type Phase string

// Phases. Returning replaces the others when a move is cancelled.
const (
	Preparing Phase = "preparing"
	Copying   Phase = "copying"
	Restoring Phase = "restoring"
	Stopping  Phase = "stopping"
	Finishing Phase = "finishing"
	Returning Phase = "returning"
)

// Number returns the place of a phase in the order of a move, and the number of its phases. Both are 0 if the phase has no place. A live move copies and restores
// before it stops the application, and copies the last changes after that.
func (p Phase) Number(live bool) (number, of int) {
	order := []Phase{Preparing, Copying, Restoring, Finishing}
	if live {
		order = []Phase{Preparing, Copying, Restoring, Stopping, Finishing}
	}
	if number = slices.Index(order, p) + 1; number == 0 {
		return 0, 0
	}
	return number, len(order)
}

// Step is the next step of a move.
type Step struct {
	Action Action
	// Object is the object that Action writes. Old is the version before the change. A patch applies only to that version.
	Object, Old storage.Object
	Phase       Phase
	// Why is one clause that says what the step does or waits for.
	Why string
	// Pod is the pod whose log shows the progress, nil if there is none.
	Pod *corev1.Pod
	// Stopped is a message that shows users how to restart the owner of the pods. It is empty if no owner is stopped, or if this step restarts it.
	Stopped string
	// Pods are the pods that receive Finish, in this order. Each of them needs the copy of the one before.
	Pods []*corev1.Pod
	// Urgent means that the application is stopped, so that the caller must not delay the next step.
	Urgent bool
	// Done means that the claim and its data are at the target, and that nothing is left to do.
	Done bool
	// Result is the verified result, in the step that writes it to the record.
	Result *Result
	// Late, if not nil, is the error that ends the command if it waits longer than Within for the same condition.
	Late   error
	Within time.Duration
	// Unchanged means that Delete applies only to the version of Object that the decision is about, as a patch does. It is set for the claim that is moved.
	Unchanged bool
	// Force means that Delete does not wait until the pod has ended.
	Force bool
	// Unused are the objects that the caller deletes before it ends with Late or Err.
	Unused []storage.Object
	// Err ends the command, after Action. The same command can resume the move later.
	Err error
}

func fail(format string, args ...any) Step { return Step{Err: fmt.Errorf(format, args...)} }

func wait(phase Phase, format string, args ...any) Step {
	return Step{Phase: phase, Why: fmt.Sprintf(format, args...)}
}

// node returns the node with that name, nil if there is none.
func (s *State) node(name string) *corev1.Node {
	for i := range s.Nodes {
		if s.Nodes[i].Name == name {
			return &s.Nodes[i]
		}
	}
	return nil
}

// nodeOf returns a virtual node of a provider, preferably a Ready one. It is nil if the provider has none.
func (s *State) nodeOf(provider string) *corev1.Node {
	var found *corev1.Node
	for i := range s.Nodes {
		if node := &s.Nodes[i]; storage.ProviderOf(node) == provider && (found == nil || !ready(found) && ready(node)) {
			found = node
		}
	}
	return found
}

func ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// providerOf returns the cluster ID of the provider with the data of a virtual volume. It is empty if the data is in this cluster.
func providerOf(volume *corev1.PersistentVolume) string {
	return storage.ClusterOf(volume)
}

// admits reports whether pods on the node can use the data of a virtual volume.
func admits(volume *corev1.PersistentVolume, node *corev1.Node) bool {
	if provider := storage.ProviderOf(node); provider != "" || providerOf(volume) != "" {
		return provider == providerOf(volume)
	}
	return storage.Permits(volume, node)
}

// volume returns the virtual volume with that name, nil if there is none.
func (s *State) volume(name string) *corev1.PersistentVolume {
	for i := range s.Volumes {
		if v := &s.Volumes[i]; v.Name == name && storage.VolumeUID(v) != "" {
			return v
		}
	}
	return nil
}

// Has reports whether the state contains a volume with that name.
func (s *State) Has(volume string) bool { return s.volume(volume) != nil }

// underway returns the volume with the old data of an unfinished move, nil if there is none.
func (s *State) underway() *corev1.PersistentVolume {
	for i := range s.Volumes {
		if v := &s.Volumes[i]; v.Annotations[storage.AnnotationMove] != "" && storage.VolumeUID(v) != "" {
			return v
		}
	}
	return nil
}

// users returns the selected pods that mount the claim. A scheduled pod counts even if it has ended, because Kubernetes does not delete the claim before that
// pod.
func (s *State) users(selected func(*corev1.Pod) bool) []string {
	var out []string
	for i := range s.Pods {
		pod := &s.Pods[i]
		if s.isUser(pod) && (!api.PodFinished(pod) || scheduled(pod)) && selected(pod) {
			name := pod.Name
			if pod.Labels[LabelMove] != "" && moverOf(pod) != nil && !s.isMover(pod) {
				name += " (not as the move creates it: if an admission webhook rewrites images, add --image with the rewritten image)"
			}
			out = append(out, name)
		}
	}
	return out
}

// isUser reports whether a pod mounts the claim, or its counterpart in the provider, and is not a pod of the move. Labels and annotations alone do not prove
// that a pod belongs to a move, because users can write them.
func (s *State) isUser(pod *corev1.Pod) bool {
	return pod.Namespace == s.Namespace && (storage.Uses(pod, s.Name) || mountsRemote(pod, s.Name)) && !s.isMover(pod)
}

// mountsRemote reports whether a pod mounts the claim with that name in the provider instead of another claim: see api.AnnotationRemoteClaim.
func mountsRemote(pod *corev1.Pod, claim string) bool {
	placeholder, remote, found := strings.Cut(pod.Annotations[api.AnnotationRemoteClaim], "=")
	return found && remote == claim && storage.Uses(pod, placeholder)
}

// isMover reports whether a pod copies data for a move of one of the volumes. It must have the unique name that the move gives to it. Only the program of the
// move, in the image of the move, may reach the volume. Meshes and administrators may add containers that do not reach it.
func (s *State) isMover(pod *corev1.Pod) bool {
	role, c := pod.Labels[labelRole], moverOf(pod)
	if role != sender && role != receiver || c == nil || len(c.Command) != 3 || c.Command[0] != moverProgram || len(c.Args) > 0 ||
		(c.Command[1] != programs[role] && c.Command[1] != livePrograms[role]) || othersReach(pod, c) {
		return false
	}
	for i := range s.Volumes {
		id := string(storage.VolumeUID(&s.Volumes[i]))
		if id == "" || pod.Labels[LabelMove] != id || pod.Name != nameOf(id)+"-"+role {
			continue
		}
		record, err := recordOf(&s.Volumes[i]) // only administrators write volumes
		return c.Image == s.Image || err == nil && record != nil && record.Image != "" && c.Image == record.Image
	}
	return false
}

// moverOf returns the container that copies data, nil if the pod has none.
func moverOf(pod *corev1.Pod) *corev1.Container {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == Container {
			return c
		}
	}
	return nil
}

// othersReach reports whether anything but the mover's own program can reach the volumes of the mover, or a claim. This is so if another container mounts them
// or sees the mover's processes, or if a hook or a probe runs another program in the mover.
func othersReach(pod *corev1.Pod, mover *corev1.Container) bool {
	if pod.Spec.HostPID || ptr.Deref(pod.Spec.ShareProcessNamespace, false) || mover.Lifecycle != nil ||
		mover.LivenessProbe != nil || mover.StartupProbe != nil || !isOwnProbe(mover.ReadinessProbe) {
		return true
	}
	claims := map[string]bool{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		claims[v.Name] = v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	}
	for _, mount := range mover.VolumeMounts {
		claims[mount.Name] = true
	}
	reaches := func(mounts []corev1.VolumeMount, devices []corev1.VolumeDevice) bool {
		return slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return claims[m.Name] }) ||
			slices.ContainsFunc(devices, func(d corev1.VolumeDevice) bool { return claims[d.Name] })
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name != Container && reaches(c.VolumeMounts, c.VolumeDevices) {
			return true
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.TargetContainerName == Container || reaches(c.VolumeMounts, c.VolumeDevices) {
			return true
		}
	}
	return false
}

// isOwnProbe reports whether there is no probe, or the probe runs the program of the move.
func isOwnProbe(probe *corev1.Probe) bool {
	return probe == nil || probe.Exec != nil && len(probe.Exec.Command) > 0 && probe.Exec.Command[0] == moverProgram
}

// anywhere selects all pods, because a pod that is not scheduled yet may start at any moment.
func anywhere(*corev1.Pod) bool { return true }

// scheduled selects pods that have a node.
func scheduled(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }
