package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
)

const (
	// reportInterval is how often it is looked whether there is something to tell; telling takes a change.
	reportInterval = 500 * time.Millisecond
	// writeTimeout bounds one write.
	writeTimeout = 10 * time.Second
)

// gatewayReporter writes what a gateway tells the API server: its Connection, and which pod is at work. Nothing waits for it.
type gatewayReporter struct {
	client client.Client
	cache  cache.Cache
	opts   *gatewayOptions
	log    *slog.Logger
	told   string // the last failure
}

// report tells of the tunnel until ctx ends.
func (g *gatewayAgent) report(ctx context.Context) error {
	tick := time.NewTicker(reportInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		g.mu.Lock()
		in, ok := g.input(time.Now())
		replica, mtu := g.session.Replica(), g.mtu
		ok = ok && g.session.Begun() && g.leaving.IsZero()
		g.mu.Unlock()
		if !ok || !gateway.Speaks(in.Self, replica.State, in.Siblings, g.timing, in.Now) {
			continue
		}
		g.reporter.tell(errors.Join(
			g.reporter.connection(ctx, gateway.Seen{
				Now: in.Now, Began: g.began, Pulse: in.Pulse, Works: g.works(), MTU: mtu,
				Peer: g.opts.remoteClusterID, Interval: g.opts.updateStatusInterval,
			}),
			g.reporter.label(ctx, replica.State == network.Active, &in.Peer)))
	}
}

// connection brings the Connection up to date. It is the controller manager that makes it.
func (r *gatewayReporter) connection(ctx context.Context, seen gateway.Seen) error {
	key := client.ObjectKey{Namespace: r.opts.namespace, Name: networkingv1beta1.GatewayChild(r.opts.name)}
	var before networkingv1beta1.Connection
	if err := r.cache.Get(ctx, key, &before); err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("waiting for Connection %s", key)
		}
		return fmt.Errorf("reading Connection %s: %w", key, err)
	}
	after := before.DeepCopy()
	after.Status = gateway.Status(before.Status, before.Generation, seen)
	ctx, stop := context.WithTimeout(ctx, writeTimeout)
	defer stop()
	return kube.PatchStatus(ctx, r.client, after, before.DeepCopy())
}

// label marks the pod at work, this one, and no other one of the gateway: for people, and for who selects pods.
func (r *gatewayReporter) label(ctx context.Context, active bool, peer *network.Peer) error {
	if !active {
		return nil
	}
	var pods corev1.PodList
	if err := r.cache.List(ctx, &pods, client.InNamespace(r.opts.namespace), client.MatchingLabels{
		networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway, networkingv1beta1.LabelGatewayName: peer.Gateway,
	}); err != nil {
		return fmt.Errorf("listing the pods of the gateway: %w", err)
	}
	ctx, stop := context.WithTimeout(ctx, writeTimeout)
	defer stop()
	var problems []error
	for i := range pods.Items {
		before := &pods.Items[i]
		marked, wanted := before.Labels[networkingv1beta1.LabelActive] != "", before.Name == r.opts.podName
		if marked == wanted {
			continue
		}
		after := before.DeepCopy()
		delete(after.Labels, networkingv1beta1.LabelActive)
		if wanted {
			after.Labels[networkingv1beta1.LabelActive] = "true"
		}
		if err := r.client.Patch(ctx, after, client.MergeFrom(before.DeepCopy())); client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("marking pod %s: %w", before.Name, err))
		}
	}
	return errors.Join(problems...)
}

// tell logs a failure once, until there is another one or none.
func (r *gatewayReporter) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != r.told && text != "" {
		r.log.Error("Telling the API server of the tunnel", "error", err)
	}
	r.told = text
}
