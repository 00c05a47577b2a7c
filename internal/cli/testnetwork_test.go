package cli

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/clitest"
)

// TestRemovedServersAreNotLeft: a failed test network with --rm removes what it created, and does not list it as left. Without --rm it lists it.
func TestRemovedServersAreNotLeft(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	peered := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	for flag, left := range map[string]bool{" --rm": false, "": true} {
		ran := w.in(t, peered, "test network --timeout 30s --remote-kubeconfigs %milan --kubeconfig %rome"+flag, func() {
			w.answer = func(_ string, r *http.Request) (*http.Response, error) {
				path, ok := parsePath(r.URL.Path)
				if !ok || path.of != "/v1/services" || r.Method == http.MethodGet {
					return nil, nil
				}
				return refusal(http.StatusForbidden, metav1.StatusReasonForbidden, path, w.clusters["rome"].kinds[path.of], "refused"), nil
			}
		})
		stays := false
		for key := range ran.left["rome"].objects {
			stays = stays || strings.Contains(key, "liqo-test-network-rome")
		}
		if ran.code != 1 || ran.wrote == 0 || strings.Contains(ran.said, "Applied before the failure") != left || stays != left {
			t.Errorf("with %q: code %d, %d changes, something is left: %t, in %s", flag, ran.code, ran.wrote, stays, ran.said)
		}
	}
}

// TestTheTimeoutEndsTestNetwork: test network ends exactly after its timeout if the test servers do not start, and the error says what it waited for.
func TestTheTimeoutEndsTestNetwork(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	peered := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	ran := w.in(t, peered, "test network --basic --image none:1 --timeout 15s --remote-kubeconfigs %milan --kubeconfig %rome", func() {
		clitest.Create(t, w.clusters["milan"].client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: "liqo-test-network-rome", Labels: map[string]string{api.LabelRemoteClusterID: "rome"}, // created for the NamespaceOffloading
		}})
	})
	if ran.code != 1 || ran.took != 15*time.Second || !strings.Contains(ran.said, "the test servers: timed out (--timeout), last seen: cluster rome runs 0 of 1 test servers") {
		t.Errorf("it ended with code %d after %v: %s", ran.code, ran.took, ran.said)
	}
}
