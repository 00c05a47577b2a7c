package cli

import (
	"context"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/setup"
	"liqo.io/liqo/test/clitest"
)

// lawInstall installs Liqo in rome.
const lawInstall = "install --cluster-id rome --pod-cidr 10.1.0.0/16 --service-cidr 10.3.0.0/16" + lawOne

// emptyWorld is two clusters without Liqo.
func emptyWorld(t *testing.T) *world {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := newWorld(t, nil)
	for id, c := range w.clusters {
		for _, name := range []string{"kube-system", "default"} {
			clitest.Create(t, c.client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		clitest.Create(t, c.client, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: id + "-1"}, Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.10"}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}})
	}
	return w
}

// inCluster runs a command in a world whose API servers also do what the controllers of Kubernetes do for an installation. refuse, if not nil, answers
// requests in their place.
func (w *world) inCluster(t *testing.T, at worldSnapshot, command string, refuse func(request string, r *http.Request) *http.Response) ranCommand {
	t.Helper()
	return w.in(t, at, command, func() {
		w.answer = func(request string, r *http.Request) (*http.Response, error) {
			if refuse != nil {
				if response := refuse(request, r); response != nil {
					return response, nil
				}
			}
			if r.Method == http.MethodGet {
				return nil, nil
			}
			c := w.clusters[r.URL.Host]
			response := c.serve(r)
			return response, c.kubernetes(context.WithoutCancel(r.Context()))
		}
	})
}

// kubernetes establishes the custom resource definitions, and starts the pods of all workloads.
func (s *memorySide) kubernetes(ctx context.Context) error {
	var definitions apiextensionsv1.CustomResourceDefinitionList
	var deployments appsv1.DeploymentList
	var daemons appsv1.DaemonSetList
	if err := s.client.List(ctx, &definitions); err != nil {
		return err
	}
	if err := s.client.List(ctx, &deployments); err != nil {
		return err
	}
	if err := s.client.List(ctx, &daemons); err != nil {
		return err
	}
	for i := range definitions.Items {
		if crd := &definitions.Items[i]; len(crd.Status.Conditions) == 0 {
			crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
			if err := s.client.Status().Update(ctx, crd); err != nil {
				return err
			}
		}
	}
	for i := range deployments.Items {
		if d := &deployments.Items[i]; d.Status.ObservedGeneration != d.Generation {
			n := int32(1)
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, AvailableReplicas: n}
			if err := s.client.Status().Update(ctx, d); err != nil {
				return err
			}
		}
	}
	for i := range daemons.Items {
		if d := &daemons.Items[i]; d.Status.ObservedGeneration != d.Generation {
			d.Status = appsv1.DaemonSetStatus{ObservedGeneration: d.Generation, DesiredNumberScheduled: 1, UpdatedNumberScheduled: 1, NumberAvailable: 1}
			if err := s.client.Status().Update(ctx, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// object returns an object of rome at a snapshot, nil if there is none.
func (s worldSnapshot) object(key string) map[string]any { return s["rome"].objects[key] }

// keys returns the objects of rome at a snapshot whose key has the prefix.
func (s worldSnapshot) keys(prefix string) (out []string) {
	for key := range s["rome"].objects {
		if strings.HasPrefix(key, prefix) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// differentObjects returns the objects that only one of two snapshots has, or whose spec differs.
func differentObjects(before, after worldSnapshot) (out []string) {
	a, b := essence(before), essence(after)
	for key, spec := range a {
		if other, found := b[key]; !found || other != spec {
			out = append(out, key)
		}
	}
	for key := range b {
		if _, found := a[key]; !found {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

const (
	keyNamespace   = "/v1/namespaces /liqo"
	keyDefinitions = "apiextensions.k8s.io/v1/customresourcedefinitions "
	keyRelease     = "/v1/secrets liqo/sh.helm.release.v1.liqo."
	keyLock        = "coordination.k8s.io/v1/leases "
	keyManager     = "apps/v1/deployments liqo/" + session.ControllerManager
)

// TestInstallInMemory: an installation creates the namespace, the definitions, the release and the objects of the chart, and releases its lock. A second
// run keeps the settings of the first.
func TestInstallInMemory(t *testing.T) {
	w := emptyWorld(t)
	empty := w.snapshot()

	dry := w.inCluster(t, empty, lawInstall+" --dry-run", nil)
	if dry.code != 0 || !strings.Contains(dry.said, "its objects can be checked once the custom resource definitions are installed") {
		t.Errorf("dry run, code %d: %s", dry.code, dry.said)
	}
	if changed := differentObjects(empty, dry.left); len(changed) > 0 {
		t.Errorf("the dry run changed %v", changed)
	}

	first := w.inCluster(t, empty, lawInstall, nil)
	if first.code != 0 || !strings.Contains(first.said, "All Set! This cluster is rome.") {
		t.Fatalf("code %d: %s", first.code, first.said)
	}
	// Users and scripts follow the installation by these lines.
	rest := first.said
	for _, line := range []string{
		"INFO  Kubernetes clients successfully initialized\n", "INFO  Installer initialized\n", "INFO  Cluster configuration correctly retrieved\n",
		"INFO  Installation parameters correctly generated\n", "INFO  All Set! ",
	} {
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Errorf("no %q, or not in this order, in\n%s", line, first.said)
			continue
		}
		rest = after
	}
	labels := nested(first.left.object(keyNamespace), "metadata", "labels")
	if labels[setup.LabelPodSecurity] != "privileged" || labels[api.LabelManaged] != api.True {
		t.Errorf("the namespace has labels %v", labels)
	}
	if id := nested(first.left.object("/v1/configmaps liqo/liqo-clusterid-configmap"), "data")[api.ClusterIDKey]; id != "rome" {
		t.Errorf("the cluster ID is %v", id)
	}
	if have := first.left.keys(keyRelease); !slices.Equal(have, []string{keyRelease + "v1"}) {
		t.Errorf("the revisions are %v", have)
	}
	if have := first.left.keys(keyLock); len(have) > 0 {
		t.Errorf("the lock is not released: %v", have)
	}
	if definitions := first.left.keys(keyDefinitions); len(definitions) < 20 {
		t.Errorf("the definitions are %v", definitions)
	}

	dry = w.inCluster(t, first.left, "install --dry-run"+lawOne, nil)
	if dry.code != 0 || !strings.Contains(dry.said, "the API server accepts the objects, nothing was changed") {
		t.Errorf("dry run of an upgrade, code %d: %s", dry.code, dry.said)
	}
	if changed := differentObjects(first.left, dry.left); len(changed) > 0 {
		t.Errorf("the dry run of an upgrade changed %v", changed)
	}

	second := w.inCluster(t, first.left, "upgrade --set proxy.config.listeningPort=8119"+lawOne, nil)
	if second.code != 0 || !strings.Contains(second.said, "All Set! This cluster is rome.") || !strings.Contains(second.said, "Pod CIDR: 10.1.0.0/16") {
		t.Fatalf("upgrade, code %d: %s", second.code, second.said)
	}
	if have := second.left.keys(keyRelease); !slices.Equal(have, []string{keyRelease + "v1", keyRelease + "v2"}) {
		t.Errorf("after the upgrade, the revisions are %v", have)
	}
	changed := differentObjects(first.left, second.left)
	for _, want := range []string{"rome " + keyRelease + "v2", "rome apps/v1/deployments liqo/liqo-proxy"} {
		if !slices.Contains(changed, want) {
			t.Errorf("the upgrade did not change %s, but %v", want, changed)
		}
	}
	if slices.Contains(changed, "rome ipam.liqo.io/v1alpha1/networks liqo/pod-cidr") {
		t.Error("the upgrade changed the pod CIDR")
	}
}

// nested returns the map at a path of an object; nil if there is none.
func nested(object map[string]any, path ...string) map[string]any {
	for _, key := range path {
		object, _ = object[key].(map[string]any)
	}
	return object
}

// forbid refuses requests whose description starts with a text.
func forbid(prefix string) func(string, *http.Request) *http.Response {
	return func(request string, r *http.Request) *http.Response {
		if !strings.HasPrefix(request, prefix) {
			return nil
		}
		path, _ := parsePath(r.URL.Path)
		return refusal(http.StatusForbidden, metav1.StatusReasonForbidden, path, servedKind{resource: "objects"}, "the test forbids it")
	}
}

// TestFailedInstallIsRolledBack: after a failure, the cluster is as before, whatever step failed. What existed before the installation stays.
func TestFailedInstallIsRolledBack(t *testing.T) {
	w := emptyWorld(t)
	empty := w.snapshot()
	w.begin(empty)
	clitest.Create(t, w.clusters["rome"].client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo", Labels: map[string]string{"team": "a"}}})
	prepared := w.snapshot()

	for _, step := range []struct {
		name   string
		before worldSnapshot
		fails  string
	}{
		{"a definition", prepared, "rome PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/tenants.authentication.liqo.io"},
		{"the release", empty, "rome POST /api/v1/namespaces/liqo/secrets"},
		{"an object of the chart", empty, "rome PATCH /apis/apps/v1/namespaces/liqo/deployments/liqo-proxy"},
		{"the last object", prepared, lastOfChart},
	} {
		ran := w.inCluster(t, step.before, lawInstall, forbid(step.fails))
		if ran.code != 1 || !strings.Contains(ran.said, "the test forbids it") || !strings.Contains(ran.said, "The installation was rolled back") {
			t.Errorf("%s: code %d: %s", step.name, ran.code, ran.said)
		}
		if strings.Contains(ran.said, "liqo-probe") { // a check by a dry run, which creates no object
			t.Errorf("%s: a check is reported as a change: %s", step.name, ran.said)
		}
		if left := differentObjects(step.before, ran.left); len(left) > 0 {
			t.Errorf("%s: the rollback leaves %v", step.name, left)
		}
		want := nested(step.before.object(keyNamespace), "metadata", "labels")
		if labels := nested(ran.left.object(keyNamespace), "metadata", "labels"); !maps.Equal(labels, want) {
			t.Errorf("%s: the namespace is left with labels %v, want %v", step.name, labels, want)
		}
	}
}

// lastOfChart is the request that writes the last object of the chart.
const lastOfChart = "rome PATCH /apis/node.k8s.io/v1/runtimeclasses/liqo"

// TestRollbackKeepsStorage: the rollback of a new installation keeps a storage namespace that existed before, whoever created it, and one with claims.
func TestRollbackKeepsStorage(t *testing.T) {
	const storage = "rome /v1/namespaces /" + api.StorageNamespace
	w := emptyWorld(t)
	empty := w.snapshot()
	w.begin(empty)
	clitest.Create(t, w.clusters["rome"].client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   api.StorageNamespace,
		Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"},
		Annotations: map[string]string{
			"meta.helm.sh/release-name": "liqo", "meta.helm.sh/release-namespace": "liqo", "helm.sh/resource-policy": "keep",
		},
	}})
	earlier := w.snapshot()

	ran := w.inCluster(t, earlier, lawInstall, forbid(lastOfChart))
	if ran.code != 1 || !strings.Contains(ran.said, "The installation was rolled back") {
		t.Errorf("code %d: %s", ran.code, ran.said)
	}
	if ran.left.object("/v1/namespaces /"+api.StorageNamespace) == nil {
		t.Error("the rollback removed the storage namespace of an earlier installation")
	}

	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: api.StorageNamespace, Name: "data"}}
	refuse := forbid(lastOfChart)
	ran = w.inCluster(t, empty, lawInstall, func(request string, r *http.Request) *http.Response {
		response := refuse(request, r)
		if response != nil {
			clitest.Create(t, w.clusters["rome"].client, claim)
		}
		return response
	})
	if ran.code != 1 || !strings.Contains(ran.said, "This installation created a namespace that is kept: namespace liqo-storage stays, because it holds PersistentVolumeClaim ") {
		t.Errorf("with a claim: code %d: %s", ran.code, ran.said)
	}
	if left := differentObjects(empty, ran.left); !slices.Equal(left, []string{storage, "rome /v1/persistentvolumeclaims liqo-storage/data"}) {
		t.Errorf("with a claim, the rollback leaves %v", left)
	}
}

// TestFailedUpgradeIsRolledBack: after a failure, the previous version runs as before.
func TestFailedUpgradeIsRolledBack(t *testing.T) {
	w := emptyWorld(t)
	installed := w.inCluster(t, w.snapshot(), lawInstall, nil).left
	const upgrade = "upgrade --set proxy.config.listeningPort=8119" + lawOne
	refused := 0
	ran := w.inCluster(t, installed, upgrade, func(request string, r *http.Request) *http.Response {
		response := forbid("rome PATCH /apis/apps/v1/namespaces/liqo/deployments/liqo-controller-manager")(request, r)
		if response == nil || refused > 0 {
			return nil
		}
		refused++
		return response
	})
	if ran.code != 1 || !strings.Contains(ran.said, "the test forbids it") || !strings.Contains(ran.said, "Rolled back to version ") {
		t.Errorf("code %d: %s", ran.code, ran.said)
	}
	for _, key := range differentObjects(installed, ran.left) {
		if !strings.HasPrefix(key, "rome "+keyRelease) {
			t.Errorf("the rollback leaves %s changed", key)
		}
	}

	ran = w.inCluster(t, installed, upgrade, forbid("rome PATCH /apis/apps/v1/namespaces/liqo/deployments/liqo-controller-manager"))
	if ran.code != 1 || !strings.Contains(ran.said, "Rolling it back failed too") {
		t.Errorf("without a rollback, code %d: %s", ran.code, ran.said)
	}
	if len(ran.left.keys(keyLock)) != 1 {
		t.Error("after a failed rollback, nothing shows that the change was interrupted")
	}
	again := w.inCluster(t, ran.left, upgrade, nil)
	if again.code != 0 || !strings.Contains(again.said, "is no longer renewed, so that command was killed") || len(again.left.keys(keyLock)) > 0 {
		t.Errorf("the run after a failed rollback, code %d: %s", again.code, again.said)
	}
}

// TestInstallThatMustNotStart: an installation that would meet another one, or a namespace that is being deleted, changes nothing.
func TestInstallThatMustNotStart(t *testing.T) {
	w := emptyWorld(t)
	empty := w.snapshot()
	w.begin(empty)
	clitest.Create(t, w.clusters["rome"].client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo", Finalizers: []string{"example.com/kept"}}})
	if err := w.clusters["rome"].client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}}); err != nil {
		t.Fatal(err)
	}
	leaving := w.snapshot()
	ran := w.inCluster(t, leaving, lawInstall, nil)
	if ran.code != 1 || !strings.Contains(ran.said, "Namespace liqo is being deleted") || len(differentObjects(leaving, ran.left)) > 0 {
		t.Errorf("a namespace that is being deleted: code %d, changed %v: %s", ran.code, differentObjects(leaving, ran.left), ran.said)
	}

	installed := w.inCluster(t, empty, lawInstall, nil).left
	secret := installed.object(keyRelease + "v1")
	raced := w.inCluster(t, empty, lawInstall, func(request string, _ *http.Request) *http.Response {
		if strings.HasPrefix(request, "rome POST /apis/coordination.k8s.io/v1/namespaces/liqo/leases") { // another process installs just before
			rome := w.clusters["rome"]
			rome.mu.Lock()
			path, _ := parsePath("/api/v1/namespaces/liqo/secrets/sh.helm.release.v1.liqo.v1")
			rome.store(path, rome.kinds[path.of], nil, secret)
			rome.mu.Unlock()
		}
		return nil
	})
	if want := "another user or program changed the installation in namespace liqo during this command"; raced.code != 1 || !strings.Contains(raced.said, want) || !strings.Contains(raced.said, "run the command again") {
		t.Errorf("code %d: %s", raced.code, raced.said)
	}
	if raced.left.object(keyManager) != nil || len(raced.left.keys(keyDefinitions)) > 0 || len(raced.left.keys(keyLock)) > 0 {
		t.Errorf("the command has changed the installation of another one: %v", differentObjects(empty, raced.left))
	}

	for command, says := range map[string]string{
		lawInstall + " --namespace other":                       "Liqo is installed in namespace liqo already",
		"install --cluster-id milan" + lawOne:                   "milan",
		"install --set discovery.config.clusterID=A_b" + lawOne: "clusterID",
	} {
		ran := w.inCluster(t, installed, command, nil)
		if ran.code != 1 || !strings.Contains(ran.said, says) {
			t.Errorf("%s: code %d: %s", command, ran.code, ran.said)
		}
		if changed := differentObjects(installed, ran.left); len(changed) > 0 {
			t.Errorf("%s changed %v", command, changed)
		}
	}
}
