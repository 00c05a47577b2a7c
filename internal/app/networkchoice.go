package app

import (
	"context"
	"maps"
	"net/netip"
	"sync"
	"time"

	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/network"
)

// gatewayChoice follows which pod of each gateway is at work, by asking those of gateways that have several.
type gatewayChoice struct {
	prober  *gateway.Prober
	timing  network.Timing
	changed func()

	mu      sync.Mutex
	peers   []network.Peer
	present map[string]netip.Addr
}

func newGatewayChoice(timing network.Timing, changed func()) *gatewayChoice {
	c := &gatewayChoice{timing: timing, changed: changed, present: map[string]netip.Addr{}}
	c.prober = gateway.NewProber(gateway.ProberOptions{Port: network.AskPort, Interval: timing.Ask, Changed: c.reconsider})
	return c
}

// of returns the gateway pods to route to, by cluster ID, and from now on asks these peers' gateways.
func (c *gatewayChoice) of(peers []network.Peer) map[string]netip.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peers = peers
	var ask []netip.Addr
	for _, p := range peers {
		if len(p.Candidates) > 1 {
			for _, candidate := range p.Candidates {
				ask = append(ask, candidate.IP)
			}
		}
	}
	c.prober.Ask(ask)
	c.present = c.choose()
	return maps.Clone(c.present)
}

func (c *gatewayChoice) choose() map[string]netip.Addr {
	heard, now := c.prober.Heard(), time.Now()
	chosen := make(map[string]netip.Addr, len(c.peers))
	for _, p := range c.peers {
		if gateway := network.Choose(p.Candidates, c.present[p.ClusterID], heard, now, c.timing); gateway.IsValid() {
			chosen[p.ClusterID] = gateway
		}
	}
	return chosen
}

// reconsider tells when another choice than the present one is due.
func (c *gatewayChoice) reconsider() {
	c.mu.Lock()
	same := maps.Equal(c.choose(), c.present)
	c.mu.Unlock()
	if !same {
		c.changed()
	}
}

// run asks until ctx ends. Silence is news too, so it looks again at every question.
func (c *gatewayChoice) run(ctx context.Context) error {
	tick := time.NewTicker(c.timing.Ask)
	defer tick.Stop()
	done := make(chan error, 1)
	go func() { done <- c.prober.Run(ctx) }()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			c.reconsider()
		}
	}
}
