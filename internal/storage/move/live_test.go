package move

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/storage"
)

// request returns a request of a world: a live one if the application has an owner.
func (w *world) request(node string) Request {
	return Request{
		Namespace: shop, Name: claimName, Node: node, StorageNamespace: storageNS,
		Live: len(w.deployments)+len(w.statefulSets) > 0, NewUID: types.UID(fmt.Sprint("n", w.version)),
	}
}

// replicaSet returns the only ReplicaSet of a Deployment.
func replicaSet(d *appsv1.Deployment) appsv1.ReplicaSet {
	yes := true
	return appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: d.Name + "-1", UID: "set-" + d.UID,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: deployment, Name: d.Name, UID: d.UID, Controller: &yes}},
	}}
}

// own creates the owner of the application: a Deployment or a StatefulSet, of one or two pods.
func (w *world) own() {
	replicas := int32(1 + w.r.IntN(2))
	meta := metav1.ObjectMeta{Namespace: shop, Name: "db"}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{claimVolume("data", claimName)}}}
	if w.r.IntN(2) == 0 {
		w.create(&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Template: template}})
	} else {
		w.create(&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Template: template}})
	}
	w.settle(5)
}

// owners returns the owners of the application.
func (w *world) owners() []workload {
	s := w.state(Request{})
	return s.workloads()
}

// control creates and deletes the pods of the owners, as their controllers do.
func (w *world) control() {
	for _, o := range w.owners() {
		yes := true
		ref := metav1.OwnerReference{APIVersion: "apps/v1", Kind: o.kind, Name: o.obj.GetName(), UID: o.obj.GetUID(), Controller: &yes}
		if d, ok := o.obj.(*appsv1.Deployment); ok {
			set := replicaSet(d)
			ref.Kind, ref.Name, ref.UID = "ReplicaSet", set.Name, set.UID
		}
		for i := range int32(3) {
			name := types.NamespacedName{Namespace: shop, Name: fmt.Sprintf("%s-%d", o.obj.GetName(), i)}
			switch pod := w.pods[name]; {
			case pod != nil && i >= o.replicas:
				w.note("pod %s is stopped", name.Name)
				w.remove(pod)
			case pod == nil && i < o.replicas:
				pod = w.application()
				pod.Name, pod.OwnerReferences = name.Name, []metav1.OwnerReference{ref}
				w.create(pod)
			}
		}
	}
}

// write lets the application write.
func (w *world) write(pod *corev1.Pod) {
	c := w.claim()
	if c == nil || c.Status.Phase != corev1.ClaimBound {
		w.fatal("pod %s runs without its claim: %+v", pod.Name, c)
	}
	w.acked = fmt.Sprint("written-", w.version)
	w.content[w.backingOf(c.Spec.VolumeName).UID] = w.acked
}

// tell tells pods to finish. The command may be killed after the first one.
func (w *world) tell(pods []*corev1.Pod) {
	for _, pod := range pods {
		have, ok := w.have(pod).(*corev1.Pod)
		if !ok || have.UID != pod.UID || !w.quiet && w.r.IntN(4) == 0 {
			return
		}
		w.told[pod.UID] = true
		w.runMover(have, have.Labels[labelRole])
	}
	for _, pod := range pods {
		have, ok := w.have(pod).(*corev1.Pod)
		if !ok || have.UID != pod.UID || have.Status.Phase != corev1.PodSucceeded || w.r.IntN(2) == 0 {
			continue // its report is in its status only
		}
		next, err := Reported(have, have.Status.ContainerStatuses[0].State.Terminated.Message)
		if err != nil {
			w.fatal("%v", err)
		}
		// The annotation comes before the status.
		next.Status.Phase, next.Status.ContainerStatuses = corev1.PodRunning, nil
		w.pods[key(next)] = next
	}
}

// applicationLeft returns the number of pods, Secrets and Services that do not belong to the application, and fails unless its owner is as before.
func (w *world) applicationLeft() int {
	left := len(w.pods) + len(w.secrets) + len(w.services)
	for _, o := range w.owners() {
		left -= int(o.replicas)
		if text := o.obj.GetAnnotations()[AnnotationStopped]; text != "" || o.replicas == 0 {
			w.fatal("%s has %d replicas and annotation %q", &o, o.replicas, text)
		}
	}
	return left - (len(w.secrets) + len(w.services))
}

// disturbOwner lets somebody change the owner of the application.
func (w *world) disturbOwner() {
	for _, o := range w.owners() {
		if w.r.IntN(8) > 0 {
			continue
		}
		replicas := int32(1 + w.r.IntN(2))
		w.note("somebody sets %d replicas", replicas)
		switch obj := o.obj.(type) {
		case *appsv1.Deployment:
			obj.Spec.Replicas = &replicas
			w.deployments[key(obj)] = obj
		case *appsv1.StatefulSet:
			obj.Spec.Replicas = &replicas
			w.statefulSets[key(obj)] = obj
		}
		w.changed(o.obj)
	}
}

// TestLawsOfALiveMove has an application write while its volume moves to and fro, kills the command between any two of its steps, loses pods, and has somebody
// scale the owner. No write that was acknowledged is ever lost, and in the end the owner has its replicas and runs with its data at the target.
func TestLawsOfALiveMove(t *testing.T) {
	const worlds = 200
	moved, returned, stopped, finished, reset := 0, 0, 0, 0, 0
	for seed := range uint64(worlds) {
		w := newWorld(t, seed)
		w.own()
		before, replicas := w.claim().DeepCopy(), w.owners()[0].replicas
		first, disturbed := w.clusterOf(before), seed%2 == 0
		for range 6 {
			request := w.request(w.someNode())
			w.note("liqoctl move volume --live --target-node %s", request.Node)
			for range w.r.IntN(60) { // then it is killed
				step := Next(w.state(request))
				for range w.r.IntN(3) {
					w.disturb()
				}
				if disturbed {
					w.disturbOwner()
				}
				w.obey(step)
				w.safe()
				w.settle(w.r.IntN(2))
				w.safe()
				if step.Urgent {
					stopped++
				}
				if step.Err != nil && strings.Contains(step.Err.Error(), "GitOps") {
					reset++
				}
				if step.Err != nil || step.Done {
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
		if o := w.owners()[0]; !disturbed && o.replicas != replicas {
			w.fatal("the owner had %d replicas and has %d", replicas, o.replicas)
		}
		for _, pod := range sorted(w.pods) {
			if pod.Status.Phase != corev1.PodRunning {
				w.fatal("pod %s is %s", pod.Name, pod.Status.Phase)
			}
		}
		finished += len(w.told)
		if w.clusterOf(w.claim()) != first {
			moved++
		}
	}
	// The worlds are worth something only if all ends occur.
	if moved < worlds/3 || returned < worlds/20 || stopped < worlds || finished < worlds || reset == 0 {
		t.Errorf("%d moved to another cluster, %d given up before, %d steps with a stopped owner, %d pods told to finish, %d times scaled meanwhile",
			moved, returned, stopped, finished, reset)
	}
}

// running returns the state of a claim that a pod mounts, and a live request.
func running(changes ...func(*State)) State {
	yes, one := true, int32(1)
	return bound(append([]func(*State){func(s *State) {
		s.Live, s.NewUID = true, "n1"
		template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{claimVolume("data", claimName)}}}
		s.Deployments = []appsv1.Deployment{{
			ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "db", UID: "d1"}, Spec: appsv1.DeploymentSpec{Replicas: &one, Template: template},
		}}
		s.ReplicaSets = []appsv1.ReplicaSet{replicaSet(&s.Deployments[0])}
		s.Pods = []corev1.Pod{{
			ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "db-1-x", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "db-1", UID: s.ReplicaSets[0].UID, Controller: &yes},
			}},
			Spec: corev1.PodSpec{NodeName: "n1", Volumes: []corev1.Volume{claimVolume("data", claimName)}},
		}}
	}}, changes...)...)
}

// templated makes the owner a StatefulSet with a claim for each pod.
func templated(replicas, start int32, pod string) func(*State) {
	return func(s *State) {
		s.StatefulSets = []appsv1.StatefulSet{{
			ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "db", UID: "s1"},
			Spec:       appsv1.StatefulSetSpec{Replicas: &replicas, Ordinals: &appsv1.StatefulSetOrdinals{Start: start}},
		}}
		s.Pods[0].Name = pod
		s.Pods[0].OwnerReferences[0].Kind, s.Pods[0].OwnerReferences[0].Name, s.Pods[0].OwnerReferences[0].UID = statefulSet, "db", "s1"
	}
}

// owned sets the owner of the pod.
func owned(kind string) func(*State) {
	return func(s *State) {
		s.Pods[0].OwnerReferences[0].Kind, s.Pods[0].OwnerReferences[0].Name, s.Pods[0].OwnerReferences[0].UID = kind, "db", "x1"
	}
}

func scaler(kind string) func(*State) {
	return func(s *State) {
		s.Autoscalers = []autoscalingv2.HorizontalPodAutoscaler{{
			ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "auto"},
			Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: kind, Name: "db"}},
		}}
	}
}

// TestRefusedLiveMovesChangeNothing: each refusal names the object, the field and the cure, and writes nothing.
func TestRefusedLiveMovesChangeNothing(t *testing.T) {
	const hand = "stop it yourself, and move the claim without --live"
	for name, c := range map[string]struct {
		changes []func(*State)
		want    []string
	}{
		"a pod without an owner": {[]func(*State){func(s *State) { s.Pods[0].OwnerReferences = nil }}, []string{"pod db-1-x in namespace shop", "metadata.ownerReferences", hand}},
		"a DaemonSet":            {[]func(*State){owned("DaemonSet")}, []string{"pod db-1-x", "metadata.ownerReferences", "DaemonSet db", hand}},
		"a Job":                  {[]func(*State){owned("Job")}, []string{"Job db", hand}},
		"another of the name":    {[]func(*State){owned(deployment)}, []string{"Deployment db", hand}},
		"a bare ReplicaSet":      {[]func(*State){func(s *State) { s.ReplicaSets[0].OwnerReferences = nil }}, []string{"ReplicaSet db-1", hand}},
		"two owners": {[]func(*State){func(s *State) {
			other := s.Deployments[0].DeepCopy()
			other.Name, other.UID = "web", "d2"
			set := replicaSet(other)
			pod := s.Pods[0].DeepCopy()
			pod.Name, pod.OwnerReferences[0].Name, pod.OwnerReferences[0].UID = "web-1-x", set.Name, set.UID
			s.Deployments, s.ReplicaSets, s.Pods = append(s.Deployments, *other), append(s.ReplicaSets, set), append(s.Pods, *pod)
		}}, []string{"Deployment db", "Deployment web", "scale all but one"}},
		"not the last pod": {[]func(*State){templated(3, 0, "db-1")}, []string{"spec.replicas of StatefulSet db in namespace shop is 3", "db-2", "pods db-1", hand}},
		"an autoscaler": {[]func(*State){templated(3, 0, "db-2"), scaler(statefulSet)}, []string{
			"spec.scaleTargetRef of HorizontalPodAutoscaler auto in namespace shop", "StatefulSet db", "spec.replicas 2", "delete it until", hand,
		}},
		"stopped for another claim": {[]func(*State){func(s *State) {
			s.Deployments[0].Annotations = map[string]string{AnnotationStopped: `{"claim":"logs","replicas":1}`}
		}}, []string{"annotation " + AnnotationStopped, "Deployment db", "PersistentVolumeClaim logs", "finish that move first"}},
		"an unreadable annotation": {[]func(*State){func(s *State) {
			s.Deployments[0].Annotations = map[string]string{AnnotationStopped: "x"}
		}}, []string{"Deployment db", AnnotationStopped, "remove the annotation"}},
		"an owner that ends": {[]func(*State){func(s *State) { s.Deployments[0].DeletionTimestamp = &metav1.Time{} }}, []string{"Deployment db", "is being deleted"}},
		"a device": {[]func(*State){func(s *State) {
			block := corev1.PersistentVolumeBlock
			s.Claim.Spec.VolumeMode = &block
		}}, []string{"spec.volumeMode of PersistentVolumeClaim data", "without --live"}},
		"one pod only": {[]func(*State){func(s *State) {
			s.Claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}}, []string{"spec.accessModes of PersistentVolumeClaim data", "ReadWriteOncePod", "without --live"}},
		"no pod": {[]func(*State){func(s *State) { s.Pods = nil }}, []string{"no pod mounts PersistentVolumeClaim data", "without --live"}},
	} {
		step := Next(running(c.changes...))
		if step.Err == nil || step.Action != Nothing || step.Done {
			t.Errorf("%s: %+v", name, step)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(step.Err.Error(), part) {
				t.Errorf("%s: no %q in: %v", name, part, step.Err)
			}
		}
	}
}

// TestOwnersThatAreStopped: a Deployment stops as a whole, and a StatefulSet with a claim for each pod keeps the others. An autoscaler is no obstacle for 0
// replicas, since Kubernetes pauses it then.
func TestOwnersThatAreStopped(t *testing.T) {
	for name, c := range map[string]struct {
		changes []func(*State)
		want    Owner
	}{
		"a Deployment":             {nil, Owner{Kind: deployment, Name: "db"}},
		"an autoscaled Deployment": {[]func(*State){scaler(deployment)}, Owner{Kind: deployment, Name: "db"}},
		"the only pod":             {[]func(*State){templated(1, 0, "db-0"), scaler(statefulSet)}, Owner{Kind: statefulSet, Name: "db"}},
		"the last pod":             {[]func(*State){templated(3, 0, "db-2")}, Owner{Kind: statefulSet, Name: "db", To: 2}},
		"the last pod, from 5 on":  {[]func(*State){templated(3, 5, "db-7")}, Owner{Kind: statefulSet, Name: "db", To: 2}},
		"an autoscaler of another": {[]func(*State){templated(3, 0, "db-2"), scaler(deployment)}, Owner{Kind: statefulSet, Name: "db", To: 2}},
	} {
		step := Next(running(c.changes...))
		source, ok := step.Object.(*corev1.PersistentVolume)
		if step.Err != nil || step.Action != Patch || !ok {
			t.Errorf("%s: %+v", name, step)
			continue
		}
		record, err := recordOf(source)
		if err != nil || record.Live == nil || record.Live.Owner != c.want || record.Live.UID != "n1" {
			t.Errorf("%s: %+v, %v", name, record, err)
		}
	}
}

// TestAStoppedOwnerIsStarted: with the replicas that the annotation has, unless another number was set meanwhile. Then the annotation is removed.
func TestAStoppedOwnerIsStarted(t *testing.T) {
	for replicas, want := range map[int32]int32{0: 3, 2: 2, 5: 5} {
		s := running()
		s.Deployments[0].Spec.Replicas = &replicas
		s.Deployments[0].Annotations = map[string]string{AnnotationStopped: `{"claim":"data","replicas":3}`, "kept": "yes"}
		writes := 0
		for ; writes < 3; writes++ {
			step, due := s.restart(Finishing)
			if !due {
				break
			}
			d, ok := step.Object.(*appsv1.Deployment)
			if !ok || step.Action != Patch || *d.Spec.Replicas != want || len(s.Deployments[0].Annotations) != 2 {
				t.Fatalf("%d: %+v", replicas, step)
			}
			s.Deployments[0] = *d
		}
		if changed := replicas == 0; len(s.Deployments[0].Annotations) != 1 || writes != 1 && !changed || writes != 2 && changed {
			t.Errorf("%d: annotations %v after %d writes", replicas, s.Deployments[0].Annotations, writes)
		}
	}
}

// TestAnAnnotationWithoutAStopIsRemoved: users can write AnnotationStopped. If its number of replicas is the one that the owner has, one write removes it.
func TestAnAnnotationWithoutAStopIsRemoved(t *testing.T) {
	s, none := running(), int32(0)
	s.Deployments[0].Spec.Replicas = &none
	s.Deployments[0].Annotations = map[string]string{AnnotationStopped: `{"claim":"data","replicas":0}`}
	step, due := s.restart(Finishing)
	if d, ok := step.Object.(*appsv1.Deployment); !due || !ok || d.Annotations[AnnotationStopped] != "" || *d.Spec.Replicas != 0 {
		t.Errorf("%+v", step)
	}
}

// TestErrorsDuringTheStop: replicas that somebody else sets while the claim still has its old volume stay. Each other error says that the owner is stopped.
func TestErrorsDuringTheStop(t *testing.T) {
	stopped := func(replicas int32) State {
		s := running()
		record := newRecord(s.Claim, &s.Volumes[0], s.node(s.Node), &s.Request)
		record.Live = &Live{UID: "n1", Owner: Owner{Kind: deployment, Name: "db"}}
		volume, err := noted(&s.Volumes[0], record)
		if err != nil {
			t.Fatal(err)
		}
		s.Volumes[0] = *volume
		s.protect()
		s.Deployments[0].UID, s.Deployments[0].Spec.Replicas = "d1", &replicas
		s.Deployments[0].Annotations = map[string]string{AnnotationStopped: `{"claim":"data","replicas":3}`}
		return s
	}
	step := Next(stopped(2))
	d, ok := step.Object.(*appsv1.Deployment)
	if !ok || *d.Spec.Replicas != 2 || d.Annotations[AnnotationStopped] != "" || step.Err == nil || step.Stopped != "" {
		t.Errorf("replicas set by somebody else: %+v", step)
	}
	s := stopped(0)
	s.Node = "nowhere"
	if step := Next(s); step.Err == nil || !strings.Contains(step.Err.Error(), "has 0 replicas instead of 3 until the move ends: run the same command again") {
		t.Errorf("another error: %v", step.Err)
	}
}

// TestLivePodsHoldNoClaim: pods of a live move in a provider mount the claim there by another name, so that the claim here can be replaced meanwhile. The
// sender runs beside the application, because a volume may be attached to one node at a time.
func TestLivePodsHoldNoClaim(t *testing.T) {
	s := running()
	record := newRecord(s.Claim, &s.Volumes[0], s.node(s.Node), &s.Request)
	record.Live = &Live{UID: "n1", Owner: Owner{Kind: deployment, Name: "db"}}
	m := &move{State: &s, source: &s.Volumes[0], record: record}
	pod := m.livePod(receiver, m.targetEnd(s.node("milan")), "n1")
	if storage.Uses(pod, claimName) || pod.Annotations["storage.liqo.io/remote-claim"] != "liqo-move-u1-data=data" || !follows(pod) || pod.Spec.NodeName != "milan" {
		t.Errorf("%+v", pod)
	}
	if here := m.targetEnd(s.node("n2")); here.claim != "n1" || here.namespace != storageNS {
		t.Errorf("%+v", here)
	}
	got := m.besideUsers().NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values
	if len(got) != 1 || got[0] != "n1" {
		t.Errorf("%v", got)
	}
}

// TestACancelledLiveMoveEndsForADeletedCopy: a copy with policy Retain stays in deletion as long as its data. So a cancelled move sets policy Delete, also if
// somebody has deleted the volume.
func TestACancelledLiveMoveEndsForADeletedCopy(t *testing.T) {
	s := running()
	record := newRecord(s.Claim, &s.Volumes[0], s.node(s.Node), &s.Request)
	record.Live = &Live{UID: "n1", Owner: Owner{Kind: deployment, Name: "db"}}
	m := &move{&s, &s.Volumes[0], record}
	copied := s.Volumes[0].DeepCopy()
	copied.Name, copied.DeletionTimestamp = m.copyName(), &metav1.Time{}
	copied.Spec.PersistentVolumeReclaimPolicy, copied.Spec.ClaimRef.UID = corev1.PersistentVolumeReclaimRetain, "n1"
	s.Volumes = append(s.Volumes, *copied)
	m.source = &s.Volumes[0]
	step, due := m.discard()
	next, ok := step.Object.(*corev1.PersistentVolume)
	if !due || !ok || next.Name != copied.Name || next.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Fatalf("%+v, want a patch of its policy", step)
	}
	s.Volumes[1] = *next
	if step, due := m.discard(); !due || step.Object != nil || !strings.Contains(step.Why, copied.Name) {
		t.Errorf("%+v, want to wait for its deletion", step)
	}
}
