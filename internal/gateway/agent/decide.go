package agent

import (
	"context"
	"net/netip"
	"time"

	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/network"
)

const (
	// leaveTimeout limits how long a replica that shuts down waits for another one to take over. leaveInterval is the time
	// between two checks.
	leaveTimeout  = 8 * time.Second
	leaveInterval = 50 * time.Millisecond
	// byePause is how long a client waits after the shutdown notice of a server before it dials another server.
	byePause = 100 * time.Millisecond
	// deviceInterval is the interval at which the agent reads WireGuard when nothing is urgent.
	deviceInterval = time.Second
)

// decide runs the decision loop until ctx ends. It reacts to the tunnel and to the other replicas.
func (a *Agent) decide(ctx context.Context) error {
	for {
		now := time.Now()
		wait := min(a.step(ctx, now).Sub(now), a.opts.Timing.ProbeInterval)
		// While the tunnel works, decide at the moment of its timeout. While it does not, decide as soon as an answer arrives.
		observed := a.observed
		if last := a.pinger.PingStats().Last; a.Works() {
			wait, observed = min(wait, last.Add(a.opts.Timing.Lost).Sub(now)+time.Millisecond), nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-observed:
		case <-a.left:
			a.mu.Lock()
			a.session.PeerLeft()
			a.mu.Unlock()
		case <-time.After(wait):
		}
	}
}

// step takes one decision and announces the state of this replica. It returns the latest time for the next step.
func (a *Agent) step(ctx context.Context, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	in, ok := a.input(ctx, now)
	if !ok {
		return now.Add(a.opts.Timing.ProbeInterval)
	}
	if !a.leaving.IsZero() {
		if err := gateway.PublishStatus(a.opts.Directory, a.opts.ProbePort, gateway.ReplicaStatus{State: network.Standby, Since: a.leaving}, now); err != nil {
			a.opts.Log.Error("Failed to publish the state of this replica", "error", err)
		}
		return now.Add(a.opts.Timing.ProbeInterval)
	}
	if !a.session.Begun() {
		reported, _, err := gateway.PublishedStatus(a.opts.Directory)
		if err != nil {
			a.opts.Log.Error("Failed to read the last published state of this replica: starting without it", "error", err)
		}
		if a.session.Adopt(in, reported) {
			return now.Add(a.opts.PingInterval / 4)
		}
	}
	before, pause := a.session.Replica(), a.session.Pause(now)
	again, changed := a.session.Step(in)
	if after := a.session.Replica(); after.State != before.State {
		a.opts.Log.Info("Changed the state of this replica", "from", before.State, "to", after.State, "session", after.Session,
			"silence", in.PingStats.Silence(now).String(), "pause", pause.String())
		if after.State == network.Active {
			a.takeovers++
		}
	}
	if err := a.publishStatus(now); err != nil {
		a.opts.Log.Error("Failed to publish the state of this replica", "error", err)
	}
	if changed {
		a.applier.Facts()
	}
	return again
}

func (a *Agent) publishStatus(now time.Time) error {
	replica := a.session.Replica()
	return gateway.PublishStatus(a.opts.Directory, a.opts.ProbePort, gateway.ReplicaStatus{State: replica.State, Since: replica.Since}, now)
}

// input collects the observations for a decision. It returns false if the network facts or the keys are missing.
func (a *Agent) input(ctx context.Context, now time.Time) (gateway.Input, bool) {
	if a.known == nil {
		return gateway.Input{}, false
	}
	peer, ok := a.known.Peer(a.opts.Peer)
	if !ok {
		return gateway.Input{}, false
	}
	private, err := a.opts.PrivateKey(ctx)
	if err != nil {
		a.keys.Report([]network.Problem{{ClusterID: peer.ClusterID, Object: "keys of the gateway", Text: err.Error()}})
		return gateway.Input{}, false
	}
	a.keys.Report(nil)
	in := gateway.Input{
		Now: now, Peer: peer, Private: private, Device: a.recentDevice(now), PingStats: a.pinger.PingStats(),
		Self: a.opts.Pod, Siblings: a.probeSiblings(&peer),
	}
	a.refused = ""
	if peer.Role == network.Client {
		in.Endpoints, a.refused = a.resolver.Endpoints(&peer)
	}
	return in, true
}

// recentDevice returns a recent state of WireGuard. It reads the state at every call only where that is urgent: before the first
// decision, during a key change, and while the tunnel is silent.
func (a *Agent) recentDevice(now time.Time) gateway.Device {
	if !a.session.Begun() || a.session.Rotating() || a.session.Silent(a.pinger.PingStats(), now) || now.Sub(a.deviceRead) >= deviceInterval {
		return a.readDevice(now)
	}
	return a.device
}

// readDevice reads the state of WireGuard.
func (a *Agent) readDevice(now time.Time) gateway.Device {
	a.device, a.deviceRead = a.opts.Device(), now
	a.meter.Observe(a.device)
	return a.device
}

// probeSiblings sets the other pods of this gateway as the targets of probes. It returns their last answers by name of the pod.
func (a *Agent) probeSiblings(peer *network.Peer) map[string]network.ProbeResult {
	observed, siblings := a.siblings.Results(), make(map[string]network.ProbeResult, len(peer.Candidates))
	var ask []netip.Addr
	for _, c := range peer.Candidates {
		if c.Pod != a.opts.Pod {
			ask = append(ask, c.IP)
			siblings[c.Pod] = observed[c.IP]
		}
	}
	a.siblings.SetReplicas(ask)
	return siblings
}

// leave lets another replica take over before this one ends. The existing tunnel carries traffic meanwhile. In a client, this replica announces that it is on
// standby, and ends when another replica is active. In a server, it ends when the client can find another replica.
func (a *Agent) leave(ctx context.Context) {
	since := time.Now()
	a.mu.Lock()
	working := a.session.Replica().State == network.Active
	if working && a.opts.Role == network.Client {
		a.leaving = since
		a.pinger.Pause() // the server sends to the replica whose packet arrived last, so only the new replica may send now
	}
	a.mu.Unlock()
	if !working {
		return
	}
	a.opts.Log.Info("Handing the tunnel over to another replica")
	for time.Since(since) < leaveTimeout {
		a.step(ctx, time.Now())
		if a.followed(ctx, since) {
			a.sendShutdownNotice(ctx)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(leaveInterval):
		}
	}
}

// sendShutdownNotice notifies the gateway client in the peer that this gateway server is about to stop. The client then dials another replica of the server
// soon. Without the notice, it would first wait for the timeout of the tunnel. In a gateway client, sendShutdownNotice does nothing.
func (a *Agent) sendShutdownNotice(ctx context.Context) {
	if a.opts.Role != network.Server {
		return
	}
	a.mu.Lock()
	a.leaving = time.Now()
	a.session.Close()
	a.mu.Unlock()
	if err := a.pinger.Leave(); err != nil {
		a.opts.Log.Error("Failed to send the shutdown notice to the peer", "error", err)
	}
	a.applier.Facts() // removes the peer from WireGuard
	select {
	case <-ctx.Done():
	case <-time.After(4 * byePause):
	}
}

// followed reports whether this replica can end now: another replica can take over the tunnel, or the tunnel is no longer wanted.
func (a *Agent) followed(ctx context.Context, since time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	in, ok := a.input(ctx, time.Now())
	for _, h := range in.Siblings {
		if h.At.After(since) && (h.State == network.Active || in.Peer.Role == network.Server) {
			return true
		}
	}
	return !ok
}
