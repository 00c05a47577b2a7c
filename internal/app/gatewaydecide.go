package app

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/network"
)

const (
	// leaveTimeout bounds how long a replica that ends waits for another one to take over; leaveInterval is how often it looks.
	leaveTimeout  = 8 * time.Second
	leaveInterval = 50 * time.Millisecond
	// byePause is how long a client waits after a server took leave before it dials another one.
	byePause = 100 * time.Millisecond
	// deviceInterval is how often WireGuard is asked for handshakes when nothing is urgent.
	deviceInterval = time.Second
)

// decide follows the tunnel and the other replicas, and has the agent change what that asks for, until ctx ends.
func (g *gatewayAgent) decide(ctx context.Context) error {
	for {
		now := time.Now()
		wait := min(g.step(now).Sub(now), g.timing.Ask)
		// At once when the tunnel has been silent for too long, or, where it was, when it speaks again.
		heard := g.heard
		if last := g.pinger.Pulse().Last; g.works() {
			wait, heard = min(wait, last.Add(g.timing.Lost).Sub(now)+time.Millisecond), nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-heard:
		case <-g.left:
			g.mu.Lock()
			g.session.PeerLeft()
			g.mu.Unlock()
		case <-time.After(wait):
		}
	}
}

// step decides once and tells others; it returns when to do it again at the latest.
func (g *gatewayAgent) step(now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	in, ok := g.input(now)
	if !ok {
		return now.Add(g.timing.Ask)
	}
	if !g.leaving.IsZero() {
		if err := gateway.Announce(gateway.Directory, network.AskPort, gateway.Standing{State: network.Standby, Since: g.leaving}, now); err != nil {
			g.log.Error("Telling others of this replica", "error", err)
		}
		return now.Add(g.timing.Ask)
	}
	if !g.session.Begun() {
		told, _, err := gateway.Announced(gateway.Directory)
		if err != nil {
			g.log.Error("Beginning as if there had been no agent before", "error", err)
		}
		if g.session.Adopt(in, told) && now.Sub(g.began) < g.timing.Lost+g.opts.pingInterval {
			return now.Add(g.opts.pingInterval / 4)
		}
	}
	before := g.session.Replica()
	again, changed := g.session.Step(in)
	if after := g.session.Replica(); after.State != before.State {
		g.log.Info("Replica changed", "from", before.State, "to", after.State, "session", after.Session)
	}
	if err := g.announce(now); err != nil {
		g.log.Error("Telling others of this replica", "error", err)
	}
	if changed {
		g.agent.Facts()
	}
	return again
}

func (g *gatewayAgent) announce(now time.Time) error {
	replica := g.session.Replica()
	return gateway.Announce(gateway.Directory, network.AskPort, gateway.Standing{State: replica.State, Since: replica.Since}, now)
}

// input is what there is to decide by; false while too little is known.
func (g *gatewayAgent) input(now time.Time) (gateway.Input, bool) {
	if g.known == nil {
		return gateway.Input{}, false
	}
	peer, ok := g.known.Peer(g.opts.remoteClusterID)
	if !ok {
		return gateway.Input{}, false
	}
	private, err := g.privateKey()
	if err != nil {
		g.keys.tell([]network.Problem{{ClusterID: peer.ClusterID, Object: "Secret " + g.opts.namespace + "/" + g.opts.secretName, Text: err.Error()}})
		return gateway.Input{}, false
	}
	g.keys.tell(nil)
	in := gateway.Input{
		Now: now, Peer: peer, Private: private, Device: g.recentDevice(now), Pulse: g.pinger.Pulse(),
		Self: g.opts.podName, Siblings: g.heardSiblings(&peer),
	}
	if peer.Role == network.Client {
		in.Endpoints = g.resolver.Endpoints(peer.Endpoints, peer.Port)
	}
	return in, true
}

// recentDevice is what WireGuard said not long ago: of all that is decided only a change of keys, and whether the peer is there, are urgent.
func (g *gatewayAgent) recentDevice(now time.Time) gateway.Device {
	if !g.session.Begun() || g.session.Rotating() || g.session.Silent(g.pinger.Pulse(), now) || now.Sub(g.asked) >= deviceInterval {
		g.said, g.asked = g.device(), now
	}
	return g.said
}

// heardSiblings asks the other pods of this gateway and returns what they said so far.
func (g *gatewayAgent) heardSiblings(peer *network.Peer) map[string]network.Heard {
	heard, siblings := g.siblings.Heard(), make(map[string]network.Heard, len(peer.Candidates))
	var ask []netip.Addr
	for _, c := range peer.Candidates {
		if c.Pod != g.opts.podName {
			ask = append(ask, c.IP)
			siblings[c.Pod] = heard[c.IP]
		}
	}
	g.siblings.Ask(ask)
	return siblings
}

// privateKey reads the gateway's own key.
func (g *gatewayAgent) privateKey() (dataplane.PrivateKey, error) {
	var secret corev1.Secret
	if err := g.facts.cache.Get(context.Background(), client.ObjectKey{Namespace: g.opts.namespace, Name: g.opts.secretName}, &secret); err != nil {
		return dataplane.PrivateKey{}, fmt.Errorf("waiting for the keys of the gateway: %w", err)
	}
	if err := network.CheckKeys(secret.Data); err != nil {
		return dataplane.PrivateKey{}, err
	}
	return dataplane.PrivateKey(secret.Data[networkingv1beta1.SecretPrivateKey]), nil
}

// leave lets another replica take over before this one ends. What is there goes on carrying traffic meanwhile. A client says that it is on
// standby, and ends when another one is at work; a server ends when there is another one for its client to find.
func (g *gatewayAgent) leave(ctx context.Context) {
	since := time.Now()
	g.mu.Lock()
	working := g.session.Replica().State == network.Active
	if working && g.opts.role == network.Client {
		g.leaving = since
		g.pinger.Pause() // whoever was heard last is answered
	}
	g.mu.Unlock()
	if !working {
		return
	}
	g.log.Info("Leaving the tunnel to another replica")
	for time.Since(since) < leaveTimeout {
		g.step(time.Now())
		if g.followed(since) {
			g.takeLeave(ctx)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(leaveInterval):
		}
	}
}

// takeLeave has the client of a server that ends look for another one at once, instead of when this one has been silent for long enough.
func (g *gatewayAgent) takeLeave(ctx context.Context) {
	if g.opts.role != network.Server {
		return
	}
	g.mu.Lock()
	g.leaving = time.Now()
	g.session.Close()
	g.mu.Unlock()
	if err := g.pinger.Leave(); err != nil {
		g.log.Error("Ending without a word", "error", err)
	}
	g.agent.Facts() // becomes deaf
	select {
	case <-ctx.Done():
	case <-time.After(4 * byePause):
	}
}

// followed tells whether there is somebody to leave the tunnel to, or no tunnel is wanted any more.
func (g *gatewayAgent) followed(since time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	in, ok := g.input(time.Now())
	for _, h := range in.Siblings {
		if h.At.After(since) && (h.State == network.Active || in.Peer.Role == network.Server) {
			return true
		}
	}
	return !ok
}
