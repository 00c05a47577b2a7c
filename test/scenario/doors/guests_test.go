package doors

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

const (
	// start is how long a pod may take from its creation to Ready, on a machine that is busy with other things.
	start = story.Start
	// soon is how long a change in one cluster may take to be in effect in another.
	soon = 30 * time.Second
	// webPort is a port of the test server.
	webPort = "8080"
	// ns is the namespace of the guests.
	ns = "guests"
)

// guests are two pods of a consumer, each behind a Service: "home" runs in the consumer, "away" in the provider.
type guests struct {
	*story.Story
	home, away *playground.Cluster
}

// inviteGuests offloads a namespace of the consumer to the provider, whose virtual node has its name. It waits until both pods run in the right cluster.
func inviteGuests(s *story.Story, home, away *playground.Cluster) *guests {
	s.Helper()
	g := &guests{Story: s, home: home, away: away}
	s.Step("pods of "+home.ID+" run there and in "+away.ID, func() {
		s.Must(home.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
		g.shell(home, "liqoctl offload namespace "+ns+" --timeout 60s")
		for name, node := range map[string]string{"home": home.Node(), "away": away.ID} {
			pod := story.PodOn(node, ns, name, playground.TestServer)
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: home.ID}}
			pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)},
			}}
			s.Must(home.Create(s.Context(), pod))
			s.Must(home.Create(s.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
				Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 8080}}},
			}))
		}
		s.PodsReady(home, ns, 2, start)
		if guest := s.Pod(away, g.twin(), "away"); !story.Ready(*guest) || guest.Spec.NodeName != away.Node() {
			s.Fatalf("pod away runs on node %q of %s, and is Ready: %t", guest.Spec.NodeName, away.ID, story.Ready(*guest))
		}
	})
	return g
}

// twin returns the name of the remote namespace.
func (g *guests) twin() string { return ns + "-" + g.home.ID }

// talk checks that both pods reach each other.
func (g *guests) talk() {
	g.Helper()
	g.Step("they reach each other", func() {
		g.reaches(g.home, ns, "home", "away")
		g.reaches(g.away, g.twin(), "away", "home")
	})
}

// reaches checks that a pod gets an answer from the other pod, at the endpoints of its Service.
func (g *guests) reaches(in *playground.Cluster, namespace, from, to string) {
	g.Helper()
	inside, err := playground.In(g.Pod(in, namespace, from))
	g.Must(err)
	g.Eventually(soon, fmt.Sprintf("pod %s in %s to reach %s", from, in.ID, to), func(ctx context.Context) error {
		var slices discoveryv1.EndpointSliceList
		if err := in.List(ctx, &slices, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: to}); err != nil {
			return err
		}
		var authorities []string
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				authorities = append(authorities, net.JoinHostPort(endpoint.Addresses[0], webPort))
			}
		}
		if len(authorities) != 1 {
			return fmt.Errorf("%s knows the endpoints %v of Service %s, want one", in.ID, authorities, to)
		}
		answers, err := inside.WhoAmI(ctx, 2*time.Second, authorities...)
		if err != nil {
			return err
		}
		if answers[0].Error != "" || answers[0].Pod != to {
			return fmt.Errorf("%+v", answers[0])
		}
		return nil
	})
}

// leave unoffloads and deletes the namespace, and waits until the remote namespace is deleted.
func (g *guests) leave() {
	g.Helper()
	g.Step("the pods of "+g.home.ID+" go", func() {
		g.Must(g.home.DeleteAllOf(g.Context(), &corev1.Pod{}, client.InNamespace(ns)))
		g.PodsReady(g.home, ns, 0, start)
		// Delete the pods first, because Kubernetes checks only every few seconds whether a namespace is empty.
		g.shell(g.home, "liqoctl unoffload namespace "+ns+" --skip-confirm")
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		g.Must(g.home.Delete(g.Context(), namespace.DeepCopy()))
		g.Gone(g.home, namespace.DeepCopy(), 90*time.Second)
		g.Gone(g.away, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: g.twin()}}, 90*time.Second)
	})
}

// shell runs a command line as the administrator of a cluster.
func (g *guests) shell(c *playground.Cluster, line string) string { return shell(g.Story, c, line) }

func shell(s *story.Story, c *playground.Cluster, line string) string {
	s.Helper()
	out, err := s.Shell(s.Context(), c, line)
	s.Must(err)
	return strings.TrimSpace(out)
}

// refused checks that a command fails with this reason.
func refused(s *story.Story, c *playground.Cluster, line, why string) {
	s.Helper()
	out, err := s.Shell(s.Context(), c, line)
	if err == nil {
		s.Fatalf("this went through in %s: %s\n%s", c.ID, line, out)
	}
	if !strings.Contains(err.Error(), why) {
		s.Errorf("%s in %s does not say %q:\n%v", line, c.ID, why, err)
	}
}

// stranger deletes what an ended peering leaves: the empty tenant namespace, if it still exists, and the ForeignCluster. The namespace must not contain
// anything that blocks its deletion.
func stranger(s *story.Story, c *playground.Cluster, peer string) {
	s.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.TenantNamespace(peer)}}
	s.Must(client.IgnoreNotFound(c.Delete(s.Context(), namespace.DeepCopy())))
	s.Gone(c, namespace, time.Minute)
	s.Must(client.IgnoreNotFound(c.Delete(s.Context(), &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: peer}})))
}

// strangers calls stranger for both clusters of a peering.
func strangers(s *story.Story, a, b *playground.Cluster) {
	s.Helper()
	stranger(s, a, b.ID)
	stranger(s, b, a.ID)
}
