package nettest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// TestReportOfChecks: a check is repeated until it succeeds. A check that never succeeds is named, and is the last one with fail-fast.
func TestReportOfChecks(t *testing.T) {
	checks := []testCheck{
		{title: "good", cluster: "rome", pod: "a", urls: []string{"u"}, anything: true},
		{title: "good", cluster: "rome", pod: "late", urls: []string{"u"}, anything: true},
		{title: "bad", cluster: "milan", pod: "b", urls: []string{"u", "v"}, anything: true},
		{title: "bad", cluster: "milan", pod: "no-exec", urls: []string{"u"}, anything: true},
	}
	run := func(t *testing.T, failFast bool) (*testReport, error) {
		var late atomic.Int32
		report := &testReport{}
		err := report.run(t.Context(), checks, failFast, func(_ context.Context, c *testCheck) ([]testOutcome, error) {
			switch {
			case c.pod == "late" && late.Add(1) < attempts, c.pod == "b":
				return []testOutcome{{}, {Error: "refused"}}[2-len(c.urls):], nil
			case c.pod == "no-exec":
				return nil, errors.New("no such container")
			}
			return []testOutcome{{}}, nil
		}, func(*testCheck, []testFailure) {})
		return report, err
	}
	synctest.Test(t, func(t *testing.T) {
		report, err := run(t, false)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]struct{ good, all int }{"good": {2, 2}, "bad": {0, 2}}, report.counts, cmp.AllowUnexported(struct{ good, all int }{})); diff != "" {
			t.Error(diff)
		}
		said := report.verdict().Error()
		for _, want := range []string{"2 pairs fail", "milan/b -> v: refused", "milan/no-exec -> u: no such container", "network explain"} {
			if !strings.Contains(said, want) {
				t.Errorf("%q does not say %q", said, want)
			}
		}
		report, err = run(t, true)
		if err != nil || report.verdict() == nil || len(report.failures) != 1 {
			t.Errorf("with fail-fast: %v, %v", err, report.failures)
		}
	})
}

func TestInterruptedChecksAreNoSuccess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	report := &testReport{}
	err := report.run(ctx, []testCheck{{title: "a", urls: []string{"u"}}}, false, func(context.Context, *testCheck) ([]testOutcome, error) {
		cancel()
		return nil, errors.New("cut short")
	}, func(*testCheck, []testFailure) {})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestChecksFromThisMachine(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"pod":"p"}`) }))
	defer server.Close()
	outcomes := askFromHere(t.Context(), []string{server.URL, "http://127.0.0.1:1"})
	if len(outcomes) != 2 || outcomes[0].replica() != "p" || outcomes[0].Error != "" || outcomes[1].Error == "" {
		t.Errorf("%+v", outcomes)
	}
}

// TestOutsideByName: the objects for --ip can be given by name, like the default.
func TestOutsideByName(t *testing.T) {
	names := map[string][]string{"example.com": {"192.0.2.9", "192.0.2.7"}, "six.example.com": {"2001:db8::1"}, "192.0.2.5": {"192.0.2.5"}}
	resolve := func(_ context.Context, _, host string) ([]netip.Addr, error) {
		var out []netip.Addr
		for _, text := range names[host] {
			out = append(out, netip.MustParseAddr(text))
		}
		if out == nil {
			return nil, errors.New("no such host")
		}
		return out, nil
	}
	for outside, want := range map[string]string{
		"http://example.com": "192.0.2.7", "http://example.com:8080/x": "192.0.2.7", "http://192.0.2.5": "192.0.2.5",
		"http://six.example.com": "has no IPv4 address", "http://nowhere.example.com": "--outside http://ADDRESS",
	} {
		o := &testNetworkOptions{ip: true, testOptions: testOptions{outside: outside, nodes: nodesAll}}
		err := o.validate()
		if err == nil {
			err = o.locateOutside(t.Context(), resolve)
		}
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && o.outsideAddress.String() != want {
			t.Errorf("%s: %s, %v, want %s", outside, o.outsideAddress, err, want)
		}
	}
}

func TestReadyEndpoints(t *testing.T) {
	yes, no := true, false
	endpoint := func(ready *bool, addresses ...string) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: addresses, Conditions: discoveryv1.EndpointConditions{Ready: ready},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "pod-" + addresses[0]},
		}
	}
	got := readyEndpoints([]discoveryv1.EndpointSlice{
		{Endpoints: []discoveryv1.Endpoint{endpoint(&yes, "10.0.0.2"), endpoint(&no, "10.0.0.3")}},
		{Endpoints: []discoveryv1.Endpoint{endpoint(nil, "10.0.0.1"), endpoint(&yes, "10.0.0.2")}},
	})
	address := netip.MustParseAddr
	want := []testedEndpoint{{address("10.0.0.1"), "pod-10.0.0.1"}, {address("10.0.0.2"), "pod-10.0.0.2"}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestNodesThatTakePods(t *testing.T) {
	for _, test := range []struct {
		spec corev1.NodeSpec
		want bool
	}{
		{corev1.NodeSpec{}, true},
		{corev1.NodeSpec{Unschedulable: true}, false},
		{corev1.NodeSpec{Taints: []corev1.Taint{{Key: taintControlPlane, Effect: corev1.TaintEffectNoSchedule}}}, false},
		{corev1.NodeSpec{Taints: []corev1.Taint{{Key: taintControlPlane, Effect: corev1.TaintEffectPreferNoSchedule}}}, true},
		{corev1.NodeSpec{Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}}, true},
	} {
		if got := takesPods(&corev1.Node{Spec: test.spec}); got != test.want {
			t.Errorf("%+v: %t", test.spec, got)
		}
	}
}
