package move

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/utils/ptr"

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
		Home: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}}, Enforced: true,
	}
	for _, change := range changes {
		change(&s)
	}
	s.protect()
	s.runChecks()
	return s
}

// runChecks adds the checks of a move that has not begun, which have ended well.
func (s *State) runChecks() {
	if s.underway() != nil || s.refusal().Err != nil {
		return
	}
	m, target := s.begun(), s.node(s.Node)
	if admits(m.source, target) { // there is nothing to move
		return
	}
	for _, pod := range m.checks(target) {
		pod.Status.Phase = corev1.PodSucceeded
		s.Pods = append(s.Pods, *pod)
	}
}

// protect has the namespace name the move of the state, if there is one.
func (s *State) protect() {
	if source := s.underway(); source != nil {
		if record, err := recordOf(source); err == nil {
			m := &move{State: s, source: source, record: record}
			s.Home = m.withEntry(s.Home, storage.AnnotationMovingClaims, m.entry())
		}
	}
}

func virtual(name, provider string) corev1.PersistentVolume {
	out := corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{}, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:                      &corev1.ObjectReference{Namespace: shop, Name: claimName, UID: "u1"},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	if provider != "" {
		out.Spec.NodeAffinity = storage.NodesOf(provider)
	}
	return out
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
			s.Claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "db-0", Controller: &yes, BlockOwnerDeletion: &yes}}
			s.Claim.Name = "db-0-data"
		}, []string{"ephemeral volume", "can't be moved"}},
		"no node": {func(s *State) { s.Node = "milano" }, []string{"--target-node milano: there is no such node", "n1, n2, milan, milan-2, naples"}},
		"deleted by its StatefulSet": {func(s *State) {
			mounting(corev1.PodRunning, "n1")(s)
			s.Claim.Name, s.Name = "data-db-0", "data-db-0"
			s.StatefulSets = []appsv1.StatefulSet{{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "db"}, Spec: appsv1.StatefulSetSpec{
				VolumeClaimTemplates:                 []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "logs"}}, {ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
				PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType},
			}}}
		}, []string{"StatefulSet db deletes it, with its data", `kubectl patch statefulset db --namespace shop`, `{"whenScaled":"Retain"}`}},
		"being deleted": {func(s *State) { s.Claim.DeletionTimestamp = &metav1.Time{} }, []string{"is being deleted"}},
		"mounted":       {mounting(corev1.PodRunning, "n1"), []string{"mounted by pods db-0", "kubectl scale --replicas=0"}},
		"soon mounted":  {mounting(corev1.PodPending, ""), []string{"mounted by pods db-0"}},
		"ended":         {mounting(corev1.PodSucceeded, "n1"), []string{"mounted by pods db-0", "delete those that have ended"}},
		"not ready": {func(s *State) {
			s.Nodes[2].Status.Conditions[0].Status, s.Nodes[2].Status.Conditions[0].Message = corev1.ConditionFalse, "the provider is unreachable"
		}, []string{"--target-node milan: the node is not Ready (the provider is unreachable)"}},
		"cordoned": {func(s *State) {
			s.Nodes[2].Spec.Taints = []corev1.Taint{{Key: api.TaintVirtualNode, Effect: corev1.TaintEffectNoExecute}, {Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
		}, []string{"--target-node milan: the node has taint node.kubernetes.io/unschedulable:NoSchedule", "kubectl uncordon"}},
		"the source is not ready": {func(s *State) {
			s.Nodes[0].Status.Conditions, s.Nodes[1].Status.Conditions = nil, nil
		}, []string{"nodes n1, n2, which have the data of PersistentVolume pvc-u1, are not Ready"}},
		"the source is gone": {func(s *State) {
			s.Volumes[0].Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: onNode("n9").NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms}}
		}, []string{"no node of this cluster matches spec.nodeAffinity of PersistentVolume pvc-u1"}},
		"the source is unreachable": {func(s *State) {
			s.Node, s.Volumes = "n1", []corev1.PersistentVolume{virtual("pvc-u1", "naples")}
			s.Nodes[4].Status.Conditions = nil
		}, []string{"node naples of cluster naples, which has the data of PersistentVolume pvc-u1, is not Ready"}},
		"the source has no node": {func(s *State) {
			s.Node, s.Volumes = "n1", []corev1.PersistentVolume{virtual("pvc-u1", "turin")}
		}, []string{"cluster turin, which has the data of PersistentVolume pvc-u1, has no virtual node", "restore the peering"}},
		"Pod Security": {func(s *State) {
			const reason = ` is forbidden: violates PodSecurity "restricted:v1.30": runAsNonRoot != true`
			s.Refusals = []Refusal{
				{Object: "Pod liqo-move-u1-store in namespace shop", Namespace: shop, Reason: `pods "liqo-move-u1-store"` + reason},
				{Object: "Pod liqo-move-u1-receiver in namespace shop", Namespace: shop, Reason: `pods "liqo-move-u1-receiver"` + reason},
			}
		}, []string{"Pod liqo-move-u1-store in namespace shop, Pod liqo-move-u1-receiver in namespace shop: violates PodSecurity", "runAsNonRoot != true",
			"kubectl label --overwrite namespace shop pod-security.kubernetes.io/enforce=baseline"}},
		"a quota": {func(s *State) {
			s.Refusals = []Refusal{{Object: "Pod x in namespace shop", Namespace: shop, Reason: `pods "x" is forbidden: failed quota: q: must specify limits.cpu for: mover`}}
		}, []string{"Pod x in namespace shop: failed quota: q", "--containers-cpu-requests"}},
		"a policy": {func(s *State) {
			s.Refusals = []Refusal{{Object: "Service x in namespace shop", Namespace: shop, Reason: `admission webhook "no.example.org" denied the request: no`}}
		}, []string{`Service x in namespace shop: admission webhook "no.example.org" denied the request: no. Change what refuses it`}},
		"everything at once": {func(s *State) {
			mounting(corev1.PodRunning, "n1")(s)
			s.Nodes[2].Status.Conditions, s.Obstacle = nil, "no such namespace"
			s.Refusals = []Refusal{{Object: "Pod x in namespace shop", Namespace: shop, Reason: "exceeded quota: q"}}
		}, []string{"4 problems prevent the move. Nothing was changed\n- ", "mounted by pods db-0", "\n- --target-node milan: the node is not Ready", "\n- --target-node milan: no such namespace",
			"\n- in a dry run, the API server refuses objects of the move: Pod x in namespace shop: exceeded quota: q"}},
		"not offloaded": {func(s *State) { s.Obstacle = "no such namespace" }, []string{"--target-node milan: no such namespace"}},
		"older data":    {func(s *State) { s.Volumes = append(s.Volumes, virtual("pvc-u0", "milan")) }, []string{"data of an earlier claim", "PersistentVolume pvc-u0", "may be the only copy"}},
		"no record":     {func(s *State) { s.Volumes[0].Annotations[storage.AnnotationMove] = "x" }, []string{"annotation " + storage.AnnotationMove, "pvc-u1"}},
		"to another node": {func(s *State) {
			s.Volumes[0].Annotations[storage.AnnotationMove] = `{"node":"naples"}`
		}, []string{"--target-node naples", "cancel it"}},
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

// TestPodsThatOwnTheirClaimAreNotStopped: Kubernetes deletes a claim with the pod that owns it. So no error advises to stop such a pod before the claim has lost this owner.
func TestPodsThatOwnTheirClaimAreNotStopped(t *testing.T) {
	yes := true
	owning := func(s *State) {
		s.Pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "driver", UID: "p1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}}
		s.Pods[0].Spec.Volumes, s.Pods[0].Spec.NodeName = []corev1.Volume{claimVolume("data", claimName)}, "n1"
		s.Claim.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "job", UID: "c1"}, {APIVersion: "v1", Kind: "Pod", Name: "driver", UID: "p1", Controller: &yes},
		}
	}
	begun := func(s *State) {
		owning(s)
		s.Volumes[0].Annotations[storage.AnnotationMove] = `{"node":"milan"}`
	}
	for name, s := range map[string]State{
		"at the start": bound(owning), "with --live": bound(owning, func(s *State) { s.Live = true }), "during the move": bound(begun),
	} {
		step := Next(s)
		if step.Err == nil || step.Action != Nothing || step.Done {
			t.Errorf("%s: %+v", name, step)
			continue
		}
		for _, part := range []string{"PersistentVolumeClaim data in namespace shop", "pod driver", "metadata.ownerReferences",
			`kubectl patch pvc data --namespace shop --type json --patch '[{"op":"test","path":"/metadata/ownerReferences/1/uid","value":"p1"},{"op":"remove","path":"/metadata/ownerReferences/1"}]'`} {
			if !strings.Contains(step.Err.Error(), part) {
				t.Errorf("%s: no %q in: %v", name, part, step.Err)
			}
		}
		for _, part := range []string{"stop them", "stop it", "delete them"} {
			if strings.Contains(step.Err.Error(), part) {
				t.Errorf("%s: %q is advised in: %v", name, part, step.Err)
			}
		}
	}
	if step := Next(bound(owning, func(s *State) { s.Pods = nil })); step.Err != nil {
		t.Errorf("no pod mounts it: %v", step.Err)
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
	s.Pods = nil
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
	s.protect()
	if step := Next(s); step.Action != Delete || step.Object.GetName() != pod.Name {
		t.Errorf("%+v", step)
	}
}

// TestClaimsCreatedDuringAMove: a claim that somebody created during the move, and that can have neither the copy nor its old volume, is refused with each field
// that is wrong, its value, the right value and the cure.
func TestClaimsCreatedDuringAMove(t *testing.T) {
	anew := func(target string, change func(*corev1.PersistentVolumeClaim)) State {
		return bound(func(s *State) {
			source := &s.Volumes[0]
			source.Spec.StorageClassName, source.Spec.AccessModes = "liqo", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
			source.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
			record := newRecord(s.Claim, source, s.node("milan"), &s.Request)
			marked, err := noted(source, record)
			if err != nil {
				t.Fatal(err)
			}
			s.Volumes[0], s.Node = *marked, target
			s.Claim = userClaim("")
			class := "liqo"
			s.Claim.UID, s.Claim.Spec.StorageClassName, s.Claim.Spec.AccessModes = "u2", &class, source.Spec.AccessModes
			s.Claim.Spec.Resources.Requests = source.Spec.Capacity.DeepCopy()
			s.Claim.Annotations = nil
			change(s.Claim)
		})
	}
	other, block := "fast", corev1.PersistentVolumeBlock
	for name, row := range map[string]struct {
		target string
		change func(*corev1.PersistentVolumeClaim)
		want   string
	}{
		"forward, another class": {"milan", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &other },
			`can't get the data: spec.storageClassName is "fast", and must be "liqo". The data of the move is kept in PersistentVolume pvc-u1. It has no volume, so no data depends on it. Delete it`},
		"forward, a volume": {"milan", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "mine" },
			"It has volume mine, which may have new data. To keep that, first run kubectl patch pv mine"},
		"back, another class": {"n1", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &other },
			`can't get its old volume pvc-u1: spec.storageClassName is "fast", and must be "liqo". The data of the move is kept in PersistentVolume pvc-u1. It has no volume, so no data depends on it. Delete it`},
		"back, too large": {"n1", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		}, "can't get its old volume pvc-u1: spec.resources.requests.storage is 2Gi, and must be at most 1Gi. The data of the move is kept in PersistentVolume pvc-u1. It has no volume"},
		"back, another access mode and another volume mode": {"n1", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes, c.Spec.VolumeMode = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, &block
		}, "spec.accessModes is [ReadWriteMany], and must be of [ReadWriteOnce]; spec.volumeMode is Block, and must be Filesystem. The data of the move is kept in PersistentVolume pvc-u1. It has no volume"},
		"back, a volume": {"n1", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "mine" }, "It has volume mine, which may have new data. To keep that, first run kubectl patch pv mine"},
	} {
		step := Next(anew(row.target, row.change))
		if step.Err == nil || step.Action != Nothing {
			t.Errorf("%s: %+v", name, step)
			continue
		}
		for _, part := range []string{"PersistentVolumeClaim data in namespace shop", row.want} {
			if !strings.Contains(step.Err.Error(), part) {
				t.Errorf("%s: no %q in: %v", name, part, step.Err)
			}
		}
	}
	for _, target := range []string{"milan", "n1"} {
		if step := Next(anew(target, func(*corev1.PersistentVolumeClaim) {})); step.Err != nil {
			t.Errorf("a claim that fits, to %s: %+v", target, step)
		}
	}
}

// TestPodsThatLookLikeThoseOfAMoveAreUsers: who may create pods in the namespace writes their labels and annotations, and must not have the data copied while a
// pod writes to it. Containers that meshes and administrators add to a pod of a move make it no user, unless they reach the volume.
func TestPodsThatLookLikeThoseOfAMoveAreUsers(t *testing.T) {
	s := bound()
	s.Image = "volume-mover:v1"
	reach := []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	m := &move{State: &s, source: &s.Volumes[0], record: newRecord(s.Claim, &s.Volumes[0], s.node(s.Node), &s.Request)}
	mover := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := m.moverPod(sender, m.remoteEnd("milan"), "u2")
		if change != nil {
			change(pod)
		}
		return pod
	}
	plain := func(claim string, change func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "db-0"}, Spec: corev1.PodSpec{NodeName: "milan", Volumes: []corev1.Volume{claimVolume("v", claim)}}}
		if change != nil {
			change(pod)
		}
		return pod
	}
	remote := func(claim string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{api.AnnotationRemoteClaim: "other=" + claim}
		}
	}
	marked, err := noted(m.source, m.record)
	if err != nil {
		t.Fatal(err)
	}
	s.Volumes[0], s.Image = *marked, "volume-mover:v2"
	live := *m
	live.record = newRecord(s.Claim, &s.Volumes[0], s.node(s.Node), &s.Request)
	live.record.Live = &Live{UID: "n1"}
	ahead := live.livePod(receiver, live.remoteEnd("milan"), "n1")
	if ahead.Annotations[api.AnnotationRemoteClaim] == "" {
		t.Fatal("a live pod mounts no claim of the provider")
	}
	for name, row := range map[string]struct {
		pod  *corev1.Pod
		user bool
	}{
		"a pod":                                           {plain(claimName, nil), true},
		"of another claim":                                {plain("other", nil), false},
		"of another namespace":                            {plain(claimName, func(pod *corev1.Pod) { pod.Namespace = "bank" }), false},
		"with the label of moves":                         {plain(claimName, func(pod *corev1.Pod) { pod.Labels = map[string]string{LabelMove: "u1", labelRole: sender} }), true},
		"in place of another claim":                       {plain("other", remote(claimName)), true},
		"that annotation about another claim":             {plain("other", remote("third")), false},
		"that annotation, and no such volume":             {plain("third", remote(claimName)), false},
		"the sender":                                      {mover(nil), false},
		"the receiver of a live move":                     {ahead, false},
		"a sender of another name":                        {mover(func(pod *corev1.Pod) { pod.Name = "liqo-move-u1-sender-2" }), true},
		"a sender of another volume":                      {mover(func(pod *corev1.Pod) { pod.Name, pod.Labels[LabelMove] = "liqo-move-u9-sender", "u9" }), true},
		"a sender that runs another program":              {mover(func(pod *corev1.Pod) { pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", "date > /data/x"} }), true},
		"a sender of another image":                       {mover(func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "shop/writer" }), true},
		"a sender of the image with which the move began": {mover(func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "volume-mover:v1" }), false},
		"a sender with a proxy": {mover(func(pod *corev1.Pod) {
			pod.Spec.Containers = append([]corev1.Container{{Name: "x"}}, pod.Spec.Containers...)
		}), false},
		"a sender with another container that reaches the volume": {mover(func(pod *corev1.Pod) {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "x", VolumeMounts: reach})
		}), true},
		"a sender that configures its network first": {mover(func(pod *corev1.Pod) { pod.Spec.InitContainers = []corev1.Container{{Name: "x"}} }), false},
		"a sender that runs something else first": {mover(func(pod *corev1.Pod) {
			pod.Spec.InitContainers = []corev1.Container{{Name: "x", VolumeMounts: reach}}
		}), true},
		"a sender with another device": {mover(func(pod *corev1.Pod) {
			pod.Spec.InitContainers = []corev1.Container{{Name: "x", VolumeDevices: []corev1.VolumeDevice{{Name: "data"}}}}
		}), true},
		"a sender that is debugged": {mover(func(pod *corev1.Pod) { pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{}} }), false},
		"a sender whose volume is debugged": {mover(func(pod *corev1.Pod) {
			pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{VolumeMounts: reach}}}
		}), true},
		"a sender with a hook":                {mover(func(pod *corev1.Pod) { pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{} }), true},
		"a sender with a probe":               {mover(func(pod *corev1.Pod) { pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{} }), true},
		"a sender whose processes others see": {mover(func(pod *corev1.Pod) { pod.Spec.ShareProcessNamespace = ptr.To(true) }), true},
		"a sender whose processes are debugged": {mover(func(pod *corev1.Pod) {
			pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{TargetContainerName: Container}}
		}), true},
		"a sender with a volume that another container fills": {mover(func(pod *corev1.Pod) {
			bin := corev1.VolumeMount{Name: "bin", MountPath: "/bin"}
			pod.Spec.InitContainers = []corev1.Container{{Name: "x", VolumeMounts: []corev1.VolumeMount{bin}}}
			pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, bin)
		}), true},
		"a sender without its container": {mover(func(pod *corev1.Pod) { pod.Spec.Containers[0].Name = "x" }), true},
	} {
		s.Pods = []corev1.Pod{*row.pod}
		if got := len(s.users(anywhere)) > 0; got != row.user {
			t.Errorf("%s: counts as a user: %t, want %t", name, got, row.user)
		}
	}
}

// TestPodsOfAMoveDeclineMeshes: in a namespace whose pods get a proxy, a pod of a move would not end, and its peers could not reach it.
func TestPodsOfAMoveDeclineMeshes(t *testing.T) {
	s := bound()
	m := &move{State: &s, source: &s.Volumes[0], record: newRecord(s.Claim, &s.Volumes[0], s.node(s.Node), &s.Request)}
	for _, pod := range []*corev1.Pod{m.storePod(), m.moverPod(sender, m.localEnd("u1"), "u3"), m.livePod(receiver, m.remoteEnd("milan"), "u2")} {
		for key, want := range map[string]string{"sidecar.istio.io/inject": "false", "kuma.io/sidecar-injection": "disabled"} {
			if pod.Labels[key] != want || pod.Annotations[key] != want {
				t.Errorf("%s: label %s=%q, annotation %q", pod.Name, key, pod.Labels[key], pod.Annotations[key])
			}
		}
		for key, want := range map[string]string{"linkerd.io/inject": "disabled", "consul.hashicorp.com/connect-inject": "false"} {
			if pod.Annotations[key] != want {
				t.Errorf("%s: annotation %s=%q", pod.Name, key, pod.Annotations[key])
			}
		}
		if pod.Labels[LabelMove] != "u1" || pod.Labels[labelRole] == "" {
			t.Errorf("%s has labels %v", pod.Name, pod.Labels)
		}
	}
}

// TestAPodHasEndedDespiteAProxy: the result is that of the container that copies data. One that a mesh has added runs on.
func TestAPodHasEndedDespiteAProxy(t *testing.T) {
	s := bound()
	m := &move{State: &s, source: &s.Volumes[0], record: newRecord(s.Claim, &s.Volumes[0], s.node(s.Node), &s.Request)}
	pod := m.moverPod(sender, m.localEnd("u1"), "u3")
	pod.Status.Phase = corev1.PodRunning
	proxy := corev1.ContainerStatus{Name: "istio-init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "ready"}}}
	own := corev1.ContainerStatus{Name: Container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: `{"checksum":"c"}`}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{proxy}
	if hasEnded(pod) {
		t.Error("the end of another container counts")
	}
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, own)
	if result, err := resultOf(pod); !hasEnded(pod) || err != nil || result.Checksum != "c" {
		t.Errorf("%+v, %v", result, err)
	}
	if pod.Status.ContainerStatuses[1].State.Terminated.ExitCode = 1; hasEnded(pod) {
		t.Error("a failed container counts")
	}
}
