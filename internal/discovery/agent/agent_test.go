package agent

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/discovery"
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
	found := func(url string) []discovery.Cluster {
		return []discovery.Cluster{{ID: "milan", URLs: []string{url}, TTL: 90 * time.Second}}
	}
	read := func() (*corev1beta1.ForeignCluster, error) {
		fc := &corev1beta1.ForeignCluster{}
		return fc, c.Get(t.Context(), client.ObjectKey{Name: "milan"}, fc)
	}
	a.sync(t.Context(), corev1beta1.DiscoveredLAN, found(here), nil, false)
	fc, err := read()
	if err != nil || fc.Spec.ForeignAuthURL != here || fc.Spec.TTL != 90 || fc.Spec.OutgoingPeeringEnabled != corev1beta1.PeeringAuto {
		t.Fatalf("%+v, %v", fc.Spec, err)
	}
	a.Client = nil // whoever asks it now fails
	a.sync(t.Context(), corev1beta1.DiscoveredLAN, found(here), []error{errors.New("hostile")}, false)
	a.Client = c
	a.sync(t.Context(), corev1beta1.DiscoveredLAN, found(there), nil, false)
	if fc, err := read(); err != nil || fc.Spec.ForeignAuthURL != there || fc.Spec.ClusterID != "milan" {
		t.Errorf("%+v, %v", fc.Spec, err)
	}
	a.sync(t.Context(), corev1beta1.DiscoveredDNS, nil, nil, true)
	if _, err := read(); err != nil {
		t.Errorf("another way of discovery took it: %v", err)
	}
	a.began = time.Now()
	a.sync(t.Context(), corev1beta1.DiscoveredLAN, nil, nil, true)
	if _, err := read(); err != nil {
		t.Errorf("a new process has not heard it yet: %v", err)
	}
	a.began = time.Now().Add(-a.TTL)
	a.sync(t.Context(), corev1beta1.DiscoveredLAN, nil, nil, true)
	if _, err := read(); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("it is no longer announced: %v", err)
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
