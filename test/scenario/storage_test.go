package scenario

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// storageNamespace holds the claims with the data of claims whose pods are on rome's own nodes.
const storageNamespace = "liqo-storage"

// data: each replica of a StatefulSet has its volume in the cluster where it runs, and has the same volume after a restart. The volume is deleted only when a
// user in rome deletes it.
func data(s *story.Story) {
	const ns = "data"
	rome, milan, twin := s.Rome, s.Milan, story.Twin(ns)
	nodes := []string{rome.Node(), "milan"}
	set := replicated(ns, "db", nodes)
	s.Step("a replica on each cluster, each with a volume of class liqo", func() {
		s.Offload(ns)
		s.Must(rome.Create(s.Context(), set))
		s.PodsReady(rome, ns, 2, 2*start)
	})
	where, sums := map[string]string{}, map[string]string{}
	s.Step("both write, and their data is where they are", func() {
		for _, pod := range s.Pods(rome, ns) {
			where[pod.Spec.NodeName] = pod.Name
			sums[pod.Name] = sum(s, ns, pod.Name, "dd if=/dev/urandom of=/data/file bs=64k count=64 2>/dev/null; sync; ")
		}
		if where[nodes[0]] == "" || where[nodes[1]] == "" || sums["db-0"] == sums["db-1"] {
			s.Fatalf("pods %v, checksums %v", where, sums)
		}
		for node, pod := range where {
			claim := claimOf(s, rome, ns, "data-"+pod)
			at, namespace, name := rome, storageNamespace, string(claim.UID)
			if node == "milan" {
				at, namespace, name = milan, twin, claim.Name
			}
			backing := claimOf(s, at, namespace, name)
			if claim.Status.Phase != corev1.ClaimBound || backing.Status.Phase != corev1.ClaimBound || *backing.Spec.StorageClassName != "standard" {
				s.Errorf("claim %s %s, in %s %s of class %s", claim.Name, claim.Status.Phase, at.ID, backing.Status.Phase, *backing.Spec.StorageClassName)
			}
		}
	})
	s.Step("they restart where their data is, and find it", func() {
		for _, pod := range s.Pods(rome, ns) {
			s.Must(rome.Delete(s.Context(), &pod))
			s.Eventually(start, "another "+pod.Name+" to be Ready", func(ctx) error {
				var now corev1.Pod
				if err := rome.Get(s.Context(), client.ObjectKeyFromObject(&pod), &now); err != nil {
					return err
				}
				if now.UID == pod.UID || !story.Ready(now) {
					return fmt.Errorf("phase %s, conditions %v", now.Status.Phase, now.Status.Conditions)
				}
				return nil
			})
		}
		for node, name := range where {
			if now := s.Pod(rome, ns, name).Spec.NodeName; now != node {
				s.Errorf("%s was on %s and is on %s", name, node, now)
			}
			if now := sum(s, ns, name, ""); now != sums[name] {
				s.Errorf("the data of %s has checksum %s, want %s", name, now, sums[name])
			}
		}
	})
	lost := "data-" + where["milan"]
	s.Step("liqoctl unoffload names the claim in milan and changes nothing", func() {
		said, err := s.Liqoctl(s.Context(), "unoffload", "namespace", ns, "--kubeconfig", rome.Kubeconfig)
		if err == nil || !strings.Contains(said+err.Error(), lost) || !strings.Contains(said+err.Error(), "--delete-volumes") || strings.Contains(said+err.Error(), "data-"+where[nodes[0]]) {
			s.Errorf("it says %q and ends with %v", said, err)
		}
	})
	s.Step("kubectl delete of the NamespaceOffloading waits, and says for what", func() {
		offloading := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: offloadingv1beta1.NamespaceOffloadingName}}
		s.Must(rome.Delete(s.Context(), offloading))
		s.Eventually(start, "a condition about the claim", func(ctx) error {
			if err := rome.Get(s.Context(), client.ObjectKeyFromObject(offloading), offloading); err != nil {
				return err
			}
			for _, c := range offloading.Status.RemoteNamespacesConditions["milan"] {
				if c.Reason == offloadingv1beta1.ReasonVolumesKept && strings.Contains(c.Message, ns+"/"+lost) && strings.Contains(c.Message, api.AnnotationDeleteVolumes) {
					return nil
				}
			}
			return fmt.Errorf("conditions %+v", offloading.Status.RemoteNamespacesConditions)
		})
		if now := sum(s, ns, where["milan"], ""); now != sums[where["milan"]] {
			s.Errorf("the data in milan has checksum %s, want %s", now, sums[where["milan"]])
		}
	})
	s.Step("with --delete-volumes the data in milan is gone, and that in rome is not", func() {
		s.Must(rome.Delete(s.Context(), set, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		s.PodsReady(rome, ns, 0, start)
		_, err := s.Liqoctl(s.Context(), "unoffload", "namespace", ns, "--delete-volumes", "--kubeconfig", rome.Kubeconfig)
		s.Must(err)
		s.Gone(milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: twin}}, start)
		stays := claimOf(s, rome, ns, "data-"+where[nodes[0]])
		claimOf(s, rome, storageNamespace, string(stays.UID))
	})
	s.Step("a deleted claim leaves nothing", func() {
		s.Must(rome.DeleteAllOf(s.Context(), &corev1.PersistentVolumeClaim{}, client.InNamespace(ns)))
		s.Eventually(start, "no volume of Liqo to be left", func(ctx) error {
			var volumes corev1.PersistentVolumeList
			if err := rome.List(s.Context(), &volumes, client.MatchingLabels{"storage.liqo.io/virtual-volume": api.True}); err != nil {
				return err
			}
			for _, v := range volumes.Items {
				if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.Namespace == ns {
					return fmt.Errorf("%s of claim %s is %s", v.Name, v.Spec.ClaimRef.Name, v.Status.Phase)
				}
			}
			return nil
		})
	})
}

// replicated returns a StatefulSet with one replica on each of these nodes, each with a volume of class liqo.
func replicated(namespace, name string, nodes []string) *appsv1.StatefulSet {
	class, replicas := "liqo", int32(len(nodes))
	pod := story.PodOn("", namespace, name, playground.Shell, "sleep", "infinity")
	pod.Spec.NodeSelector = nil
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes},
		}}},
	}}}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")}},
				},
			}},
		},
	}
}

// sum runs a command in the shell of a pod of rome, and then returns the checksum of the file in its volume.
func sum(s *story.Story, namespace, pod, before string) string {
	s.Helper()
	said := s.Exec(s.Rome, story.WebSocket, namespace, pod, "", "sh", "-c", before+"sha256sum /data/file")
	if said.Code != 0 || !strings.HasSuffix(said.Out, "  /data/file\n") {
		s.Fatalf("the checksum of %s: %+v", pod, said)
	}
	return strings.Fields(said.Out)[0]
}

// claimOf reads a claim.
func claimOf(s *story.Story, c *playground.Cluster, namespace, name string) *corev1.PersistentVolumeClaim {
	s.Helper()
	var claim corev1.PersistentVolumeClaim
	s.Must(c.Get(s.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &claim))
	return &claim
}
