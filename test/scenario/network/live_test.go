package network

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// The claim and the StatefulSet of a pod that writes while its volume moves.
const (
	writer      = "writer"
	writerPod   = "writer-0"
	writerClaim = "data-writer-0"
)

// maxAway is the part of a live move for which there may be no pod. The time itself depends on the machine and on what else it does: docs/performance.md has it for
// the reference machine.
const maxAway = 1. / 3

// appendLines appends numbered lines to a file, and prints each line once it is on the disk. A new pod continues where the previous one ended. It first prints
// how many lines it has found.
const appendLines = `trap 'exit 0' TERM; touch /data/lines; i=$(wc -l < /data/lines); echo "found $i"
while :; do i=$((i + 1)); echo "$i" >> /data/lines && sync /data/lines && echo "wrote $i"; sleep 0.05; done`

// presence records when pods were created and deleted, as a watch reports it.
type presence struct {
	mu            sync.Mutex
	created, gone []time.Time
}

func (p *presence) watch(s *story.Story) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	s.Cleanup(cancel)
	factory := informers.NewSharedInformerFactoryWithOptions(s.Rome.Set, 0, informers.WithNamespace(moved))
	note := func(object any, at *[]time.Time) {
		if pod, is := object.(*corev1.Pod); is && pod.Name == writerPod {
			p.mu.Lock()
			defer p.mu.Unlock()
			*at = append(*at, time.Now())
		}
	}
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { note(object, &p.created) }, DeleteFunc: func(object any) { note(object, &p.gone) },
	})
	s.Must(err)
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		s.Fatal("watching pods: the story ended first")
	}
}

// away returns how long there was no pod after n moves.
func (p *presence) away(n int) (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.gone) != n || len(p.created) != n+1 {
		return 0, fmt.Errorf("the pod was created %d times and deleted %d times in %d moves", len(p.created), len(p.gone), n)
	}
	return p.created[n].Sub(p.gone[n-1]), nil
}

// liveMove: an application writes while its volume moves to milan and back. It is away for some seconds and finds each line that it wrote. Nothing of the moves
// is left.
func liveMove(s *story.Story) {
	rome := s.Rome
	pods := &presence{}
	var last int
	s.Step("a pod of rome writes", func() {
		s.Offload(moved)
		s.Must(rome.Create(s.Context(), writing(rome.Worker(2))))
		pods.watch(s)
		s.PodReady(rome, moved, writerPod, 2*start)
	})
	s.Step("a pod without an owner is not stopped", func() {
		pod := story.PodOn(rome.Worker(2), moved, "shell", playground.Shell, "sleep", "infinity")
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: writerClaim},
		}}}
		s.Must(rome.Create(s.Context(), pod))
		said, err := liveMoving(s, "milan")
		if err == nil || !strings.Contains(said, "pod shell in namespace "+moved) {
			s.Errorf("it says %q and ends with %v", said, err)
		}
		end(s)
	})
	for n := range 2 {
		target := []string{"milan", rome.Worker(2)}[n%2]
		s.Step("it moves to "+target+" while the pod writes", func() {
			lines, stop := s.LogStream(rome, moved, writerPod)
			defer stop()
			wrote := make(chan int, 1)
			go func() {
				most := 0
				for lines.Scan() {
					var number int
					if _, err := fmt.Sscanf(lines.Text(), "wrote %d", &number); err == nil {
						most = max(most, number)
					}
				}
				wrote <- most
			}()
			began := time.Now()
			said, err := liveMoving(s, target)
			if err != nil {
				s.Fatalf("%v:\n%s", err, said)
			}
			took := time.Since(began)
			stop()
			most := <-wrote
			s.PodReady(rome, moved, writerPod, 2*start)
			away, err := pods.away(n + 1)
			s.Must(err)
			if away.Seconds() > maxAway*took.Seconds() {
				s.Errorf("there was no pod for %v of the %v of the move, want at most a third:\n%s", away, took, said)
			}
			found := -1
			s.Follow(rome, moved, writerPod, start, func(line string) bool {
				_, err := fmt.Sscanf(line, "found %d", &found)
				return err == nil
			})
			if most <= last || found < most {
				s.Errorf("the pod has written %d lines, after %d before the move, and found %d of them at %s", most, last, found, target)
			}
			last = found
			s.Logf("the move took %.1f s; for %.1f s of them there was no pod; %d lines were acknowledged and %d found", took.Seconds(), away.Seconds(), most, found)
		})
		s.Step("each line is there, the pod runs there, and nothing is left", func() { complete(s, target, last) })
	}
	s.Step("the end", func() {
		s.Must(rome.Delete(s.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: moved, Name: writer}}))
		s.Gone(rome, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: moved, Name: writerPod}}, start)
		s.Must(rome.Delete(s.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: moved, Name: writerClaim}}))
	})
}

// liveMoving runs liqoctl move volume --live.
func liveMoving(s *story.Story, target string) (string, error) {
	return s.Liqoctl(s.Context(), "move", "volume", writerClaim, "--namespace", moved, "--target-node", target, "--live", "--kubeconfig", s.Rome.Kubeconfig,
		"--timeout", "3m", "-o", "json")
}

// writing returns a StatefulSet whose pod first runs on that node, and may run in milan.
func writing(node string) *appsv1.StatefulSet {
	class, one := "liqo", int32(1)
	pod := story.PodOn("", moved, writer, playground.Shell, "sh", "-c", appendLines)
	grace := int64(5)
	pod.Spec.NodeSelector, pod.Spec.TerminationGracePeriodSeconds = nil, &grace
	hosts := func(names ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: names}}}
	}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{hosts(node, "milan")}},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: hosts(node)}},
	}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: moved, Name: writer},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &one, ServiceName: writer, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
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

// complete fails unless the file has each line once and in order, the pod runs in the cluster with the data, and nothing of the move is left.
func complete(s *story.Story, target string, found int) {
	s.Helper()
	said := s.Exec(s.Rome, story.WebSocket, moved, writerPod, "", "awk", `NR != $1 { bad++ } END { print NR, bad + 0 }`, "/data/lines")
	var lines, bad int
	if _, err := fmt.Sscanf(said.Out, "%d %d", &lines, &bad); err != nil || bad > 0 || lines < found {
		s.Errorf("of %d lines found, the file has %d, %d of them wrong: %+v", found, lines, bad, said)
	}
	if node := s.Pod(s.Rome, moved, writerPod).Spec.NodeName; node != target {
		s.Errorf("the pod runs on %s, want %s", node, target)
	}
	var set appsv1.StatefulSet
	s.Must(s.Rome.Get(s.Context(), client.ObjectKey{Namespace: moved, Name: writer}, &set))
	if *set.Spec.Replicas != 1 || len(set.Annotations) > 0 {
		s.Errorf("the StatefulSet has %d replicas and annotations %v", *set.Spec.Replicas, set.Annotations)
	}
	for _, c := range s.Clusters() {
		namespace, want := story.Twin(moved), []string{}
		if c == s.Rome {
			namespace = "liqo-storage"
		}
		if c.ID == target || c == s.Rome && target == s.Rome.Worker(2) {
			want = append(want, writerClaim)
		}
		var claims corev1.PersistentVolumeClaimList
		s.Must(c.List(s.Context(), &claims, client.InNamespace(namespace)))
		got := []string{}
		for _, claim := range claims.Items {
			got = append(got, claim.Annotations["storage.liqo.io/virtual-pvc-name"])
		}
		if !slices.Equal(got, want) {
			s.Errorf("%s has the data of claims %q in %s, want %q", c.ID, got, namespace, want)
		}
	}
	var volumes corev1.PersistentVolumeList
	s.Must(s.Rome.List(s.Context(), &volumes, client.MatchingLabels{"storage.liqo.io/virtual-volume": api.True}))
	if len(volumes.Items) != 1 || volumes.Items[0].Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		s.Errorf("volumes %+v, want one", volumes.Items)
	}
}
