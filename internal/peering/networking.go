package peering

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/reasons"
)

// NetworkFacts holds the network objects of the connection between a remote cluster and this one.
type NetworkFacts struct {
	Configurations []networkingv1beta1.Configuration
	Servers        []networkingv1beta1.GatewayServer
	Clients        []networkingv1beta1.GatewayClient
	Connections    []networkingv1beta1.Connection
	// Requests are the NetworkRequests from which the two clusters create the other objects.
	Requests []networkingv1beta1.NetworkRequest
	// Silence is the time without a report after which the tunnel of a connected gateway counts as lost.
	Silence time.Duration
}

func (f *NetworkFacts) any() bool {
	return len(f.Configurations)+len(f.Servers)+len(f.Clients) > 0
}

// Silent returns the time until the next connected gateway counts as lost if it does not report before; 0 when there is none.
func (f *NetworkFacts) Silent(now time.Time) time.Duration {
	var soonest time.Duration
	for i := range f.Connections {
		c := &f.Connections[i]
		if c.Status.Value != networkingv1beta1.Connected || c.Status.Latency == nil || f.lost(c, now) {
			continue
		}
		// Add one second, so that the gateway counts as lost when the timer fires.
		if left := c.Status.Latency.Timestamp.Add(f.Silence).Sub(now) + time.Second; soonest == 0 || left < soonest {
			soonest = left
		}
	}
	return soonest
}

// lost reports whether the last report of a gateway is older than Silence. Callers check that the gateway is Connected.
func (f *NetworkFacts) lost(c *networkingv1beta1.Connection, now time.Time) bool {
	return c.Status.Latency != nil && now.Sub(c.Status.Latency.Timestamp.Time) > f.Silence
}

// networking compiles the status of the networking module.
func networking(f *NetworkFacts, previous *corev1beta1.Module, now metav1.Time) corev1beta1.Module {
	if !f.any() {
		return corev1beta1.Module{}
	}
	gateways := len(f.Servers) + len(f.Clients)
	presence := corev1beta1.Condition{
		Type: corev1beta1.NetworkGatewayPresence, Status: corev1beta1.StatusReady, Reason: reasons.GatewayPresence, Message: fmt.Sprintf("%d present", gateways),
	}
	if gateways == 0 {
		presence.Status, presence.Reason, presence.Message = corev1beta1.StatusNotReady, reasons.GatewayMissing, "waiting for a GatewayServer or GatewayClient"+waitsFor(f.Requests)
	}
	conditions := []corev1beta1.Condition{configured(f.Configurations), presence}
	servers := make([]metav1.Condition, 0, len(f.Servers))
	for i := range f.Servers {
		servers = append(servers, gatewayReady(f.Servers[i].Status.Conditions))
	}
	clients := make([]metav1.Condition, 0, len(f.Clients))
	for i := range f.Clients {
		clients = append(clients, gatewayReady(f.Clients[i].Status.Conditions))
	}
	if len(servers) > 0 {
		conditions = append(conditions, gatewayState(corev1beta1.NetworkGatewayServerStatus, servers))
	}
	if len(clients) > 0 {
		conditions = append(conditions, gatewayState(corev1beta1.NetworkGatewayClientStatus, clients))
	}
	return corev1beta1.Module{Enabled: true, Conditions: append(conditions, connected(f, previous, now))}
}

// waitsFor returns the message of a NetworkRequest that is not ready, as a suffix for another message. The NetworkRequest may report what is missing
// in the other cluster.
func waitsFor(all []networkingv1beta1.NetworkRequest) string {
	for i := range all {
		ready := meta.FindStatusCondition(all[i].Status.Conditions, "Ready")
		if ready != nil && ready.Status != metav1.ConditionTrue && ready.Message != "" {
			return "; NetworkRequest " + all[i].Name + ": " + ready.Message
		}
	}
	return ""
}

// configured returns whether every Configuration has its address ranges mapped in this cluster.
func configured(all []networkingv1beta1.Configuration) corev1beta1.Condition {
	c := corev1beta1.Condition{Type: corev1beta1.NetworkConfigurationStatus, Status: corev1beta1.StatusNotReady}
	if len(all) == 0 {
		c.Reason, c.Message = reasons.NetworkConfigurationMissing, "waiting for a Configuration"
		return c
	}
	for i := range all {
		ready := meta.FindStatusCondition(all[i].Status.Conditions, networkingv1beta1.ConditionCIDRsConfigured)
		if ready == nil || ready.ObservedGeneration != all[i].Generation {
			c.Reason, c.Message = networkingv1beta1.ReasonWaitingForNetworks, "waiting for the ranges of Configuration "+all[i].Name
			return c
		}
		if ready.Status != metav1.ConditionTrue {
			c.Reason, c.Message = ready.Reason, ready.Message
			return c
		}
	}
	c.Status, c.Reason, c.Message = corev1beta1.StatusReady, reasons.NetworkConfigurationPresent, "the address ranges are configured"
	return c
}

// gatewayReady returns the condition Ready of a gateway, and Unknown when there is none.
func gatewayReady(conditions []metav1.Condition) metav1.Condition {
	if ready := meta.FindStatusCondition(conditions, "Ready"); ready != nil {
		return *ready
	}
	return metav1.Condition{Status: metav1.ConditionUnknown}
}

// gatewayState summarizes the gateways of one kind. Its message includes that of the first gateway that is not ready.
func gatewayState(kind corev1beta1.ConditionType, all []metav1.Condition) corev1beta1.Condition {
	ready, why := 0, ""
	for _, c := range all {
		ready += count(c.Status == metav1.ConditionTrue)
		if c.Status != metav1.ConditionTrue {
			why = cmp.Or(why, c.Message)
		}
	}
	c := state(kind, reasons.CountedGateways, ready, len(all))
	if why != "" {
		c.Message += ": " + why
	}
	return c
}

// connected returns the condition of the tunnels. The worst tunnel determines it.
func connected(f *NetworkFacts, previous *corev1beta1.Module, now metav1.Time) corev1beta1.Condition {
	c := corev1beta1.Condition{
		Type: corev1beta1.NetworkConnectionStatus, Status: corev1beta1.StatusNotReady, Reason: reasons.ConnectionMissing, Message: "no gateway reports yet",
	}
	var broken, pending []string
	var slowest time.Duration
	for i := range f.Connections {
		connection := &f.Connections[i]
		switch {
		case connection.Status.Value == networkingv1beta1.Connected && f.lost(connection, now.Time):
			broken = append(broken, fmt.Sprintf("gateway %s has not reported since %s", connection.Name, connection.Status.Latency.Timestamp.UTC().Format(time.RFC3339)))
		case connection.Status.Value == networkingv1beta1.Connected:
			if latency := connection.Status.Latency; latency != nil {
				value, _ := time.ParseDuration(latency.Value) // a value that can't be parsed is not shown
				slowest = max(slowest, value)
			}
		case connection.Status.Value == networkingv1beta1.ConnectionError:
			broken = append(broken, explain(connection, "the peer does not answer"))
		default:
			pending = append(pending, explain(connection, "waiting for the peer to answer"))
		}
	}
	slices.Sort(broken)
	slices.Sort(pending)
	switch {
	case len(f.Connections) == 0:
	case len(broken) > 0:
		c.Status, c.Reason, c.Message = corev1beta1.StatusError, reasons.ConnectionError, strings.Join(broken, "; ")
	case len(pending) > 0:
		c.Status, c.Reason, c.Message = corev1beta1.StatusPending, reasons.ConnectionPending, strings.Join(pending, "; ")
	default:
		c.Status, c.Reason, c.Message = corev1beta1.StatusEstablished, reasons.ConnectionEstablished, latencyText(slowest, previous)
	}
	return c
}

// explain returns the last message of an untrue condition of the Connection, or text if there is none.
func explain(c *networkingv1beta1.Connection, text string) string {
	for _, condition := range c.Status.Conditions {
		if condition.Status != metav1.ConditionTrue && condition.Message != "" {
			text = condition.Message
		}
	}
	return "gateway " + c.Name + ": " + text
}

const latencyPrefix = "latency below "

// latencyText returns an upper bound of the latency. It keeps the bound in the previous status while the latency is between an eighth of that bound
// and the bound. So the status of a working tunnel is not written every few seconds.
func latencyText(latency time.Duration, previous *corev1beta1.Module) string {
	if latency <= 0 {
		return "the peer answers"
	}
	for _, c := range previous.Conditions {
		if c.Type != corev1beta1.NetworkConnectionStatus {
			continue
		}
		text, _ := strings.CutPrefix(c.Message, latencyPrefix)
		if bound, err := time.ParseDuration(text); err == nil && latency <= bound && latency > bound/8 {
			return c.Message
		}
	}
	bound := time.Millisecond
	for bound < latency*3/2 {
		bound *= 2
	}
	return latencyPrefix + bound.String()
}
