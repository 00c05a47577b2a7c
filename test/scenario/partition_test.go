package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// notice is how long rome may take to detect that milan is unreachable, on a machine of half the usual speed.
const notice = 80 * time.Second

// partition: while milan is unreachable, milan keeps rome's pods running, rome does not treat the unreachable provider as empty, and pods of the other provider
// are not affected. Afterwards both clusters have the same state.
func partition(s *story.Story) {
	cutOff(s, func() {}, func() {})
}

// cutOff is partition, with more checks while the clusters are cut off from each other, and after that.
func cutOff(s *story.Story, meanwhile, afterwards func()) {
	const ns = "partition"
	rome, milan, naples := s.Rome, s.Milan, s.Naples
	twin := story.Twin(ns)
	s.Step("offload a namespace", func() { s.Offload(ns) })

	s.Step("two pods in each provider", func() {
		for _, provider := range s.Providers() {
			s.Must(rome.Create(s.Context(), story.DeploymentOn(provider.ID, ns, provider.ID, 2, playground.TestServer)))
		}
		s.PodsReady(rome, ns, 2*len(s.Providers()), start)
	})
	inRome := uids(s.Pods(rome, ns))
	inMilan := s.PodsReady(milan, twin, 2, start)
	var inNaples []corev1.Pod
	if naples != nil {
		inNaples = s.PodsReady(naples, twin, 2, start)
	}
	victim, bystander, doomed := inMilan[0].Name, inMilan[1], "doomed"
	s.Step("another pod in milan", func() {
		s.Must(rome.Create(s.Context(), story.PodOn("milan", ns, doomed, playground.TestServer)))
		s.PodReady(rome, ns, doomed, start)
	})
	there := s.Record(milan, twin)

	s.Step("cut rome off from milan", func() {
		s.Must(s.Partition(s.Context(), rome, milan))
		s.Cleanup(func() {
			// The story's own context has ended by now.
			if err := s.Heal(context.WithoutCancel(s.Context()), rome, milan); err != nil {
				s.Error(err)
			}
		})
	})

	s.Step("milan brings back a pod that was deleted there", func() {
		old := s.Pod(milan, twin, victim)
		s.Must(milan.Delete(s.Context(), old))
		s.Eventually(start, "another pod of that name to run in milan", func(ctx) error {
			pods := s.Pods(milan, twin)
			i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == victim })
			if i < 0 || pods[i].UID == old.UID || !story.Ready(pods[i]) {
				return fmt.Errorf("milan has %v", story.Names(pods))
			}
			return nil
		})
	})

	s.Step("in rome, a pod is deleted and another is made", func() {
		s.Must(rome.Delete(s.Context(), s.Pod(rome, ns, doomed)))
		s.Must(rome.Create(s.Context(), story.PodOn("milan", ns, "late", playground.TestServer)))
	})

	s.Step("node milan turns NotReady", func() {
		took := s.NodeReady("milan", false, notice)
		fmt.Printf("             after %.1f s\n", took.Seconds())
		if naples != nil {
			s.NodeReady("naples", true, start)
		}
		meanwhile()
	})

	s.Step("rome's pods are not lost", func() {
		now := uids(s.Pods(rome, ns))
		for name, uid := range inRome {
			if now[name] != uid {
				s.Errorf("rome's pod %s had the UID %s and has %q", name, uid, now[name])
			}
		}
		if now[doomed] == "" {
			s.Errorf("rome has let go of pod %s, though it can't know whether it ended", doomed)
		}
		if pods := s.Pods(milan, twin); len(pods) != 3 {
			s.Errorf("milan has the pods %v, want three: it has heard nothing", story.Names(pods))
		}
	})

	s.Step("heal: node milan is Ready again", func() {
		s.Must(s.Heal(s.Context(), rome, milan))
		took := s.NodeReady("milan", true, notice)
		fmt.Printf("             after %.1f s\n", took.Seconds())
	})

	s.Step("both agree", func() {
		s.PodReady(rome, ns, "late", start)
		s.Gone(rome, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: doomed}}, start)
		s.Gone(milan, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: twin, Name: doomed}}, start)
		s.Eventually(start, "rome to show what runs in milan", func(ctx) error {
			var there [][]corev1.Pod
			for _, provider := range s.Providers() {
				there = append(there, s.Pods(provider, twin))
			}
			return shows(s.Pods(rome, ns), there...)
		})
		for name, uid := range inRome {
			if now := s.Pod(rome, ns, name).UID; now != uid {
				s.Errorf("rome's pod %s had the UID %s and has %s", name, uid, now)
			}
		}
	})

	s.Step("nothing ran twice, nothing else was restarted", func() {
		// The victim has had two pods in milan, every other pod only one.
		want := append(story.Names(s.Pods(milan, twin)), victim, doomed)
		slices.Sort(want)
		if got := there.Pods(); !slices.Equal(got, want) {
			s.Errorf("pods that were ever in milan: %v, want %v", got, want)
		}
		untouched(s, bystander, *s.Pod(milan, twin, bystander.Name))
		if naples != nil {
			now := s.Pods(naples, twin)
			if len(now) != len(inNaples) {
				s.Fatalf("naples has the pods %v, had %v", story.Names(now), story.Names(inNaples))
			}
			for i := range now {
				untouched(s, inNaples[i], now[i])
			}
		}
		afterwards()
	})
}

func uids(pods []corev1.Pod) map[string]types.UID {
	found := map[string]types.UID{}
	for _, pod := range pods {
		found[pod.Name] = pod.UID
	}
	return found
}

// shows returns an error unless each of rome's pods shows the containers of the provider's pod with the same name.
func shows(here []corev1.Pod, providers ...[]corev1.Pod) error {
	there := map[string]corev1.Pod{}
	for _, pods := range providers {
		for _, pod := range pods {
			if other, twice := there[pod.Name]; twice {
				return fmt.Errorf("pod %s is there twice: %s and %s", pod.Name, pod.UID, other.UID)
			}
			there[pod.Name] = pod
		}
	}
	if len(here) != len(there) {
		return fmt.Errorf("rome has %d pods, the providers have %d", len(here), len(there))
	}
	for _, pod := range here {
		if !story.Ready(pod) || !slices.Equal(story.Containers(pod), story.Containers(there[pod.Name])) {
			return fmt.Errorf("rome shows pod %s with containers %v (Ready: %t), the provider %v", pod.Name, story.Containers(pod),
				story.Ready(pod), story.Containers(there[pod.Name]))
		}
	}
	return nil
}

// untouched checks that the pod and its containers are still the same.
func untouched(s *story.Story, before, now corev1.Pod) {
	s.Helper()
	if before.UID != now.UID || story.Restarts(before) != story.Restarts(now) || !slices.Equal(story.Containers(before), story.Containers(now)) {
		s.Errorf("pod %s was touched: UID %s, restarts %d, containers %v; before %s, %d, %v", now.Name, now.UID, story.Restarts(now),
			story.Containers(now), before.UID, story.Restarts(before), story.Containers(before))
	}
}
