package gateway

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"liqo.io/liqo/internal/dataplane/agent"
	"liqo.io/liqo/internal/network"
)

// Choice tracks which pod of each gateway is active. It probes the pods of gateways with several pods.
type Choice struct {
	prober  *Prober
	timing  network.Timing
	changed func()
	results func() map[netip.Addr]network.ProbeResult // last answers of the pods, by address
	now     func() time.Time

	mu      sync.Mutex
	peers   []network.Peer
	present map[string]netip.Addr
	// began is the time of the first call of Of. begun means that the first choice has been made.
	began time.Time
	begun bool
}

// NewChoice returns a Choice that calls changed whenever another pod should be chosen. It sends no probes until Run is called.
func NewChoice(timing network.Timing, changed func()) *Choice {
	c := &Choice{timing: timing, changed: changed, present: map[string]netip.Addr{}, now: time.Now}
	c.prober = NewProber(ProberOptions{Port: network.ProbePort, Interval: timing.Watch, Changed: c.reconsider})
	c.results = c.prober.Results
	return c
}

// Of returns the address of the gateway pod to route to, for each cluster ID. From then on, Choice probes the pods of these peers' gateways. Of returns
// agent.ErrUnknown until gateways with several pods have had time to answer. A restarted agent finds working routes, and must not replace them by a guess.
func (c *Choice) Of(peers []network.Peer) (map[string]netip.Addr, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began.IsZero() {
		c.began = c.now()
	}
	c.peers = peers
	var ask []netip.Addr
	for _, p := range peers {
		if len(p.Candidates) > 1 {
			for _, candidate := range p.Candidates {
				ask = append(ask, candidate.IP)
			}
		}
	}
	c.prober.SetReplicas(ask)
	if c.waits() {
		return nil, agent.ErrUnknown
	}
	c.begun, c.present = true, c.choose()
	return maps.Clone(c.present), nil
}

// waits reports whether it is too early for the first choice. This is so if no pod is known to be active for some peer, and a pod of its gateway may still
// answer. Choice does not wait for peers that are added later, because they have no routes that a guess could break.
func (c *Choice) waits() bool {
	if c.begun || c.now().Sub(c.began) >= c.timing.Silence {
		return false
	}
	results := c.results()
	return slices.ContainsFunc(c.peers, func(p network.Peer) bool {
		silent := 0
		for _, candidate := range p.Candidates {
			switch answer := results[candidate.IP]; {
			case answer.At.IsZero():
				silent++
			case answer.State == network.Active:
				return false
			}
		}
		return len(p.Candidates) > 1 && silent > 0
	})
}

func (c *Choice) choose() map[string]netip.Addr {
	results, now := c.results(), c.now()
	chosen := make(map[string]netip.Addr, len(c.peers))
	for _, p := range c.peers {
		if gateway := network.Choose(p.Candidates, c.present[p.ClusterID], results, now, c.timing); gateway.IsValid() {
			chosen[p.ClusterID] = gateway
		}
	}
	return chosen
}

// reconsider calls changed if the choice must change.
func (c *Choice) reconsider() {
	c.mu.Lock()
	due := !c.waits() && !maps.Equal(c.choose(), c.present)
	c.mu.Unlock()
	if due {
		c.changed()
	}
}

// Run probes the pods until ctx is done. A missing answer can change the choice too, so Run also reconsiders it at every interval.
func (c *Choice) Run(ctx context.Context) error {
	tick := time.NewTicker(c.timing.Watch)
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
