package monitoring

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

const (
	// window is how long bytes and pods are compared under load.
	window = 16 * time.Second
	// bytesOff and latencyOff are the tolerated relative differences between a metric and the measured value.
	bytesOff, latencyOff = 0.02, 0.1
	// held is the delay of each packet in the detour.
	held = 100 * time.Millisecond
	// webs is the number of serving pods in milan. running is the number of all pods there, with one more that computes. requested is the sum of their CPU
	// requests, which the quota counts.
	webs, running = 5, 6
	requested     = webs*0.01 + 0.1
)

// metricsAreTrue: with `install --enable-metrics` and the configuration in the guide, a Prometheus scrapes all metrics. All rules and all panels work, and the
// values equal those that the story measures itself, also under load. The jobs of kube-prometheus scrape the virtual node like every kubelet.
func metricsAreTrue(s *story.Story, o observers, d *delayed) {
	const ns = "metrics"
	rome, milan := o.of(s, s.Rome), o.of(s, s.Milan)
	both := []prometheus{rome, milan}
	s.Step("Prometheus scrapes all of Liqo, by labels and by Services, and no alert is active", func() {
		rome.scraped("controller-manager", "fabric", "gateway", "proxy", "virtual-kubelet")
		milan.scraped("controller-manager", "fabric", "gateway", "proxy")
		for _, p := range both {
			p.sameTargets()
			p.rulesWork()
		}
	})
	s.Step("pods in milan", func() {
		s.Offload(ns)
		s.Must(s.Rome.Create(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reflected"}}))
		web := story.DeploymentOn("milan", ns, "web", webs, playground.TestServer)
		web.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
		s.Must(s.Rome.Create(s.Context(), web))
		s.Must(s.Rome.Create(s.Context(), computing(ns)))
		ends := story.PodOn("milan", ns, "ends", playground.TestServer, "/testserver", "exit", "0")
		ends.Spec.RestartPolicy = corev1.RestartPolicyNever
		s.Must(s.Rome.Create(s.Context(), ends))
		home := story.PodOn(s.Rome.Node(), ns, "home", playground.TestServer)
		s.Must(s.Rome.Create(s.Context(), home))
		s.PodReady(s.Rome, ns, "home", start)
		s.Eventually(start, "the pods in milan to run", func(ctx context.Context) error {
			pods, err := s.TryPods(ctx, s.Rome, ns)
			if err != nil {
				return err
			}
			if phases := phases(pods); phases["Running"] != running || phases["Succeeded"] != 1 {
				return fmt.Errorf("they are %v", phases)
			}
			return nil
		})
	})
	s.Step("pods, reflected objects and the used quota are counted exactly", func() {
		pods := s.Pods(s.Rome, ns)
		s.Eventually(start, "the metrics to count the pods", func(ctx context.Context) error {
			found, err := rome.byLabel(ctx, "phase", `liqo_virtual_node_pods{node_name="milan"} > 0`)
			if err == nil && !maps.Equal(found, phases(pods)) {
				err = fmt.Errorf("pods by phase are %v, want %v", found, phases(pods))
			}
			reflected, failed := rome.byLabel(ctx, "reflector_resource", `liqo_virtual_kubelet_reflected_items{namespace="`+ns+`"}`)
			if failed == nil && (reflected["Pod"] != running+1 || reflected["ConfigMap"] < 1) {
				failed = fmt.Errorf("reflected are %v, want %d pods and a ConfigMap", reflected, running+1)
			}
			used, unread := milan.byLabel(ctx, "resource", `liqo_quota_used{cluster_id="rome"}`)
			if unread == nil && math.Abs(used["cpu"]-requested) > 1e-9 {
				unread = fmt.Errorf("%v of cpu is used, want %v", used["cpu"], requested)
			}
			return errors.Join(err, failed, unread)
		})
	})
	var l *load
	var k *kubelets
	s.Step("traffic goes through the tunnel, pods come and go, and the kubelets are scraped as by kube-prometheus", func() {
		k = scrapeKubelets(s, both)
		l = begin(s, ns)
	})
	s.Step("under this load, pods are counted exactly in each scrape, and bytes through the tunnel up to 2 %", func() {
		rome.rescraped() // with scrapes from after the start of the load
		milan.rescraped()
		began := time.Now()
		pause(s, window)
		l.podsAreExact(rome, began)
		l.bytesAreTrue(began, rome, milan)
	})
	s.Step("under load, each panel of each board shows something, and each metric of the reference is served", func() {
		for _, p := range both {
			p.boards()
		}
		reference(both...)
	})
	s.Step("under load, round trips that take 200 ms more are reported as the kernel measures them, up to 10 %", func() {
		peers := []string{"milan", "rome"}
		// observe returns the average round trip that a gateway reports, and the average that the kernel measures for the connection in the same time.
		observe := func(p prometheus, peer string) (reported, kernel, least, most float64) {
			total, count := `sum(liqo_peer_latency_histogram_us_sum{cluster_id="`+peer+`"})`, `sum(liqo_peer_latency_histogram_us_count{cluster_id="`+peer+`"})`
			p.rescraped()
			began := time.Now()
			sum, n := p.number(total), p.number(count)
			pause(s, time.Second)
			p.rescraped()
			least, kernel, most = l.roundTrips(began)
			return (p.number(total) - sum) / (p.number(count) - n), kernel, least, most
		}
		// usual is the difference between the round trips of the gateways, whose programs send the answers, and of the connection, for which the kernel sends
		// them.
		usual := make([]float64, len(both))
		for i, p := range both {
			reported, kernel, _, _ := observe(p, peers[i])
			usual[i] = reported - kernel
		}
		d.delay.Store(int64(held))
		defer d.delay.Store(0)
		pause(s, 4*held) // until earlier pings have returned
		// compare compares both values in one cluster once.
		compare := func(i int) error {
			p := both[i]
			got, kernel, least, most := observe(p, peers[i])
			latest := p.number(`max(liqo_peer_latency_us{cluster_id="` + peers[i] + `"})`)
			fmt.Printf("             %s: on average %.0f us and at last %.0f us; the connection %.0f us (%.0f to %.0f us), usually %.0f us less\n", p.c.ID, got, latest, kernel, least,
				most, usual[i])
			// Both measure the same network, but at different times: the gateway pings a few times a second.
			least, most = least+min(usual[i], 0), most+max(usual[i], 0)
			// No round trip is faster than the detour.
			least = max(least, float64(2*held.Microseconds()))
			var problems []error
			for what, value := range map[string]float64{"an average": got, "a last": latest} {
				if math.IsNaN(value) || math.IsNaN(usual[i]) || value < least*(1-latencyOff) || value > most*(1+latencyOff) { // NaN: no ping was measured
					problems = append(problems, fmt.Errorf("%s reports %s round trip of %.0f us, want %.0f to %.0f us", p.c.ID, what, value, least, most))
				}
			}
			return errors.Join(problems...)
		}
		for i := range both {
			// The metric shows only one round trip. If the machine stands still during it, it differs from those of the connection. So the median of three
			// comparisons counts.
			var problems []error
			for tries := 1; tries == 1 || len(problems) > 0 && tries <= 3; tries++ {
				if err := compare(i); err != nil {
					problems = append(problems, err)
				}
			}
			if len(problems) > 1 {
				s.Error(errors.Join(problems...))
			}
		}
	})
	s.Step("the kubelet jobs of kube-prometheus find the pods of the virtual node, with the values of the provider's kubelet", func() { k.areTrue(ns, l) })
	s.Step("the load ends", func() {
		s.Must(l.stop())
		k.remove()
	})
}

// phases counts the pods on node milan by phase.
func phases(pods []corev1.Pod) map[string]float64 {
	found := map[string]float64{}
	for _, pod := range pods {
		if pod.Spec.NodeName == "milan" {
			found[string(pod.Status.Phase)]++
		}
	}
	return found
}

// pause waits: what is tested here needs time.
func pause(s *story.Story, d time.Duration) { pauseFor(s.Context(), d) }

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
