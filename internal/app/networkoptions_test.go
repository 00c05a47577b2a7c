package app

import (
	"strings"
	"testing"
	"time"

	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/network"
)

func TestGatewayOptions(t *testing.T) {
	good := []string{
		"--name=milan", "--namespace=liqo-tenant-milan", "--cluster-id=rome", "--remote-cluster-id=milan", "--node-name=n", "--pod-name=p",
		"--pod-ip=10.0.0.1", "--mode=server",
	}
	o, err := parseGateway(good)
	if err != nil {
		t.Fatal(err)
	}
	if o.role != network.Server || o.secretName != "gw-milan" || o.pingInterval != 100*time.Millisecond || o.pingLossThreshold != 5 || !o.options().ClampMSS {
		t.Errorf("got %+v", o)
	}
	for flag, want := range map[string]string{
		"--name=": "--name is required", "--pod-ip=fe80::1": "want an IPv4 address", "--mode=both": "want server or client", "--overlay-port=0": "want a port",
		"--ping-interval=1ms": "want 10ms or more", "--ping-loss-threshold=0": "want 1 or more", "--ping-update-status-interval=1ms": "want 1s or more",
		"more": `unexpected argument "more"`,
	} {
		if _, err := parseGateway(append(good[:len(good):len(good)], flag)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to say %q", flag, err, want)
		}
	}
}

func TestFabricOptions(t *testing.T) {
	o, err := parseFabric([]string{"--node-name=n", "--full-masquerade", "--rule-priority=100", "--overlay-port=7000"})
	if want := (network.Options{OverlayPort: 7000, RulePriority: 100, FullMasquerade: true}); err != nil || o.options() != want || o.daemonSet == "" {
		t.Errorf("got %+v, %v", o, err)
	}
	for flag, want := range map[string]string{
		"--node-name=": "--node-name is required", "--rule-priority=32766": "less than 32766", "--overlay-port=65536": "want a port",
	} {
		if _, err := parseFabric([]string{"--node-name=n", flag}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to say %q", flag, err, want)
		}
	}
}

func TestTunnelOptions(t *testing.T) {
	for mtu, want := range map[string]int{"0": defaultTunnelMTU, "1300": 1300} {
		if o, err := parseTunnel([]string{"--mtu=" + mtu}); err != nil || o.MTU != want || o.Implementation != gateway.Kernel {
			t.Errorf("--mtu=%s: %+v, %v", mtu, o, err)
		}
	}
	for flag, want := range map[string]string{"--implementation=magic": "want kernel or userspace", "--mtu=100": "want 576"} {
		if _, err := parseTunnel([]string{flag}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to say %q", flag, err, want)
		}
	}
}
