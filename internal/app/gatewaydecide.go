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

// leaveTimeout bounds how long a client that ends waits for another replica to take over.
const leaveTimeout = 8 * time.Second

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
			g.leave(context.WithoutCancel(ctx))
			return nil
		case <-heard:
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
	return gateway.Announce(gateway.Directory, gateway.Standing{State: replica.State, Since: replica.Since}, now)
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
		g.problems.tell([]network.Problem{{ClusterID: peer.ClusterID, Object: "Secret " + g.opts.namespace + "/" + g.opts.secretName, Text: err.Error()}})
		return gateway.Input{}, false
	}
	in := gateway.Input{
		Now: now, Peer: peer, Private: private, Device: g.device(), Pulse: g.pinger.Pulse(),
		Self: g.opts.podName, Siblings: g.heardSiblings(&peer),
	}
	if peer.Role == network.Client {
		in.Endpoints = g.resolver.Endpoints(peer.Endpoints, peer.Port)
	}
	return in, true
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

// leave lets another replica take over before this one ends. A client that says it is on standby is taken over from while its tunnel still
// carries traffic; a server has nothing to hand over, its client finds another one.
func (g *gatewayAgent) leave(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if in, ok := g.input(time.Now()); !ok || in.Peer.Role != network.Client || g.session.Replica().State != network.Active || len(in.Siblings) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(ctx, leaveTimeout)
	defer stop()
	go func() { _ = g.siblings.Run(ctx) }()
	since := time.Now()
	g.log.Info("Leaving the tunnel to another replica")
	for ctx.Err() == nil {
		now := time.Now()
		if err := gateway.Announce(gateway.Directory, gateway.Standing{State: network.Standby, Since: since}, now); err != nil {
			return
		}
		alive := false
		in, ok := g.input(now)
		for _, h := range in.Siblings {
			if h.State == network.Active && h.At.After(since) {
				return
			}
			alive = alive || now.Sub(h.At) < g.timing.Silence
		}
		if !ok || !alive && now.Sub(since) > g.timing.Silence {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(g.timing.Ask / 5):
		}
	}
}
