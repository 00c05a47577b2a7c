package datapath

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/discovery"
	"liqo.io/liqo/internal/discovery/agent"
	"liqo.io/liqo/internal/discovery/multicast"
	"liqo.io/liqo/internal/kube"
)

// discover runs an agent in the network of a host until the function that it returns is called.
func (h *host) discover(t *testing.T, o agent.Options) (stop func()) {
	t.Helper()
	o.TTL, o.Log = 4*time.Second, slog.New(slog.DiscardHandler)
	var a *agent.Agent
	h.must(t, func() (err error) { a, err = agent.New(o); return err })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the agent of %s: %v", h.name, err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// TestClustersFindEachOther: two clusters in one network find each other by multicast DNS, and liqoctl finds both. Announcements of a thief have no effect, and
// a cluster that sends a goodbye is removed.
func TestClustersFindEachOther(t *testing.T) {
	network := newLAN(t, "network")
	hosts := map[string]*host{}
	for i, name := range []string{"rome", "milan", "laptop", "thief"} {
		hosts[name] = newHost(t, name)
		network.plug(t, hosts[name], "eth0", netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 7, byte(i + 1)}), 24))
	}
	clients := map[string]client.Client{}
	stops := map[string]func(){}
	for i, name := range []string{"rome", "milan"} {
		clients[name] = fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
		stops[name] = hosts[name].discover(t, agent.Options{
			ClusterID: name, Client: clients[name], Browse: true, Announce: true,
			URL: func(context.Context) (string, error) { return fmt.Sprintf("https://192.168.7.%d:30443", i+1), nil },
		})
	}
	knows := func(who, whom, url string) func() error {
		return func() error {
			fc := &corev1beta1.ForeignCluster{}
			err := clients[who].Get(t.Context(), client.ObjectKey{Name: whom}, fc)
			switch {
			case url == "" && apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return err
			case fc.Spec.ForeignAuthURL != url || fc.Spec.OutgoingPeeringEnabled != corev1beta1.PeeringAuto:
				return fmt.Errorf("%s knows %+v", who, fc.Spec)
			}
			return nil
		}
	}
	eventually(t, "rome to find milan", knows("rome", "milan", "https://192.168.7.2:30443"))
	eventually(t, "milan to find rome", knows("milan", "rome", "https://192.168.7.1:30443"))
	eventually(t, "liqoctl to find both", func() error { // a search of 2 s is short on a busy machine, and packets can be lost
		return hosts["laptop"].in(func() error {
			clusters, problems, err := multicast.Discover(t.Context(), 2*time.Second)
			if err == nil && (len(clusters) != 2 || len(problems) > 0) {
				err = fmt.Errorf("found %+v, %v", clusters, problems)
			}
			return err
		})
	})

	// The thief announces the address of a metadata service as cluster turin, and its own address as cluster milan.
	var thief *multicast.Group
	hosts["thief"].must(t, func() (err error) { thief, err = multicast.Join(nil); return err })
	defer thief.Close()
	turin := discovery.Advertisement{ID: "turin", Addresses: []netip.Addr{netip.MustParseAddr("169.254.169.254")}, Port: 80, TTL: 4}
	milan := discovery.Advertisement{ID: "milan", Addresses: []netip.Addr{netip.MustParseAddr("192.168.7.4")}, Port: 30443, TTL: 4}
	for _, claim := range []discovery.Advertisement{turin, milan} {
		if err := thief.Send(discovery.Announcement(claim.Records(discovery.LocalDomain), false)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "rome to use none of two claims", knows("rome", "milan", ""))
	if err := knows("rome", "turin", "")(); err != nil {
		t.Errorf("turin: %v", err)
	}
	eventually(t, "rome to find milan again when the claim has expired", knows("rome", "milan", "https://192.168.7.2:30443"))

	stops["milan"]()
	eventually(t, "rome to hear the goodbye", knows("rome", "milan", ""))
}
