package move

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// bound returns the state of a claim whose data is in this cluster, and a request to move it to milan.
func bound(changes ...func(*State)) State {
	claim := userClaim("n1")
	claim.UID, claim.Spec.VolumeName, claim.Status.Phase = "u1", "pvc-u1", corev1.ClaimBound
	s := State{
		Request: Request{Namespace: shop, Name: claimName, Node: "milan", StorageNamespace: storageNS},
		Claim:   claim, Nodes: nodes(), Classes: classes(), Volumes: []corev1.PersistentVolume{virtual("pvc-u1", "")},
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func virtual(name, provider string) corev1.PersistentVolume {
	return corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{api.LabelRemoteClusterID: provider},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:                      &corev1.ObjectReference{Namespace: shop, Name: claimName, UID: "u1"},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

// TestRefusedMovesChangeNothing: each refusal names the object, the value and the cure, and writes nothing.
func TestRefusedMovesChangeNothing(t *testing.T) {
	mounting := func(phase corev1.PodPhase, node string) func(*State) {
		return func(s *State) {
			s.Pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "db-0"}, Status: corev1.PodStatus{Phase: phase}}}
			s.Pods[0].Spec.Volumes, s.Pods[0].Spec.NodeName = []corev1.Volume{claimVolume("data", claimName)}, node
		}
	}
	for name, c := range map[string]struct {
		change func(*State)
		want   []string
	}{
		"no claim":   {func(s *State) { s.Claim = nil }, []string{"PersistentVolumeClaim data in namespace shop does not exist", "kubectl get pvc"}},
		"no volume":  {func(s *State) { s.Claim.Spec.VolumeName = "" }, []string{"has no volume", "its first pod decides"}},
		"of another": {func(s *State) { s.Volumes[0].Annotations = nil }, []string{"volume pvc-u1", "StorageClass liqo"}},
		"ephemeral": {func(s *State) {
			yes := true
			s.Claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "db-0", Controller: &yes}}
		}, []string{"ephemeral volume", "delete the pod"}},
		"no node":       {func(s *State) { s.Node = "milano" }, []string{"--target-node milano: there is no such node", "n1, n2, milan, milan-2, naples"}},
		"being deleted": {func(s *State) { s.Claim.DeletionTimestamp = &metav1.Time{} }, []string{"is being deleted"}},
		"mounted":       {mounting(corev1.PodRunning, "n1"), []string{"mounted by pods db-0", "kubectl scale --replicas=0"}},
		"soon mounted":  {mounting(corev1.PodPending, ""), []string{"mounted by pods db-0"}},
		"ended":         {mounting(corev1.PodSucceeded, "n1"), []string{"mounted by pods db-0", "delete those that have ended"}},
		"not ready":     {func(s *State) { s.Nodes[2].Status.Conditions = nil }, []string{"--target-node milan: the node is not Ready"}},
		"not offloaded": {func(s *State) { s.Obstacle = "no such namespace" }, []string{"--target-node milan: no such namespace"}},
		"older data":    {func(s *State) { s.Volumes = append(s.Volumes, virtual("pvc-u0", "milan")) }, []string{"older data", "kubectl patch pv pvc-u0"}},
		"no record":     {func(s *State) { s.Volumes[0].Annotations[storage.AnnotationMove] = "x" }, []string{"annotation " + storage.AnnotationMove, "pvc-u1"}},
		"to another node": {func(s *State) {
			s.Volumes[0].Annotations[storage.AnnotationMove] = `{"node":"naples"}`
		}, []string{"--target-node naples", "give it up"}},
	} {
		step := Next(bound(c.change))
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
	if step := Next(bound(mounting(corev1.PodFailed, ""))); step.Err != nil || step.Action != Patch {
		t.Errorf("a pod that ended before it was scheduled: %+v", step)
	}
}

// TestNothingToMove: a claim that is at the target stays as it is, and older data that is to be deleted is waited for.
func TestNothingToMove(t *testing.T) {
	here := func(s *State) { s.Node = "n2" } // the volume names no node, so each node of this cluster can use it
	if step := Next(bound(here)); !step.Done || step.Action != Nothing || step.Err != nil {
		t.Errorf("%+v", step)
	}
	step := Next(bound(here, func(s *State) {
		old := virtual("pvc-u0", "milan")
		old.Status.Phase = corev1.VolumeReleased
		s.Volumes = append(s.Volumes, old)
	}))
	if step.Done || step.Action != Nothing || !strings.Contains(step.Why, "pvc-u0") {
		t.Errorf("%+v", step)
	}
}

// TestPodsRunWhereTheirDataIs: only those for a virtual node tolerate its taint, because the volume of a real class may be usable on all nodes.
func TestPodsRunWhereTheirDataIs(t *testing.T) {
	s := bound()
	m := &move{State: &s, source: &s.Volumes[0], record: newRecord(s.Claim, &s.Volumes[0], s.node(s.Node), &s.Request)}
	far, near := m.moverPod(receiver, m.remoteEnd("milan"), "u2"), m.moverPod(sender, m.localEnd("u1"), "u3")
	if far.Spec.NodeName != "milan" || len(far.Spec.Tolerations) != 1 || near.Spec.NodeName != "" || len(near.Spec.Tolerations) != 0 {
		t.Errorf("in milan %+v, here %+v", far.Spec, near.Spec)
	}
	if len(m.storePod().Spec.Tolerations) != 1 {
		t.Errorf("%+v", m.storePod().Spec)
	}
	m.record.Node = "n2"
	if len(m.storePod().Spec.Tolerations) != 0 {
		t.Errorf("%+v", m.storePod().Spec)
	}
}

// TestBlockVolumesAreCopiedAsDevices: their pods have a device and no directory.
func TestBlockVolumesAreCopiedAsDevices(t *testing.T) {
	s := bound()
	mode := corev1.PersistentVolumeBlock
	s.Claim.Spec.VolumeMode = &mode
	m := &move{State: &s, source: &s.Volumes[0], record: newRecord(s.Claim, &s.Volumes[0], s.node(s.Node), &s.Request)}
	c := m.moverPod(receiver, m.remoteEnd("milan"), "u2").Spec.Containers[0]
	if len(c.VolumeMounts) != 1 || len(c.VolumeDevices) != 1 || c.Command[2] != devicePath || c.Env[0].Value != "rest:http://liqo-move-u1:8000/" {
		t.Errorf("%+v", c)
	}
	pod := m.moverPod(sender, m.localEnd("u1"), "u3")
	if pod.Namespace != storageNS || pod.Spec.Containers[0].Env[0].Value != "rest:http://liqo-move-u1.shop.svc:8000/" {
		t.Errorf("%+v", pod)
	}
}

// TestPodsTakeOnlyTheirKeys: a user of the namespace may write the Secret, and restic runs what some variables say, with the data of the storage namespace.
func TestPodsTakeOnlyTheirKeys(t *testing.T) {
	s := bound()
	m := &move{State: &s, source: &s.Volumes[0], record: newRecord(s.Claim, &s.Volumes[0], s.node(s.Node), &s.Request)}
	c := m.moverPod(sender, m.localEnd("u1"), "u3").Spec.Containers[0]
	var names []string
	for _, variable := range c.Env {
		names = append(names, variable.Name)
	}
	if got := strings.Join(names, " "); got != "RESTIC_REPOSITORY RESTIC_PASSWORD RESTIC_REST_USERNAME RESTIC_REST_PASSWORD" || len(c.EnvFrom) > 0 {
		t.Errorf("%s, %+v", got, c.EnvFrom)
	}
}

// TestAClaimThatIsDeletedKeepsTheOldData: the copy of a claim that is being deleted ends with it, so the old data stays. Pods of the move don't hold the claim.
func TestAClaimThatIsDeletedKeepsTheOldData(t *testing.T) {
	s := bound()
	record := newRecord(s.Claim, &s.Volumes[0], s.node(s.Node), &s.Request)
	record.Copy = "u2"
	source, err := noted(&s.Volumes[0], record)
	if err != nil {
		t.Fatal(err)
	}
	broken := virtual("pvc-u9", "")
	broken.Annotations[storage.AnnotationMove] = "x"
	for volume, want := range map[*corev1.PersistentVolume]string{source: "milan", &s.Volumes[0]: "", &broken: ""} {
		if target, err := TargetOf(volume); target != want || (err != nil) != (volume == &broken) {
			t.Fatalf("%s moves to %q, %v", volume.Name, target, err)
		}
	}
	s.Volumes = []corev1.PersistentVolume{*source, virtual("pvc-u2", "milan")}
	s.Claim.UID, s.Claim.Spec.VolumeName, s.Claim.DeletionTimestamp = "u2", "pvc-u2", &metav1.Time{}
	if step := Next(s); step.Action != Nothing || step.Err != nil || !strings.Contains(step.Why, "PersistentVolumeClaim data to be deleted") {
		t.Errorf("%+v", step)
	}
	record.Copy = ""
	if source, err = noted(source, record); err != nil {
		t.Fatal(err)
	}
	m := &move{State: &s, source: source, record: record}
	pod := m.moverPod(receiver, m.remoteEnd("milan"), "u2")
	pod.Status.Phase = corev1.PodSucceeded
	s.Volumes, s.Pods = []corev1.PersistentVolume{*source}, []corev1.Pod{*pod}
	s.Claim.Spec.VolumeName = ""
	if step := Next(s); step.Action != Delete || step.Object.GetName() != pod.Name {
		t.Errorf("%+v", step)
	}
}
