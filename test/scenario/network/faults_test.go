package network

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// failoverStall is the longest interruption of a TCP stream that a fault may cause.
const failoverStall = 3 * time.Second

// paced is the rate, in bytes per second, of streams that are open during a fault. A stream at full speed needs both processors, which would leave none for the
// replica that takes over and for programs that start.
const paced = 4 << 20

// restart is how long it takes until Kubernetes has detected the end of an agent and restarted it, and the agent has read the state. Agents are killed one
// after the other: eight starting agents would need both processors and so delay the tunnel, which is not what the story tests.
const restart = 2 * time.Second

// agents: the agents of the network are killed. The network that they have configured keeps working.
func agents(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	p := gather(s, "home", "milan")
	s.Step("the agents of rome and of milan are killed while a stream runs", func() {
		stream, reference := p.stream(p.inside("home", 0), rome, "milan", p.pods("milan")[1].Name, paced), p.reference()
		s.Pause(time.Second)
		killFabrics(s, rome)
		killGateways(s, rome, "milan")
		killFabrics(s, milan)
		killGateways(s, milan, "rome")
		settled(s, []*playground.Cluster{rome, milan}, map[*playground.Cluster]string{rome: "milan", milan: "rome"})
		p.flowsWithin(stream, reference, failoverStall)
	})
}

// killFabrics kills the fabric agents of a cluster one after the other.
func killFabrics(s *story.Story, c *playground.Cluster) {
	s.Helper()
	killEach(s, fabrics(s, c), "fabric")
}

// killGateways kills the agents in a cluster's gateways to a peer one after the other.
func killGateways(s *story.Story, c *playground.Cluster, peer string) {
	s.Helper()
	pods, err := story.Gateways(s.Context(), c, peer)
	s.Must(err)
	killEach(s, pods, "gateway")
}

func killEach(s *story.Story, pods []corev1.Pod, container string) {
	s.Helper()
	for i := range pods {
		kill(s, &pods[i], container)
		s.Pause(restart)
	}
}

// settled waits until all agents run again. Kubernetes increases the delay with each restart.
func settled(s *story.Story, clusters []*playground.Cluster, peers map[*playground.Cluster]string) {
	s.Helper()
	for _, c := range clusters {
		fabrics(s, c)
	}
	for c, peer := range peers {
		standing(s, c, peer)
	}
	s.Pause(time.Second)
}

// fabrics waits until a fabric agent runs on each node of a cluster, and returns their pods.
func fabrics(s *story.Story, c *playground.Cluster) []corev1.Pod {
	s.Helper()
	var fabric corev1.PodList
	s.Eventually(start, "a fabric agent to run on each node of "+c.ID, func(ctx context.Context) error {
		err := c.List(ctx, &fabric, client.InNamespace(api.Namespace), client.MatchingLabels{"app.kubernetes.io/name": "fabric"})
		if err == nil && (len(fabric.Items) != 2 || !story.Ready(fabric.Items[0]) || !story.Ready(fabric.Items[1])) {
			err = fmt.Errorf("the pods are %v", story.Names(fabric.Items))
		}
		return err
	})
	return fabric.Items
}

// favored gives the processes that a stream of rome needs a higher priority: both ends, of which one is a pod of a group in a provider, and WireGuard in all
// gateways between rome and that provider, and other processes. restore reverts this.
func (p *people) favored(stream *playground.Stream, group string, number int, others ...int) (restore func() error) {
	p.Helper()
	pids := slices.Concat(p.ends(stream, group, number), p.containers(group, "wireguard"), others)
	restore, err := playground.Favor("liqo-stream", pids...)
	p.Must(err)
	return restore
}

// ends returns the processes of both ends of a stream, of which one is a pod of a group.
func (p *people) ends(stream *playground.Stream, group string, number int) []int {
	p.Helper()
	pids, err := playground.Processes(&p.pods(group)[number])
	p.Must(err)
	return append(pids, stream.Process())
}

// containers returns the processes of these containers in all gateways between rome and the provider of a group.
func (p *people) containers(group string, names ...string) (pids []int) {
	p.Helper()
	provider := cluster(p.Story, group)
	for c, peer := range map[*playground.Cluster]string{p.Rome: provider.ID, provider: p.Rome.ID} {
		pods, err := story.Gateways(p.Context(), c, peer)
		p.Must(err)
		for i := range pods {
			for _, name := range names {
				some, err := playground.Container(&pods[i], name)
				p.Must(err)
				pids = append(pids, some...)
			}
		}
	}
	return pids
}

// reference starts a stream between the pods of naples, which depends on no gateway and no agent. It stalls only if the machine does.
func (p *people) reference() *playground.Stream {
	p.Helper()
	return p.stream(p.inside("naples", 0), p.Naples, "naples", p.pods("naples")[1].Name, paced)
}

// beyond ends a stream and a reference that ran at the same time, and returns the longest stall of the stream, and by how much that exceeds the reference.
func (p *people) beyond(stream, reference *playground.Stream) (stall, excess time.Duration) {
	p.Helper()
	_, stall = p.flowed(stream, time.Minute)
	_, usual := p.flowed(reference, time.Minute)
	return stall, max(0, stall-usual)
}

// flowsWithin ends a stream and a reference that ran at the same time. The stream must not have stalled for longer than the limit, besides what the machine did to
// the reference. It returns the longest stall.
func (p *people) flowsWithin(stream, reference *playground.Stream, limit time.Duration) time.Duration {
	p.Helper()
	stall, excess := p.beyond(stream, reference)
	if excess > limit {
		p.Errorf("the stream stalled for %v, %v longer than a stream beside it that depends on no gateway, and must not for longer than %v", stall, excess, limit)
	}
	return stall
}

// failover: a gateway replica ends, another replica takes over, and open connections stay open.
func failover(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	p := gather(s, "home", "milan")
	sides := []struct {
		c    *playground.Cluster
		peer string
	}{{rome, "milan"}, {milan, "rome"}}
	for _, side := range sides {
		s.Step("the gateway at work in "+side.c.ID+" is killed", func() {
			p.takesOver(0, side.c, side.peer, func(gone *corev1.Pod) {
				pids, err := playground.Processes(gone)
				s.Must(err)
				s.Must(playground.Kill(pids...))
			})
		})
		s.Step("the pod of the gateway at work in "+side.c.ID+" is deleted", func() {
			p.takesOver(1, side.c, side.peer, func(gone *corev1.Pod) { s.Must(side.c.Delete(s.Context(), gone, client.GracePeriodSeconds(0))) })
		})
	}
	s.Step("both gateways of rome are deleted at once: it takes longer, and comes back", func() {
		stream := p.stream(p.inside("home", 0), rome, "milan", p.pods("milan")[1].Name, 1<<20)
		s.Pause(2 * time.Second)
		pods, err := story.Gateways(s.Context(), rome, "milan")
		s.Must(err)
		for i := range pods {
			s.Must(rome.Delete(s.Context(), &pods[i], client.GracePeriodSeconds(0)))
		}
		standing(s, rome, "milan")
		s.Connected(rome, "milan", networkingv1beta1.Connected, time.Minute)
		p.reaches(p.inside("home", 0), rome, "milan")
		s.Pause(2 * time.Second)
		p.flows(stream, 20*time.Second)
	})
	// This is the last step, because clients wait up to a minute before they reconnect to an API server that was unavailable, and receive no events until then.
	s.Step("the gateway at work in rome is killed while neither API server runs", func() {
		gone := s.ActiveGateway(rome, "milan")
		pids, err := playground.Processes(gone)
		s.Must(err)
		stream, reference := p.stream(p.inside("home", 0), rome, "milan", p.pods("milan")[1].Name, paced), p.reference()
		for _, c := range []*playground.Cluster{rome, milan} {
			component(s, "stop", "kube-apiserver", c.Node())
		}
		s.Pause(time.Second)
		s.Must(playground.Kill(pids...))
		s.Pause(6 * time.Second)
		stall := p.flowsWithin(stream, reference, failoverStall)
		for _, c := range []*playground.Cluster{rome, milan} {
			component(s, "start", "kube-apiserver", c.Node())
		}
		for _, c := range []*playground.Cluster{rome, milan} {
			answers(s, c)
		}
		p.told(stall)
		standing(s, rome, "milan")
	})
}

// takesOver ends the active gateway while a stream runs from a pod of milan to a pod of rome. For a gateway of milan, which rome dials, it does so twice more
// if the stream stalls for too long, and uses the median: for a moment, the Service still routes to the lost gateway, so it is random whether a new session
// reaches the other replica.
//
// The limit is for the replicas, not for the machine. So all programs of a takeover get a higher priority, and the stalls of a reference at the same time do not
// count.
func (p *people) takesOver(number int, c *playground.Cluster, peer string, end func(*corev1.Pod)) {
	p.Helper()
	var stalls []time.Duration
	tries := 3
	if c == p.Rome {
		tries = 1
	}
	for len(stalls) < tries {
		gone := p.ActiveGateway(c, peer)
		stream, reference := p.stream(p.inside("home", number), p.Rome, "milan", p.pods("milan")[1-number].Name, paced), p.reference()
		pids := slices.Concat(p.ends(stream, "milan", 1-number), p.ends(reference, "naples", 1), p.containers("milan", "wireguard", "gateway"), p.fabricAgents())
		restore, err := playground.Favor("liqo-stream", pids...)
		p.Must(err)
		p.Pause(time.Second)
		end(gone)
		p.Pause(6 * time.Second)
		stall, excess := p.beyond(stream, reference)
		p.Must(restore())
		standing(p.Story, c, peer)
		p.told(stall)
		stalls = append(stalls, excess)
		if len(stalls) == 1 && excess <= failoverStall {
			return
		}
	}
	slices.Sort(stalls)
	if stalls[len(stalls)/2] > failoverStall {
		p.Errorf("the streams stalled for %v longer than streams beside them that depend on no gateway, and must not for longer than %v, in milan half of the time",
			stalls, failoverStall)
	}
}

// fabricAgents returns the processes of the fabric agents of rome and of milan.
func (p *people) fabricAgents() (pids []int) {
	p.Helper()
	for _, c := range []*playground.Cluster{p.Rome, p.Milan} {
		agents := fabrics(p.Story, c)
		for i := range agents {
			some, err := playground.Container(&agents[i], "fabric")
			p.Must(err)
			pids = append(pids, some...)
		}
	}
	return pids
}

// told prints what the gateways logged about a takeover that took more than half of the allowed time.
func (p *people) told(stall time.Duration) {
	p.Helper()
	if stall > failoverStall/2 {
		fmt.Println(strings.Join(elections(p.Story, p.Rome, p.Milan), "\n"))
	}
}

// reaches waits until a pod or node of a cluster reaches the web servers of the groups at their addresses in this cluster. A pod whose node was off has a new
// address, which the clusters learn one after the other.
func (p *people) reaches(from playground.Inside, c *playground.Cluster, groups ...string) {
	p.Helper()
	p.Eventually(time.Minute, fmt.Sprintf("%s in %s to reach %v", from.Name, c.ID, groups), func(ctx context.Context) error {
		var authorities []string
		for _, group := range groups {
			for _, address := range p.seen(c, group) {
				authorities = append(authorities, address.String()+":"+webPort)
			}
		}
		answers, err := from.WhoAmI(ctx, 2*time.Second, authorities...)
		for _, answer := range answers {
			if answer.Error != "" {
				err = fmt.Errorf("%s: %s", answer.URL, answer.Error)
			}
		}
		return err
	})
}

// power: the node with the active gateway loses its power, and gets it back.
func power(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	p := gather(s, "home", "milan")
	for _, side := range []struct {
		c    *playground.Cluster
		peer string
	}{{rome, "milan"}, {milan, "rome"}} {
		worker := side.c.Worker(2)
		s.Step("the gateway at work in "+side.c.ID+" is on "+worker, func() {
			// The other node runs the control plane and has the load balancer's address.
			if at := s.ActiveGateway(side.c, side.peer); at.Spec.NodeName != worker {
				// Delete it instead of killing its containers: those would count as Ready for a moment longer, and would then wait, because they were restarted
				// several times.
				s.Must(side.c.Delete(s.Context(), at, client.GracePeriodSeconds(0)))
				s.ActiveGateway(side.c, side.peer, at.Name)
			}
			standing(s, side.c, side.peer)
		})
		var nomad *corev1.Pod
		if side.c == milan {
			s.Step("a pod of rome runs there, too", func() { nomad = p.nomad(worker) })
		}
		s.Step("no power for "+worker, func() {
			pod := p.on("milan", milan.Node())
			home := p.on("home", rome.Node())
			inside, err := playground.In(&home)
			s.Must(err)
			stream, reference := p.stream(inside, rome, "milan", pod.Name, paced), p.reference()
			s.Pause(time.Second)
			_, err = s.Playground(s.Context(), "kill", "node", worker)
			s.Must(err)
			s.Cleanup(func() { _, _ = s.Playground(background(s), "start", "node", worker) })
			s.Pause(8 * time.Second)
			p.flowsWithin(stream, reference, failoverStall)
		})
		if nomad != nil {
			s.Step("once Kubernetes evicts it, another one takes its place on the other node", func() { p.moves(nomad, worker, side.c.Node()) })
		}
		s.Step("power for "+worker, func() {
			_, err := s.Playground(s.Context(), "start", "node", worker)
			s.Must(err)
			ready(s, side.c, worker)
			standing(s, side.c, side.peer)
			p.complete(start)
			s.PodsReady(milan, p.namespace(milan), 2, start)
			for _, group := range p.groups {
				for i := range p.pods(group) {
					p.reaches(p.inside(group, i), cluster(s, group), "home", "milan")
				}
			}
		})
	}
}

// partition: while rome is cut off from milan, no cluster reports a wrong state. Everything continues to work afterwards.
func partition(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	p := gather(s, "home", "milan", "naples")
	var stream, other, reference *playground.Stream
	var restore func() error
	s.Step("cut rome off from milan", func() {
		stream = p.stream(p.inside("home", 0), rome, "milan", p.pods("milan")[1].Name, 1<<20)
		other = p.stream(p.inside("home", 1), rome, "naples", p.pods("naples")[1].Name, 1<<20)
		reference = p.reference()
		// This prevents stalls of both streams that are due to the busy machine and not to the cut.
		restore = p.favored(other, "naples", 1, p.ends(reference, "naples", 1)...)
		s.Cleanup(func() {
			if s.Failed() {
				_ = restore()
			}
		})
		s.Pause(time.Second)
		s.Must(s.Partition(s.Context(), rome, milan))
		s.Cleanup(func() {
			if err := s.Heal(background(s), rome, milan); err != nil {
				s.Error(err)
			}
		})
		s.Connected(rome, "milan", networkingv1beta1.ConnectionError, 30*time.Second)
		s.Connected(milan, "rome", networkingv1beta1.ConnectionError, 30*time.Second)
		s.Connected(rome, "naples", networkingv1beta1.Connected, soon)
	})
	s.Step("nobody is led where nobody answers: the endpoints beyond the cut are not ready, and those of naples are", func() {
		p.unready(milan, "home")
		p.unready(rome, "milan")
		p.seen(rome, "naples")
		p.seen(s.Naples, "home")
	})
	s.Step("the path to naples is not disturbed", func() {
		s.Pause(time.Second)
		p.flowsWithin(other, reference, time.Second)
		s.Must(restore())
	})
	s.Step("heal: connected again", func() {
		began := time.Now()
		s.Must(s.Heal(s.Context(), rome, milan))
		s.Connected(rome, "milan", networkingv1beta1.Connected, 30*time.Second)
		s.Connected(milan, "rome", networkingv1beta1.Connected, 30*time.Second)
		fmt.Printf("             after %.1f s\n", time.Since(began).Seconds())
		s.NodeReady("milan", true, time.Minute)
		for _, group := range p.groups {
			p.reaches(p.inside(group, 0), cluster(s, group), "home", "milan")
		}
		s.Pause(time.Second)
		p.flows(stream, time.Minute)
	})
}

// unready waits until a cluster has all endpoints of a group, and none of them is ready.
func (p *people) unready(c *playground.Cluster, group string) {
	p.Helper()
	p.Eventually(time.Minute, fmt.Sprintf("%s to show no endpoint of Service %s as ready", c.ID, group), func(ctx context.Context) error {
		var list discoveryv1.EndpointSliceList
		if err := c.List(ctx, &list, client.InNamespace(p.namespace(c)), client.MatchingLabels{discoveryv1.LabelServiceName: group}); err != nil {
			return err
		}
		known := 0
		for _, slice := range list.Items {
			for _, endpoint := range slice.Endpoints {
				known++
				if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
					return fmt.Errorf("%v is ready", endpoint.Addresses)
				}
			}
		}
		if known != 2 {
			return fmt.Errorf("there are %d endpoints", known)
		}
		return nil
	})
}
