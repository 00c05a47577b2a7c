package provider

import "testing"

func TestSearchedDomain(t *testing.T) {
	for text, want := range map[string]string{
		"search liqo.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n": "cluster.local",
		"nameserver 10.96.0.10\nsearch liqo.svc.rome.example svc.rome.example. rome.example example.org":          "rome.example",
		"search old svc.old\nsearch svc.new\n": "new",
		"search example.org\n":                 "",
		"# search svc.x\nnameserver 1.1.1.1":   "",
		"":                                     "",
	} {
		if got := searchedDomain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
