package examples

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

const (
	// many is the number of pods in a burst.
	many = 30
	// apart is the interval between the moments at which the virtual kubelet is killed.
	apart = 200 * time.Millisecond
	// delay is how much longer a burst may take if the virtual kubelet is killed.
	delay = 5 * time.Second
)

// burst: the virtual kubelet is killed while 30 pods are created, in each burst at another moment. All pods run, none runs twice, and the burst takes hardly
// longer than without.
func burst(s *story.Story) {
	b := &bursts{Story: s, ns: "burst"}
	s.Step("offload a namespace", func() { s.Offload(b.ns) })
	var quiet time.Duration
	s.Step("a burst that nobody disturbs", func() { quiet = b.run(nil) })
	for _, at := range moments(s, quiet) {
		s.Step(fmt.Sprintf("the virtual kubelet dies after %v", at), func() {
			late := b.run(&at) - quiet
			if late > delay { // repeat it, and compare with another undisturbed burst: the machine may have been slower for a moment
				late = min(late, b.run(&at)-b.run(nil))
			}
			if late > delay {
				s.Errorf("killed after %v, the burst ends %v later than without: more than %v", at, late, delay)
			}
		})
	}
}

// moments returns the times after the start of a burst at which the virtual kubelet is killed: one random time during the creation, reflection or start of the
// pods, or all requested times.
func moments(s *story.Story, quiet time.Duration) (all []time.Duration) {
	s.Helper()
	if *kills == "" {
		return []time.Duration{rand.N(quiet).Round(time.Millisecond)}
	}
	from, to, _ := strings.Cut(*kills, "-")
	first, err := time.ParseDuration(from)
	s.Must(err)
	last, err := time.ParseDuration(to)
	s.Must(err)
	for at := first; at < min(last, quiet); at += apart {
		all = append(all, at)
	}
	return all
}

// bursts runs bursts one after the other in one namespace.
type bursts struct {
	*story.Story
	ns     string
	number int
}

// run creates 30 pods, kills the virtual kubelet after that time, and returns how long it took until all pods were Ready in rome. It then deletes the pods.
func (b *bursts) run(kill *time.Duration) time.Duration {
	b.Helper()
	b.number++
	name, twin := fmt.Sprintf("burst-%d", b.number), story.Twin(b.ns)
	here, there := b.Record(b.Rome, b.ns), b.Record(b.Milan, twin)
	defer here.End()
	defer there.End()
	kubelet := b.kubelet()
	pids, err := playground.Processes(kubelet)
	b.Must(err)

	began := time.Now()
	b.Must(b.Rome.Create(b.Context(), story.DeploymentOn("milan", b.ns, name, many, playground.TestServer)))
	if kill != nil {
		select {
		case <-b.Context().Done():
		case <-time.After(time.Until(began.Add(*kill))):
		}
		b.Must(playground.Kill(pids...))
		pods, started := there.SoFar()
		fmt.Printf("             milan had %d pods, %d containers had started\n", pods, started)
	}
	b.PodsReady(b.Rome, b.ns, many, 2*time.Minute)
	took := time.Since(began)
	fmt.Printf("             all Ready after %.1f s\n", took.Seconds())

	b.Eventually(start, "rome to show what runs in milan", func(ctx) error { return shows(b.Pods(b.Rome, b.ns), b.Pods(b.Milan, twin)) })
	for c, seen := range map[*playground.Cluster]*story.Recorder{b.Rome: here, b.Milan: there} {
		if names := seen.Pods(); len(names) != many || len(slices.Compact(names)) != many {
			b.Errorf("%s has seen %d pods, want each of %d once", c.ID, len(names), many)
		}
		if n := seen.Started(); n != many {
			b.Errorf("%s has seen %d containers start, want %d", c.ID, n, many)
		}
	}
	for _, pod := range b.Pods(b.Rome, b.ns) {
		if n := story.Restarts(pod); n != 0 {
			b.Errorf("rome's pod %s counts %d restarts", pod.Name, n)
		}
	}
	b.Must(b.Rome.Set.AppsV1().Deployments(b.ns).Delete(b.Context(), name, metav1.DeleteOptions{}))
	b.PodsReady(b.Rome, b.ns, 0, start)
	b.PodsReady(b.Milan, twin, 0, start)
	if kill != nil {
		b.renew(kubelet)
	}
	return took
}

// kubelet returns the pod of the virtual kubelet.
func (b *bursts) kubelet() *corev1.Pod {
	b.Helper()
	return b.Only(b.Rome, api.TenantNamespace("milan"), client.MatchingLabels{api.LabelVirtualNode: "milan"})
}

// renew replaces the pod of the virtual kubelet. Kubernetes increases the delay with each restart of a container, which would affect the next burst.
func (b *bursts) renew(old *corev1.Pod) {
	b.Helper()
	if now := b.Pod(b.Rome, old.Namespace, old.Name); story.Restarts(*now) != story.Restarts(*old)+1 {
		b.Errorf("the virtual kubelet was restarted %d times, want once", story.Restarts(*now)-story.Restarts(*old))
	}
	b.Must(b.Rome.Delete(b.Context(), old))
	b.Gone(b.Rome, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, Name: old.Name}}, start)
	b.Eventually(start, "another virtual kubelet to be Ready", func(ctx ctx) error {
		pods, err := b.TryPods(ctx, b.Rome, old.Namespace)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Labels[api.LabelVirtualNode] == "milan" && story.Ready(p) }) {
			return fmt.Errorf("the pods are %v", story.Names(pods))
		}
		return nil
	})
	b.NodeReady("milan", true, start)
}
