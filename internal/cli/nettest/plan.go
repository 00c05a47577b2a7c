package nettest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// testedCluster holds the facts about one cluster on which the checks depend, as its API server reports them.
type testedCluster struct {
	id string
	// pods and hosts are the names of the pods that send requests: pods holds those of the pod network, hosts those of the host network.
	pods, hosts []string
	// endpoints are the ready endpoints in all EndpointSlices of the Service, sorted by address.
	endpoints []testedEndpoint
	nodes     []testedNode
	// nodePort is the node port of the Service. balancers are the addresses or host names of its load balancer. outside are the addresses
	// of the outside host in this cluster, through the IP objects of the other clusters.
	nodePort  int32
	balancers []string
	outside   []netip.Addr
}

// testedEndpoint is the address at which a cluster reaches a replica.
type testedEndpoint struct {
	address netip.Addr
	pod     string
}

type testedNode struct {
	name         string
	address      netip.Addr
	controlPlane bool
}

// testedWorld holds all clusters, the consumer first.
type testedWorld struct {
	clusters []testedCluster
	// replicas maps the names of all pods that respond to the clusters in which they run.
	replicas map[string]string
}

// names returns the sorted names of the replicas in the given clusters, or in all clusters if none is given.
func (w *testedWorld) names(clusters ...string) []string {
	var names []string
	for name, cluster := range w.replicas {
		if len(clusters) == 0 || slices.Contains(clusters, cluster) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// testOptions selects the checks.
type testOptions struct {
	basic, podToNodePort, externalToNodePort, balancer bool
	nodes                                              string
	// outside is the URL of a server outside the clusters. It is empty for no such check.
	outside string
}

// Values of --np-nodes: the nodes whose node ports are checked.
const (
	nodesAll           = "all"
	nodesWorkers       = "workers"
	nodesControlPlanes = "control-planes"
)

// callerMachine is the source of the checks that liqoctl itself makes, not a pod.
const callerMachine = "this machine"

// testCheck is a check in which one source sends requests to several URLs.
type testCheck struct {
	// title is the kind of check.
	title string
	// cluster is the cluster ID of the source, and pod its name. With pod callerMachine, liqoctl sends the requests itself. host means that the pod is in the host network.
	cluster, pod string
	host         bool
	urls         []string
	// replicas are the names of the replicas that may respond.
	replicas []string
	// anything means that any response is a success. Otherwise one of the replicas has to respond.
	anything bool
	// everyone means that each replica has to respond to at least one of the URLs.
	everyone bool
}

func (c *testCheck) source() string {
	if c.pod == callerMachine {
		return c.pod
	}
	return c.cluster + "/" + c.pod
}

// testOutcome is the result of the request to one URL.
type testOutcome struct {
	URL          string  `json:"url"`
	Milliseconds float64 `json:"milliseconds"`
	Answer       string  `json:"answer"`
	Error        string  `json:"error"`
}

// replica returns the name of the pod that responded. It is empty if the response is not from a test server.
func (o *testOutcome) replica() string {
	var said struct {
		Pod string `json:"pod"`
	}
	if json.Unmarshal([]byte(o.Answer), &said) != nil {
		return ""
	}
	return said.Pod
}

// testFailure is a failed request: its source, its target and the reason.
type testFailure struct{ from, to, why string }

func (f testFailure) String() string { return f.from + " -> " + f.to + ": " + f.why }

// whoami returns the URL that asks a replica for its name.
func whoami(host string, port int32) string {
	authority := host
	if port != 80 {
		authority = net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	return "http://" + authority + "/whoami"
}

// planChecks returns all selected checks.
func planChecks(w *testedWorld, o *testOptions) []testCheck {
	var checks []testCheck
	for i := range w.clusters {
		c := &w.clusters[i]
		var endpoints, service, ports, balancers []string
		for _, e := range c.endpoints {
			endpoints = append(endpoints, whoami(e.address.String(), 80))
		}
		// kube-proxy chooses the replica for each request. Sending as many requests as there are replicas most likely reaches several
		// clusters.
		for range w.replicas {
			service = append(service, whoami(testName+"."+namespaceOf(w.clusters[0].id), 80))
		}
		for _, n := range c.nodes {
			for range w.replicas { // each node chooses too, for callers of its node port
				ports = append(ports, whoami(n.address.String(), c.nodePort))
			}
		}
		for _, host := range c.balancers {
			balancers = append(balancers, whoami(host, 80))
		}
		add := func(title string, pods []string, check testCheck) {
			if len(check.urls) == 0 {
				return
			}
			for _, pod := range pods {
				check.title, check.cluster, check.pod = title, c.id, pod
				if check.replicas == nil {
					check.replicas = w.names()
				}
				checks = append(checks, check)
			}
		}
		add("pod to pods", c.pods, testCheck{urls: endpoints, everyone: true})
		if !o.basic {
			add("pod to Service", c.pods, testCheck{urls: service})
			add("host network to pods", c.hosts, testCheck{urls: endpoints, everyone: true, host: true})
			if o.outside != "" {
				add("pod to the outside", c.pods, testCheck{urls: []string{o.outside}, anything: true})
			}
		}
		if o.podToNodePort {
			add("pod to node ports", c.pods, testCheck{urls: ports})
		}
		if o.externalToNodePort {
			add("this machine to node ports", []string{callerMachine}, testCheck{urls: chosenNodes(c, o.nodes)})
		}
		if o.balancer {
			add("pod to load balancer", c.pods, testCheck{urls: balancers})
		}
		var outside []string
		for _, address := range c.outside {
			outside = append(outside, throughIP(o.outside, address))
		}
		add("pod to the outside by IP objects", c.pods, testCheck{urls: outside, anything: true})
	}
	return checks
}

// chosenNodes returns the URLs of the node ports on the nodes that --np-nodes selects.
func chosenNodes(c *testedCluster, which string) []string {
	var urls []string
	for _, n := range c.nodes {
		if which == nodesAll || n.controlPlane == (which == nodesControlPlanes) {
			urls = append(urls, whoami(n.address.String(), c.nodePort))
		}
	}
	return urls
}

// throughIP replaces the host of a URL by an address. The URL always has the scheme http.
func throughIP(url string, address netip.Addr) string {
	scheme, rest, _ := strings.Cut(url, "://")
	authority, path, found := strings.Cut(rest, "/")
	if found {
		path = "/" + path
	}
	host := address.String()
	if _, port, err := net.SplitHostPort(authority); err == nil {
		host = net.JoinHostPort(host, port)
	}
	return scheme + "://" + host + path
}

// judge compares the outcomes of a check, in the order of its URLs, with the expected ones. It returns the failures.
func (c *testCheck) judge(outcomes []testOutcome) []testFailure {
	var failures []testFailure
	fail := func(to, format string, args ...any) {
		failures = append(failures, testFailure{c.source(), to, fmt.Sprintf(format, args...)})
	}
	missing := map[string]bool{}
	for _, name := range c.replicas {
		missing[name] = true
	}
	unreachable := false
	for i, url := range c.urls {
		switch {
		case i >= len(outcomes):
			fail(url, "was not asked")
			unreachable = true
		case outcomes[i].Error != "":
			fail(url, "%s", outcomes[i].Error)
			unreachable = true
		case c.anything:
		case !slices.Contains(c.replicas, outcomes[i].replica()):
			fail(url, "answered by %q, which is none of the replicas: another server has this address", outcomes[i].replica())
		default:
			delete(missing, outcomes[i].replica())
		}
	}
	// If an address did not respond, that failure is reported already.
	if c.everyone && !unreachable {
		for _, name := range slices.Sorted(maps.Keys(missing)) {
			fail("pod "+name, "none of the %d addresses leads to it", len(c.urls))
		}
	}
	return failures
}

// parseOutcomes parses the output of the probe in a pod: one line of JSON for each URL.
func parseOutcomes(text string) ([]testOutcome, error) {
	var outcomes []testOutcome
	for line := range strings.Lines(text) {
		var o testOutcome
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			return nil, fmt.Errorf("reading the outcome %q: %w", strings.TrimSpace(line), err)
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}
