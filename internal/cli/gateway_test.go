package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
	"liqo.io/liqo/internal/install/installer"
)

// TestLateLoadBalancers: a command that reached its timeout says that a load balancer may take longer, and prints the same command with a timeout
// that outlasts the gateway's own limit. peer waits that long by default.
func TestLateLoadBalancers(t *testing.T) {
	chart, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := unstructured.NestedString(chart.Values, "networking", "gatewayTemplates", "server", "service", "loadBalancerTimeout")
	if err != nil {
		t.Fatal(err)
	}
	balancer, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	if least := balancer + 2*time.Minute; tunnel.BalancerTimeout < least {
		t.Errorf("the printed timeout is %s, want at least %s", tunnel.BalancerTimeout, least)
	}
	root := newRoot(session.New(genericiooptions.NewTestIOStreamsDiscard()))
	for _, path := range []string{"peer", "peer in-band", "peer out-of-band"} {
		command, _, err := root.Find(strings.Fields(path))
		if err != nil {
			t.Fatal(err)
		}
		if timeout, err := time.ParseDuration(command.Flag("timeout").DefValue); err != nil || timeout < tunnel.BalancerTimeout {
			t.Errorf("%s waits for %s: %v", path, timeout, err)
		}
	}
	connect, _, err := root.Find([]string{"network", "connect"})
	if err != nil {
		t.Fatal(err)
	}
	if err := connect.ParseFlags([]string{"--remote-kubeconfig", "my milan.yaml", "--mtu", "1300", "--timeout", "90s"}); err != nil {
		t.Fatal(err)
	}
	late := &session.WaitError{Text: "waiting for GatewayServer rome: timed out (--timeout), last seen: it has no address", Cause: context.DeadlineExceeded}
	for name, row := range map[string]struct {
		err         error
		timeout     time.Duration
		serviceType string
		hint        bool
		shown       string
	}{
		"the default":      {late, 2 * time.Minute, "", true, "2m"},
		"a load balancer":  {fmt.Errorf("rome: %w", late), 90 * time.Second, "LoadBalancer", true, "1m30s"},
		"a node port":      {late, 2 * time.Minute, "NodePort", false, ""},
		"a longer timeout": {late, tunnel.BalancerTimeout, "", false, ""},
		"another error":    {errors.New("refused"), time.Minute, "", false, ""},
		"success":          {nil, time.Minute, "", false, ""},
	} {
		got := tunnel.WithBalancerHint(row.err, connect, nil, row.timeout, row.serviceType)
		const command = "liqoctl network connect --mtu 1300 --remote-kubeconfig 'my milan.yaml' --timeout 5m"
		if hint := got != nil && strings.HasSuffix(got.Error(), command); hint != row.hint || !errors.Is(got, row.err) {
			t.Errorf("%s: %v", name, got)
		}
		if row.hint && (!strings.Contains(got.Error(), "it has no address") || !strings.Contains(got.Error(), "waited for "+row.shown)) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
