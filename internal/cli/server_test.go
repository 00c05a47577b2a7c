package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/inspect"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/doctor"
	"liqo.io/liqo/test/apitest"
	"liqo.io/liqo/test/clitest"
)

// server is an API server with the objects by which liqoctl recognises an installation; no controller runs there.
func server(t *testing.T) (kubeconfig string, c client.Client) {
	t.Helper()
	return serverOf(t, "rome")
}

func serverOf(t *testing.T, clusterID string) (kubeconfig string, c client.Client) {
	t.Helper()
	env, config := apitest.Environment(t)
	return installation(t, clusterID, env.KubeConfig, config)
}

// installation makes what liqoctl knows an installation by.
func installation(t *testing.T, clusterID string, admin []byte, config *rest.Config) (kubeconfig string, c client.Client) {
	t.Helper()
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, admin, 0o600); err != nil {
		t.Fatal(err)
	}
	c = apitest.Client(t, config)
	labels := map[string]string{"app": "liqo"}
	clitest.Create(t, c,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: api.ClusterIDConfigMap, Labels: map[string]string{"app.kubernetes.io/name": "clusterid-configmap"}},
			Data:       map[string]string{api.ClusterIDKey: clusterID},
		},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: inspect.NetworkConfigMap},
			Data:       map[string]string{"POD_CIDRS": "10.1.0.0/16,10.2.0.0/16", "SERVICE_CIDR": "10.3.0.0/16", "EXTERNAL_CIDR": "", "INTERNAL_CIDR": ""},
		},
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: session.ControllerManager, Labels: map[string]string{"app.kubernetes.io/version": "v1.2.3"}},
			Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "controller-manager", Image: "x", Args: []string{"--cluster-labels=region=europe", "--api-server-address=https://rome:6443"},
				}}},
			}},
		},
	)
	return kubeconfig, c
}

// peeringObjects are the objects that two controller managers create in a consumer.
func peeringObjects() []client.Object {
	ready := []corev1beta1.Condition{{Type: corev1beta1.AuthIdentityControlPlaneStatus, Status: corev1beta1.StatusReady}}
	bad := []corev1beta1.Condition{{Type: corev1beta1.OffloadingNodeStatus, Status: corev1beta1.StatusNotReady, Message: "no heartbeat"}}
	labels := map[string]string{api.LabelRemoteClusterID: "milan", api.LabelRemoteID: "milan"}
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "any-name", Labels: map[string]string{
			api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: "milan",
		}}},
		&corev1beta1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "milan"},
			Spec:       corev1beta1.ForeignClusterSpec{ClusterID: "milan"},
			Status: corev1beta1.ForeignClusterStatus{
				Role: corev1beta1.RoleProvider, APIServerURL: "https://milan:6443",
				Peering:    corev1beta1.Summary{Type: corev1beta1.OutOfBand, Outgoing: corev1beta1.PhasePending, Authentication: corev1beta1.PhaseError},
				Conditions: []corev1beta1.Condition{{Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusError, Message: "no route"}},
				Modules: corev1beta1.Modules{
					Authentication: corev1beta1.Module{Enabled: true, Conditions: ready}, Offloading: corev1beta1.Module{Enabled: true, Conditions: bad},
				},
			},
		},
		&authv1beta1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "any-name", Name: "milan", Labels: labels},
			Status: authv1beta1.ResourceSliceStatus{Conditions: []authv1beta1.ResourceSliceCondition{
				{Type: authv1beta1.ResourceSliceAuthentication, Status: authv1beta1.ResourceSliceAccepted},
				{Type: authv1beta1.ResourceSliceResources, Status: authv1beta1.ResourceSliceDenied, Reason: "TooMuch", Message: "ask for less"},
			}},
		},
		&offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: offloadingv1beta1.NamespaceOffloadingName}},
	}
}

func TestCommandsOnAPIServer(t *testing.T) {
	t.Parallel()
	kubeconfig, c := server(t)
	clitest.Create(t, c, peeringObjects()...)
	liqoctl := func(command string) (int, string, string) {
		return run(t, append(strings.Fields(command), "--kubeconfig", kubeconfig)...)
	}

	t.Run("info as JSON", func(t *testing.T) {
		_, out, errOut := liqoctl("info -o json")
		var got any
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v: %s%s", err, out, errOut)
		}
		want := map[string]any{
			"local":   map[string]any{"clusterID": "rome", "version": "v1.2.3", "labels": map[string]any{"region": "europe"}, "APIServerAddr": "https://rome:6443"},
			"health":  map[string]any{"healthy": false},
			"network": map[string]any{"podCIDRs": []any{"10.1.0.0/16", "10.2.0.0/16"}, "serviceCIDR": "10.3.0.0/16", "externalCIDR": "", "internalCIDR": ""},
			"peerings": map[string]any{"peers": []any{map[string]any{
				"clusterID": "milan", "role": "Provider", "networkingStatus": "Disabled", "authenticationStatus": "Unhealthy", "offloadingStatus": "Unhealthy",
			}}},
		}
		// What doctor finds is in golden files.
		delete(got.(map[string]any)["health"].(map[string]any), "problems")
		delete(got.(map[string]any)["peerings"].(map[string]any)["peers"].([]any)[0].(map[string]any), "problems")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("one value", func(t *testing.T) {
		for query, want := range map[string]string{"clusterid": "rome\n", "peerings.peers.0.role": "Provider\n", "local.labels": "region: europe\n", "network.podcidrs.1": "10.2.0.0/16\n"} {
			if code, out, errOut := liqoctl("info -g " + query); code != 0 || out != want {
				t.Errorf("%s: code %d, %q%s", query, code, out, errOut)
			}
		}
	})
	t.Run("boxes", func(t *testing.T) {
		code, local, _ := liqoctl("info")
		peerCode, peers, _ := liqoctl("info peer")
		if code != 0 || peerCode != 0 {
			t.Errorf("codes %d and %d", code, peerCode)
		}
		golden(t, "info", local+peers)
		_, status, _ := liqoctl("status -v")
		_, peers, errOut := liqoctl("status peers milan")
		golden(t, "status", status+peers+errOut)
	})
	t.Run("a single peer is not wrapped", func(t *testing.T) {
		if _, out, errOut := liqoctl("info peer milan -g authentication.resourceSlices.0.accepted"); out != "false\n" {
			t.Errorf("%s%s", out, errOut)
		}
		if _, out, errOut := liqoctl("info peer -g milan.offloading.status"); out != "Unhealthy\n" {
			t.Errorf("%s%s", out, errOut)
		}
		if code, _, errOut := liqoctl("info peer turin"); code != 1 || !strings.Contains(errOut, "no peering with cluster turin") {
			t.Errorf("code %d: %s", code, errOut)
		}
	})
	t.Run("doctor", func(t *testing.T) {
		code, out, errOut := liqoctl("doctor")
		if code != 1 || !strings.Contains(errOut, "checks failed") {
			t.Errorf("code %d: %s", code, errOut)
		}
		golden(t, "doctor", out)
		var findings []doctor.Finding
		code, out, errOut = liqoctl("doctor -o json")
		if err := json.Unmarshal([]byte(out), &findings); err != nil || code != 1 || doctor.Worst(findings) != doctor.Fail {
			t.Errorf("%v, code %d: %s%s", err, code, out, errOut)
		}
		if code, out, errOut := liqoctl("doctor --remote-kubeconfig " + kubeconfig); code != 1 || out != "" || !strings.Contains(errOut, "are the same") {
			t.Errorf("code %d: %s%s", code, out, errOut)
		}
		if code, out, errOut := liqoctl("doctor -o table"); code != 1 || out != "" || !strings.Contains(errOut, "want json or yaml") {
			t.Errorf("code %d: %s%s", code, out, errOut)
		}
	})
	t.Run("manifests", func(t *testing.T) {
		_, first, _ := liqoctl("offload namespace default --pod-offloading-strategy Remote -l region=europe -o yaml --global-labels team=blue")
		_, second, errOut := liqoctl("create resourceslice gpu --remote-cluster-id milan --cpu 4 -o yaml")
		golden(t, "manifests", first+"---\n"+second+errOut)
	})
	t.Run("several manifests are several documents", func(t *testing.T) {
		clitest.Create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "another"}})
		_, out, errOut := liqoctl("offload namespace default another -o yaml")
		if documents := strings.Split(out, "\n---\n"); len(documents) != 2 || strings.Count(out, "kind: NamespaceOffloading") != 2 {
			t.Errorf("%d documents: %s%s", len(documents), out, errOut)
		}
	})
	t.Run("uninstall leaves an installation in another namespace", func(t *testing.T) {
		code, _, errOut := liqoctl("uninstall --purge --skip-confirm -n default")
		if code != 1 || !strings.Contains(errOut, "installed in namespace liqo, not in default") {
			t.Errorf("code %d: %s", code, errOut)
		}
	})
	t.Run("uninstall names what is in use", func(t *testing.T) {
		code, _, errOut := liqoctl("uninstall --purge --skip-confirm")
		if code != 1 || !strings.Contains(errOut, "peered with milan") || !strings.Contains(errOut, "unoffload namespace default") {
			t.Errorf("code %d: %s", code, errOut)
		}
	})
	t.Run("a wait that ends without success says what is missing", func(t *testing.T) {
		code, _, errOut := liqoctl("offload namespace default --timeout 2s")
		want := "waiting for NamespaceOffloading offloading in namespace default: timed out (--timeout), last seen: the controller manager has not reconciled it yet"
		if code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("code %d: %s", code, errOut)
		}
	})
	t.Run("several namespaces are unoffloaded at once", func(t *testing.T) {
		var objects []*offloadingv1beta1.NamespaceOffloading
		for _, name := range []string{"first", "second"} {
			object := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{
				Namespace: name, Name: offloadingv1beta1.NamespaceOffloadingName, Finalizers: []string{"example.com/held"},
			}}
			clitest.Create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, object)
			objects = append(objects, object)
		}
		code, _, errOut := liqoctl("unoffload namespace first second --skip-confirm --timeout 2s")
		if code != 1 || !strings.Contains(errOut, "in namespace first to be gone") {
			t.Errorf("code %d: %s", code, errOut)
		}
		for _, object := range objects {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Fatal(err)
			}
			if object.DeletionTimestamp == nil {
				t.Errorf("namespace %s is not being taken back while another one is waited for", object.Namespace)
			}
			object.Finalizers = nil
			if err := c.Update(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("the same cluster twice", func(t *testing.T) {
		code, _, errOut := liqoctl("peer --remote-kubeconfig " + kubeconfig)
		if code != 1 || !strings.Contains(errOut, "are the same") {
			t.Errorf("code %d: %s", code, errOut)
		}
	})
	t.Run("waiting follows the object", func(t *testing.T) { testWaiting(t, kubeconfig, c) })
}

// TestUninstallOfNothingOnAPIServer: uninstall fails with the wrong kubeconfig, and where Helm did not install Liqo.
func TestUninstallOfNothingOnAPIServer(t *testing.T) {
	t.Parallel()
	env, config := apitest.Environment(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(want string, args ...string) {
		t.Helper()
		code, _, errOut := run(t, append([]string{"uninstall", "--skip-confirm", "--kubeconfig", kubeconfig}, args...)...)
		if code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("code %d: %s", code, errOut)
		}
	}
	refused("not installed in namespace liqo")
	clitest.Create(t, apitest.Client(t, config),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: api.ClusterIDConfigMap, Labels: map[string]string{"app.kubernetes.io/name": "clusterid-configmap"}},
			Data:       map[string]string{api.ClusterIDKey: "rome"},
		})
	refused("not as a Helm release", "--purge")
}

// testWaiting sees an object appear, change and go, all by watching.
func testWaiting(t *testing.T, kubeconfig string, c client.Client) {
	app := session.New(genericiooptions.NewTestIOStreamsDiscard())
	app.Kubeconfig.KubeConfig = &kubeconfig
	watched, err := app.Local()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "awaited"}}
	seen := make(chan string)
	done := make(chan error, 1)
	go func() {
		object := secret.DeepCopy()
		err := watched.WaitFor(ctx, nil, object, func() session.Verdict {
			if value := string(object.Data["k"]); value != "done" {
				seen <- value
				return session.NotYet("k is %s", value)
			}
			return session.Yes()
		})
		if err == nil {
			seen <- "done"
			err = watched.WaitGone(ctx, nil, object)
		}
		done <- err
	}()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Fatalf("saw %q, want %q", got, want)
			}
		case err := <-done:
			t.Fatalf("ended early: %v", err)
		}
	}
	stored := secret.DeepCopy()
	stored.Data = map[string][]byte{"k": []byte("1")}
	clitest.Create(t, c, stored)
	expect("1")
	for _, value := range []string{"2", "done"} {
		stored.Data["k"] = []byte(value)
		if err := c.Update(ctx, stored); err != nil {
			t.Fatal(err)
		}
		expect(value)
	}
	if err := c.Delete(ctx, stored); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
