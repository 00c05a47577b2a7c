package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/discovery"
	"liqo.io/liqo/internal/discovery/query"
	"liqo.io/liqo/internal/kube"
)

// TestForeignClustersFollowTheAnnouncements: what is found gets a ForeignCluster, an unchanged announcement asks the API server nothing, a new
// address is written, and the end of the announcement deletes the ForeignCluster.
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
	a.Client = nil // whoever asks it now fails
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
		if text := log.String(); name == "two addresses" && !strings.Contains(text, "put off") {
			t.Errorf("nobody learns that changes are put off: %s", text)
		}
	}
}

// TestADomainWithoutResponseTakesNothingBack: the result says that clusters may be missing, so nothing is deleted.
func TestADomainWithoutResponseTakesNothingBack(t *testing.T) {
	a, err := New(Options{Domains: []string{"clusters.example.org", "lab.example.org"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if found := a.askDomains(t.Context(), []string{"127.0.0.1:1"}); !found.Partial {
		t.Errorf("nobody listens there: %+v", found)
	}
}

// TestQueriesComeInTime: before what is known expires, and otherwise as late as the schedule says.
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
}
