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

// What a fault may cost a TCP stream.
const (
	agentStall    = 200 * time.Millisecond
	failoverStall = 3 * time.Second
)

// paced is the rate of a stream, in bytes per second, that shows what a fault does. A stream at full speed takes both processors by itself: the
// replica that takes over, and every program that starts, would have none.
const paced = 4 << 20

// restart is how long Kubernetes takes to notice that an agent ended and to start it again, and the agent to look at what it finds. Agents are killed one
// after the other: eight that start at once take both processors away from the tunnel, which is not what the story is about.
const restart = 2 * time.Second

// agents: those who set the network up may die; what they have set up stays.
func agents(s *story.Story) {
	rome, milan, naples := s.Rome, s.Milan, s.Naples
	p := gather(s, "home", "milan")
	s.Step("the agents of rome and of milan are killed while a stream runs", func() {
		p.mostly(agentStall,
			func() []string {
				killed := slices.Concat(killFabrics(s, rome), killGateways(s, rome, "milan"), killFabrics(s, milan), killGateways(s, milan, "rome"))
				settled(s, []*playground.Cluster{rome, milan}, map[*playground.Cluster]string{rome: "milan", milan: "rome"})
				return killed
			},
			// As many agents, that the stream does not depend on. Kubernetes restarts no container of a gateway for it, so some are killed twice.
			func() []string {
				killed := slices.Concat(killFabrics(s, naples), killGateways(s, rome, "naples"), killGateways(s, naples, "rome"), killGateways(s, rome, "naples"))
				settled(s, []*playground.Cluster{naples}, map[*playground.Cluster]string{rome: "naples", naples: "rome"})
				return killed
			})
	})
}

// killFabrics kills the fabric agents of a cluster, one after the other, and returns when each was.
func killFabrics(s *story.Story, c *playground.Cluster) []string {
	s.Helper()
	return killEach(s, fabrics(s, c), "fabric")
}

// killGateways kills the agents in the gateways of a cluster towards a peer, one after the other, and returns when each was.
func killGateways(s *story.Story, c *playground.Cluster, peer string) []string {
	s.Helper()
	pods, err := gateways(s.Context(), c, peer)
	s.Must(err)
	return killEach(s, pods, "gateway")
}

func killEach(s *story.Story, pods []corev1.Pod, container string) []string {
	s.Helper()
	var killed []string
	for i := range pods {
		killed = append(killed, fmt.Sprintf("%s on %s at %s", container, pods[i].Spec.NodeName, time.Now().Format("05.000")))
		kill(s, &pods[i], container)
		pause(s, restart)
	}
	return killed
}

// settled waits until all agents run again: Kubernetes takes longer every time before it starts them.
func settled(s *story.Story, clusters []*playground.Cluster, peers map[*playground.Cluster]string) {
	s.Helper()
	for _, c := range clusters {
		fabrics(s, c)
	}
	for c, peer := range peers {
		standing(s, c, peer)
	}
	pause(s, time.Second)
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

// mostly does something to three streams, one after the other: what it does to them it does to each, so the median tells, and often after two.
// Two cores that start programs stall any stream every now and then. So the streams and their tunnel have the processor before all others. If the streams
// stalled nevertheless, what counts is how much longer than streams during which alike happens: the same work for the machine, on which the streams don't
// depend. Both return what they did and when.
func (p *people) mostly(limit time.Duration, do, alike func() []string) {
	p.Helper()
	stall := func(do func() []string) (longest time.Duration, found string) {
		p.Helper()
		stream := p.stream(p.inside("home", 0), p.Rome, "milan", p.pods("milan")[1].Name, paced)
		restore := p.favored(stream)
		pause(p.Story, time.Second)
		done := do()
		got, longest := p.flowed(stream, time.Minute)
		p.Must(restore())
		return longest, fmt.Sprintf("\n  stalls %v\n  killed %s", got.Stalls, strings.Join(done, ", "))
	}
	var stalls []time.Duration
	var found []string
	for range 3 {
		if len(stalls) == 2 && max(stalls[0], stalls[1]) <= limit {
			return
		}
		longest, what := stall(do)
		stalls, found = append(stalls, longest), append(found, what)
	}
	slices.Sort(stalls)
	if stalls[1] <= limit {
		return
	}
	var unaffected []time.Duration
	for range 3 {
		longest, what := stall(alike)
		unaffected, found = append(unaffected, longest), append(found, what)
	}
	slices.Sort(unaffected)
	if stalls[1] > limit+unaffected[1] {
		p.Errorf("the streams stalled for %v, and must not for longer than %v, besides what such work does to any stream on this machine: %v%s",
			stalls, limit, unaffected, strings.Join(found, ""))
	}
}

// favored gives all that a stream to a pod of milan needs the processor before all others: its ends, and WireGuard in all gateways between rome and milan.
func (p *people) favored(stream *playground.Stream) (restore func() error) {
	p.Helper()
	pids, err := playground.Processes(&p.pods("milan")[1])
	p.Must(err)
	pids = append(pids, stream.Process())
	for c, peer := range map[*playground.Cluster]string{p.Rome: "milan", p.Milan: "rome"} {
		pods, err := gateways(p.Context(), c, peer)
		p.Must(err)
		for i := range pods {
			tunnel, err := playground.Container(&pods[i], "wireguard")
			p.Must(err)
			pids = append(pids, tunnel...)
		}
	}
	restore, err = playground.Favor("liqo-stream", pids...)
	p.Must(err)
	return restore
}

// failover: a gateway goes, its sibling takes over, and connections that are open stay open.
func failover(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	p := gather(s, "home", "milan")
	sides := []struct {
		c    *playground.Cluster
		peer string
	}{{rome, "milan"}, {milan, "rome"}}
	for _, side := range sides {
		s.Step("the gateway at work in "+side.c.ID+" is killed", func() {
			gone := active(s, side.c, side.peer)
			stream := p.stream(p.inside("home", 0), rome, "milan", p.pods("milan")[1].Name, paced)
			pause(s, time.Second)
			pids, err := playground.Processes(gone)
			s.Must(err)
			s.Must(playground.Kill(pids...))
			pause(s, 6*time.Second)
			p.flows(stream, failoverStall)
			standing(s, side.c, side.peer)
		})
		s.Step("the pod of the gateway at work in "+side.c.ID+" is deleted", func() {
			gone := active(s, side.c, side.peer)
			stream := p.stream(p.inside("home", 1), rome, "milan", p.pods("milan")[0].Name, paced)
			pause(s, time.Second)
			s.Must(side.c.Delete(s.Context(), gone, client.GracePeriodSeconds(0)))
			pause(s, 6*time.Second)
			p.flows(stream, failoverStall)
			standing(s, side.c, side.peer)
		})
	}
	s.Step("both gateways of rome are deleted at once: it takes longer, and comes back", func() {
		stream := p.stream(p.inside("home", 0), rome, "milan", p.pods("milan")[1].Name, 1<<20)
		pause(s, 2*time.Second)
		pods, err := gateways(s.Context(), rome, "milan")
		s.Must(err)
		for i := range pods {
			s.Must(rome.Delete(s.Context(), &pods[i], client.GracePeriodSeconds(0)))
		}
		standing(s, rome, "milan")
		connected(s, rome, "milan", networkingv1beta1.Connected, time.Minute)
		p.reaches(p.inside("home", 0), rome, "milan")
		pause(s, 2*time.Second)
		p.flows(stream, 20*time.Second)
	})
	// Last: for up to a minute after an API server was away its clients wait before they ask again, and hear nothing new.
	s.Step("the gateway at work in rome is killed while neither API server runs", func() {
		gone := active(s, rome, "milan")
		pids, err := playground.Processes(gone)
		s.Must(err)
		stream := p.stream(p.inside("home", 0), rome, "milan", p.pods("milan")[1].Name, paced)
		for _, c := range []*playground.Cluster{rome, milan} {
			component(s, "stop", "kube-apiserver", c.Node())
		}
		pause(s, time.Second)
		s.Must(playground.Kill(pids...))
		pause(s, 6*time.Second)
		p.flows(stream, failoverStall)
		for _, c := range []*playground.Cluster{rome, milan} {
			component(s, "start", "kube-apiserver", c.Node())
		}
		for _, c := range []*playground.Cluster{rome, milan} {
			answers(s, c)
		}
		standing(s, rome, "milan")
	})
}

// reaches waits until a place in a cluster reaches the web servers of groups where the cluster sees them: a pod whose node was off has
// another address than before, and clusters are told of it one after the other.
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

// power: the node with the gateway at work loses its power, and gets it back.
func power(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	p := gather(s, "home", "milan")
	for _, side := range []struct {
		c    *playground.Cluster
		peer string
	}{{rome, "milan"}, {milan, "rome"}} {
		worker := side.c.Worker(2)
		s.Step("the gateway at work in "+side.c.ID+" is on "+worker, func() {
			// The other node is the control plane's, and that of the load balancer's address.
			if at := active(s, side.c, side.peer); at.Spec.NodeName != worker {
				// Killed, it would be told Ready for a moment longer, and then wait, as its containers ended several times.
				s.Must(side.c.Delete(s.Context(), at, client.GracePeriodSeconds(0)))
				active(s, side.c, side.peer, at.Name)
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
			stream := p.stream(inside, rome, "milan", pod.Name, paced)
			pause(s, time.Second)
			_, err = s.Playground(s.Context(), "kill", "node", worker)
			s.Must(err)
			s.Cleanup(func() { _, _ = s.Playground(background(s), "start", "node", worker) })
			pause(s, 8*time.Second)
			p.flows(stream, failoverStall)
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

// partition: nobody is told anything wrong, and everything goes on afterwards.
func partition(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	p := gather(s, "home", "milan", "naples")
	var stream, other *playground.Stream
	s.Step("cut rome off from milan", func() {
		stream = p.stream(p.inside("home", 0), rome, "milan", p.pods("milan")[1].Name, 1<<20)
		other = p.stream(p.inside("home", 1), rome, "naples", p.pods("naples")[1].Name, 1<<20)
		pause(s, time.Second)
		s.Must(s.Partition(s.Context(), rome, milan))
		s.Cleanup(func() {
			if err := s.Heal(background(s), rome, milan); err != nil {
				s.Error(err)
			}
		})
		connected(s, rome, "milan", networkingv1beta1.ConnectionError, 30*time.Second)
		connected(s, milan, "rome", networkingv1beta1.ConnectionError, 30*time.Second)
		connected(s, rome, "naples", networkingv1beta1.Connected, time.Second)
	})
	s.Step("nobody is led where nobody answers: the endpoints beyond the cut are not ready, and those of naples are", func() {
		p.unready(milan, "home")
		p.unready(rome, "milan")
		p.seen(rome, "naples")
		p.seen(s.Naples, "home")
	})
	s.Step("the path to naples is not disturbed", func() {
		pause(s, time.Second)
		p.flows(other, time.Second)
	})
	s.Step("heal: connected again", func() {
		began := time.Now()
		s.Must(s.Heal(s.Context(), rome, milan))
		connected(s, rome, "milan", networkingv1beta1.Connected, 30*time.Second)
		connected(s, milan, "rome", networkingv1beta1.Connected, 30*time.Second)
		fmt.Printf("             after %.1f s\n", time.Since(began).Seconds())
		s.NodeReady("milan", true, time.Minute)
		for _, group := range p.groups {
			p.reaches(p.inside(group, 0), cluster(s, group), "home", "milan")
		}
		pause(s, time.Second)
		p.flows(stream, time.Minute)
	})
}

// unready waits until a cluster knows no endpoint of a group that is ready, though it knows them all.
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
