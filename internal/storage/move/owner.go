package move

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// AnnotationStopped marks a Deployment or StatefulSet that a move has stopped. Its value contains the former number of replicas.
const AnnotationStopped = "storage.liqo.io/stopped-for-move"

// Kinds of owners that a move can stop and start again.
const (
	deployment  = "Deployment"
	statefulSet = "StatefulSet"
)

// Owner is the owner of the pods that use the claim.
type Owner struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// To is the number of replicas during the move.
	To int32 `json:"to,omitempty"`
}

// Stopped is the value of AnnotationStopped.
type Stopped struct {
	// Claim is the name of the claim that is moved.
	Claim string `json:"claim"`
	// Replicas is the number of replicas before the move, To the number that the move has set.
	Replicas int32 `json:"replicas"`
	To       int32 `json:"to,omitempty"`
	// Managers are the other field managers of the number of replicas before the move.
	Managers []metav1.ManagedFieldsEntry `json:"managers,omitempty"`
}

// workload is a Deployment or StatefulSet.
type workload struct {
	kind     string
	obj      storage.Object
	replicas int32
	template *corev1.PodTemplateSpec
	// first is the ordinal of the first pod of a StatefulSet.
	first int32
}

func count(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// workloads returns all Deployments and StatefulSets.
func (s *State) workloads() []workload {
	var out []workload
	for i := range s.Deployments {
		d := &s.Deployments[i]
		out = append(out, workload{kind: deployment, obj: d, replicas: count(d.Spec.Replicas), template: &d.Spec.Template})
	}
	for i := range s.StatefulSets {
		d := &s.StatefulSets[i]
		w := workload{kind: statefulSet, obj: d, replicas: count(d.Spec.Replicas), template: &d.Spec.Template}
		if d.Spec.Ordinals != nil {
			w.first = d.Spec.Ordinals.Start
		}
		out = append(out, w)
	}
	return out
}

// workload returns the workload with that kind and name, nil if there is none.
func (s *State) workload(kind, name string) *workload {
	for _, w := range s.workloads() {
		if w.kind == kind && w.obj.GetName() == name {
			return &w
		}
	}
	return nil
}

func (w *workload) String() string {
	return fmt.Sprintf("%s %s in namespace %s", w.kind, w.obj.GetName(), w.obj.GetNamespace())
}

// stopped returns the content of the annotation of a workload, nil if there is none.
func (w *workload) stopped() (*Stopped, error) {
	text := w.obj.GetAnnotations()[AnnotationStopped]
	if text == "" {
		return nil, nil
	}
	out := &Stopped{}
	if err := json.Unmarshal([]byte(text), out); err != nil || out.Claim == "" {
		return nil, fmt.Errorf("%s: annotation %s is %q, which is no record of a move: set spec.replicas as it should be, remove the annotation, and run the command again",
			w, AnnotationStopped, text)
	}
	return out, nil
}

// scaled returns the workload with another number of replicas and with AnnotationStopped.
func (w *workload) scaled(replicas int32, stopped *Stopped) (storage.Object, error) {
	var next storage.Object
	switch obj := w.obj.(type) {
	case *appsv1.Deployment:
		out := obj.DeepCopy()
		out.Spec.Replicas, next = &replicas, out
	case *appsv1.StatefulSet:
		out := obj.DeepCopy()
		out.Spec.Replicas, next = &replicas, out
	}
	text, err := json.Marshal(stopped)
	if err != nil {
		return nil, fmt.Errorf("writing annotation %s: %w", AnnotationStopped, err)
	}
	next.SetAnnotations(api.Layered(next.GetAnnotations(), map[string]string{AnnotationStopped: string(text)}))
	return next, nil
}

// released returns the workload without AnnotationStopped. The number of replicas belongs to its former field managers again.
func (w *workload) released(stopped *Stopped) (storage.Object, error) {
	next, ok := w.obj.DeepCopyObject().(storage.Object)
	if !ok {
		return nil, fmt.Errorf("%s is no object", w)
	}
	annotations := next.GetAnnotations()
	delete(annotations, AnnotationStopped)
	next.SetAnnotations(annotations)
	managers, due, err := handedBack(w.obj, stopped.Managers)
	if due {
		next.SetManagedFields(managers)
	}
	return next, err
}

// stoppedOwner returns the workload that was stopped for the claim, nil if there is none.
func (s *State) stoppedOwner() (*workload, *Stopped, error) {
	for _, w := range s.workloads() {
		stopped, err := w.stopped()
		if err != nil {
			if strings.Contains(w.obj.GetAnnotations()[AnnotationStopped], strconv.Quote(s.Name)) {
				return nil, nil, err
			}
			continue
		}
		if stopped != nil && stopped.Claim == s.Name {
			return &w, stopped, nil
		}
	}
	return nil, nil, nil
}

// restart restores the number of replicas of the owner, unless someone changed it meanwhile, and then removes AnnotationStopped. due is false if no owner has that
// annotation. These are two writes: Kubernetes makes the command the field manager of what it changes, so that the field can be returned only after the change.
func (s *State) restart(phase Phase) (step Step, due bool) {
	w, stopped, err := s.stoppedOwner()
	if err != nil {
		return Step{Err: err}, true
	}
	if w == nil {
		return Step{}, false
	}
	var next storage.Object
	why := fmt.Sprintf("starting %s again with %d replicas", w, stopped.Replicas)
	if w.replicas == stopped.To && w.replicas != stopped.Replicas { // equal numbers are in no annotation that a move has written, but users can change it
		next, err = w.scaled(stopped.Replicas, stopped)
	} else {
		why = fmt.Sprintf("ending the stop of %s, which has %d replicas", w, w.replicas)
		next, err = w.released(stopped)
	}
	if err != nil {
		return Step{Err: err}, true
	}
	return Step{Action: Patch, Object: next, Old: w.obj, Phase: phase, Why: why}, true
}

// owner returns the owner of the pods that use the claim, nil if no pod uses it. The error says why a move can't stop the owner.
func (s *State) owner() (*Owner, error) {
	var out *Owner
	names := s.users(anywhere)
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.Namespace != s.Namespace || !slices.Contains(names, pod.Name) {
			continue
		}
		kind, name, err := s.ownerOf(pod)
		if err != nil {
			return nil, err
		}
		if out != nil && (out.Kind != kind || out.Name != name) {
			return nil, fmt.Errorf("--live: pods of %s %s and of %s %s mount PersistentVolumeClaim %s in namespace %s, and only one owner can be stopped: "+
				"scale all but one of them to 0 before", out.Kind, out.Name, kind, name, s.Name, s.Namespace)
		}
		out = &Owner{Kind: kind, Name: name}
	}
	if out == nil {
		return nil, nil
	}
	return out, s.stoppable(out, names)
}

// byHand is what users can do if --live is impossible.
const byHand = "stop it yourself, and move the claim without --live"

// ownerOf returns the Deployment or StatefulSet of a pod.
func (s *State) ownerOf(pod *corev1.Pod) (kind, name string, err error) {
	called := fmt.Sprintf("pod %s in namespace %s, which mounts the claim,", pod.Name, pod.Namespace)
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return "", "", fmt.Errorf("--live: %s has no metadata.ownerReferences with a controller, so nothing would create it again: %s", called, byHand)
	}
	if owner.Kind == "ReplicaSet" {
		for i := range s.ReplicaSets {
			if set := &s.ReplicaSets[i]; set.UID == owner.UID {
				if above := metav1.GetControllerOf(set); above != nil {
					owner = above
				}
			}
		}
	}
	if w := s.workload(owner.Kind, owner.Name); w == nil || w.obj.GetUID() != owner.UID {
		return "", "", fmt.Errorf("--live: metadata.ownerReferences of %s names %s %s, and only a Deployment or StatefulSet can be stopped and started again: %s",
			called, owner.Kind, owner.Name, byHand)
	}
	return owner.Kind, owner.Name, nil
}

// stoppable returns the reason why a move can't stop the owner, nil if it can. It sets the number of replicas during the move.
func (s *State) stoppable(o *Owner, users []string) error {
	w := s.workload(o.Kind, o.Name)
	switch stopped, err := w.stopped(); {
	case err != nil:
		return err
	case stopped != nil && stopped.Claim != s.Name:
		return fmt.Errorf("--live: annotation %s of %s says that the move of PersistentVolumeClaim %s has stopped it: finish that move first",
			AnnotationStopped, w, stopped.Claim)
	case w.obj.GetDeletionTimestamp() != nil:
		return fmt.Errorf("--live: %s is being deleted: run the command again when its pods no longer exist", w)
	}
	if w.kind == statefulSet && !mounts(w.template, s.Name) {
		last := fmt.Sprintf("%s-%d", o.Name, w.first+w.replicas-1)
		if w.replicas < 1 || !slices.Equal(users, []string{last}) {
			return fmt.Errorf("--live: spec.replicas of %s is %d, and only its last pod %s can be stopped alone, but pods %s mount the claim: scale it so that the pod "+
				"is the last one, or %s", w, w.replicas, last, strings.Join(users, ", "), byHand)
		}
		o.To = w.replicas - 1
	}
	for i := range s.Autoscalers {
		// Kubernetes pauses an autoscaler if its target has 0 replicas.
		a := &s.Autoscalers[i]
		if target := a.Spec.ScaleTargetRef; o.To > 0 && target.Kind == o.Kind && target.Name == o.Name {
			return fmt.Errorf("--live: spec.scaleTargetRef of HorizontalPodAutoscaler %s in namespace %s names %s %s, so it would undo spec.replicas %d: "+
				"delete it until the move has ended, or %s", a.Name, a.Namespace, o.Kind, o.Name, o.To, byHand)
		}
	}
	return nil
}

// mounts reports whether all pods of a template mount the claim.
func mounts(template *corev1.PodTemplateSpec, claim string) bool {
	return slices.ContainsFunc(template.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

// liveRefusal returns the reason why the data can't be copied while pods use it, regardless of their owner.
func (s *State) liveRefusal() error {
	called := fmt.Sprintf("PersistentVolumeClaim %s in namespace %s", s.Name, s.Namespace)
	switch {
	case modeOf(s.Claim.Spec.VolumeMode) == corev1.PersistentVolumeBlock:
		return fmt.Errorf("--live: spec.volumeMode of %s is Block, and a live move copies only files: stop its pods and move it without --live", called)
	case slices.Contains(s.Claim.Spec.AccessModes, corev1.ReadWriteOncePod):
		return fmt.Errorf("--live: spec.accessModes of %s has ReadWriteOncePod, so no pod can read it while another one uses it: stop its pods and move it without --live",
			called)
	}
	return nil
}
