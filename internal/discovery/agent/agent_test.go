package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/discovery"
	"liqo.io/liqo/internal/discovery/multicast"
	"liqo.io/liqo/internal/discovery/query"
	"liqo.io/liqo/internal/kube"
)

// TestForeignClustersFollowTheAnnouncements: the agent creates a ForeignCluster for each discovered cluster, sends no request for an unchanged
// announcement, writes a new address, and deletes the ForeignCluster when the announcement ends.
func TestForeignClustersFollowTheAnnouncements(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
	a, err := New(Options{ClusterID: "rome", Client: c, TTL: 90 * time.Second, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	const here, there = "https://198.51.100.7:443", "https://203.0.113.7:443"
	found := func(url string) query.Found {
		return query.Found{Clusters: []discovery.Cluster{{ID: "milan", URLs: []string{url}, TTL: 90 * time.Second}}}
	}
	read := func() (*corev1beta1.ForeignCluster, error) {
		fc := &corev1beta1.ForeignCluster{}
		return fc, c.Get(t.Context(), client.ObjectKey{Name: "milan"}, fc)
	}
	a.sync(t.Context(), corev1beta1.DiscoveredLAN, found(here), false)
	fc, err := read()
	if err != nil || fc.Spec.ForeignAuthURL != here || fc.Spec.TTL != 90 || fc.Spec.OutgoingPeeringEnabled != corev1beta1.PeeringAuto {
		t.Fatalf("%+v, %v", fc.Spec, err)
	}
	a.Client = nil // any request fails from now on
	hostile := found(here)
	hostile.Problems = []error{errors.New("hostile")}
	a.sync(t.Context(), corev1beta1.DiscoveredLAN, hostile, false)
	a.Client = c
	a.sync(t.Context(), corev1beta1.DiscoveredLAN, found(there), false)
	if fc, err := read(); err != nil || fc.Spec.ForeignAuthURL != there || fc.Spec.ClusterID != "milan" {
		t.Errorf("%+v, %v", fc.Spec, err)
	}
	for _, row := range []struct {
		why, way string
		began    time.Time
		found    query.Found
		full     bool
	}{
		{"it may be announced again before the regular pass", corev1beta1.DiscoveredLAN, time.Time{}, query.Found{}, false},
		{"another way of discovery deleted it", corev1beta1.DiscoveredDNS, time.Time{}, query.Found{}, true},
		{"a lookup failed", corev1beta1.DiscoveredLAN, time.Time{}, query.Found{Partial: true}, true},
		{"a new process has not heard it yet", corev1beta1.DiscoveredLAN, time.Now(), query.Found{}, true},
	} {
		a.began = row.began
		a.sync(t.Context(), row.way, row.found, row.full)
		if _, err := read(); err != nil {
			t.Errorf("%s: %v", row.why, err)
		}
	}
	a.began = time.Now().Add(-a.TTL)
	a.sync(t.Context(), corev1beta1.DiscoveredLAN, query.Found{}, true)
	if _, err := read(); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("it is no longer announced: %v", err)
	}
}

// TestWritesAreLimited: hosts of the network that announce 64 clusters and take them back, or change their addresses, again and again, cause no more
// writes and lines in the log than the limit allows.
func TestWritesAreLimited(t *testing.T) {
	announced := func(url string) (found query.Found) {
		for i := range writesAtOnce {
			found.Clusters = append(found.Clusters, discovery.Cluster{ID: fmt.Sprintf("thief-%d", i), URLs: []string{url}, TTL: 90 * time.Second})
		}
		return found
	}
	const here, there = "https://198.51.100.7:443", "https://203.0.113.7:443"
	for name, second := range map[string]query.Found{"goodbyes": {}, "two addresses": announced(there)} {
		var log bytes.Buffer
		writes := 0
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
				return fmt.Errorf("the Role does not allow to get %s", key)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				writes++
				return c.Create(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
				writes++
				return c.Patch(ctx, o, patch, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				writes++
				return c.Delete(ctx, o, opts...)
			},
		}).Build()
		a, err := New(Options{ClusterID: "rome", Client: c, TTL: 90 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for range 50 {
			a.sync(t.Context(), corev1beta1.DiscoveredLAN, announced(here), false)
			a.sync(t.Context(), corev1beta1.DiscoveredLAN, second, false)
		}
		limit := writesAtOnce + writesPerSecond*int(time.Since(start)/time.Second+1)
		if lines := strings.Count(log.String(), "\n"); writes < writesAtOnce || writes > limit || lines > limit {
			t.Errorf("%s: %d writes and %d lines, want %d to %d", name, writes, lines, writesAtOnce, limit)
		}
		a.sync(t.Context(), corev1beta1.DiscoveredLAN, announced(there), true)
		if text := log.String(); name == "two addresses" && !strings.Contains(text, "delayed") {
			t.Errorf("nobody learns that changes are put off: %s", text)
		}
	}
}

// TestADomainWithoutResponseTakesNothingBack: the result is marked as incomplete, so no ForeignCluster is deleted.
func TestADomainWithoutResponseTakesNothingBack(t *testing.T) {
	a, err := New(Options{Domains: []string{"clusters.example.org", "lab.example.org"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if asked := a.askDomains(t.Context(), []string{"127.0.0.1:1"}); !asked.found.Partial || len(asked.failed) != 2 {
		t.Errorf("nobody listens there: %+v", asked)
	}
}

// TestAFailureIsLoggedOnce: although each query to a server that is down has another local port.
func TestAFailureIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	a, err := New(Options{Domains: []string{"clusters.example.org"}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	a.Client = fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
	for range 4 {
		asked := a.askDomains(t.Context(), []string{"127.0.0.1:1"})
		a.syncDomains(t.Context(), &asked)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "127.0.0.1:1 for ") {
		t.Errorf("four failures lead to %d lines:\n%s", lines, &log)
	}
}

// quiet is local networks in which a host sends one message.
type quiet struct{ message *discovery.Message }

func (q quiet) Run(_ context.Context, handle func(*multicast.Packet)) {
	handle(&multicast.Packet{Message: q.message})
}
func (quiet) Send(*discovery.Message) error                           { return nil }
func (quiet) Reply(*multicast.Packet, *discovery.Message, bool) error { return nil }
func (quiet) Close()                                                  {}

// TestSlowDNSServersDelayNothing: while DNS servers are queried, the agent still handles the local networks.
func TestSlowDNSServersDelayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
		milan := discovery.Advertisement{ID: "milan", Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.7")}, Port: 443, TTL: 90}
		a, err := New(Options{
			ClusterID: "rome", Client: c, Domains: []string{"clusters.example.org"}, TTL: 90 * time.Second, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		a.Browse, a.group = true, quiet{discovery.Announcement(milan.Records(discovery.LocalDomain), false)}
		lookups := 0
		a.lookUp = func(ctx context.Context) domains {
			lookups++
			select {
			case <-ctx.Done():
			case <-time.After(2*refresh + domainsTimeout):
			}
			return domains{found: query.Found{Clusters: []discovery.Cluster{{ID: "naples", URLs: []string{"https://203.0.113.7:443"}, TTL: time.Minute}}}}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		there := func(name string) bool {
			return c.Get(t.Context(), client.ObjectKey{Name: name}, &corev1beta1.ForeignCluster{}) == nil
		}
		time.Sleep(2 * settle)
		synctest.Wait()
		if !there("milan") {
			t.Error("a cluster of the local network is not found while DNS servers are asked")
		}
		time.Sleep(2 * refresh)
		synctest.Wait()
		if lookups != 1 || there("naples") {
			t.Errorf("there are %d lookups at a time, and naples is there: %t", lookups, there("naples"))
		}
		time.Sleep(refresh)
		synctest.Wait()
		if !there("naples") || lookups != 2 {
			t.Errorf("naples is there: %t, after %d lookups", there("naples"), lookups)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestQueriesComeInTime: a query is sent before the known records expire, and otherwise as late as the schedule allows.
func TestQueriesComeInTime(t *testing.T) {
	a, err := New(Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if got := a.untilQuery(45 * time.Second); got != 45*time.Second {
		t.Errorf("nothing is known: %s", got)
	}
	service := discovery.ServiceName(discovery.LocalDomain)
	records := []discovery.Record{{Name: service, Type: discovery.PTR, TTL: 10, Target: "milan." + service}}
	a.cache.Add(discovery.LocalDomain, records, time.Now())
	if got := a.untilQuery(45 * time.Second); got > 8*time.Second || got < time.Second {
		t.Errorf("a record of 10 s: %s", got)
	}
	a.cache = discovery.Cache{}
	a.cache.Add(discovery.LocalDomain, records, time.Now().Add(-time.Minute))
	if got := a.untilQuery(45 * time.Second); got != 45*time.Second {
		t.Errorf("a record that has expired: %s", got)
	}
}
