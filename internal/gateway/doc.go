// Package gateway is what a gateway pod does beside its data plane: it keeps the tunnel's link there, asks the peer through the tunnel
// whether it answers, tells who asks whether this replica is at work, and writes the Connection.
//
// A pod has two containers. "wireguard" holds the link, talks to no API and answers pings and probes; "gateway" decides. Traffic, and the
// answers that others judge the tunnel by, do not depend on the second one being there.
package gateway

import "time"

const (
	// Directory is shared by the two containers: the configuration socket of a user-space tunnel, and what is told about the replica.
	Directory = "/var/run/wireguard"
	// messageSize bounds what is read of a ping or probe; the longest has some 250 bytes.
	messageSize = 512
	// agentSilence is how long the agent may be silent before what it told is no longer passed on as it is.
	agentSilence = 2 * time.Second
)
