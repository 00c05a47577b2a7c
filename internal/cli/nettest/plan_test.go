package nettest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testedPair is a consumer with two pods and a provider with one; the provider is seen under another address.
func testedPair() *testedWorld {
	address := netip.MustParseAddr
	return &testedWorld{
		replicas: map[string]string{"milan-0": "milan", "rome-0": "rome", "rome-1": "rome"},
		clusters: []testedCluster{
			{
				id: "rome", pods: []string{"rome-0", "rome-1"}, hosts: []string{"host-a"},
				endpoints: []testedEndpoint{{address("10.1.0.1"), "rome-0"}, {address("10.1.0.2"), "rome-1"}, {address("10.71.0.1"), "milan-0"}},
				nodes:     []testedNode{{"rome-1", address("172.30.1.1"), true}, {"rome-2", address("172.30.1.2"), false}},
				nodePort:  30080, balancers: []string{"172.30.1.128"}, outside: []netip.Addr{address("10.70.0.9")},
			},
			{
				id: "milan", pods: []string{"milan-0"}, hosts: []string{"host-b"},
				endpoints: []testedEndpoint{{address("10.1.0.1"), "milan-0"}, {address("10.72.0.1"), "rome-0"}, {address("10.72.0.2"), "rome-1"}},
				nodes:     []testedNode{{"milan-1", address("172.30.2.1"), true}}, nodePort: 31000,
			},
		},
	}
}

func TestPlannedChecks(t *testing.T) {
	titles := func(o testOptions) []string {
		counts := map[string]int{}
		for _, check := range planChecks(testedPair(), &o) {
			counts[check.title] += len(check.urls)
		}
		var list []string
		for title, n := range counts {
			list = append(list, fmt.Sprintf("%s: %d", title, n))
		}
		slices.Sort(list)
		return list
	}
	for _, test := range []struct {
		name    string
		options testOptions
		want    []string
	}{
		{"basic", testOptions{basic: true, outside: "http://x"}, []string{"pod to pods: 9", "pod to the outside by IP objects: 2"}},
		{"default", testOptions{outside: "http://x"}, []string{
			"host network to pods: 6", "pod to Service: 9", "pod to pods: 9", "pod to the outside by IP objects: 2", "pod to the outside: 3",
		}},
		{"all", testOptions{basic: true, podToNodePort: true, externalToNodePort: true, balancer: true, nodes: nodesAll, outside: "http://9.9.9.9:80/x"}, []string{
			"pod to load balancer: 2", "pod to node ports: 15", "pod to pods: 9", "pod to the outside by IP objects: 2", "this machine to node ports: 3",
		}},
		{"workers", testOptions{basic: true, externalToNodePort: true, nodes: nodesWorkers}, []string{"pod to pods: 9", "pod to the outside by IP objects: 2", "this machine to node ports: 1"}},
		{"control planes", testOptions{basic: true, externalToNodePort: true, nodes: nodesControlPlanes}, []string{"pod to pods: 9", "pod to the outside by IP objects: 2", "this machine to node ports: 2"}},
	} {
		if diff := cmp.Diff(test.want, titles(test.options)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

// TestProvidersOfOneConsumer: the nodes of one provider reach the pods of another, also through a node port.
func TestProvidersOfOneConsumer(t *testing.T) {
	world := testedPair()
	world.replicas["naples-0"] = "naples"
	for i := range world.clusters {
		world.clusters[i].endpoints = append(world.clusters[i].endpoints, testedEndpoint{netip.MustParseAddr("10.74.0.1"), "naples-0"})
	}
	world.clusters = append(world.clusters, testedCluster{id: "naples", pods: []string{"naples-0"}, hosts: []string{"host-c"}, endpoints: world.clusters[0].endpoints})
	hosts, ports := 0, 0
	for _, check := range planChecks(world, &testOptions{podToNodePort: true}) {
		if !slices.Equal(check.replicas, world.names()) {
			t.Errorf("%s: %s may find %v, want all", check.title, check.pod, check.replicas)
		}
		switch check.title {
		case "host network to pods":
			hosts++
			if !check.everyone || len(check.urls) != len(world.replicas) {
				t.Errorf("%s asks %v", check.pod, check.urls)
			}
		case "pod to node ports":
			ports++
			if len(check.urls) == 0 || len(check.urls)%len(world.replicas) != 0 {
				t.Errorf("%s asks %v: each node has to be asked once for each replica", check.pod, check.urls)
			}
		}
	}
	if hosts != 3 || ports != 3 {
		t.Errorf("%d checks from the host network and %d of node ports, want 3 and 3", hosts, ports)
	}
}

func TestJudgedChecks(t *testing.T) {
	world := testedPair()
	check := planChecks(world, &testOptions{basic: true})[0]
	answer := func(pod string) testOutcome {
		return testOutcome{Answer: fmt.Sprintf(`{"pod":%q,"remote":"10.1.0.1:4"}`, pod)}
	}
	for _, test := range []struct {
		name     string
		outcomes []testOutcome
		want     []string
	}{
		{"all answer", []testOutcome{answer("rome-0"), answer("rome-1"), answer("milan-0")}, nil},
		{"one does not", []testOutcome{answer("rome-0"), answer("rome-1"), {Error: "timeout"}}, []string{"rome/rome-0 -> http://10.71.0.1/whoami: timeout"}},
		{"one twice", []testOutcome{answer("rome-0"), answer("rome-1"), answer("rome-1")}, []string{"rome/rome-0 -> pod milan-0: none of the 3 addresses leads to it"}},
		{"a stranger", []testOutcome{answer("rome-0"), answer("rome-1"), answer("thief")}, []string{
			`rome/rome-0 -> http://10.71.0.1/whoami: answered by "thief"`, "rome/rome-0 -> pod milan-0",
		}},
		{"no answer of ours", []testOutcome{answer("rome-0"), answer("rome-1"), {Answer: "<html>"}}, []string{`answered by ""`, "pod milan-0"}},
		{"cut short", []testOutcome{answer("rome-0"), answer("rome-1")}, []string{"was not asked"}},
	} {
		failures := check.judge(test.outcomes)
		if len(failures) != len(test.want) {
			t.Errorf("%s: %v, want %v", test.name, failures, test.want)
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(failures[i].String(), want) {
				t.Errorf("%s: %q, want %q in it", test.name, failures[i], want)
			}
		}
	}
	// A Service answers with whomever it likes, the outside with whatever it likes.
	service := testCheck{urls: []string{"a", "b"}, replicas: world.names()}
	if failures := service.judge([]testOutcome{answer("rome-0"), answer("rome-0")}); len(failures) > 0 {
		t.Error(failures)
	}
	outside := testCheck{urls: []string{"a"}, anything: true}
	if failures := outside.judge([]testOutcome{{Answer: "<html>"}}); len(failures) > 0 {
		t.Error(failures)
	}
}

func TestThroughIP(t *testing.T) {
	for url, want := range map[string]string{
		"http://9.9.9.9": "http://10.70.0.9", "http://9.9.9.9:8080/a/b?c": "http://10.70.0.9:8080/a/b?c", "http://9.9.9.9/": "http://10.70.0.9/",
	} {
		if got := throughIP(url, netip.MustParseAddr("10.70.0.9")); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func TestParsedOutcomes(t *testing.T) {
	got, err := parseOutcomes("{\"url\":\"a\",\"milliseconds\":1.5,\"answer\":\"x\\n\"}\n{\"url\":\"b\",\"error\":\"refused\"}\n")
	if diff := cmp.Diff([]testOutcome{{URL: "a", Milliseconds: 1.5, Answer: "x\n"}, {URL: "b", Error: "refused"}}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if _, err := parseOutcomes("/testserver: not found\n"); err == nil {
		t.Error("that was no outcome")
	}
}
