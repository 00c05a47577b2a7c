package cli

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"liqo.io/liqo/internal/cli/session"
)

// TestTheNamespaceOfTheContextCounts: as in kubectl, the namespace of an application is that of the flag, else that of the current context, else default.
func TestTheNamespaceOfTheContextCounts(t *testing.T) {
	kubeconfig := func(namespace string) string {
		path := filepath.Join(t.TempDir(), "config")
		content := "apiVersion: v1\nkind: Config\ncurrent-context: rome\nclusters: [{name: rome, cluster: {server: https://127.0.0.1:1}}]\n" +
			"contexts: [{name: rome, context: {cluster: rome, namespace: " + namespace + "}}, {name: shop, context: {cluster: rome, namespace: shop}}]\n"
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, row := range []struct {
		context string
		args    []string
		want    string
	}{
		{`""`, nil, "default"},
		{"blog", nil, "blog"},
		{"blog", []string{"--namespace", "db"}, "db"},
		{"blog", []string{"--context", "shop"}, "shop"},
	} {
		a := session.New(genericiooptions.NewTestIOStreamsDiscard())
		if err := newRoot(a).ParseFlags(append(row.args, "--kubeconfig", kubeconfig(row.context))); err != nil {
			t.Fatal(err)
		}
		if got, err := session.ApplicationNamespace(a); err != nil || got != row.want {
			t.Errorf("namespace %s in the context, flags %v: %q, %v, want %q", row.context, row.args, got, err, row.want)
		}
	}
}
