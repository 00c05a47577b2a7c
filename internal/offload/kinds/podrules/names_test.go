package podrules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// mapped are the options of a node whose consumer has three offloaded namespaces. The remote one of same has the same name.
func mapped() Options {
	o := options
	o.APIServer.Domain = "rome.example"
	o.RemoteNamespace = func(namespace string) (string, bool) {
		remote, found := map[string]string{"shop": "shop-rome", "db": "db-rome", "same": "same"}[namespace]
		return remote, found
	}
	return o
}

// TestNamesOfServicesElsewhereAreReported: the name of a Service contains the name of a namespace, which is another one in the provider.
func TestNamesOfServicesElsewhereAreReported(t *testing.T) {
	for value, says := range map[string]string{
		"store.db.svc":                              "store.db.svc in env E of container c (namespace db is db-rome there)",
		"http://store.db.svc.cluster.local:8080":    "store.db.svc.cluster.local in env E of container c (namespace db is db-rome there)",
		"postgres://u@web.shop.svc.rome.example./x": "web.shop.svc.rome.example in env E of container c (namespace shop is shop-rome there)",
		"a:1,db-0.store.db.svc:2":                   "store.db.svc in env E of container c (namespace db is db-rome there)",
		"store.other.svc":                           "store.other.svc in env E of container c (namespace other is not offloaded there)",
		"store.same.svc.cluster.local":              "",
		"kubernetes.default.svc":                    "",
		"store":                                     "",
		"store.db":                                  "",
		"store.$(NAMESPACE).svc":                    "",
		"api.eu.svc.example.org":                    "",
		"a.b.svcs":                                  "",
		"a.b.svc-x":                                 "",
	} {
		local := pod(func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "E", Value: value}} })
		got := strings.Join(ForeignNames(local, mapped()), "; ")
		if says == "" && got != "" || says != "" && (!strings.HasPrefix(got, "in cluster milan these names lead to no Service, or to another one: "+says) || !strings.Contains(got, "EnforceSameName")) {
			t.Errorf("%s: %q, want %q", value, got, says)
		}
	}
	many := pod(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "i", Command: []string{"wait", "a.db.svc"}, Args: []string{"b.db.svc", "a.db.svc"}}}
		for _, name := range []string{"c", "d", "e", "f", "g"} {
			p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, name+".db.svc")
		}
	})
	got := strings.Join(ForeignNames(many, mapped()), "; ")
	if !strings.Contains(got, "a.db.svc in command of container i") || !strings.Contains(got, "b.db.svc in args of container i") || !strings.Contains(got, ", 2 more;") || strings.Contains(got, "f.db.svc") {
		t.Errorf("many names: %q", got)
	}
	if got := ForeignNames(many, options); len(got) > 0 {
		t.Errorf("while the mapping is unknown: %q", got)
	}
}

// TestValuesWithTheRemoteNamespaceAreReported: the provider fills in its own name of the namespace. A pod that composes a path or another name with it, and not
// the name of a Service, gets a warning.
func TestValuesWithTheRemoteNamespaceAreReported(t *testing.T) {
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	with := func(namespace string, change func(*corev1.Container)) string {
		return strings.Join(NamespaceValues(pod(func(p *corev1.Pod) {
			p.Namespace = namespace
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NS", ValueFrom: field("metadata.namespace")}, {Name: "POD", ValueFrom: field("metadata.name")}}
			change(&p.Spec.Containers[0])
		}), mapped()), "; ")
	}
	for text, reported := range map[string]bool{
		"/data/$(NS)": true, "--database=$(NS)-db": true, "$(NS)": true, "/data/$(NS).db": true, "v1/namespaces/$(NS)/pods": true,
		"store.$(NS).svc": false, "$(POD).store.$(NS)": false, "http://store.$(NS):80": false, "$(NS).svc.cluster.local": false,
		"$$(NS)": false, "$(POD)": false, "$(UNKNOWN)": false, "NS": false,
	} {
		for of, change := range map[string]func(*corev1.Container){
			"args":      func(c *corev1.Container) { c.Args = []string{"run", text} },
			"command":   func(c *corev1.Container) { c.Command = []string{"run", text} },
			"env VALUE": func(c *corev1.Container) { c.Env = append(c.Env, corev1.EnvVar{Name: "VALUE", Value: text}) },
		} {
			got, want := with("shop", change), ""
			if reported {
				want = "in cluster milan, these have the name of the remote namespace, shop-rome: $(NS) in " + of + " of container c; write shop"
			}
			if !strings.HasPrefix(got, want) || want == "" && got != "" || reported && !strings.Contains(got, "EnforceSameName") {
				t.Errorf("%s in %s: %q, want %q", text, of, got, want)
			}
			if got := with("same", change); got != "" {
				t.Errorf("%s in %s, where the remote namespace has the same name: %q", text, of, got)
			}
		}
	}
	file := corev1.Volume{Name: "info", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
		{Path: "ns", FieldRef: field("metadata.namespace").FieldRef}, {Path: "name", FieldRef: field("metadata.name").FieldRef},
	}}}}
	reads := func(p *corev1.Pod) { p.Spec.Volumes = append(p.Spec.Volumes, file) }
	if got := strings.Join(NamespaceValues(pod(reads), mapped()), "; "); !strings.Contains(got, "file ns (metadata.namespace) of volume info; write shop") || strings.Contains(got, "file name") {
		t.Errorf("of a file: %q", got)
	}
	asks := pod(func(p *corev1.Pod) { access(p); reads(p) })
	if got := append(NamespaceValues(asks, mapped()), Problems(asks)...); strings.Count(strings.Join(got, "; "), "file ns ") != 1 {
		t.Errorf("a file is reported twice: %q", got)
	}
	if got := NamespaceValues(pod(reads), options); len(got) > 0 {
		t.Errorf("while the mapping is unknown: %q", got)
	}
}

// TestSearchDomainsAreTranslated: a search domain with the name of an offloaded namespace gets its remote name.
func TestSearchDomainsAreTranslated(t *testing.T) {
	in := []string{"db.svc.cluster.local", "db.svc.rome.example.", "db.svc", "same.svc.cluster.local", "svc.cluster.local", "db.svc.example.org", "example.org", "other.svc.cluster.local", "x.db.svc.cluster.local"}
	want := slices.Clone(in)
	want[0], want[1], want[2] = "db-rome.svc.cluster.local", "db-rome.svc.rome.example", "db-rome.svc"
	local := pod(func(p *corev1.Pod) { p.Spec.DNSConfig = &corev1.PodDNSConfig{Searches: slices.Clone(in)} })
	if diff := cmp.Diff(want, ShadowPod(local, "shop-rome", mapped()).Spec.Pod.DNSConfig.Searches); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(in, local.Spec.DNSConfig.Searches); diff != "" {
		t.Errorf("the local pod was changed: %s", diff)
	}
	if got := strings.Join(ForeignNames(local, mapped()), "; "); strings.Count(got, "spec.dnsConfig") != 1 || !strings.Contains(got, "other.svc.cluster.local in spec.dnsConfig.searches[7] (namespace other is not offloaded there)") {
		t.Errorf("reported: %q", got)
	}
}

// TestLongSearchDomains: search domains that are too long with the names of the remote namespaces are left out and reported, so that the provider
// accepts the pod.
func TestLongSearchDomains(t *testing.T) {
	o := mapped()
	o.APIServer.Domain = strings.Repeat("long.", 39) + "example"
	o.RemoteNamespace = func(namespace string) (string, bool) { return namespace + "-" + strings.Repeat("x", 20), true }
	domain := func(i, length int) string {
		name := fmt.Sprintf("n%d.svc.cluster.local", i)
		return strings.Repeat("a", length-len(name)) + name
	}
	list := func(count, length int) (out []string) {
		for i := range count {
			out = append(out, domain(i%10, length))
		}
		return out
	}
	for name, row := range map[string]struct {
		searches []string
		left     int
	}{
		"few":                       {list(32, 40), 32},
		"too long":                  {list(32, 60), 24},
		"one domain that is long":   {[]string{strings.Repeat("d", 40) + ".svc." + o.APIServer.Domain, "db.svc.cluster.local"}, 1},
		"a domain that is not ours": {[]string{"example.org"}, 1},
	} {
		local := pod(func(p *corev1.Pod) { p.Spec.DNSConfig = &corev1.PodDNSConfig{Searches: slices.Clone(row.searches)} })
		got := ShadowPod(local, "shop-rome", o).Spec.Pod.DNSConfig.Searches
		if len(strings.Join(got, " ")) > 2048 || slices.ContainsFunc(got, func(s string) bool { return len(s) > 253 }) {
			t.Errorf("%s: the provider refuses %d domains of %d characters", name, len(got), len(strings.Join(got, " ")))
		}
		reported := strings.Join(LongSearches(local, o), "; ")
		if missing := len(row.searches) - len(got); (missing > 0) != strings.Contains(reported, "spec.dnsConfig.searches") || missing > 0 && !strings.Contains(reported, "EnforceSameName") {
			t.Errorf("%s: %d domains are left out, reported: %q", name, missing, reported)
		}
		if len(got) != row.left {
			t.Errorf("%s: %d domains, want %d", name, len(got), row.left)
		}
	}
}
