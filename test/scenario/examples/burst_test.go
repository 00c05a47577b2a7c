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
	// many pods are a burst.
	many = 30
	// apart are the moments at which the virtual kubelet is killed.
	apart = 200 * time.Millisecond
	// delay is what its death may cost the burst.
	delay = 5 * time.Second
)

// burst: the virtual kubelet dies while 30 pods are made, at one moment after the other. All of them run, none twice, and it is hardly later
// than without.
func burst(s *story.Story) {
	b := &bursts{Story: s, ns: "burst"}
	s.Step("offload a namespace", func() { s.Offload(b.ns) })
	var quiet time.Duration
	s.Step("a burst that nobody disturbs", func() { quiet = b.run(nil) })
	for _, at := range moments(s, quiet) {
		s.Step(fmt.Sprintf("the virtual kubelet dies after %v", at), func() {
			late := b.run(&at) - quiet
			if late > delay { // once more, beside one that nobody disturbs: this machine may have been slower for a moment
				late = min(late, b.run(&at)-b.run(nil))
			}
			if late > delay {
				s.Errorf("killed after %v, the burst ends %v later than without: more than %v", at, late, delay)
			}
		})
	}
}

// moments are when the virtual kubelet is killed: any one of a burst, in which pods are made, are reflected, and come to life. Or all those that were asked
// for.
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

// bursts are told one after the other in one namespace.
type bursts struct {
	*story.Story
	ns     string
	number int
}

// run makes 30 pods, kills the virtual kubelet at that moment, and returns how long it took until rome showed all of them Ready. It leaves
// nothing behind.
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

// kubelet is the virtual kubelet's pod.
func (b *bursts) kubelet() *corev1.Pod {
	b.Helper()
	return b.Only(b.Rome, api.TenantNamespace("milan"), client.MatchingLabels{api.LabelVirtualNode: "milan"})
}

// renew replaces the virtual kubelet's pod: Kubernetes makes a container wait longer each time before it starts it again, and that is not what
// the next burst is about.
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
