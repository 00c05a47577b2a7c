package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestInfoAnswersQueries: info --get prints one value for scripts, and names the known keys if there is no such value.
func TestInfoAnswersQueries(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	installed := w.snapshot()
	for query, want := range map[string]string{
		"clusterid":       "rome\n",
		"ClusterID":       "rome\n",
		"local.clusterID": "rome\n",
		".LOCAL.Version.": "v1.2.3\n",
		"local":           "APIServerAddr: https://rome\nclusterID: rome\nversion: v1.2.3\n",
	} {
		if ran := w.in(t, installed, "info --get "+query+lawOne, nil); ran.code != 0 || ran.out != want {
			t.Errorf("--get %s: code %d, prints %q, want %q: %s", query, ran.code, ran.out, want, ran.said)
		}
	}
	for query, want := range map[string]string{
		"local.nothing":     `--get local.nothing: there is no "nothing", known here: APIServerAddr, clusterID, version`,
		"clusterid -o json": "--get",
	} {
		if ran := w.in(t, installed, "info --get "+query+lawOne, nil); ran.code != 1 || ran.out != "" || !strings.Contains(ran.said, want) {
			t.Errorf("--get %s: code %d, prints %q: %s", query, ran.code, ran.out, ran.said)
		}
	}
}
