package move

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// Request is a move as the user asks for it.
type Request struct {
	// Namespace and Name are those of the claim.
	Namespace, Name string
	// Node is the target node: a real one, or the virtual node of a provider.
	Node string
	// KeepSource keeps the old data.
	KeepSource bool
	// Image is the image of the pods of the move, Resources are what their containers request.
	Image     string
	Resources corev1.ResourceRequirements
	// StorageNamespace is the namespace of the backing claims in this cluster.
	StorageNamespace string
	// Credentials are the data of a new Secret for the repository, if one is needed.
	Credentials map[string][]byte
}

// State is everything that the next step of a move depends on. All objects are in the cluster of the claim.
type State struct {
	Request
	// Claim is the claim with the name, nil if there is none.
	Claim *corev1.PersistentVolumeClaim
	// Volumes are all volumes that are, or were, reserved for a claim of that name.
	Volumes []corev1.PersistentVolume
	// Classes are the StorageClasses of this cluster.
	Classes []storagev1.StorageClass
	// Nodes are all nodes.
	Nodes []corev1.Node
	// Pods are the pods of the namespace of the claim, and the pods of moves in the storage namespace.
	Pods []corev1.Pod
	// Secrets, Services and Claims are those of moves, in both namespaces.
	Secrets  []corev1.Secret
	Services []corev1.Service
	Claims   []corev1.PersistentVolumeClaim
	// Obstacle, if not empty, is why pods of the namespace can't run on the target node, with the cure.
	Obstacle string
}

// Action is the write of a Step.
type Action int

// Actions.
const (
	Nothing Action = iota
	Create
	Patch
	Delete
)

func (a Action) String() string { return [...]string{"nothing", "create", "patch", "delete"}[a] }

// Phase is a part of a move, for users.
type Phase string

// Phases, in their order. Returning replaces those before it when a move is given up.
const (
	Preparing Phase = "preparing"
	Copying   Phase = "copying"
	Restoring Phase = "restoring"
	Finishing Phase = "finishing"
	Returning Phase = "returning"
)

// Step is the next step of a move.
type Step struct {
	Action Action
	// Object is the object that Action writes. Old is the version that a patch is derived from, and applies to.
	Object, Old storage.Object
	Phase       Phase
	// Why says in a clause what is done, or waited for.
	Why string
	// Pod is the pod whose log tells the progress, nil if there is none.
	Pod *corev1.Pod
	// Done says that the claim and its data are at the target, and that nothing is left to do.
	Done bool
	// Result is what was copied, in the step that notes it.
	Result *Result
	// Err ends the command, after Action. The state stays such that the same command goes on later.
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

// nodeOf returns a virtual node of a provider, a Ready one if there is one, and nil if there is none at all.
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

// providerOf returns the provider with the data of a virtual volume, empty for this cluster.
func providerOf(volume *corev1.PersistentVolume) string {
	return volume.Labels[api.LabelRemoteClusterID]
}

// admits tells whether pods on the node can use the data of a virtual volume.
func admits(volume *corev1.PersistentVolume, node *corev1.Node) bool {
	if provider := storage.ProviderOf(node); provider != "" || providerOf(volume) != "" {
		return provider == providerOf(volume)
	}
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return true
	}
	matches, err := scheduling.MatchNodeSelectorTerms(node, affinity.Required)
	return err == nil && matches
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

// underway returns the volume with the old data of the move that is under way, nil if there is none.
func (s *State) underway() *corev1.PersistentVolume {
	for i := range s.Volumes {
		if v := &s.Volumes[i]; v.Annotations[storage.AnnotationMove] != "" && storage.VolumeUID(v) != "" {
			return v
		}
	}
	return nil
}

// users returns the selected pods that mount the claim. A pod that has ended, and was scheduled, is one of them: Kubernetes deletes no claim before it.
func (s *State) users(selected func(*corev1.Pod) bool) []string {
	var out []string
	for i := range s.Pods {
		pod := &s.Pods[i]
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if pod.Namespace == s.Namespace && pod.Labels[LabelMove] == "" && (!ended || scheduled(pod)) && storage.Uses(pod, s.Name) && selected(pod) {
			out = append(out, pod.Name)
		}
	}
	return out
}

// anywhere selects all pods: one that is not scheduled yet may run at any moment.
func anywhere(*corev1.Pod) bool { return true }

// scheduled selects pods that have a node.
func scheduled(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }
