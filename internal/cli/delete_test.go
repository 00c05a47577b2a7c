package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestDeletingAgain: after a wait that was too short, the command resumes. Objects that were deleted meanwhile are reported as deleted, in the
// requested format.
func TestDeletingAgain(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	at := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	at = w.in(t, at, "generate peering-user --consumer-cluster-id milan"+lawOne, nil).left
	for key, object := range at["rome"].objects {
		if strings.HasPrefix(key, "offloading.liqo.io/v1beta1/virtualnodes ") {
			held := merge(object, map[string]any{"metadata": map[string]any{"finalizers": []any{"liqo.io/held"}}})
			at["rome"].objects[key] = held
		}
	}
	for _, step := range []struct {
		command string
		alone   bool // no controller does its work
		code    int
		says    string
	}{
		{"delete virtualnode milan --timeout 45s", true, 1, "waiting for VirtualNode milan in namespace liqo-tenant-milan to be gone: timed out (--timeout), last seen: it is being deleted, held by finalizers liqo.io/held"},
		{"delete virtualnode milan --timeout 45s", true, 1, "to be gone: timed out"},
		{"delete virtualnode milan", false, 0, "VirtualNode milan in namespace liqo-tenant-milan correctly deleted"},
		{"delete virtualnode milan", false, 1, "(known: none)\n       There is nothing to delete, or it was deleted meanwhile (with --ignore-not-found this is no error)"},
		{"delete virtualnode milan --ignore-not-found", false, 0, "INFO  there is no virtualnode milan in any namespace (known: none)"},
		{"delete peering-user --consumer-cluster-id milan", false, 0, "Peering user for cluster milan deleted"},
		{"delete peering-user --consumer-cluster-id milan", false, 1, "there is no peering user for cluster milan\n       There is nothing to delete"},
		{"delete peering-user --consumer-cluster-id milan --ignore-not-found", false, 0, "INFO  there is no peering user for cluster milan"},
	} {
		if !step.alone { // somebody lets it go
			for key, object := range at["rome"].objects {
				if strings.HasPrefix(key, "offloading.liqo.io/v1beta1/virtualnodes ") && strings.Contains(key, "/milan") && object["metadata"].(map[string]any)["deletionTimestamp"] != nil {
					at["rome"].objects[key] = merge(object, map[string]any{"metadata": map[string]any{"finalizers": nil}})
				}
			}
		}
		ran := w.in(t, at, step.command+lawOne, func() { w.silent = step.alone })
		if ran.code != step.code || !strings.Contains(ran.said, step.says) {
			t.Errorf("%s: code %d, says %q, want %d, %q", step.command, ran.code, ran.said, step.code, step.says)
		}
		at = ran.left
	}
}
