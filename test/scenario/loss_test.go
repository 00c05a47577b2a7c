package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// loss: whatever happens to milan, to the connection, and to the objects in rome, the data in rome and in milan stays as it was written.
func loss(s *story.Story) {
	const ns = "loss"
	rome, milan, twin := s.Rome, s.Milan, story.Twin(ns)
	home := rome.Node()
	set := replicated(ns, "db", []string{home, "milan"})
	where, sums := map[string]string{}, map[string]string{}
	s.Step("a replica in rome and one in milan, each with a file of random data", func() {
		s.Offload(ns)
		s.Must(rome.Create(s.Context(), set))
		for _, pod := range s.PodsReady(rome, ns, 2, 2*start) {
			where[pod.Spec.NodeName] = pod.Name
			sums[pod.Name] = sum(s, ns, pod.Name, "dd if=/dev/urandom of=/data/file bs=64k count=64 2>/dev/null; sync; ")
		}
		if where[home] == "" || where["milan"] == "" || sums["db-0"] == sums["db-1"] {
			s.Fatalf("pods %v, checksums %v", where, sums)
		}
	})
	here, there := where[home], where["milan"]
	lost := "data-" + there
	intact := func() {
		s.Helper()
		reads(s, rome, ns, here, sums[here])
		reads(s, rome, ns, there, sums[there])
	}

	s.Step("rome is cut off from milan, and each reads its own", func() {
		s.Must(s.Partition(s.Context(), rome, milan))
		s.Cleanup(func() {
			if err := s.Heal(context.WithoutCancel(s.Context()), rome, milan); err != nil {
				s.Error(err)
			}
		})
		s.NodeReady("milan", false, notice)
		reads(s, rome, ns, here, sums[here])
		reads(s, milan, twin, there, sums[there])
	})
	s.Step("heal: rome reads both", func() {
		s.Must(s.Heal(s.Context(), rome, milan))
		s.NodeReady("milan", true, 40*time.Second)
		intact()
	})

	before := s.Pod(milan, twin, there)
	outage(s, milan, func() {})
	s.Step("milan is back: rome reads both", func() {
		s.Eventually(90*time.Second, "rome to show the container of "+there+" that milan has started", func(ctx context.Context) error {
			var now, shown corev1.Pod
			if err := milan.Get(ctx, client.ObjectKeyFromObject(before), &now); err != nil {
				return err
			}
			if err := rome.Get(ctx, client.ObjectKey{Namespace: ns, Name: there}, &shown); err != nil {
				return err
			}
			if slices.Equal(story.Containers(now), story.Containers(*before)) || !slices.Equal(story.Containers(now), story.Containers(shown)) || !story.Ready(shown) {
				return fmt.Errorf("containers %v before, %v in milan, %v in rome, Ready: %t", story.Containers(*before), story.Containers(now),
					story.Containers(shown), story.Ready(shown))
			}
			return nil
		})
		s.NodeReady("milan", true, time.Minute)
		intact()
	})

	bindings(s, ns)
	s.Step("each claim has one volume in rome and one in milan, and the data is as it was", func() {
		claims, volumes := claimed(s, rome, ns)
		if len(claims) != many+2 || !slices.Equal(claims, volumes) {
			s.Errorf("rome has the claims %v, and volumes of %v", claims, volumes)
		}
		claims = slices.DeleteFunc(claims, func(name string) bool { return name == "data-"+here })
		backing, volumes := claimed(s, milan, twin)
		if !slices.Equal(backing, claims) || !slices.Equal(volumes, claims) {
			s.Errorf("milan has the claims %v, and volumes of %v, want both of %v", backing, volumes, claims)
		}
		intact()
	})

	s.Step("node milan is deleted, and comes back with its pods and their data", func() {
		pod := *s.Pod(milan, twin, there)
		var node corev1.Node
		s.Must(rome.Get(s.Context(), key("milan"), &node))
		s.Must(rome.Delete(s.Context(), &node))
		s.Eventually(start, "another node milan", func(ctx context.Context) error {
			var now corev1.Node
			if err := rome.Get(ctx, key("milan"), &now); err != nil {
				return err
			}
			if now.UID == node.UID {
				return fmt.Errorf("deleted at %v, finalizers %v", now.DeletionTimestamp, now.Finalizers)
			}
			return nil
		})
		s.NodeReady("milan", true, start)
		intact()
		untouched(s, pod, *s.Pod(milan, twin, there))
	})

	s.Step("liqoctl unoffload refuses", func() {
		said, err := s.Liqoctl(s.Context(), "unoffload", "namespace", ns, "--kubeconfig", rome.Kubeconfig)
		if err == nil || !strings.Contains(said+err.Error(), lost) || !strings.Contains(said+err.Error(), "--delete-volumes") {
			s.Errorf("it says %q and ends with %v", said, err)
		}
		intact()
	})

	virtual := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace("milan"), Name: "milan"}}
	s.Step("the VirtualNode is deleted, and stays because of the data", func() {
		s.Must(rome.Delete(s.Context(), virtual))
		s.Eventually(start, "a condition about the claim", func(ctx context.Context) error {
			if err := rome.Get(ctx, client.ObjectKeyFromObject(virtual), virtual); err != nil {
				return err
			}
			for _, c := range virtual.Status.Conditions {
				if c.Reason == offloadingv1beta1.ReasonVolumesKept && strings.Contains(c.Message, ns+"/"+lost) && strings.Contains(c.Message, api.AnnotationDeleteVolumes) {
					return nil
				}
			}
			return fmt.Errorf("its conditions are %+v", virtual.Status.Conditions)
		})
		intact()
	})
	s.Step("without pods and claims it goes, and another one follows", func() {
		s.Must(rome.Delete(s.Context(), set))
		s.Must(rome.DeleteAllOf(s.Context(), &corev1.Pod{}, client.InNamespace(ns)))
		s.Must(rome.DeleteAllOf(s.Context(), &corev1.PersistentVolumeClaim{}, client.InNamespace(ns)))
		s.Eventually(time.Minute, "another VirtualNode", func(ctx context.Context) error {
			var now offloadingv1beta1.VirtualNode
			if err := rome.Get(ctx, client.ObjectKeyFromObject(virtual), &now); err != nil {
				return err
			}
			if now.UID == virtual.UID {
				return fmt.Errorf("its conditions are %+v", now.Status.Conditions)
			}
			return nil
		})
		s.NodeReady("milan", true, start)
		// The Deployment of the virtual kubelet is also a new one, without the revisions of earlier upgrades.
		s.Renewed(rome, "nodes milan", "liqo-tenant-milan/vk-milan")
	})
}

// many is the number of claims that are created at once.
const many = 8

// bindings creates many claims and their pods in milan, and kills the virtual kubelet when at least one of the claims is bound and others are not: half of the
// pods, whose claims are bound only with them, are created at the moment of the kill.
func bindings(s *story.Story, ns string) {
	s.Helper()
	rome := s.Rome
	virtualKubelet := s.Only(rome, api.TenantNamespace("milan"), client.MatchingLabels{api.LabelVirtualNode: "milan"})
	s.Step("the virtual kubelet is killed while claims are bound", func() {
		// Look up the processes in advance, so that they can be killed without delay.
		pids, err := playground.Processes(virtualKubelet)
		s.Must(err)
		var pods []*corev1.Pod
		for i := range many {
			name := fmt.Sprintf("many-%d", i)
			s.Must(rome.Create(s.Context(), claimFor(ns, name)))
			pods = append(pods, mounts(story.PodOn("milan", ns, name, playground.Shell, "sleep", "infinity"), name))
		}
		ctx, cancel := context.WithTimeout(s.Context(), 3*time.Minute)
		defer cancel()
		watch, err := rome.Set.CoreV1().PersistentVolumeClaims(ns).Watch(ctx, metav1.ListOptions{})
		s.Must(err)
		defer watch.Stop()
		created, kill := make(chan error, 1), make(chan struct{})
		go func() {
			for i, pod := range pods {
				if i == many/2 {
					select {
					case <-kill:
					case <-ctx.Done():
					}
				}
				if err := rome.Create(ctx, pod); err != nil {
					created <- err
					return
				}
			}
			created <- nil
		}()
		bound, killed := map[string]string{}, false
		for len(bound) < many {
			event, more := <-watch.ResultChan()
			claim, is := event.Object.(*corev1.PersistentVolumeClaim)
			if !more || !is {
				s.Fatalf("the watch of claims ended, %v are bound: %v", bound, event.Object)
			}
			if !strings.HasPrefix(claim.Name, "many-") || claim.Status.Phase != corev1.ClaimBound {
				continue
			}
			if bound[claim.Name] = claim.Spec.VolumeName; killed {
				continue
			}
			close(kill)
			s.Must(playground.Kill(pids...))
			killed = true
			pending := 0
			for i := range many {
				if claimOf(s, rome, ns, fmt.Sprintf("many-%d", i)).Status.Phase == corev1.ClaimPending {
					pending++
				}
			}
			fmt.Printf("             %s was bound, %d of %d claims were not\n", claim.Name, pending, many)
		}
		s.Must(<-created)
		s.PodsReady(rome, ns, many+2, 2*start)
		for name, volume := range bound {
			claim := claimOf(s, rome, ns, name)
			if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName != volume || volume != "pvc-"+string(claim.UID) {
				s.Errorf("claim %s (UID %s) is %s to volume %s, and was bound to %s", name, claim.UID, claim.Status.Phase, claim.Spec.VolumeName, volume)
			}
		}
		s.Eventually(start, "the virtual kubelet to be restarted once", func(context.Context) error {
			if n := story.Restarts(*s.Pod(rome, virtualKubelet.Namespace, virtualKubelet.Name)) - story.Restarts(*virtualKubelet); n != 1 {
				return fmt.Errorf("it was restarted %d times", n)
			}
			return nil
		})
	})
}

// claimed returns the names of the bound claims of a namespace, and the names of the claims that the volumes of the cluster are reserved for, both sorted.
func claimed(s *story.Story, c *playground.Cluster, namespace string) (claims, volumes []string) {
	s.Helper()
	var all corev1.PersistentVolumeClaimList
	s.Must(c.List(s.Context(), &all, client.InNamespace(namespace)))
	for _, claim := range all.Items {
		if claim.Status.Phase != corev1.ClaimBound {
			s.Errorf("claim %s of %s is %s", claim.Name, c.ID, claim.Status.Phase)
		}
		claims = append(claims, claim.Name)
	}
	var existing corev1.PersistentVolumeList
	s.Must(c.List(s.Context(), &existing))
	for _, volume := range existing.Items {
		if ref := volume.Spec.ClaimRef; ref != nil && ref.Namespace == namespace {
			volumes = append(volumes, ref.Name)
		}
	}
	slices.Sort(claims)
	slices.Sort(volumes)
	return claims, volumes
}

// reads waits until a command in a pod succeeds, and checks that its file is unchanged.
func reads(s *story.Story, c *playground.Cluster, namespace, pod, want string) {
	s.Helper()
	got := ""
	s.Eventually(start, fmt.Sprintf("pod %s of %s to tell the checksum of its file", pod, c.ID), func(context.Context) error {
		said, err := s.TryExec(c, namespace, pod, "sha256sum", "/data/file")
		if err != nil {
			return err
		}
		if said.Code != 0 || !strings.HasSuffix(said.Out, "  /data/file\n") {
			return fmt.Errorf("it says %+v", said)
		}
		got = strings.Fields(said.Out)[0]
		return nil
	})
	if got != want {
		s.Errorf("the file of pod %s of %s has checksum %s, want %s", pod, c.ID, got, want)
	}
}

// claimFor returns a claim of class liqo for a small volume that one node uses.
func claimFor(namespace, name string) *corev1.PersistentVolumeClaim {
	class := "liqo"
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")}},
		},
	}
}

// mounts adds claims to a pod. Each is mounted in a folder with its name.
func mounts(pod *corev1.Pod, claims ...string) *corev1.Pod {
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: claim, MountPath: "/" + claim})
	}
	return pod
}
