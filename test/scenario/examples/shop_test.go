package examples

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

const (
	// start is how long a pod may take from its creation to Ready, on a machine that is busy with other things.
	start = 60 * time.Second
	// answer is how long a response of the shop may take: a lost packet is retransmitted after a second. Calls between services of the shop end before it.
	answer = 5 * time.Second
	// pace is the interval between two requests of a customer. Without it, customers would use both processors and be slowed down by their own load.
	pace = 500 * time.Millisecond
)

// browse requests a page of the shop from this machine.
func (b *book) browse(url string) {
	b.Helper()
	var last error
	for range 150 {
		if last = whole(b.Context(), url); last == nil {
			return
		}
		select {
		case <-b.Context().Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	b.Fatalf("opening %s: %v", url, last)
}

// whole requests the shop's page, and returns an error unless it contains the data of every service.
func whole(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return complete(response.StatusCode, string(said))
}

// complete returns an error unless a response of the frontend contains the data of every service and no error.
func complete(status int, said string) error {
	if status != http.StatusOK {
		return fmt.Errorf("status %d: %s", status, strings.Join(failures(said), "; "))
	}
	for _, service := range []string{
		"adservice", "cartservice", "checkoutservice", "currencyservice", "emailservice", "paymentservice", "productcatalogservice",
		"recommendationservice", "redis-cart", "shippingservice",
	} {
		if !strings.Contains(said, "- "+service+": "+service+"-") {
			return fmt.Errorf("no answer of %s: %s", service, said)
		}
	}
	return nil
}

// failures returns the lines of a frontend's response about services without a responding pod. It returns the whole response if that has another format.
func failures(said string) []string {
	var failed []string
	for line := range strings.Lines(said) {
		service, answer, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "- "), ": ")
		if ok && !strings.HasPrefix(service, "Server ") && !strings.HasPrefix(answer, service+"-") {
			failed = append(failed, service+": "+answer)
		}
	}
	if len(failed) == 0 {
		return []string{said}
	}
	return failed
}

// shop: every pod of the quick start's shop moves to the other cluster, one after the other, while customers in both clusters use the shop. No request fails.
func shop(s *story.Story) {
	s.Others(namespace) // the tutorial deletes it
	var deployments []appsv1.Deployment
	s.Step("all of the shop runs", func() {
		s.Eventually(start, "all Deployments to be there", func(ctx ctx) error {
			var list appsv1.DeploymentList
			if err := s.Rome.List(ctx, &list, client.InNamespace(namespace)); err != nil {
				return err
			}
			for _, d := range list.Items {
				if d.Status.ReadyReplicas != 1 {
					return fmt.Errorf("%s has %d ready replicas", d.Name, d.Status.ReadyReplicas)
				}
			}
			deployments = list.Items
			return nil
		})
		if len(deployments) != 12 {
			s.Fatalf("there are %d Deployments, want 12", len(deployments))
		}
	})
	places := map[string]playground.Inside{"rome": inside(s, s.Rome, namespace, "nginx-local"), "milan": inside(s, s.Milan, story.Twin(namespace), "nginx-remote")}
	s.Step("both clusters resolve every service", func() {
		for _, c := range s.Clusters() {
			resolves(s, c, places[c.ID])
		}
	})
	var customers []*customer
	for _, name := range slices.Sorted(maps.Keys(places)) {
		customers = append(customers, enter(s, places[name], name))
	}
	var moves int
	for _, d := range deployments {
		moves++
		to := move(s, &d)
		for _, c := range customers {
			if err := c.trouble(); err != nil {
				s.Errorf("a customer in %s, while %s moved to %s: %v", c.name, d.Name, to, err)
			}
		}
	}
	for _, c := range customers {
		asked := c.leave()
		if err := c.trouble(); err != nil {
			s.Errorf("a customer in %s, in the end: %v", c.name, err)
		}
		fmt.Printf("             a customer in %s was served %d times in %d moves, each time within %s\n", c.name, asked, moves, c.longest)
		if asked < 2*moves {
			s.Errorf("a customer in %s was served %d times only", c.name, asked)
		}
	}
	s.Step("both clusters still resolve every service", func() {
		for _, c := range s.Clusters() {
			resolves(s, c, places[c.ID])
		}
	})
	s.Step("those whose place was taken are gone", func() { // otherwise later stories would take them for objects that must stay
		for _, c := range s.Clusters() {
			s.Eventually(start, "pods that are being deleted in "+c.ID+" to go", func(ctx ctx) error {
				var pods corev1.PodList
				err := c.List(ctx, &pods)
				for _, p := range pods.Items {
					if p.DeletionTimestamp != nil {
						err = errors.Join(err, fmt.Errorf("%s/%s is being deleted since %s", p.Namespace, p.Name, p.DeletionTimestamp))
					}
				}
				return err
			})
		}
	})
}

type ctx = context.Context

// move moves the pod of a Deployment to the other cluster. It returns when the new pod is Ready and the old one is being deleted.
func move(s *story.Story, d *appsv1.Deployment) (to string) {
	s.Helper()
	pods := s.Pods(s.Rome, namespace, client.MatchingLabels{"app": d.Name})
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return !story.Ready(p) })
	if len(pods) != 1 {
		s.Fatalf("%s has the pods %v, want one that is Ready", d.Name, story.Names(pods))
	}
	operator, to := corev1.NodeSelectorOpIn, "milan"
	if pods[0].Spec.NodeName == "milan" {
		operator, to = corev1.NodeSelectorOpNotIn, "rome"
	}
	s.Step(fmt.Sprintf("%s moves to %s", d.Name, to), func() {
		before := d.DeepCopy()
		d.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: api.LabelType, Operator: operator, Values: []string{api.TypeVirtualNode}}},
			}}},
		}}
		s.Must(s.Rome.Patch(s.Context(), d, client.MergeFrom(before)))
		s.Eventually(start, "the successor to serve alone", func(ctx ctx) error {
			all, err := s.TryPods(ctx, s.Rome, namespace)
			if err != nil {
				return err
			}
			var serving []string
			for _, p := range all {
				if p.Labels["app"] == d.Name && p.DeletionTimestamp == nil {
					serving = append(serving, fmt.Sprintf("%s on %s (Ready: %t)", p.Name, p.Spec.NodeName, story.Ready(p)))
					if there := p.Spec.NodeName == "milan"; there != (to == "milan") || !story.Ready(p) {
						return fmt.Errorf("there is %v", serving)
					}
				}
			}
			if len(serving) != 1 {
				return fmt.Errorf("there are %v", serving)
			}
			return nil
		})
	})
	return to
}

// inside returns access to the network of a pod.
func inside(s *story.Story, c *playground.Cluster, namespace, pod string) playground.Inside {
	s.Helper()
	place, err := playground.In(s.PodReady(c, namespace, pod, start))
	s.Must(err)
	return place
}

// resolves checks that the DNS of a cluster resolves every Service of the namespace to its address in that cluster.
func resolves(s *story.Story, c *playground.Cluster, from playground.Inside) {
	s.Helper()
	there := namespace
	if c != s.Rome {
		there = story.Twin(namespace)
	}
	var here, services corev1.ServiceList
	s.Must(s.Rome.List(s.Context(), &here, client.InNamespace(namespace)))
	s.Must(c.List(s.Context(), &services, client.InNamespace(there)))
	want := map[string][]string{}
	for _, service := range services.Items {
		want[service.Name] = []string{service.Spec.ClusterIP}
		want[service.Name+"."+there+".svc.cluster.local"] = []string{service.Spec.ClusterIP}
	}
	if len(services.Items) != len(here.Items) || len(services.Items) < 13 {
		s.Errorf("%s has %d Services, rome has %d", c.ID, len(services.Items), len(here.Items))
	}
	got, err := from.Lookup(s.Context(), slices.Sorted(maps.Keys(want))...)
	s.Must(err)
	if !maps.EqualFunc(want, got, slices.Equal) {
		s.Errorf("pods of %s resolve %v, want %v", c.ID, got, want)
	}
}

// customer sends requests to the frontend repeatedly, at most one per pace.
type customer struct {
	name  string
	stop  context.CancelFunc
	ended chan struct{}
	mu    sync.Mutex
	// served counts complete responses, longest is the longest duration of one, failed are the errors since the last call of trouble.
	served  int
	longest time.Duration
	failed  []string
}

func enter(s *story.Story, from playground.Inside, name string) *customer {
	ctx, stop := context.WithCancel(s.Context())
	c := &customer{name: name, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		next := time.NewTicker(pace)
		defer next.Stop()
		for ctx.Err() == nil {
			asked := time.Now()
			status, said, err := from.Ask(ctx, answer, "http://frontend/")
			if err == nil {
				err = complete(status, said)
			}
			if ctx.Err() != nil {
				return // the customer is being stopped
			}
			took := time.Since(asked).Round(time.Millisecond)
			c.mu.Lock()
			if err == nil {
				c.served++
				c.longest = max(c.longest, took)
			} else {
				c.failed = append(c.failed, fmt.Sprintf("%s after %s: %v", asked.Format("15:04:05.000"), took, err))
			}
			c.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-next.C:
			}
		}
	}()
	return c
}

// trouble returns the errors since its last call.
func (c *customer) trouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := c.failed
	c.failed = nil
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of the answers were not whole:\n%s", len(failed), strings.Join(failed, "\n"))
}

// leave stops the customer, and returns the number of complete responses.
func (c *customer) leave() int {
	c.stop()
	<-c.ended
	return c.served
}
