package scenario

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// presubmitBudget is how long TestPresubmit should take on two idle cores, including the creation of the clusters.
const presubmitBudget = 10 * time.Minute

// TestPresubmit tells one story about each part of Liqo, on one pair of clusters. It is what make test runs of level 4: the suites of make test-long tell each of
// these stories in full, and others. The stories build on each other and can't run alone.
func TestPresubmit(t *testing.T) {
	w := story.New(t, story.Plan{
		Budget: presubmitBudget, Prefix: "presubmit-", Pair: true, Strangers: true, ComparedOnce: true,
		Create:  map[string][]string{"rome": {"--nodes", "2"}},
		Install: map[string][]string{"rome": {"--set", "networking.gatewayTemplates.replicas=2"}},
	})
	wiring, err := w.Wiring(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Tell(t, "peer", peerByToken)
	// The longest ones first.
	w.TellTogether(t, story.Named{Name: "data", Body: data}, story.Named{Name: "pods", Body: deleteBothWays},
		story.Named{Name: "look", Body: func(s *story.Story) { lookOver(s, story.WebSocket) }},
		story.Named{Name: "reflection", Body: copies}, story.Named{Name: "strategies", Body: strategies})
	w.Tell(t, "network", network)
	w.Tell(t, "quota", func(s *story.Story) {
		const ns = "quota"
		exceeds(s, ns)
		drainAndActivate(s, ns)
	})
	w.Tell(t, "partition", func(s *story.Story) {
		cutOff(s, func() { connections(s, networkingv1beta1.ConnectionError) }, func() { connections(s, networkingv1beta1.Connected) })
	})
	w.Tell(t, "crash", crashOnce)
	w.Tell(t, "failover", failover)
	w.Tell(t, "upgrade", func(s *story.Story) {
		const ns = "upgrade"
		talking(s, ns)
		u := observe(s, ns)
		s.Step("upgrade both, with pods of ours that differ", func() { u.upgradeBoth("51m", "{}") })
		s.Step("no pod was restarted, and all requests were answered", func() {
			u.untouched()
			u.answered()
		})
	})
	w.Tell(t, "leave", func(s *story.Story) {
		s.Removed()
		leave(s)
		s.Step("the network of every node is as before the installation", func() { s.SameWiring(wiring) })
	})
}

// peerByToken: the administrator of rome peers with the command that milan's administrator generated. No kubeconfig is exchanged.
func peerByToken(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	var command string
	s.Step("milan generates a peer command, and rome runs it", func() {
		out, err := s.Shell(s.Context(), milan, "liqoctl generate peer-command --only-command")
		s.Must(err)
		command = strings.TrimSpace(out)
		_, err = s.Shell(s.Context(), rome, command)
		s.Must(err)
		s.NodeReady("milan", true, start)
		connections(s, networkingv1beta1.Connected)
	})
	var node, again corev1.Node
	s.Must(rome.Get(s.Context(), key("milan"), &node))
	s.Step("the same command again, and the same installation, change nothing", func() {
		_, err := s.Shell(s.Context(), rome, command)
		s.Must(err)
		s.Must(s.Machine.Install(s.Context(), rome, s.Plan.Install["rome"]...))
		s.NodeReady("milan", true, start)
		s.Must(rome.Get(s.Context(), key("milan"), &again))
		if node.UID != again.UID {
			s.Errorf("node milan was replaced: its UID was %s and is %s", node.UID, again.UID)
		}
	})
	s.Step("liqoctl info names the clusters, and uninstall refuses while there is a peer", func() {
		said, err := s.Liqoctl(s.Context(), "info", "--kubeconfig", rome.Kubeconfig)
		s.Must(err)
		if !strings.Contains(said, "rome") || !strings.Contains(said, "milan") {
			s.Errorf("info does not name both clusters:\n%s", said)
		}
		if err := s.Uninstall(s.Context(), milan, true); err == nil {
			s.Fatal("milan was uninstalled, though rome uses it")
		}
	})
}

// connections waits until both clusters report this about their tunnel.
func connections(s *story.Story, value string) {
	s.Helper()
	s.Connected(s.Rome, "milan", value, start)
	s.Connected(s.Milan, "rome", value, start)
}

// strategies: the strategy of a namespace decides where its pods run. A namespace that exists in the provider is not taken over.
func strategies(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	s.Step("Remote: pods that ask for nothing run in milan", func() {
		s.Offload("remote", "--pod-offloading-strategy", "Remote", "--namespace-mapping-strategy", "EnforceSameName")
		s.Must(rome.Create(s.Context(), anywhere("remote", 1)))
		runOn(s, s.PodsReady(rome, "remote", 1, start), "milan")
		s.PodsReady(milan, "remote", 1, start)
	})
	s.Step("Local: pods that insist on milan wait", func() {
		s.Offload("local", "--pod-offloading-strategy", "Local")
		pod := story.PodOn("milan", "local", "insists", playground.TestServer)
		s.Must(rome.Create(s.Context(), pod))
		waits(s, rome, "local", pod.Name)
	})
	s.Step("a namespace of milan that has the requested name stays milan's", func() {
		theirs := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "taken"}}
		s.Must(milan.Create(s.Context(), theirs))
		s.Namespace("taken", nil)
		s.Must(rome.Create(s.Context(), offloading("taken", offloadingv1beta1.NamespaceOffloadingSpec{NamespaceMappingStrategy: offloadingv1beta1.EnforceSameName})))
		offloaded(s, "taken", offloadingv1beta1.PhaseAllFailed, map[string]string{"milan": offloadingv1beta1.ReasonCreationLoopBackOff})
		var now corev1.Namespace
		s.Must(milan.Get(s.Context(), key("taken"), &now))
		if now.UID != theirs.UID || now.ResourceVersion != theirs.ResourceVersion || now.DeletionTimestamp != nil {
			s.Errorf("milan's own namespace was changed: %+v", now.ObjectMeta)
		}
		s.Must(milan.Delete(s.Context(), theirs))
	})
}

// network: liqoctl tests and explains the network between the clusters. Pods in milan reach the API server of rome, and not the nodes of rome.
func network(s *story.Story) {
	const ns, tests = "network", "liqo-test-network-rome"
	rome, milan := s.Rome, s.Milan
	test := func(flags ...string) {
		_, err := s.Liqoctl(s.Context(), append([]string{"test", "network", "--kubeconfig", rome.Kubeconfig, "--remote-kubeconfigs", milan.Kubeconfig,
			"--image", playground.TestServer, "--timeout", "3m"}, flags...)...)
		s.Must(err)
	}
	s.Step("liqoctl test network: pods, Services, nodes and node ports", func() { test("--pod-np", "--outside=") })
	s.Step("liqoctl network explain, both ways", func() {
		pod := func(c *playground.Cluster) string {
			return c.ID + "/" + tests + "/" + s.Pods(c, tests, client.MatchingLabels{"network-test/cluster": c.ID})[0].Name
		}
		for _, ends := range [][2]string{{pod(rome), pod(milan)}, {pod(milan), pod(rome)}} {
			out, err := s.Liqoctl(s.Context(), "network", "explain", ends[0], ends[1], "--kubeconfig", rome.Kubeconfig, "--remote-kubeconfig", milan.Kubeconfig)
			s.Must(err)
			if !strings.Contains(out, "the way is whole in both directions") {
				s.Errorf("explain %v:\n%s", ends, out)
			}
		}
	})
	s.Step("liqoctl test network --rm", func() { test("--basic", "--rm") })
	s.Step("a pod in milan reaches the API server of rome", func() {
		s.Offload(ns)
		for name, node := range map[string]string{"home": rome.Node(), "away": "milan"} {
			s.Must(rome.Create(s.Context(), story.PodOn(node, ns, name, playground.TestServer)))
		}
		s.PodsReady(rome, ns, 2, start)
		away, err := playground.In(s.Pod(milan, story.Twin(ns), "away"))
		s.Must(err)
		s.ReachesAPI(away, milan)
	})
	s.Step("it does not reach the kubelets of rome, which a pod of rome reaches", func() {
		away, err := playground.In(s.Pod(milan, story.Twin(ns), "away"))
		s.Must(err)
		home, err := playground.In(s.Pod(rome, ns, "home"))
		s.Must(err)
		for _, node := range []string{rome.Worker(1), rome.Worker(2)} {
			if err := dials(s, home, s.NodeAddress(rome, node).String()); err != nil {
				s.Errorf("pod home does not reach the kubelet of %s: %v", node, err)
			}
			view := s.View(milan, rome, client.ObjectKey{Namespace: api.Namespace, Name: ipamv1alpha1.IPNodePrefix + node})
			if err := dials(s, away, view.String()); err == nil {
				s.Errorf("pod away reaches the kubelet of %s at %s", node, view)
			}
		}
	})
}

// dials connects to the port of a kubelet.
func dials(s *story.Story, from playground.Inside, address string) error {
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
	defer cancel()
	connection, err := from.Dial(ctx, "tcp", net.JoinHostPort(address, "10250"))
	if err != nil {
		return err
	}
	return connection.Close()
}

// crashOnce: all of Liqo's processes are killed while 10 pods are being started. All of these pods run in the end, and none of them twice.
func crashOnce(s *story.Story) {
	const ns, count = "crash", 10
	s.Step("offload a namespace", func() { s.Offload(ns) })
	here, there := s.Record(s.Rome, ns), s.Record(s.Milan, story.Twin(ns))
	ours := processes(s)
	ours.killWhile("while the first pods are made", ns, count, there, func(pods, _ int) bool { return pods >= 2 })
	s.Step("all of them run", func() { s.PodsReady(s.Rome, ns, count, 2*start) })
	onceEach(s, ns, count, here, there)
	s.Step("Liqo's processes run again", ours.ready)
}

// failoverLimit is the longest interruption of a stream by a failover, on a machine of half the usual speed that is busy with other things. How long it is
// otherwise is measured by the stories of the network and by make bench.
const failoverLimit = 15 * time.Second

// failover: the active gateway pod of rome is deleted while a stream runs from milan to rome. Another one takes over, and the connection does not break.
func failover(s *story.Story) {
	const ns = "failover"
	rome := s.Rome
	var stream *playground.Stream
	s.Step("a stream from a pod in milan to a pod in rome", func() {
		s.Offload(ns)
		for name, node := range map[string]string{"home": rome.Node(), "away": "milan"} {
			s.Must(rome.Create(s.Context(), story.PodOn(node, ns, name, playground.TestServer)))
		}
		s.PodsReady(rome, ns, 2, start)
		home, err := playground.In(s.Pod(rome, ns, "home"))
		s.Must(err)
		stream, err = home.Receive(s.Context(), net.JoinHostPort(s.Pod(rome, ns, "away").Status.PodIP, "9000"), 4<<20)
		s.Must(err)
	})
	s.Step("the active gateway pod of rome is deleted, and another one is active", func() {
		s.Eventually(start, "both gateway pods of rome to be Ready", func(ctx context.Context) error {
			pods, err := story.Gateways(ctx, rome, "milan")
			if err == nil && ready(pods) != 2 {
				err = fmt.Errorf("%d of %v are", ready(pods), story.Names(pods))
			}
			return err
		})
		s.Pause(2 * time.Second) // the stream has to flow before
		gone := s.ActiveGateway(rome, "milan")
		s.Must(rome.Delete(s.Context(), gone, client.GracePeriodSeconds(0)))
		s.ActiveGateway(rome, "milan", gone.Name)
		s.Pause(failoverLimit / 3) // the stream has to flow after
	})
	s.Step("the stream did not break", func() {
		got, err := stream.Stop()
		s.Must(err)
		longest := time.Duration(got.Longest * float64(time.Millisecond)).Round(time.Millisecond)
		fmt.Printf("             %d KiB in %.1f s, longest stall %v\n", got.Bytes>>10, got.Seconds, longest)
		if len(got.Breaks) > 0 || got.Bytes < 1<<20 || longest > failoverLimit {
			s.Errorf("breaks %v, %d bytes, stalls %v, of which none may be longer than %v", got.Breaks, got.Bytes, got.Stalls, failoverLimit)
		}
		connections(s, networkingv1beta1.Connected)
	})
}
