package gateway

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"liqo.io/liqo/internal/network"
)

// start runs f until the test ends, which then waits for it.
func start(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited 10 s for %s", what)
}

// freePort returns an unused UDP port of 127.0.0.1.
func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	socket, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	return socket.LocalAddr().(*net.UDPAddr).AddrPort()
}

func TestPingsAreAnsweredWithoutTheAgent(t *testing.T) {
	at := freePort(t)
	heard := make(chan time.Duration, 1000)
	pinger := NewPinger(PingerOptions{
		ClusterID: "rome", Far: at, Interval: 2 * time.Millisecond, OnPong: func(rtt time.Duration) { heard <- rtt },
	})
	start(t, pinger.Run)
	eventually(t, "unanswered pings", func() bool { return pinger.PingStats().Pings > 3 })
	if stats := pinger.PingStats(); stats.Pongs != 0 || !stats.Last.IsZero() {
		t.Fatalf("nobody answers, yet: %+v", stats)
	}
	far, began := newResponder(t.TempDir()), time.Now()
	start(t, func(ctx context.Context) error { return far.servePings(ctx, at.String(), "") })
	eventually(t, "answers", func() bool { return pinger.PingStats().Pongs > 3 })
	stats := pinger.PingStats()
	if stats.RTT <= 0 || stats.RTT > time.Since(began) || stats.Last.Before(stats.Sent) || stats.Pongs > stats.Pings {
		t.Errorf("stats %+v", stats)
	}
	if rtt := <-heard; rtt <= 0 {
		t.Errorf("told of a round trip of %s", rtt)
	}
	if far.lastPing.Load() == 0 {
		t.Error("the far side did not notice that it was asked")
	}
}

func TestShutdownNoticeIsReceived(t *testing.T) {
	server, client := netip.MustParseAddr("127.0.0.11"), netip.MustParseAddr("127.0.0.12")
	port := freePort(t).Port()
	left := make(chan struct{}, 1000)
	// Both ends have one port, on addresses of their own.
	far := NewPinger(PingerOptions{Far: netip.AddrPortFrom(client, 1), Address: server, Local: port, Interval: 2 * time.Millisecond})
	near := NewPinger(PingerOptions{
		Far: netip.AddrPortFrom(server, 1), Address: client, Local: port, Interval: 2 * time.Millisecond, OnShutdownNotice: func() { left <- struct{}{} },
	})
	if err := far.Leave(); err != nil {
		t.Errorf("leaving before there was a tunnel: %v", err)
	}
	start(t, near.Run)
	start(t, far.Run)
	eventually(t, "both to ask", func() bool { return far.PingStats().Pings > 1 && near.PingStats().Pings > 1 })
	if len(left) != 0 {
		t.Error("the other side left without a word")
	}
	if err := far.Leave(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the word", func() bool { return len(left) == 1 })
}

func TestPongsCountOnce(t *testing.T) {
	p := NewPinger(PingerOptions{})
	sent := []time.Time{time.Unix(100, 0), time.Unix(101, 0)}
	copy(p.sent[:], sent)
	now := time.Unix(101, 5000)
	p.answered(sent[1], now)
	p.answered(sent[1], now.Add(time.Second)) // again
	p.answered(sent[0], now)                  // overtaken
	p.answered(time.Unix(99, 0), now)         // not ours
	p.answered(time.Time{}, now)
	if got := p.PingStats(); got.Pongs != 2 || !got.Last.Equal(now) || got.RTT != 5*time.Microsecond {
		t.Errorf("stats %+v", got)
	}
}

func TestAnswersToPings(t *testing.T) {
	got, err := answerPing([]byte(`{"clusterID":"rome","msgType":"PING","timeStamp":"2026-01-02T03:04:05.678901234Z"}`))
	if want := `{"clusterID":"rome","msgType":"PONG","timeStamp":"2026-01-02T03:04:05.678901234Z"}`; err != nil || string(got) != want {
		t.Errorf("answer %s, %v, want %s", got, err, want)
	}
	for _, bad := range []string{``, `{`, `{"msgType":"PONG"}`, `{"msgType":"ping"}`, `[]`, strings.Repeat("x", messageSize)} {
		if got, err := answerPing([]byte(bad)); err == nil {
			t.Errorf("%q was answered with %s", bad, got)
		}
	}
}

func TestProbesReportTheStateOfTheReplica(t *testing.T) {
	at, directory := freePort(t), t.TempDir()
	replica := newResponder(directory)
	start(t, func(ctx context.Context) error { return replica.serveProbes(ctx, at.String()) })
	changes := make(chan struct{}, 1000)
	prober := NewProber(ProberOptions{Port: at.Port(), Interval: 2 * time.Millisecond, Changed: func() { changes <- struct{}{} }})
	silent := netip.MustParseAddr("127.0.0.2")
	prober.SetReplicas([]netip.Addr{at.Addr(), silent})
	start(t, prober.Run)
	state := func() network.State { return prober.Results()[at.Addr()].State }
	eventually(t, "standby, as nothing was announced", func() bool { return state() == network.Standby })

	began := time.Now().Add(-time.Minute)
	now := time.Now()
	if err := PublishStatus(directory, at.Port(), ReplicaStatus{network.Active, began}, now); err != nil {
		t.Fatal(err)
	}
	if _, told, err := PublishedStatus(directory); err != nil || !told.Equal(now) {
		t.Errorf("announced at %s, and read as announced at %s, %v", now, told, err)
	}
	eventually(t, "active", func() bool { return state() == network.Active })
	if heard := prober.Results()[at.Addr()]; heard.For < time.Minute || heard.For > 2*time.Minute {
		t.Errorf("heard %+v, want active for a minute", heard)
	}
	if len(changes) == 0 {
		t.Error("nobody was told of the change")
	}
	if !prober.Results()[silent].At.IsZero() {
		t.Error("an address where nobody is has answered")
	}
	prober.SetReplicas([]netip.Addr{silent})
	if _, ok := prober.Results()[at.Addr()]; ok {
		t.Error("whom nobody wants to ask any more is still listed")
	}
}

// TestChangesAreSentToRecentProbers: the sender of a recent probe gets a change without another probe. Senders of old probes, or from other
// addresses, do not.
func TestChangesAreSentToRecentProbers(t *testing.T) {
	at, directory := freePort(t), t.TempDir()
	replica := newResponder(directory)
	start(t, func(ctx context.Context) error { return replica.serveProbes(ctx, at.String()) })
	prober := NewProber(ProberOptions{Port: at.Port(), Interval: time.Hour}) // asks once
	prober.SetReplicas([]netip.Addr{at.Addr()})
	eventually(t, "somebody who hears the question", func() bool {
		client, err := net.Dial("udp4", at.String())
		if err != nil {
			return false
		}
		defer client.Close()
		_ = client.SetDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = client.Write([]byte(`{"nonce":1}`))
		_, err = client.Read(make([]byte, messageSize))
		return err == nil
	})
	start(t, prober.Run)
	state := func() network.State { return prober.Results()[at.Addr()].State }
	eventually(t, "the first answer", func() bool { return state() == network.Standby })
	for _, to := range []network.State{network.Dialing, network.Active} {
		if err := PublishStatus(directory, at.Port(), ReplicaStatus{to, time.Now()}, time.Now()); err != nil {
			t.Fatal(err)
		}
		eventually(t, string(to), func() bool { return state() == to })
	}
}

func TestForgedAnswersAreNotBelieved(t *testing.T) {
	p := NewProber(ProberOptions{})
	replica, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	p.SetReplicas([]netip.Addr{replica})
	active := network.Answer{State: network.Active}
	now := time.Unix(1000, 0)
	if p.answered(replica, probeMessage{Nonce: 0, Answer: active}, now) {
		t.Error("an answer without a question was believed")
	}
	p.questions()
	nonce := p.replicas[replica].nonce
	for from, m := range map[netip.Addr]probeMessage{
		replica: {Nonce: nonce + 1, Answer: active},
		other:   {Nonce: nonce, Answer: active},
	} {
		if p.answered(from, m, now) {
			t.Errorf("%+v from %s was believed", m, from)
		}
	}
	if p.answered(replica, probeMessage{Nonce: nonce, Answer: network.Answer{State: "master"}}, now) {
		t.Error("an unknown state was believed")
	}
	if !p.answered(replica, probeMessage{Nonce: nonce, Answer: active}, now) {
		t.Error("the answer was not taken")
	}
	if !p.answered(replica, probeMessage{Nonce: nonce, Answer: network.Answer{State: network.Standby}}, now) {
		t.Error("that the answer changed was not taken")
	}
	p.questions()
	if p.answered(replica, probeMessage{Nonce: nonce, Answer: active}, now) {
		t.Error("an answer to an older question was taken")
	}
}

func TestProbesWhileTheAgentIsAbsent(t *testing.T) {
	now := time.Unix(10_000, 0)
	recently, longAgo := now.Add(-time.Second), now.Add(-time.Hour)
	for name, c := range map[string]struct {
		told         network.State
		at, lastPing time.Time
		want         network.State
		began        time.Time
	}{
		"active, agent there":                   {network.Active, recently, time.Time{}, network.Active, longAgo},
		"active, agent away, peer there":        {network.Active, longAgo, recently, network.Active, longAgo},
		"active, agent away, peer away":         {network.Active, longAgo, longAgo, network.Standby, longAgo},
		"dialing, agent there":                  {network.Dialing, recently, time.Time{}, network.Dialing, longAgo},
		"dialing, agent away: nobody dials":     {network.Dialing, longAgo, recently, network.Standby, longAgo},
		"nothing told":                          {"", time.Time{}, recently, network.Standby, longAgo},
		"standby, agent away, pings for others": {network.Standby, longAgo, recently, network.Standby, longAgo},
		"active, both containers ended at once": {network.Active, recently, time.Time{}, network.Standby, now.Add(-time.Millisecond)},
		"the same, and the kernel carries on":   {network.Active, recently, now, network.Active, now.Add(-time.Millisecond)},
		"the agent outlived the tunnel":         {network.Active, now, time.Time{}, network.Active, now.Add(-time.Millisecond)},
	} {
		if got := answer(ReplicaStatus{c.told, longAgo}, c.at, c.began, c.lastPing, now); got.State != c.want || got.For < 0 {
			t.Errorf("%s: says %+v, want %s", name, got, c.want)
		}
	}
}

func TestPublishedStateOfTheReplica(t *testing.T) {
	directory := t.TempDir()
	if told, at, err := PublishedStatus(directory); err != nil || told != (ReplicaStatus{}) || !at.IsZero() {
		t.Errorf("before anything was told: %+v, %s, %v", told, at, err)
	}
	want := ReplicaStatus{network.Dialing, time.Unix(500, 0).UTC()}
	for _, now := range []time.Time{time.Unix(1000, 0), time.Unix(2000, 0)} {
		if err := PublishStatus(directory, freePort(t).Port(), want, now); err != nil {
			t.Fatal(err)
		}
	}
	told, at, err := PublishedStatus(directory)
	if err != nil || told.State != want.State || !told.Since.Equal(want.Since) || !at.Equal(time.Unix(2000, 0)) {
		t.Errorf("told %+v at %s, %v", told, at, err)
	}
	if err := os.WriteFile(filepath.Join(directory, replicaFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := PublishedStatus(directory); err == nil {
		t.Error("half a file was read")
	}
}
