package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/playground"
)

const (
	// networkPrefix distinguishes these clusters from those of the other measurements.
	networkPrefix = "benchnet-"
	// trips is the number of round trips per measurement, duration is how long a stream is measured.
	trips    = 2000
	duration = 4 * time.Second
	// streamPort is the stream port of the test server.
	streamPort = "9000"
)

// networkBench measures the path between pods of two clusters. Rome and milan have the same address ranges, naples has different ones.
type networkBench struct {
	runs                int
	machine             playground.Machine
	rome, milan, naples *playground.Cluster
	paths               []path
}

// path is a path from a pod to an address.
type path struct {
	kind    Path
	from    playground.Inside
	address string
}

// run runs the whole benchmark. It deletes the clusters before it returns.
func (b *networkBench) run(ctx context.Context) (*NetworkResult, error) {
	return onMachine(ctx, &b.machine, b.remove, b.measureAll)
}

func (b *networkBench) measureAll(ctx context.Context) (result *NetworkResult, err error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	result = &NetworkResult{}
	if result.Implementation, err = b.bare(ctx); err != nil {
		return nil, err
	}
	for i := range b.runs {
		// Start each round with another path, so that a change of the machine's speed during the run affects all paths alike.
		for j := range b.paths {
			p := b.paths[(i+j)%len(b.paths)]
			figure, err := p.measure(ctx)
			if err != nil {
				return nil, fmt.Errorf("measuring the %s path: %w", p.kind, err)
			}
			report("%s: %.2f Gbit/s, round trip %.0f µs over TCP, %.0f µs over UDP", p.kind, figure.BitsPerSecond/1e9, figure.TCP, figure.UDP)
			result.Figures = append(result.Figures, figure)
		}
	}
	if result.Memory, err = b.memory(ctx); err != nil {
		return nil, err
	}
	result.Sizes = sizes()
	result.conclude()
	return result, nil
}

func (b *networkBench) remove(ctx context.Context) error {
	var group errgroup.Group
	for _, id := range []string{"rome", "milan", "naples"} {
		group.Go(func() error { return b.machine.Delete(ctx, &playground.Cluster{Name: networkPrefix + id}) })
	}
	return errors.Join(group.Wait(), removeForwarded(ctx))
}

func (b *networkBench) clusters() []*playground.Cluster {
	return []*playground.Cluster{b.rome, b.milan, b.naples}
}

// prepare creates the clusters, peers them, and starts one pod in the pod network and one in the host network of each.
func (b *networkBench) prepare(ctx context.Context) error {
	if err := b.remove(ctx); err != nil {
		return err
	}
	began := time.Now()
	var group errgroup.Group
	for id, cluster := range map[string]**playground.Cluster{"rome": &b.rome, "milan": &b.milan, "naples": &b.naples} {
		group.Go(func() (err error) {
			var flags, install []string
			if id == "naples" {
				install = []string{"--set", "ipam.externalCIDR=10.60.0.0/16"}
				flags = []string{"--pod-cidr", "10.30.0.0/16", "--service-cidr", "10.31.0.0/16"}
			}
			if *cluster, err = b.machine.Create(ctx, networkPrefix, id, flags...); err != nil {
				return err
			}
			return b.machine.Install(ctx, *cluster, install...)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, provider := range []*playground.Cluster{b.milan, b.naples} {
		if err := b.machine.Peer(ctx, b.rome, provider); err != nil {
			return err
		}
	}
	if err := b.rome.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: offloadedNamespace}}); err != nil {
		return err
	}
	if _, err := b.machine.Liqoctl(ctx, "offload", "namespace", offloadedNamespace, "--kubeconfig", b.rome.Kubeconfig, "--timeout", "60s"); err != nil {
		return err
	}
	places := map[string]playground.Inside{}
	for _, node := range []string{b.rome.Node(), "milan", "naples"} {
		pod := networkPod(offloadedNamespace, "on-"+node, node)
		if err := b.rome.Create(ctx, pod); err != nil {
			return err
		}
	}
	here, err := b.ready(ctx, b.rome, offloadedNamespace, "on-"+b.rome.Node())
	if err != nil {
		return err
	}
	if places["pod"], err = playground.In(here); err != nil {
		return err
	}
	for _, c := range b.clusters() {
		host := networkPod(metav1.NamespaceDefault, "host", c.Node())
		host.Spec.HostNetwork = true
		if err := c.Create(ctx, host); err != nil {
			return err
		}
	}
	for _, c := range []*playground.Cluster{b.milan, b.naples} {
		kind := map[string]Path{"milan": Overlapping, "naples": Apart}[c.ID]
		pod, err := b.ready(ctx, b.rome, offloadedNamespace, "on-"+c.ID)
		if err != nil {
			return err
		}
		b.paths = append(b.paths, path{kind, places["pod"], net.JoinHostPort(pod.Status.PodIP, streamPort)})
	}
	from, err := b.ready(ctx, b.rome, metav1.NamespaceDefault, "host")
	if err != nil {
		return err
	}
	to, err := b.ready(ctx, b.milan, metav1.NamespaceDefault, "host")
	if err != nil {
		return err
	}
	inside, err := playground.In(from)
	if err != nil {
		return err
	}
	b.paths = append(b.paths, path{Straight, inside, net.JoinHostPort(to.Status.PodIP, streamPort)})
	report("clusters rome, milan and naples are peered after %.0f s", time.Since(began).Seconds())
	return nil
}

// networkPod returns a pod on a node that runs the test server.
func networkPod(namespace, name, node string) *corev1.Pod {
	grace := int64(1)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: node}, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "server", Image: playground.TestServer,
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)},
				}},
			}},
		},
	}
}

func (b *networkBench) ready(ctx context.Context, c *playground.Cluster, namespace, name string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("pod %s/%s of %s is not Ready", namespace, name, c.ID))
	defer cancel()
	for {
		var pod corev1.Pod
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod); err != nil {
			return nil, fmt.Errorf("reading pod %s/%s of %s: %w", namespace, name, c.ID, err)
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.Status.PodIP != "" {
				return &pod, nil
			}
		}
		if !pause(ctx, 200*time.Millisecond) {
			return nil, context.Cause(ctx)
		}
	}
}

// measure measures a path once. It first waits until the path works, that is, until a round trip is answered.
func (p *path) measure(ctx context.Context) (figure Figure, err error) {
	figure.Path = p.kind
	for deadline := time.Now().Add(30 * time.Second); ; {
		if _, err = p.from.RoundTrips(ctx, "tcp", p.address, 1); err == nil || time.Now().After(deadline) || !pause(ctx, 200*time.Millisecond) {
			break
		}
	}
	if err != nil {
		return figure, err
	}
	if figure.Idle, err = quiet(ctx, 8*time.Second); err != nil {
		return figure, err
	}
	for protocol, into := range map[string]*float64{"tcp": &figure.TCP, "udp": &figure.UDP} {
		measured, err := p.from.RoundTrips(ctx, protocol, p.address, trips)
		if err != nil {
			return figure, err
		}
		*into = measured.P50
		if protocol == "tcp" {
			figure.TCP99 = measured.P99
		}
	}
	busy, _, err := machine()
	if err != nil {
		return figure, err
	}
	stream, err := p.from.Receive(ctx, p.address, 0)
	if err != nil {
		return figure, err
	}
	pause(ctx, duration)
	got, err := stream.Stop()
	if err != nil {
		return figure, err
	}
	after, _, err := machine()
	if err != nil {
		return figure, err
	}
	if len(got.Breaks) > 0 || got.Bytes == 0 {
		return figure, fmt.Errorf("the stream carried %d bytes and broke: %v", got.Bytes, got.Breaks)
	}
	figure.BitsPerSecond, figure.Stall = got.BitsPerSecond, got.Longest
	figure.CPUPerGigabyte = (after - busy) / (float64(got.Bytes) / 1e9)
	return figure, nil
}

// gatewayLabels select the pods of gateways.
var gatewayLabels = client.MatchingLabels{networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway}

// only returns the single pod with these labels. Any other number of pods is an error.
func only(ctx context.Context, c *playground.Cluster, namespace string, labels client.MatchingLabels) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(namespace), labels); err != nil {
		return nil, err
	}
	if len(pods.Items) != 1 {
		return nil, fmt.Errorf("finding pods %v in namespace %s of %s: there are %d, want one", labels, namespace, c.ID, len(pods.Items))
	}
	return &pods.Items[0], nil
}

// memory returns the resident memory of the processes of Liqo's network, by container.
func (b *networkBench) memory(ctx context.Context) (map[string]uint64, error) {
	all := map[string]uint64{}
	for _, want := range []struct {
		namespace string
		labels    client.MatchingLabels
		container []string
	}{
		{api.Namespace, client.MatchingLabels{"app.kubernetes.io/name": "fabric"}, []string{"fabric"}},
		{api.TenantNamespace("milan"), gatewayLabels, []string{"gateway", tunnelContainer}},
	} {
		pod, err := only(ctx, b.rome, want.namespace, want.labels)
		if err != nil {
			return nil, err
		}
		for _, container := range want.container {
			pids, err := playground.Container(pod, container)
			if err != nil {
				return nil, err
			}
			usage, err := playground.MeasureProcesses(pids...)
			if err != nil {
				return nil, err
			}
			all[container] = usage.Resident
		}
	}
	return all, nil
}
