package cli

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/offload/kubelet"
	"liqo.io/liqo/internal/remote"
)

// firstMoment is when the clock of each command in a world begins, see synctest.
var firstMoment = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// loseTunnel has a gateway of a cluster report that it lost the tunnel to the peer.
func (w *world) loseTunnel(t *testing.T, of, to string, at time.Time) {
	t.Helper()
	c := w.clusters[of].client
	connection := &networkingv1beta1.Connection{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace(to), Name: "lost", Labels: map[string]string{api.LabelRemoteClusterID: to}},
		Spec:       networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionClient, GatewayRef: corev1.ObjectReference{Name: to}},
	}
	if err := c.Create(t.Context(), connection); err != nil {
		t.Fatal(err)
	}
	connection.Status.Value = networkingv1beta1.ConnectionError
	connection.Status.Conditions = []metav1.Condition{{
		Type: networkingv1beta1.ConditionConnected, Status: metav1.ConditionFalse, Reason: networkingv1beta1.ConnectionError, LastTransitionTime: metav1.NewTime(at),
	}}
	if err := c.Status().Update(t.Context(), connection); err != nil {
		t.Fatal(err)
	}
}

// TestUnpeerRightAfterACut: the condition of the API server counts only once the control plane had time to change it after the start of the command, with and
// without a tunnel. A lost tunnel alone blocks no command.
func TestUnpeerRightAfterACut(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	peered := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	for name, test := range map[string]struct {
		tunnel bool // its loss was detected
		// noticed is when the control plane notices that the API server does not respond; 0: it does respond.
		noticed time.Duration
		// responds means that the API server of milan responds to the virtual kubelet.
		responds bool
		// bare means that rome has no virtual node of milan, for example because it only authenticated.
		bare bool
		// checks are the flags of rome's controller manager about its checks of peers.
		checks []string
	}{
		"slow checks, a cut":       {noticed: time.Minute, checks: []string{"--peer-check-interval=1m"}},
		"slow checks":              {checks: []string{"--peer-check-interval=1m"}},
		"a cut, and a lost tunnel": {tunnel: true, noticed: 20 * time.Second},
		"a cut":                    {noticed: 20 * time.Second},
		"only the tunnel":          {tunnel: true},
		"no cut":                   {},
		"the node reaches milan":   {responds: true},
		"there is no virtual node": {bare: true},
	} {
		w.begin(peered)
		if test.checks != nil {
			w.checkPeers(t, test.checks)
		}
		if test.bare {
			rome := w.clusters["rome"].client
			of := metav1.ObjectMeta{Namespace: api.TenantNamespace("milan"), Name: "milan"}
			if err := rome.Delete(t.Context(), &authv1beta1.ResourceSlice{ObjectMeta: of}); err != nil { // which owns the virtual node
				t.Fatal(err)
			}
		}
		w.partition(t, "rome", "milan", false)
		if test.tunnel {
			w.loseTunnel(t, "rome", "milan", firstMoment.Add(-3*time.Second))
		}
		at := w.snapshot()
		for _, command := range []string{"unpeer" + lawBoth, "unpeer milan" + lawOne} {
			var deleted time.Time
			ran := w.in(t, at, command, func() {
				if test.noticed > 0 {
					time.AfterFunc(test.noticed, func() { w.partition(t, "rome", "milan", true) })
				}
				w.answer = func(request string, r *http.Request) (*http.Response, error) {
					if test.responds && strings.HasSuffix(r.URL.Path, "/nodes/milan/proxy"+kubelet.PathProviderHealth) {
						return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("ok"))}, nil
					}
					w.mu.Lock()
					defer w.mu.Unlock()
					if deleted.IsZero() && strings.Contains(request, " DELETE ") {
						deleted = time.Now()
					}
					return nil, nil
				}
			})
			if test.noticed > 0 {
				told := strings.Contains(ran.said, "cluster rome does not reach the API server of milan") && strings.Contains(ran.said, "liqoctl force unpeer milan")
				if ran.code != 1 || ran.wrote != 0 || !told {
					t.Errorf("%s, %s: code %d, %d changes: %s", name, command, ran.code, ran.wrote, ran.said)
				}
				continue
			}
			wait := remote.HealthOptionsOf(test.checks).DetectsWithin() + time.Second
			if test.responds || test.bare {
				wait = 0
			}
			if since := deleted.Sub(firstMoment); ran.code != 0 || since < wait || since > wait+10*time.Second {
				t.Errorf("%s, %s: code %d, the first object is deleted after %s, want %s: %s", name, command, ran.code, since, wait, ran.said)
			}
		}
	}
}

// checkPeers gives the controller manager of rome additional flags.
func (w *world) checkPeers(t *testing.T, flags []string) {
	t.Helper()
	rome, manager := w.clusters["rome"].client, &appsv1.Deployment{}
	if err := rome.Get(t.Context(), client.ObjectKey{Namespace: api.Namespace, Name: session.ControllerManager}, manager); err != nil {
		t.Fatal(err)
	}
	container := &manager.Spec.Template.Spec.Containers[0]
	container.Args = append(container.Args, flags...)
	if err := rome.Update(t.Context(), manager); err != nil {
		t.Fatal(err)
	}
}

// TestUnpeerWithoutAForeignCluster: without a ForeignCluster, it is unknown whether the provider responds, so nothing is changed.
func TestUnpeerWithoutAForeignCluster(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	w.begin(w.in(t, w.snapshot(), "peer"+lawBoth, nil).left)
	if err := w.clusters["rome"].client.Delete(t.Context(), &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}); err != nil {
		t.Fatal(err)
	}
	at := w.snapshot()
	for _, command := range []string{"unpeer" + lawBoth, "unpeer milan" + lawOne} {
		w.refuses(t, at, command, []string{"ForeignCluster milan does not exist", "Nothing was changed", "liqoctl force unpeer milan: pods in a cluster that still runs then run twice"})
	}
}

// TestUnpeerWithoutAControllerManager: a condition that no controller manager updates means nothing, so nothing is changed.
func TestUnpeerWithoutAControllerManager(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	peered := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	for name, change := range map[string]func(*appsv1.Deployment){
		"scaled down": func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 },
		"crashing":    func(d *appsv1.Deployment) { d.Status.AvailableReplicas, d.Status.UnavailableReplicas = 0, 1 },
	} {
		w.begin(peered)
		w.partition(t, "rome", "milan", false)
		c, deployment := w.clusters["rome"].client, &appsv1.Deployment{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: session.ControllerManager}, deployment); err != nil {
			t.Fatal(err)
		}
		change(deployment)
		status := deployment.Status
		if err := c.Update(t.Context(), deployment); err != nil {
			t.Fatal(err)
		}
		deployment.Status = status
		if err := c.Status().Update(t.Context(), deployment); err != nil {
			t.Fatal(err)
		}
		at := w.snapshot()
		for _, command := range []string{"unpeer" + lawBoth, "unpeer milan" + lawOne, "unpeer --dry-run" + lawBoth, "delete virtualnode milan" + lawOne} {
			ran := w.in(t, at, command, nil)
			if diff := cmp.Diff(essence(at), essence(ran.left)); ran.code != 1 || ran.wrote != 0 || diff != "" {
				t.Errorf("%s, %s: code %d, %d changes: %s%s", name, command, ran.code, ran.wrote, ran.said, diff)
			}
			for _, want := range []string{
				"no pod of Deployment liqo-controller-manager in namespace liqo of rome is available", "Nothing was changed", "liqoctl force unpeer milan",
			} {
				if !strings.Contains(ran.said, want) {
					t.Errorf("%s, %s: no %q in %s", name, command, want, ran.said)
				}
			}
		}
	}
}
