package component

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files anew")

func rome() Cluster {
	return Cluster{
		Name: "rome", Index: 3, Nodes: 2, ForwardPort: 16003,
		PodCIDR: netip.MustParsePrefix("10.244.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
	}
}

// print writes everything that is decided about a cluster as one readable text.
func print(t *testing.T, c Cluster) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "server %s\nforward %s\nload balancers %s\ndns %s\napi %s\n", c.Server(), c.ForwardServer(), c.LoadBalancers(), c.DNS(), c.API())
	for _, n := range c.List() {
		p := c.Plan(n.Name)
		fmt.Fprintf(&b, "\n=== node %s %s pods %s mac %s cable %s\nlink %s gateway %s\n", n.Name, n.Address, n.PodCIDR, n.MAC, n.Cable, p.Link, p.Gateway)
		for _, r := range p.Routes {
			fmt.Fprintf(&b, "route %s via %s\n", r.To, r.Via)
		}
		b.WriteString(p.Ruleset)
		for _, name := range p.Credentials {
			fmt.Fprintf(&b, "credential %s\n", name)
		}
		for _, f := range p.Files {
			fmt.Fprintf(&b, "--- file %s\n%s", f.Path, f.Content)
		}
		for _, s := range p.Services {
			fmt.Fprintf(&b, "--- service %s once=%t after=%v sockets=%v\n", s.Name, s.Once, s.After, s.Sockets)
			if s.Get != nil {
				fmt.Fprintf(&b, "get %+v\n", *s.Get)
			}
			for _, a := range s.Args {
				fmt.Fprintf(&b, "  %s\n", a)
			}
		}
	}
	for _, cert := range c.Certificates() {
		fmt.Fprintf(&b, "certificate %+v\n", cert)
	}
	for _, k := range c.Kubeconfigs() {
		fmt.Fprintf(&b, "kubeconfig %+v\n", k)
	}
	nodes, err := c.NodeObjects()
	if err != nil {
		t.Fatal(err)
	}
	others, err := c.Objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range append(nodes, others...) {
		text, err := yaml.JSONToYAML(o.Body)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "--- object %s\n%s", o.Path, text)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	fake := rome()
	fake.Name, fake.Index, fake.Nodes = "fake", 250, 1
	fake.ControlPlaneOnly, fake.FakeNodes, fake.Audit = true, 100, true
	full := rome()
	full.Name, full.MetricsServer, full.CNI, full.PodSecurity = "full", true, Bridge, "restricted"
	full.APIServerName = "10.99.0.2"
	full.PodCIDR, full.ServiceCIDR = netip.MustParsePrefix("10.0.0.0/20"), netip.MustParsePrefix("192.168.7.0/24")
	for _, c := range []Cluster{rome(), fake, full} {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			got := print(t, c)
			file := filepath.Join("testdata", c.Name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("not as in %s; run with -update if this is meant\n%s", file, diff)
			}
		})
	}
}

func TestAddressesNeverMeet(t *testing.T) {
	seen := map[string]string{Router().String(): "the router"}
	cables := map[string]string{}
	for index := 1; index <= MaxIndex; index++ {
		c := rome()
		c.Name, c.Index, c.Nodes = fmt.Sprintf("c%d", index), index, MaxNodes
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		for _, n := range c.List() {
			address := n.Address.String()
			if other := seen[address]; other != "" {
				t.Fatalf("%s and %s have address %s", n.Name, other, address)
			}
			if other := cables[n.Cable]; other != "" || len(n.Cable) > 15 {
				t.Fatalf("%s and %q have cable %s", n.Name, other, n.Cable)
			}
			seen[address], cables[n.Cable] = n.Name, n.Name
			if c.LoadBalancers().Contains(n.Address) || !Internet().Contains(n.Address) {
				t.Fatalf("%s has address %s", n.Name, address)
			}
			if !c.PodCIDR.Overlaps(n.PodCIDR) || n.PodCIDR.Bits() != 24 {
				t.Fatalf("%s has pods %s", n.Name, n.PodCIDR)
			}
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	for name, change := range map[string]func(*Cluster){
		"no name":                      func(c *Cluster) { c.Name = "" },
		"a capital":                    func(c *Cluster) { c.Name = "Rome" },
		"a path":                       func(c *Cluster) { c.Name = "../rome" },
		"a hyphen at the end":          func(c *Cluster) { c.Name = "rome-" },
		"a name too long":              func(c *Cluster) { c.Name = strings.Repeat("r", 31) },
		"no index":                     func(c *Cluster) { c.Index = 0 },
		"an index too high":            func(c *Cluster) { c.Index = MaxIndex + 1 },
		"no nodes":                     func(c *Cluster) { c.Nodes = 0 },
		"too many nodes":               func(c *Cluster) { c.Nodes = MaxNodes + 1 },
		"more nodes than pod networks": func(c *Cluster) { c.PodCIDR = netip.MustParsePrefix("10.1.0.0/24") },
		"no pod CIDR":                  func(c *Cluster) { c.PodCIDR = netip.Prefix{} },
		"an address with host bits":    func(c *Cluster) { c.PodCIDR = netip.MustParsePrefix("10.244.0.1/16") },
		"IPv6":                         func(c *Cluster) { c.ServiceCIDR = netip.MustParsePrefix("fd00::/112") },
		"pods where services are":      func(c *Cluster) { c.PodCIDR = netip.MustParsePrefix("10.96.0.0/12") },
		"pods where the nodes are":     func(c *Cluster) { c.PodCIDR = netip.MustParsePrefix("172.16.0.0/12") },
		"fake nodes beside real ones":  func(c *Cluster) { c.FakeNodes = 1 },
		"two control planes":           func(c *Cluster) { c.ControlPlaneOnly = true },
	} {
		t.Run(name, func(t *testing.T) {
			c := rome()
			change(&c)
			if err := c.Validate(); err == nil {
				t.Error("accepted")
			}
		})
	}
	if err := rome().Validate(); err != nil {
		t.Error(err)
	}
}

func TestPlanSurvivesJSON(t *testing.T) {
	want := rome().Plan("rome-1")
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Plan
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

// Credentials that a node asks for must be made, and a worker may not have the control plane's.
func TestCredentials(t *testing.T) {
	c := rome()
	made := map[string]bool{"sa.key": true, "sa.pub": true}
	for _, cert := range c.Certificates() {
		made[cert.Name+".crt"], made[cert.Name+".key"] = true, true
	}
	for _, k := range c.Kubeconfigs() {
		made[k.Name+".kubeconfig"] = true
	}
	for _, n := range c.List() {
		for _, name := range c.Plan(n.Name).Credentials {
			if !made[name] {
				t.Errorf("node %s asks for %s, which is not made", n.Name, name)
			}
			secret := strings.HasPrefix(name, "admin") || name == "ca.key" || name == "sa.key"
			if secret && !n.ControlPlane {
				t.Errorf("worker %s has %s", n.Name, name)
			}
		}
	}
}
