package cli

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRefusalsInMemory lists refusals that TestLaw cannot reach, because the commands run a chart or pods.
func TestRefusalsInMemory(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	installed := w.snapshot()
	peered := w.in(t, installed, "peer"+lawBoth, nil).left
	full := worldSnapshot{}
	for id, at := range peered {
		objects := map[string]map[string]any{}
		for key, object := range at.objects {
			if objects[key] = object; strings.HasPrefix(key, "/v1/nodes ") {
				objects[key] = merge(object, map[string]any{"spec": map[string]any{"unschedulable": true}})
			}
		}
		full[id] = memorySnapshot{objects, at.version}
	}
	for command, test := range map[string]struct {
		at   worldSnapshot
		says string
	}{
		"uninstall":                        {installed, "liqo is installed in namespace liqo of https://rome, but not as a Helm release: remove it with what installed it, then run uninstall --purge for the rest"},
		"uninstall --dry-run":              {installed, "but not as a Helm release"},
		"uninstall -n other":               {installed, "liqo is installed in namespace liqo, not in other: pass --namespace"},
		"uninstall -n liqo":                {worldSnapshot{}, "liqo is not installed in namespace liqo of https://rome: name the right kubeconfig, or remove with --purge what an earlier uninstall left"},
		"uninstall --purge":                {peered, "If the other cluster is gone for good: liqoctl force unpeer"},
		"info":                             {worldSnapshot{}, "liqo is not installed in namespace liqo of https://rome: install it (liqoctl install), or name the right kubeconfig"},
		"info -n other":                    {installed, "liqo is installed in namespace liqo, not in other: pass --namespace"},
		"offload namespace nope":           {installed, "there is no namespace nope in the cluster: create it first"},
		"unoffload namespace nope":         {installed, "there is no namespace nope in the cluster: kubectl get namespaceoffloadings --all-namespaces lists the offloaded ones"},
		"install --version v0":             {installed, "--version v0: this liqoctl carries the chart of version"},
		"install --repo-url x":             {installed, "--repo-url x: charts are not fetched: clone the repository and give its chart with --local-chart-path"},
		"peer --remote-kubeconfig %rome":   {installed, "the local and the remote cluster are the same"},
		"test network -p %rome":            {peered, "--remote-kubeconfigs " + filepath.Join(w.dir, "rome") + ": cluster rome is named twice, or is the local one"},
		"test network -p %milan,%milan":    {peered, "cluster milan is named twice"},
		"test network -p %milan --dry-run": {full, "no node accepts pods: all are cordoned or for the control plane only"},
		"test network -p %milan --ip --outside http://localhost.invalid": {peered, "--outside http://localhost.invalid: the IP objects of --ip need the address of its host, which is not found: give an IPv4 address, --outside http://ADDRESS"},
	} {
		if ran := w.in(t, test.at, command+lawOne, nil); ran.code != 1 || ran.wrote != 0 || !strings.Contains(ran.said, " ERRO  ") || !strings.Contains(ran.said, test.says) {
			t.Errorf("%s: code %d, %d changes, says %s%s, want %q", command, ran.code, ran.wrote, ran.out, ran.said, test.says)
		}
	}
	for _, command := range []string{"uninstall --dry-run" + lawOne, "test network --dry-run -p %milan" + lawOne} {
		at := installed
		if strings.HasPrefix(command, "test") {
			at = peered
		}
		seen := w.in(t, at, command, nil).seen
		for _, request := range slices.Sorted(slices.Values(seen)) {
			if of := subjectOf(request); of.kind == "" {
				continue
			}
			ran := w.in(t, at, command, func() {
				w.answer = func(this string, r *http.Request) (*http.Response, error) {
					if this == request {
						return disturbances[0].answer(r)
					}
					return nil, nil
				}
			})
			wrong := wellSaid(ran.said, subjectOf(request))
			if ran.code != 1 && !strings.Contains(ran.said, " WARN  ") || len(wrong) > 0 && ran.code == 1 || ran.code == 1 && !strings.Contains(ran.said, "lacks this right") {
				t.Errorf("%s, forbidden %s: code %d, %v: %s", command, request, ran.code, wrong, ran.said)
			}
		}
	}
}
