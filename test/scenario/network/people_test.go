package network

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

const (
	// start is how long a pod may take from its creation to Ready, on a machine that is busy with other things.
	start = story.Start
	// soon is how long a change in one cluster may take to be in effect in another.
	soon = 30 * time.Second
	// webPort and streamPort are ports of the test server.
	webPort, streamPort = "8080", "9000"
)

// crowd is the namespace of the pods that several stories use.
const crowd = "people"

// everybody lists all groups.
var everybody = []string{"home", "milan", "naples"}

// people are pods that several stories use: two of rome on a node each, and two each in milan and naples. Each group has a Service of its name. The pods stay
// until disperse is called.
type people struct {
	*story.Story
	ns string
	// groups are the groups that the story uses.
	groups []string
}

// gather creates the groups if no earlier story did, and waits until all of their pods are ready. Group "home" runs in rome, the other groups in the provider
// of that name.
func gather(s *story.Story, groups ...string) *people {
	p := &people{Story: s, ns: crowd, groups: groups}
	s.Shares(crowd)
	s.Step("pods of "+strings.Join(groups, ", "), func() {
		err := s.Rome.Get(s.Context(), client.ObjectKey{Name: crowd}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			p.settle()
		} else {
			s.Must(err)
		}
		p.complete(2 * time.Minute)
	})
	return p
}

// complete waits until all pods of all groups are ready in rome.
func (p *people) complete(within time.Duration) {
	p.Helper()
	p.PodsReady(p.Rome, p.ns, 2*len(everybody), within)
}

// settle offloads the namespace and creates the pods.
func (p *people) settle() {
	p.Helper()
	p.Must(p.Rome.Create(p.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.ns}}))
	_, err := p.Liqoctl(p.Context(), "offload", "namespace", p.ns, "--kubeconfig", p.Rome.Kubeconfig, "--timeout", "60s")
	p.Must(err)
	for _, group := range everybody {
		deployment := story.DeploymentOn(group, p.ns, group, 2, playground.TestServer)
		pod := &deployment.Spec.Template.Spec
		if group == "home" {
			pod.NodeSelector = nil
			pod.Affinity = realNodes()
		}
		pod.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": group}},
		}}
		// Without a CPU request, the streams would get too little CPU time while other programs start.
		pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
		pod.Containers[0].Env = []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: cluster(p.Story, group).ID}}
		pod.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)},
		}}
		p.Must(p.Rome.Create(p.Context(), deployment))
		p.Must(p.Rome.Create(p.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: group},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": group},
				Ports: []corev1.ServicePort{{Name: "web", Port: 8080}, {Name: "stream", Port: 9000}},
			},
		}))
	}
}

// disperse deletes the pods and their namespace, if they exist. The pods are deleted first, because Kubernetes checks only every few seconds whether a
// namespace is empty.
func disperse(s *story.Story) {
	if s.Failed() {
		return // keep the pods for debugging
	}
	s.Shares(crowd)
	s.Step("without the pods that stories share", func() {
		s.Must(s.Rome.DeleteAllOf(s.Context(), &appsv1.Deployment{}, client.InNamespace(crowd)))
		s.Must(s.Rome.DeleteAllOf(s.Context(), &corev1.Pod{}, client.InNamespace(crowd)))
		s.PodsReady(s.Rome, crowd, 0, 2*start)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: crowd}}
		s.Must(client.IgnoreNotFound(s.Rome.Delete(s.Context(), namespace)))
		s.Gone(s.Rome, namespace, 90*time.Second)
		for _, c := range []*playground.Cluster{s.Milan, s.Naples} {
			s.Gone(c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: story.Twin(crowd)}}, 90*time.Second)
		}
	})
}

func realNodes() *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "liqo.io/type", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"virtual-node"}},
		}}},
	}}}
}

// cluster returns the cluster in which a group's pods run.
func cluster(s *story.Story, group string) *playground.Cluster {
	return map[string]*playground.Cluster{"home": s.Rome, "milan": s.Milan, "naples": s.Naples}[group]
}

// namespace returns the name of the story's namespace in a cluster.
func (p *people) namespace(c *playground.Cluster) string {
	if c == p.Rome {
		return p.ns
	}
	return story.Twin(p.ns)
}

// pods returns the pods of a group in the cluster where they run.
func (p *people) pods(group string) []corev1.Pod {
	p.Helper()
	c := cluster(p.Story, group)
	return p.Pods(c, p.namespace(c), client.MatchingLabels{"app": group})
}

// inside returns access to a pod of a group, to send from.
func (p *people) inside(group string, number int) playground.Inside {
	p.Helper()
	var inside playground.Inside
	// A node that has just started shows the containers of its pods in their former state.
	p.Eventually(start, fmt.Sprintf("pod %d of %s to run", number, group), func(context.Context) error {
		var err error
		inside, err = playground.In(&p.pods(group)[number])
		return err
	})
	return inside
}

// on returns the pod of a group that runs on a node.
func (p *people) on(group, node string) corev1.Pod {
	p.Helper()
	pods := p.pods(group)
	i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName == node })
	if i < 0 {
		p.Fatalf("no pod of %s is on node %s: the pods are %v", group, node, story.Names(pods))
	}
	return pods[i]
}

// seen waits until a cluster has endpoints for both pods of a group, and returns their addresses in this cluster by pod.
func (p *people) seen(c *playground.Cluster, group string) map[string]netip.Addr {
	p.Helper()
	return p.endpoints(c, group, group)
}

// endpoints is like seen, for a Service with another name than the group.
func (p *people) endpoints(c *playground.Cluster, service, group string) map[string]netip.Addr {
	p.Helper()
	want := story.Names(p.pods(group))
	var found map[string]netip.Addr
	p.Eventually(soon, fmt.Sprintf("%s to know the endpoints of Service %s", c.ID, service), func(ctx context.Context) error {
		var list discoveryv1.EndpointSliceList
		if err := c.List(ctx, &list, client.InNamespace(p.namespace(c)), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
			return err
		}
		found = map[string]netip.Addr{}
		for _, slice := range list.Items {
			for _, endpoint := range slice.Endpoints {
				if endpoint.TargetRef == nil || endpoint.Conditions.Ready == nil || !*endpoint.Conditions.Ready {
					continue
				}
				address, err := netip.ParseAddr(endpoint.Addresses[0])
				if err != nil {
					return err
				}
				found[endpoint.TargetRef.Name] = address
			}
		}
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
			return fmt.Errorf("endpoints lead to the pods %v, want %v", got, want)
		}
		return nil
	})
	return found
}

// everyone returns the addresses of all pods in a cluster, by name.
func (p *people) everyone(c *playground.Cluster) map[string]netip.Addr {
	p.Helper()
	all := map[string]netip.Addr{}
	for _, group := range p.groups {
		maps.Copy(all, p.seen(c, group))
	}
	return all
}

// stream starts to receive a stream from a pod of a group; with rate 0 at full speed.
func (p *people) stream(from playground.Inside, c *playground.Cluster, group string, pod string, rate int) *playground.Stream {
	p.Helper()
	address := net.JoinHostPort(p.seen(c, group)[pod].String(), streamPort)
	stream, err := from.Receive(p.Context(), address, rate)
	p.Must(err)
	return stream
}

// flows ends a stream and prints its statistics. The stream must not have broken, stalled for longer than stall, or transferred less than 1 MiB. It returns the
// longest stall.
func (p *people) flows(stream *playground.Stream, stall time.Duration) time.Duration {
	p.Helper()
	_, longest := p.flowed(stream, stall)
	return longest
}

// flowed is like flows, for callers that evaluate each stall.
func (p *people) flowed(stream *playground.Stream, stall time.Duration) (playground.Reception, time.Duration) {
	p.Helper()
	got, err := stream.Stop()
	p.Must(err)
	longest := time.Duration(got.Longest * float64(time.Millisecond)).Round(time.Millisecond)
	fmt.Printf("             %.2f Gbit/s for %.1f s, longest stall %v of %v, breaks %v\n", got.BitsPerSecond/1e9, got.Seconds, longest, stall, got.Breaks)
	switch {
	case len(got.Breaks) > 0:
		p.Errorf("the stream broke: %v", got.Breaks)
	case got.Bytes < 1<<20:
		p.Errorf("the stream carried %d bytes: full packets don't pass", got.Bytes)
	case longest > stall:
		p.Errorf("the stream stalled for %v, and must not for longer than %v: its stalls are %v", longest, stall, got.Stalls)
	}
	return got, longest
}

// hosts creates a pod with host network on every node of every cluster, and returns access to them by node.
func (p *people) hosts() map[string]playground.Inside {
	p.Helper()
	insides := map[string]playground.Inside{}
	p.Step("pods in the host network of every node", func() {
		for _, c := range p.Clusters() {
			set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "host"}}
			labels := map[string]string{"app": "host"}
			set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
			set.Spec.Template.Labels = labels
			grace := int64(1)
			set.Spec.Template.Spec = corev1.PodSpec{
				HostNetwork: true, TerminationGracePeriodSeconds: &grace, Affinity: realNodes(),
				Containers: []corev1.Container{{
					Name: "main", Image: playground.TestServer, Command: []string{"/testserver", "-http", ":8888", "-udp", "", "-stream", ""},
					Env: []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: c.ID}},
				}},
			}
			p.Must(c.Create(p.Context(), set))
		}
		for _, c := range p.Clusters() {
			for _, pod := range p.PodsReady(c, metav1.NamespaceDefault, 2, start) {
				inside, err := playground.In(&pod)
				p.Must(err)
				inside.Name = "host " + pod.Spec.NodeName
				insides[pod.Spec.NodeName] = inside
			}
		}
	})
	return insides
}

// removeHosts deletes the pods of hosts.
func (p *people) removeHosts() {
	p.Helper()
	p.Step("without pods in the host network", func() {
		for _, c := range p.Clusters() {
			p.Must(c.Delete(p.Context(), &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "host"}},
				client.PropagationPolicy(metav1.DeletePropagationForeground)))
		}
		for _, c := range p.Clusters() {
			p.PodsReady(c, metav1.NamespaceDefault, 0, start)
		}
	})
}

// asks sends requests to each HOST:PORT from a pod or node, and returns the answers. All of them have to arrive.
func (p *people) asks(from playground.Inside, authorities ...string) []playground.Answer {
	p.Helper()
	var answers []playground.Answer
	tries := 0
	defer func() {
		if tries > 1 {
			fmt.Printf("             %s asked %d times until %d of %v were answered\n", from.Name, tries, len(answers), authorities)
		}
	}()
	p.Eventually(soon, fmt.Sprintf("%s to be answered by %v", from.Name, authorities), func(ctx context.Context) error {
		tries++
		var err error
		if answers, err = from.WhoAmI(ctx, 3*time.Second, authorities...); err != nil {
			return err
		}
		for _, answer := range answers {
			if answer.Error != "" {
				return fmt.Errorf("%s: %s", answer.URL, answer.Error)
			}
		}
		return nil
	})
	return answers
}

// refused checks that none of the addresses answers.
func (p *people) refused(from playground.Inside, authorities ...string) {
	p.Helper()
	answers, err := from.WhoAmI(p.Context(), time.Second, authorities...)
	p.Must(err)
	for _, answer := range answers {
		if answer.Error == "" {
			p.Errorf("%s is answered by %s, and must not be: %+v", from.Name, answer.URL, answer)
		}
	}
}
