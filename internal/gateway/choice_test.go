package gateway

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"liqo.io/liqo/internal/dataplane/agent"
	"liqo.io/liqo/internal/network"
)

// TestRestartedAgentKeepsRoutesAtFirst: an agent that restarts keeps the existing routes until the replicas of gateways had time to report which one
// is active. It may not be the oldest one.
func TestRestartedAgentKeepsRoutesAtFirst(t *testing.T) {
	old, young := netip.MustParseAddr("10.244.1.10"), netip.MustParseAddr("10.244.1.11")
	several := network.Peer{ClusterID: "milan", Candidates: []network.Candidate{
		{Pod: "old", IP: old, Ready: true, Created: 1}, {Pod: "young", IP: young, Ready: true, Created: 2},
	}}
	single := network.Peer{ClusterID: "rome", Candidates: several.Candidates[:1]}
	start := time.Unix(1000, 0)
	answer := func(s network.State) network.ProbeResult {
		return network.ProbeResult{Answer: network.Answer{State: s}, At: start}
	}
	for _, c := range []struct {
		name   string
		peer   network.Peer
		after  time.Duration
		heard  map[netip.Addr]network.ProbeResult
		choice netip.Addr // none while it waits
	}{
		{"one replica", single, 0, nil, old},
		{"nobody answered yet", several, 0, nil, netip.Addr{}},
		{"the standby answered", several, 0, map[netip.Addr]network.ProbeResult{old: answer(network.Standby)}, netip.Addr{}},
		{"the active one answered", several, 0, map[netip.Addr]network.ProbeResult{young: answer(network.Active)}, young},
		{"nobody is at work", several, 0, map[netip.Addr]network.ProbeResult{old: answer(network.Standby), young: answer(network.Dialing)}, old},
		{"nobody will answer", several, time.Second, nil, old},
	} {
		t.Run(c.name, func(t *testing.T) {
			told := 0
			choice := NewChoice(network.DefaultTiming(0, 0), func() { told++ })
			now := start
			heard := map[netip.Addr]network.ProbeResult(nil)
			choice.now, choice.results = func() time.Time { return now }, func() map[netip.Addr]network.ProbeResult { return heard }
			_, _ = choice.Of([]network.Peer{c.peer})
			now, heard = start.Add(c.after), c.heard
			choice.reconsider()
			waited := len(c.peer.Candidates) > 1
			if due := c.choice.IsValid() && waited; due != (told > 0) {
				t.Errorf("told of a choice: %v, want %v", told > 0, due)
			}
			got, err := choice.Of([]network.Peer{c.peer})
			if errors.Is(err, agent.ErrUnknown) == c.choice.IsValid() || got[c.peer.ClusterID] != c.choice {
				t.Errorf("got %v, %v, want %v", got, err, c.choice)
			}
			if !c.choice.IsValid() {
				return
			}
			if _, err := choice.Of([]network.Peer{c.peer, {ClusterID: "new", Candidates: several.Candidates}}); err != nil {
				t.Errorf("a peer that comes later stops the agent: %v", err)
			}
		})
	}
}
