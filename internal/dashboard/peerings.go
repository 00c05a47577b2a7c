package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/doctor"
)

// peeringDocument describes the peering of two clusters, from the reports of one or both of them.
type peeringDocument struct {
	// A and B are the cluster IDs, in alphabetical order.
	A      string `json:"a"`
	B      string `json:"b"`
	Health Health `json:"health"`
	// Uses has an entry for each direction in which resources are used.
	Uses   []useDocument   `json:"uses"`
	Tunnel *tunnelDocument `json:"tunnel,omitempty"`
	// Authentication is the state that the clusters report; the worse one if both do.
	Authentication corev1beta1.Phase       `json:"authentication,omitempty"`
	Type           corev1beta1.PeeringType `json:"type,omitempty"`
	// Alerts are the conditions that are not met.
	Alerts []string `json:"alerts,omitempty"`
}

// useDocument says that one cluster uses resources of another.
type useDocument struct {
	Consumer string            `json:"consumer"`
	Provider string            `json:"provider"`
	Phase    corev1beta1.Phase `json:"phase"`
	Health   Health            `json:"health"`
}

// tunnelDocument describes the tunnel between two clusters. Its figures are from the first end that has measured them.
type tunnelDocument struct {
	// State is the worse of the states at both ends: Connected, Connecting or Error.
	State  string `json:"state"`
	Health Health `json:"health"`
	MTU    int    `json:"mtu,omitempty"`
	// RoundTrip is in seconds. It is left out if it is outdated, because the tunnel is not connected or the cluster does not respond.
	RoundTrip  *float64 `json:"roundTrip,omitempty"`
	RoundTrips Series   `json:"roundTrips,omitempty"`
	// Forth is the traffic from A to B, Back the traffic from B to A, in bytes per second. They are left out if the last measurement is old.
	Forth  *float64 `json:"forth,omitempty"`
	Back   *float64 `json:"back,omitempty"`
	Forths Series   `json:"forths,omitempty"`
	Backs  Series   `json:"backs,omitempty"`
	// Unmeasured is why the traffic is not known.
	Unmeasured string   `json:"unmeasured,omitempty"`
	Messages   []string `json:"messages,omitempty"`
}

func (d Documents) peerings(state *State) {
	found := map[[2]string]*peeringDocument{}
	for i := range state.Clusters {
		c := &state.Clusters[i]
		for _, peer := range byAge(c.Peers) {
			if doctor.Former(peer) {
				continue
			}
			pair := [2]string{min(c.ID, peer.Spec.ClusterID), max(c.ID, peer.Spec.ClusterID)}
			document := found[pair]
			if document == nil {
				document = &peeringDocument{A: pair[0], B: pair[1], Uses: []useDocument{}}
				found[pair] = document
			}
			document.observe(state, c, peer)
		}
	}
	for pair, document := range found {
		document.Health = None
		for _, use := range document.Uses {
			document.Health = worse(document.Health, use.Health)
		}
		if document.Tunnel != nil {
			if document.Tunnel.Health != Good {
				document.Tunnel.RoundTrip = nil // an end that still reports a round trip is out of date
			}
			document.Health = worse(document.Health, document.Tunnel.Health)
		}
		document.Health = worse(document.Health, healthOfPhase(document.Authentication))
		slices.SortFunc(document.Uses, func(a, b useDocument) int { return cmp.Compare(a.Consumer, b.Consumer) })
		d.add(document, "peering", pair[0], pair[1])
	}
}

// observe adds what a cluster reports about the peering.
func (d *peeringDocument) observe(state *State, c *Cluster, peer *corev1beta1.ForeignCluster) {
	summary, id := peer.Status.Peering, peer.Spec.ClusterID
	d.use(c.ID, id, summary.Outgoing)
	d.use(id, c.ID, summary.Incoming)
	if worse(healthOfPhase(d.Authentication), healthOfPhase(summary.Authentication)) != healthOfPhase(d.Authentication) {
		d.Authentication = summary.Authentication
	}
	if summary.Type != "" {
		d.Type = summary.Type
	}
	modules := peer.Status.Modules
	for _, module := range []corev1beta1.Module{modules.Networking, modules.Authentication, modules.Offloading, {Conditions: peer.Status.Conditions}} {
		for _, condition := range module.Conditions {
			if unmet(condition.Status) {
				d.Alerts = append(d.Alerts, fmt.Sprintf("%s: %s is %s: %s", c.ID, condition.Type, condition.Status, condition.Message))
			}
		}
	}
	if tunnel := tunnelOf(c, peer, state.History[Tunnel{c.ID, id}], d.A == c.ID, state.Now); tunnel != nil {
		d.Tunnel = tunnel.combine(d.Tunnel)
	}
}

// unmet reports whether the state of a condition is a problem, or will be one if it lasts.
func unmet(status corev1beta1.ConditionStatus) bool {
	switch status {
	case corev1beta1.StatusEstablished, corev1beta1.StatusReady, corev1beta1.StatusNone, "":
		return false
	default:
		return true
	}
}

// use adds a direction of the peering. If both clusters report it, use keeps the worse phase.
func (d *peeringDocument) use(consumer, provider string, phase corev1beta1.Phase) {
	if phase == corev1beta1.PhaseNone || phase == "" {
		return
	}
	use := useDocument{Consumer: consumer, Provider: provider, Phase: phase, Health: healthOfPhase(phase)}
	i := slices.IndexFunc(d.Uses, func(u useDocument) bool { return u.Consumer == consumer })
	switch {
	case i < 0:
		d.Uses = append(d.Uses, use)
	case worse(d.Uses[i].Health, use.Health) != d.Uses[i].Health:
		d.Uses[i] = use
	}
}

// tunnelOf describes the tunnel to a peer as one cluster sees it. It is nil if there is none. first means that the cluster is A of the peering.
func tunnelOf(c *Cluster, peer *corev1beta1.ForeignCluster, history History, first bool, now time.Time) *tunnelDocument {
	connection := ConnectionInUse(c, peer.Spec.ClusterID)
	if connection == nil {
		return nil
	}
	state := cmp.Or(connection.Status.Value, networkingv1beta1.Connecting)
	// The controller manager also notices a gateway that no longer reports, and whose last report is therefore outdated.
	if state == networkingv1beta1.Connected && peer.Status.Peering.Networking == corev1beta1.PhaseError {
		state = networkingv1beta1.ConnectionError
	}
	out := &tunnelDocument{
		State: state, Health: healthOfTunnel(state), MTU: connection.Status.MTU, RoundTrips: history.RoundTrip, Unmeasured: history.Unmeasured,
		Forths: history.Sent, Backs: history.Received,
	}
	if at, ok := RoundTrip(connection); ok && out.Health == Good && c.Failure == "" {
		out.RoundTrip = &at.Value
	}
	if !first {
		out.Forths, out.Backs = out.Backs, out.Forths
	}
	if history.Unmeasured == "" {
		out.Forth, out.Back = out.Forths.current(now), out.Backs.current(now)
	}
	if out.Health != Good {
		for _, condition := range connection.Status.Conditions {
			if condition.Status != metav1.ConditionTrue { // a gateway that stopped reporting leaves its last state in the Connection
				out.Messages = append(out.Messages, c.ID+": "+condition.Message)
			}
		}
	}
	return out
}

// combine merges the documents of both ends: it takes the worse state, and fills missing measurements of this end with those of the other end.
func (t *tunnelDocument) combine(other *tunnelDocument) *tunnelDocument {
	if other == nil {
		return t
	}
	out := *other
	if worse(other.Health, t.Health) != other.Health {
		out.State, out.Health = t.State, t.Health
	}
	if out.RoundTrip == nil && (t.RoundTrip != nil || len(out.RoundTrips) == 0) {
		out.RoundTrip, out.RoundTrips = t.RoundTrip, t.RoundTrips
	}
	if out.Forth == nil && (t.Forth != nil || len(out.Forths) == 0) {
		out.Forths, out.Backs, out.Forth, out.Back, out.Unmeasured = t.Forths, t.Backs, t.Forth, t.Back, t.Unmeasured
	}
	out.MTU = cmp.Or(out.MTU, t.MTU)
	out.Messages = append(slices.Clone(other.Messages), t.Messages...)
	return &out
}

func healthOfTunnel(state string) Health {
	switch state {
	case networkingv1beta1.Connected:
		return Good
	case networkingv1beta1.Connecting:
		return Warning
	default:
		return Bad
	}
}

// ConnectionInUse returns the Connection that Liqo uses for a peer: the oldest one that is not being deleted; nil if there is none.
func ConnectionInUse(c *Cluster, peer string) *networkingv1beta1.Connection {
	var found *networkingv1beta1.Connection
	for i := range c.Connections {
		connection := &c.Connections[i]
		if connection.DeletionTimestamp != nil || connection.Labels[api.LabelRemoteClusterID] != peer {
			continue
		}
		if found == nil || api.CompareAge(connection, found) < 0 {
			found = connection
		}
	}
	return found
}

// RoundTrip returns the round trip that a Connection reports. It reports false if there is none.
func RoundTrip(connection *networkingv1beta1.Connection) (Point, bool) {
	latency := connection.Status.Latency
	if latency == nil {
		return Point{}, false
	}
	took, err := time.ParseDuration(latency.Value)
	return Point{At: latency.Timestamp.Unix(), Value: took.Seconds()}, err == nil
}
