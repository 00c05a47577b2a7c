// Package gateway implements the control side of a gateway pod. It creates the link of the tunnel, pings the peer through the tunnel, answers probes
// about the state of this replica, and computes the status of the Connection. Its Choice probes the replicas of other gateways to find the active
// one.
//
// A pod has two containers. Container "wireguard" owns the link, uses no API and answers pings and probes. Container "gateway"
// takes the decisions. Traffic does not depend on the second container, and neither do the answers by which others judge the
// tunnel.
package gateway

import "time"

const (
	// Directory is shared by the two containers. It holds the configuration socket of a user-space tunnel and the announced state
	// of the replica.
	Directory = "/var/run/wireguard"
	// messageSize limits the bytes read of a ping or probe; the longest message has some 250 bytes.
	messageSize = 512
	// agentSilence is the time after the last announcement of the agent during which the responder still trusts that
	// announcement.
	agentSilence = 2 * time.Second
)
