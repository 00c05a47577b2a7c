package examples

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

const (
	// notice is how long rome may take to detect that milan is unreachable, back how long to detect that it is reachable again, and agree how long both may
	// then take to have the same state.
	notice, back, agree = 40 * time.Second, 10 * time.Second, 10 * time.Second
	// steady is the number of pods that stay unchanged, visitors the number of those that are created and deleted.
	steady, visitors = 4, 6
)

// partition: the clusters are cut off from each other while pods and Services are created and deleted in rome, and pods are deleted in milan. Afterwards both
// clusters have the state that rome wants, and no pod was lost, duplicated or restarted.
func partition(s *story.Story) {
	const ns = "churn"
	rome, milan, twin := s.Rome, s.Milan, story.Twin(ns)
	c := &churn{Story: s, ns: ns, lost: map[string]int{}}
	s.Step("pods and Services in milan", func() {
		s.Offload(ns)
		s.Must(rome.Create(s.Context(), story.DeploymentOn("milan", ns, "steady", steady, playground.TestServer)))
		for range visitors {
			c.arrive()
		}
		for i := range 2 {
			s.Must(rome.Create(s.Context(), story.PodOn("milan", ns, fmt.Sprintf("clumsy-%d", i), playground.TestServer)))
		}
		s.PodsReady(rome, ns, steady+visitors+2, start)
	})
	inRome, inMilan := uids(s.Pods(rome, ns)), s.Pods(milan, twin)
	here, there := s.Record(rome, ns), s.Record(milan, twin)

	var noticed time.Duration
	s.Step(fmt.Sprintf("cut apart for %v, with churn on both sides", *cut), func() {
		s.Must(s.Partition(s.Context(), rome, milan))
		s.Cleanup(func() {
			// The story's own context has ended by now.
			if err := s.Heal(context.WithoutCancel(s.Context()), rome, milan); err != nil {
				s.Error(err)
			}
		})
		began := time.Now()
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for time.Since(began) < *cut {
			if c.leave(); len(c.present) < visitors {
				c.arrive()
			}
			c.lose(milan, twin)
			if noticed == 0 && !c.ready("milan") {
				noticed = time.Since(began)
			}
			if noticed == 0 && time.Since(began) > notice {
				s.Fatalf("rome has not noticed within %v", notice)
			}
			select {
			case <-s.Context().Done():
			case <-tick.C:
			}
		}
		fmt.Printf("             node milan turned NotReady after %.0f s; %d pods came, %d went, milan lost %d\n", noticed.Seconds(), c.number-visitors,
			c.number-len(c.present), sum(c.lost))
	})

	s.Step("heal: node milan is Ready again", func() {
		s.Must(s.Heal(s.Context(), rome, milan))
		fmt.Printf("             after %.1f s\n", s.NodeReady("milan", true, back).Seconds())
	})
	s.Step("both agree", func() {
		s.Eventually(agree, "milan to have rome's pods and Services", func(ctx ctx) error {
			return cmp.Or(samePods(s.Pods(rome, ns), s.Pods(milan, twin)), sameServices(ctx, s, ns))
		})
	})
	s.Step("all that milan lost runs again, and rome shows it", func() {
		// A pod that was deleted in milan just before may take as long to start as any other.
		s.Eventually(start, "rome to show what runs in milan", func(ctx) error { return shows(s.Pods(rome, ns), s.Pods(milan, twin)) })
	})

	s.Step("nothing was lost, doubled or restarted", func() {
		now := uids(s.Pods(rome, ns))
		want := append(slices.Clone(c.present), "clumsy-0", "clumsy-1")
		for name := range now {
			if inRome[name] != "" && inRome[name] != now[name] {
				s.Errorf("rome's pod %s had the UID %s and has %s", name, inRome[name], now[name])
			}
		}
		for _, name := range want {
			if now[name] == "" {
				s.Errorf("rome has lost pod %s", name)
			}
		}
		if len(now) != len(want)+steady {
			s.Errorf("rome has the pods %v, want %v and %d steady ones", slices.Sorted(maps.Keys(now)), want, steady)
		}
		for _, before := range inMilan {
			if before.Labels["app"] == "steady" {
				untouched(s, before, *s.Pod(milan, twin, before.Name))
			}
		}
		// Each pod existed once in rome. In milan it existed once, and once more for each time it was deleted there.
		for _, name := range repeated(here.Pods()) {
			s.Errorf("rome has had pod %s twice", name)
		}
		times := counts(there.Pods())
		for name, n := range times {
			if n > 1+c.lost[name] {
				s.Errorf("milan has had pod %s %d times, though it lost it %d times", name, n, c.lost[name])
			}
		}
		for _, pod := range s.Pods(milan, twin) {
			if n := story.Restarts(pod); n != 0 {
				s.Errorf("milan's pod %s was restarted %d times", pod.Name, n)
			}
		}
		for _, pod := range s.Pods(rome, ns) { // a pod that was deleted in milan was started again, which rome shows as a restart
			if n := story.Restarts(pod); n > int32(c.lost[pod.Name]) {
				s.Errorf("rome's pod %s counts %d restarts, milan lost it %d times", pod.Name, n, c.lost[pod.Name])
			}
		}
	})
}

// churn creates and deletes pods.
type churn struct {
	*story.Story
	ns string
	// present are the existing visitors, number is how many have been created.
	present []string
	number  int
	// lost counts how often each pod was deleted in milan.
	lost map[string]int
}

// arrive creates a pod for milan, with a Service.
func (c *churn) arrive() {
	c.Helper()
	name := fmt.Sprintf("visitor-%03d", c.number)
	c.number++
	c.present = append(c.present, name)
	c.Must(c.Rome.Create(c.Context(), story.PodOn("milan", c.ns, name, playground.TestServer)))
	c.Must(c.Rome.Create(c.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 8080}}},
	}))
}

// leave deletes the oldest visitor.
func (c *churn) leave() {
	c.Helper()
	name := c.present[0]
	c.present = c.present[1:]
	meta := metav1.ObjectMeta{Namespace: c.ns, Name: name}
	c.Must(c.Rome.Delete(c.Context(), &corev1.Pod{ObjectMeta: meta}))
	c.Must(c.Rome.Delete(c.Context(), &corev1.Service{ObjectMeta: meta}))
}

// lose deletes a running pod in milan that is not steady. Its ShadowPod recreates it.
func (c *churn) lose(milan *playground.Cluster, twin string) {
	c.Helper()
	pods := slices.DeleteFunc(c.Pods(milan, twin), func(p corev1.Pod) bool { return p.Labels["app"] == "steady" || !story.Ready(p) })
	if len(pods) == 0 {
		return
	}
	pod := pods[sum(c.lost)%len(pods)]
	if err := milan.Delete(c.Context(), &pod); !apierrors.IsNotFound(err) {
		c.Must(err)
		c.lost[pod.Name]++
	}
}

// ready reports whether rome's node is Ready.
func (c *churn) ready(name string) bool {
	c.Helper()
	node, err := c.Rome.Set.CoreV1().Nodes().Get(c.Context(), name, metav1.GetOptions{})
	c.Must(err)
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func uids(pods []corev1.Pod) map[string]types.UID {
	found := map[string]types.UID{}
	for _, pod := range pods {
		found[pod.Name] = pod.UID
	}
	return found
}

// shows returns an error unless all of rome's pods are Ready and show the containers of milan's pod of the same name.
func shows(here, there []corev1.Pod) error {
	if err := samePods(here, there); err != nil {
		return err
	}
	for i, pod := range here {
		if !story.Ready(pod) || !slices.Equal(story.Containers(pod), story.Containers(there[i])) {
			return fmt.Errorf("rome shows pod %s with containers %v (Ready: %t), milan %v (Ready: %t)", pod.Name, story.Containers(pod), story.Ready(pod),
				story.Containers(there[i]), story.Ready(there[i]))
		}
	}
	return nil
}

// samePods returns an error unless rome and milan have pods with the same names.
func samePods(here, there []corev1.Pod) error {
	if !slices.Equal(story.Names(here), story.Names(there)) {
		return fmt.Errorf("rome has the pods %v, milan has %v", story.Names(here), story.Names(there))
	}
	return nil
}

// sameServices returns an error unless milan has the same Services as rome.
func sameServices(ctx context.Context, s *story.Story, ns string) error {
	names := func(c *playground.Cluster, ns string) ([]string, error) {
		list, err := c.Set.CoreV1().Services(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		found := make([]string, len(list.Items))
		for i, service := range list.Items {
			found[i] = service.Name
		}
		slices.Sort(found)
		return found, nil
	}
	here, err := names(s.Rome, ns)
	if err != nil {
		return err
	}
	there, err := names(s.Milan, story.Twin(ns))
	if err == nil && !slices.Equal(here, there) {
		err = fmt.Errorf("rome has the Services %v, milan has %v", here, there)
	}
	return err
}

// untouched checks that the pod and its containers are still the same.
func untouched(s *story.Story, before, now corev1.Pod) {
	s.Helper()
	if before.UID != now.UID || story.Restarts(before) != story.Restarts(now) || !slices.Equal(story.Containers(before), story.Containers(now)) {
		s.Errorf("pod %s was touched: UID %s, restarts %d, containers %v; before %s, %d, %v", now.Name, now.UID, story.Restarts(now),
			story.Containers(now), before.UID, story.Restarts(before), story.Containers(before))
	}
}

func counts(names []string) map[string]int {
	n := map[string]int{}
	for _, name := range names {
		n[name]++
	}
	return n
}

func repeated(names []string) (found []string) {
	for name, n := range counts(names) {
		if n > 1 {
			found = append(found, name)
		}
	}
	return found
}

func sum(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}
