package move

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/test/podtest"
)

// TestChecksRunBeforeTheFirstChange: at each end, a pod like those of the move has to end well before the record of the move is written.
func TestChecksRunBeforeTheFirstChange(t *testing.T) {
	s := bound(func(s *State) {
		s.Volumes, s.Image = []corev1.PersistentVolume{virtual("pvc-u1", "naples")}, "volume-mover:v1"
	})
	ended := s.Pods
	if step := Next(s); step.Err != nil || step.Action != Patch {
		t.Errorf("the checks have ended: %+v", step)
	}
	s.Pods = nil
	for _, node := range []string{"naples", "milan"} {
		step := Next(s)
		pod, ok := step.Object.(*corev1.Pod)
		if !ok || step.Action != Create || pod.Spec.NodeName != node || len(pod.Spec.Volumes) > 0 || pod.OwnerReferences[0].UID != s.Claim.UID {
			t.Fatalf("%s: %+v", node, step)
		}
		mover := s.begun().moverPod(receiver, end{}, "")
		if got, want := pod.Spec.Containers[0].SecurityContext, mover.Spec.Containers[0].SecurityContext; *got.RunAsUser != *want.RunAsUser || *got.AllowPrivilegeEscalation {
			t.Errorf("the check has %+v, the pods that copy data %+v", got, want)
		}
		pod.Status.Phase = corev1.PodSucceeded
		s.Pods = append(s.Pods, *pod)
	}
	for name, row := range map[string]struct {
		change func(*corev1.Pod)
		action Action
		err    string
		late   string
	}{
		"refused": {func(pod *corev1.Pod) {
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Reason: offloadingv1beta1.PodOffloadingBackOff, Message: "runAsUser 0 is refused by the provider"}
		}, Delete, "runAsUser 0 is refused by the provider. Nothing was changed", ""},
		"failed": {func(pod *corev1.Pod) { pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Message: "evicted"} }, Delete, "evicted. Nothing was changed", ""},
		"of another image": {func(pod *corev1.Pod) {
			pod.Annotations[annotationImage], pod.Status.Phase = "volume-mover:v0", corev1.PodPending
		}, Delete, "", ""},
		"of another target": {func(pod *corev1.Pod) { pod.Annotations[annotationNode] = "milan-2" }, Delete, "", ""},
		"pending":           {func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodPending }, Nothing, "", "involvedObject.name=liqo-move-u1-check-target"},
	} {
		s.Pods = []corev1.Pod{*ended[0].DeepCopy(), *ended[1].DeepCopy()}
		row.change(&s.Pods[1])
		step := Next(s)
		if step.Action != row.action || !has(step.Err, row.err) || !has(step.Late, row.late) || (step.Late != nil || step.Err != nil) != (step.Unused != nil) {
			t.Errorf("%s: %+v", name, step)
		}
	}
	s.Node = "naples"
	if step := Next(s); step.Action != Delete || step.Object.GetLabels()[labelRole] != checkSource {
		t.Errorf("the data is there already: %+v", step)
	}
}

// TestACopyHasAtLeastTheSizeOfTheOldVolume: a volume may be larger than its claim requests, and the copy may need that. The request of the claim stays.
func TestACopyHasAtLeastTheSizeOfTheOldVolume(t *testing.T) {
	for name, s := range map[string]State{"stopped": bound(larger), "live": running(larger)} {
		m := s.begun()
		if m.ahead() {
			m.record.Live.Owner = Owner{Kind: deployment, Name: "db"}
		}
		if m.record.Capacity != "5Gi" || m.capacity() != "5Gi" {
			t.Errorf("%s: the record has %q", name, m.record.Capacity)
		}
		request := m.held().Spec.Resources.Requests[corev1.ResourceStorage]
		if request.String() != "1Gi" {
			t.Errorf("%s: the claim requests %s", name, request.String())
		}
		source, err := noted(m.source, m.record)
		if err != nil {
			t.Fatal(err)
		}
		got := m.held().Annotations[storage.AnnotationCapacity]
		if m.ahead() {
			s.Volumes, s.Pods = []corev1.PersistentVolume{*source}, s.Pods[:1]
			s.protect()
			vouch(&s, "milan", nil)
			step := Next(s)
			if step.Object == nil {
				t.Fatalf("%+v", step)
			}
			got = step.Object.GetAnnotations()[storage.AnnotationCapacity]
		}
		if got != "5Gi" {
			t.Errorf("%s: the backing claim gets %q", name, got)
		}
	}
	s := bound(func(s *State) { s.Volumes[0].Spec.Capacity = s.Claim.Spec.Resources.Requests })
	if m := s.begun(); m.record.Capacity != "" || m.held().Annotations[storage.AnnotationCapacity] != "" || m.capacity() != "1Gi" {
		t.Errorf("the claim requests what it has: %+v", m.record)
	}
}

// larger gives the old volume more than its claim requests.
func larger(s *State) {
	s.Volumes[0].Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}
}

func has(err error, part string) bool {
	if part == "" {
		return err == nil
	}
	return err != nil && strings.Contains(err.Error(), part)
}

// TestRehearsedObjects: the dry run covers each object that the move will create in this cluster, with the namespaces that they will have.
func TestRehearsedObjects(t *testing.T) {
	list := func(objects []storage.Object) (out []string) {
		for _, obj := range objects {
			out = append(out, obj.GetNamespace()+"/"+obj.GetName())
		}
		return out
	}
	want := "shop/liqo-move-u1 shop/liqo-move-u1 shop/liqo-move-u1-store liqo-storage/liqo-move-u1-sender shop/liqo-move-u1-receiver liqo-storage/liqo-move-u1 shop/liqo-move-u1"
	for name, s := range map[string]State{"stopped": bound(), "live": running()} {
		if got := strings.Join(list(s.Rehearsed()), " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for name, s := range map[string]State{
		"no claim": bound(func(s *State) { s.Claim = nil }), "there already": bound(func(s *State) { s.Node = "n1" }),
		"begun": bound(func(s *State) { s.Volumes[0].Annotations[storage.AnnotationMove] = "{}" }),
	} {
		if got := list(s.Rehearsed()); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestPodsMeetPodSecurityExceptForRoot: everything that level restricted requires and that a pod can have that reads the files of all users. They create no
// devices from the data of another cluster, and have no token.
func TestPodsMeetPodSecurityExceptForRoot(t *testing.T) {
	allowed := map[string]string{
		Container + " may be root":         "only root reads the files of all users and sets their owners",
		Container + " has no memory limit": "the user chooses it (--containers-ram-limits), because the copy of many files needs much memory",
	}
	for _, capability := range []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP"} {
		allowed[Container+" adds "+capability] = "root reads the files of all users and restores their metadata by it"
	}
	s := bound()
	m := s.begun()
	for _, pod := range append(append(m.checks(s.node("milan")), m.checks(s.node("n2"))...), m.storePod(), m.moverPod(sender, m.localEnd("u1"), ""), m.livePod(receiver, m.remoteEnd("milan"), "")) {
		podtest.Check(t, pod.Name, &pod.Spec, allowed)
	}
}
