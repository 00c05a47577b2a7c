package watch

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/dashboard"
	"liqo.io/liqo/internal/metrics"
	"liqo.io/liqo/internal/network/gatewaypod"
)

const (
	// trafficEvery is the time between two readings of the counters of a gateway. They are not part of any object, so they cannot be watched.
	trafficEvery = 10 * time.Second
	// trafficTimeout is the timeout of one reading, trafficParallel the number of simultaneous readings.
	trafficTimeout, trafficParallel = 5 * time.Second, 8
	// metricsPort is the name of the container port that serves metrics.
	metricsPort = "metrics"
)

// traffic measures the traffic of the tunnels of a cluster.
func (w *watcher) traffic(ctx context.Context, c *Cluster, s *store) {
	for last := time.Now(); ; {
		w.mu.Lock()
		gateways := activeGateways(s)
		w.mu.Unlock()
		var group errgroup.Group
		group.SetLimit(trafficParallel)
		for i := range gateways {
			group.Go(func() error { w.measure(ctx, c, &gateways[i]); return nil })
		}
		_ = group.Wait() // measure records its errors itself
		now := time.Now()
		w.update(func() bool { return w.outdated(c.ID, last, now) })
		last = now
		if !sleep(ctx, trafficEvery) {
			return
		}
	}
}

// outdated reports whether traffic that a cluster has measured was current at one time, and is not at a later one.
func (w *watcher) outdated(cluster string, last, now time.Time) bool {
	for tunnel, history := range w.state.History {
		if tunnel.Cluster == cluster && (history.Sent.Current(last) && !history.Sent.Current(now) || history.Received.Current(last) && !history.Received.Current(now)) {
			return true
		}
	}
	return false
}

// activeGateways returns the pods that forward the traffic of tunnels.
func activeGateways(s *store) []corev1.Pod {
	var out []corev1.Pod
	cluster := s.read()
	for i := range cluster.Pods {
		pod := &cluster.Pods[i]
		if pod.Labels[networkingv1beta1.LabelActive] == api.True && pod.DeletionTimestamp == nil && gatewaypod.PeerOfGateway(pod, cluster.Connections) != "" {
			out = append(out, *pod)
		}
	}
	return out
}

// measure reads the counters of a gateway pod, and records the traffic since the last reading.
func (w *watcher) measure(ctx context.Context, c *Cluster, pod *corev1.Pod) {
	tunnel := dashboard.Tunnel{Cluster: c.ID, Peer: pod.Labels[api.LabelRemoteClusterID]}
	counters, err := readCounters(ctx, c, pod, tunnel.Peer)
	if ctx.Err() != nil {
		return
	}
	w.update(func() bool {
		history := w.state.History[tunnel]
		before, measured := history.Unmeasured, false
		history.Unmeasured = ""
		if err != nil {
			history.Unmeasured = err.Error()
		} else {
			if sent, received, ok := dashboard.Traffic(w.counters[tunnel], counters); ok {
				at := counters.At.Unix()
				history.Sent = history.Sent.With(dashboard.Point{At: at, Value: sent})
				history.Received = history.Received.With(dashboard.Point{At: at, Value: received})
				measured = true
			}
			w.counters[tunnel] = counters
		}
		w.state.History[tunnel] = history
		return measured || history.Unmeasured != before
	})
}

// readCounters reads the counters of a gateway pod for a peer.
func readCounters(ctx context.Context, c *Cluster, pod *corev1.Pod, peer string) (dashboard.Counters, error) {
	port := int32(0)
	for _, container := range pod.Spec.Containers {
		for _, of := range container.Ports {
			if of.Name == metricsPort {
				port = of.ContainerPort
			}
		}
	}
	if port == 0 {
		return dashboard.Counters{}, fmt.Errorf("the gateway in cluster %s serves no metrics: liqoctl upgrade --set metrics.enabled=true turns them on", c.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, trafficTimeout)
	defer cancel()
	text, err := c.Metrics(ctx, pod.Namespace, pod.Name, port)
	if err != nil {
		return dashboard.Counters{}, fmt.Errorf("reading the metrics of pod %s/%s in cluster %s: %w", pod.Namespace, pod.Name, c.ID, err)
	}
	out := dashboard.Counters{Pod: string(pod.UID), At: time.Now()}
	for name, to := range map[string]*float64{metrics.PeerReceivedBytes.Name: &out.Received, metrics.PeerTransmittedBytes.Name: &out.Sent} {
		if *to, err = counterOf(text, name, peer); err != nil {
			return dashboard.Counters{}, fmt.Errorf("reading the metrics of pod %s/%s in cluster %s: %w", pod.Namespace, pod.Name, c.ID, err)
		}
	}
	return out, nil
}

// counterOf returns the value of a counter for a peer from metrics in the text format of Prometheus.
func counterOf(text []byte, name, peer string) (float64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	for _, metric := range families[name].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == "cluster_id" && label.GetValue() == peer {
				return metric.GetCounter().GetValue(), nil
			}
		}
	}
	return 0, fmt.Errorf("there is no %s of cluster %s", name, peer)
}
