package cli

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/cli/session"
)

// TestInfoWithoutUnreadableObjects: minor facts that cannot be read are left out with a warning, and the others are shown.
func TestInfoWithoutUnreadableObjects(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	peered := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	for command, refused := range map[string]map[string]string{
		"info": {"/v1/pods": "the state of the pods", "ipam.liqo.io/v1alpha1/networks": "the address ranges"},
		"info peer milan": {
			"networking.liqo.io/v1beta1/connections":        "the network with cluster milan",
			"authentication.liqo.io/v1beta1/resourceslices": "the resources of cluster milan",
			"offloading.liqo.io/v1beta1/virtualnodes":       "the virtual nodes of cluster milan",
		},
	} {
		ran := w.in(t, peered, command+lawOne, func() {
			w.answer = func(_ string, r *http.Request) (*http.Response, error) {
				path, ok := parsePath(r.URL.Path)
				if _, is := refused[path.of]; !ok || !is {
					return nil, nil
				}
				return refusal(http.StatusForbidden, metav1.StatusReasonForbidden, path, w.clusters["rome"].kinds[path.of], "refused"), nil
			}
		})
		if ran.code != 0 || !strings.Contains(ran.out, "milan") {
			t.Errorf("%s: code %d: %s", command, ran.code, ran.said)
		}
		for of, what := range refused {
			if !strings.Contains(ran.said, "Missing or incomplete: "+what+": ") {
				t.Errorf("%s without %s: %s", command, of, ran.said)
			}
		}
	}
}

// TestInfoShowsTheDiagnosis: info calls no cluster healthy whose controller manager is scaled to nothing, nor a peering whose tenant is drained. It
// shows the problem with its cure.
func TestInfoShowsTheDiagnosis(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	peered := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	w.begin(peered)
	rome, manager := w.clusters["rome"].client, &appsv1.Deployment{}
	if err := rome.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: session.ControllerManager}, manager); err != nil {
		t.Fatal(err)
	}
	manager.Spec.Replicas = new(int32(0))
	if err := rome.Update(t.Context(), manager); err != nil {
		t.Fatal(err)
	}
	manager.Status = appsv1.DeploymentStatus{}
	if err := rome.Status().Update(t.Context(), manager); err != nil {
		t.Fatal(err)
	}
	stopped := w.snapshot()
	drained := w.in(t, peered, "drain tenant rome --skip-confirm --kubeconfig %milan", nil).left
	const none, scale = "deployment/liqo-controller-manager is scaled to 0 replicas", "kubectl -n liqo scale --replicas=1 deployment/liqo-controller-manager"
	for _, row := range []struct {
		command   string
		at        worldSnapshot
		says      []string
		unhealthy bool
	}{
		{"info --kubeconfig %rome", stopped, []string{"✖ Liqo is not healthy", none, scale, "Networking status: Unhealthy", "Offloading status: Unhealthy"}, true},
		{"info peer milan --kubeconfig %rome", stopped, []string{none, scale, "Networking: Unhealthy", "Offloading: Unhealthy"}, true},
		{"info --kubeconfig %milan", drained, []string{"Tenant rome in namespace liqo-tenant-rome is drained", "liqoctl activate tenant rome"}, false},
		{"info peer rome --kubeconfig %milan", drained, []string{"Tenant rome in namespace liqo-tenant-rome is drained", "liqoctl activate tenant rome"}, false},
	} {
		// The boxes break lines, so the words are compared without the frame.
		words := func(at worldSnapshot) string {
			ran := w.in(t, at, row.command, nil)
			if ran.code != 0 {
				t.Errorf("%s: code %d: %s", row.command, ran.code, ran.said)
			}
			return strings.Join(strings.Fields(strings.ReplaceAll(ran.out, "│", " ")), " ")
		}
		before, out := words(peered), words(row.at)
		for _, want := range row.says {
			if !strings.Contains(out, want) || strings.Contains(before, want) && want != "✖ Liqo is not healthy" {
				t.Errorf("%s: no %q, or before, too, in %s", row.command, want, out)
			}
		}
		if row.unhealthy && (strings.Contains(out, ": Healthy Authentication") || strings.Contains(out, "status: Healthy")) {
			t.Errorf("%s: without a controller manager something is healthy: %s", row.command, out)
		}
	}
}
