package gateway

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"liqo.io/liqo/internal/network"
)

func TestPreparedNamespaceForwards(t *testing.T) {
	directory := t.TempDir()
	files := []string{"ip_forward", "conf/all/rp_filter", "conf/default/rp_filter", "conf/eth0/rp_filter"}
	for _, name := range files {
		path := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("2\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Prepare(directory); err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		got, err := os.ReadFile(filepath.Join(directory, name))
		if want := map[bool]string{true: "1", false: "0"}[name == "ip_forward"]; err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %s", name, got, err, want)
		}
	}
	if err := Prepare(t.TempDir()); err == nil || !strings.Contains(err.Error(), "rp_filter") {
		t.Errorf("without settings: %v", err)
	}
}

// TestTunnelWaitsForTheHandover: Kubernetes stops both containers at once, and the tunnel is needed until another replica is active.
func TestTunnelWaitsForTheHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		directory := t.TempDir()
		ctx, stop := context.WithCancel(t.Context())
		work, end := linger(ctx, directory)
		defer end()
		tell := func() {
			if err := PublishStatus(directory, freePort(t).Port(), ReplicaStatus{network.Standby, noon}, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		tell()
		stop()
		for range 10 {
			time.Sleep(lingerSilence / 4)
			if work.Err() != nil {
				t.Fatal("it ended while the agent was there")
			}
			tell()
		}
		silent := time.Now()
		<-work.Done()
		if lasted := time.Since(silent); lasted < lingerSilence || lasted > lingerSilence+rest {
			t.Errorf("it ended %s after the agent", lasted)
		}
	})
}

func TestTunnelWithoutAnAgentEndsAtOnce(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	work, end := linger(ctx, t.TempDir())
	defer end()
	stop()
	select {
	case <-work.Done():
	case <-time.After(10 * time.Second):
		t.Error("it did not end")
	}
}
