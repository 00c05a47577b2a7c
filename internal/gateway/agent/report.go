package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
)

const (
	// reportInterval is how often the agent checks whether the status has to change. It writes only changes.
	reportInterval = 500 * time.Millisecond
	// writeTimeout limits the duration of one write.
	writeTimeout = 10 * time.Second
)

// Connections is the Reporter of real gateways. It writes the status of the Connection and labels the active pod.
type Connections struct {
	Client client.Client
	// Cache serves the Connection and the pods of the gateway.
	Cache client.Reader
	// Namespace and Name are those of the GatewayServer or GatewayClient. Pod is the name of this pod.
	Namespace, Name, Pod string
	Log                  *slog.Logger
	logged               string // the last logged failure
}

// Report writes the changes. It logs a failure only if the previous report did not fail the same way.
func (r *Connections) Report(ctx context.Context, seen gateway.Observation, active bool, peer *network.Peer) {
	text := ""
	if err := errors.Join(r.connection(ctx, seen), r.label(ctx, active, peer)); err != nil {
		text = err.Error()
	}
	if text != r.logged && text != "" {
		r.Log.Error("Failed to report the state of the tunnel to the API server", "error", text)
	}
	r.logged = text
}

// connection updates the status of the Connection. The controller manager creates the Connection.
func (r *Connections) connection(ctx context.Context, seen gateway.Observation) error {
	key := client.ObjectKey{Namespace: r.Namespace, Name: networkingv1beta1.GatewayChild(r.Name)}
	var before networkingv1beta1.Connection
	if err := r.Cache.Get(ctx, key, &before); err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("waiting for Connection %s", key)
		}
		return fmt.Errorf("reading Connection %s: %w", key, err)
	}
	after := before.DeepCopy()
	after.Status = gateway.Status(before.Status, before.Generation, seen)
	ctx, stop := context.WithTimeout(ctx, writeTimeout)
	defer stop()
	return kube.PatchStatus(ctx, r.Client, after, before.DeepCopy())
}

// label puts the label LabelActive on this pod, which is the active one, and removes it from all other pods of the gateway. The
// label serves users and label selectors.
func (r *Connections) label(ctx context.Context, active bool, peer *network.Peer) error {
	if !active {
		return nil
	}
	var pods corev1.PodList
	if err := r.Cache.List(ctx, &pods, client.InNamespace(r.Namespace), client.MatchingLabels{
		networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway, networkingv1beta1.LabelGatewayName: peer.Gateway,
	}); err != nil {
		return fmt.Errorf("listing the pods of the gateway: %w", err)
	}
	ctx, stop := context.WithTimeout(ctx, writeTimeout)
	defer stop()
	var problems []error
	for i := range pods.Items {
		before := &pods.Items[i]
		marked, wanted := before.Labels[networkingv1beta1.LabelActive] != "", before.Name == r.Pod
		if marked == wanted {
			continue
		}
		after := before.DeepCopy()
		delete(after.Labels, networkingv1beta1.LabelActive)
		if wanted {
			after.Labels[networkingv1beta1.LabelActive] = "true"
		}
		if err := r.Client.Patch(ctx, after, client.MergeFrom(before.DeepCopy())); client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("marking pod %s: %w", before.Name, err))
		}
	}
	return errors.Join(problems...)
}
