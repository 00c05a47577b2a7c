package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/install/installer"
	ipamcontrollers "liqo.io/liqo/internal/ipam/controllers"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/test/apitest"
)

const (
	within = 20 * time.Second
	home   = "liqo"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	os.Exit(m.Run())
}

// cluster is an API server on which address management and the network controllers run, with the rights that the chart gives, and nothing
// else: no kubelet, no garbage collector, no controller of Deployments.
type cluster struct {
	client.Client
	config *rest.Config
	stop   func()
	cached client.Reader // what the running controllers see, which is older than what Client reads; nil while none run

	mu     sync.Mutex
	writes []string
}

// book records the writes of the controllers, also those that change nothing. Events do not count.
type book struct {
	http.RoundTripper
	c *cluster
}

func (b book) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/events") {
		b.c.mu.Lock()
		b.c.writes = append(b.c.writes, r.Method+" "+r.URL.Path)
		b.c.mu.Unlock()
	}
	return b.RoundTripper.RoundTrip(r)
}

// written returns the writes since its last call.
func (c *cluster) written() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	writes := c.writes
	c.writes = nil
	return writes
}

// newCluster installs the chart's objects of the network and starts the controllers.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	admin := apitest.APIServer(t)
	c := &cluster{Client: apitest.Client(t, admin)}
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}})
	c.install(t)
	c.config = rest.CopyConfig(admin)
	c.config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + home + ":liqo-controller-manager",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + home, "system:authenticated"},
	}
	c.config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return book{rt, c} })
	c.start(t)
	return c
}

// install makes the objects of the chart that matter here.
func (c *cluster) install(t *testing.T) {
	t.Helper()
	chart, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := installer.Render(chart, home, map[string]any{
		"discovery": map[string]any{"config": map[string]any{"clusterID": "rome"}},
		"ipam":      map[string]any{"podCIDR": "10.42.0.0/16", "serviceCIDR": "10.43.0.0/16"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		switch object.GetKind() {
		case "Namespace", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Network", "WgGatewayServerTemplate", "WgGatewayClientTemplate",
			"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			c.create(t, object)
		case "Service":
			if object.GetName() == "liqo-proxy" {
				c.create(t, object)
			}
		}
	}
}

// start runs the controllers until the test ends or stop is called.
func (c *cluster) start(t *testing.T) {
	t.Helper()
	again := true
	mgr, err := ctrl.NewManager(c.config, ctrl.Options{
		Scheme: kube.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache:      cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Controller: config.Controller{SkipNameValidation: &again},
	})
	if err != nil {
		t.Fatal(err)
	}
	global := map[string]string{api.LabelManaged: api.True}
	if err := errors.Join(
		ipamcontrollers.Setup(mgr, ipamcontrollers.Options{LiqoNamespace: home, Labels: global}),
		Setup(mgr, Options{LiqoNamespace: home, WatchTemplates: true, Labels: global, MTU: 1240}),
	); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	c.stop = func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the manager: %v", err)
		}
		c.stop, c.cached = func() {}, nil
	}
	c.cached = mgr.GetClient()
	t.Cleanup(func() { c.stop() })
}

func (c *cluster) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

func (c *cluster) delete(t *testing.T, o client.Object) {
	t.Helper()
	if err := c.Delete(t.Context(), o); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}

// change patches an object including its status.
func change[T client.Object](t *testing.T, c *cluster, o T, f func(T)) {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	before := o.DeepCopyObject().(T)
	f(o)
	after := o.DeepCopyObject().(T)
	if err := c.Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := c.Status().Patch(t.Context(), after, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}

// eventually re-reads the object until ok returns true.
func eventually[T client.Object](t *testing.T, c *cluster, o T, what string, ok func(T) bool) T {
	t.Helper()
	apitest.Eventually(t, within, fmt.Sprintf("%T %s: %s", o, client.ObjectKeyFromObject(o), what), func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if !ok(o) {
			return fmt.Errorf("it is %+v", o)
		}
		return nil
	})
	return o
}

// gone waits until the object is gone from the API server and from the cache of the controllers.
func (c *cluster) gone(t *testing.T, o client.Object) {
	t.Helper()
	apitest.Gone(t, within, o, c.Client, c.cached)
}

// tenant makes the tenant namespace of a peer.
func (c *cluster) tenant(t *testing.T, id string) {
	t.Helper()
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: api.TenantNamespace(id), Labels: map[string]string{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: id},
	}})
}

// peerMeta is the metadata of an object of the peering.
func peerMeta(id, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: api.TenantNamespace(id), Name: name, Labels: map[string]string{api.LabelRemoteClusterID: id}}
}

// node makes a node, as a kubelet would report it.
func (c *cluster) node(t *testing.T, name, address string) *corev1.Node {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.create(t, n)
	change(t, c, n, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	return n
}

// run creates a ready pod of the Deployment on the node, as Kubernetes would.
func (c *cluster) run(t *testing.T, d *appsv1.Deployment, pod, node, ip string, labels ...string) {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: pod, Labels: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "gateway", Image: "x"}}},
	}
	for k, v := range d.Spec.Template.Labels {
		p.Labels[k] = v
	}
	for i := 0; i+1 < len(labels); i += 2 {
		p.Labels[labels[i]] = labels[i+1]
	}
	c.create(t, p)
	change(t, c, p, func(p *corev1.Pod) {
		p.Status.PodIP, p.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
}

// available sets the status that the Deployment controller sets when a pod is ready.
func (c *cluster) available(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	change(t, c, d, func(d *appsv1.Deployment) {
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	})
}

// is reports whether a condition has a status, a reason (any if empty) and a message that contains the text.
func is(conditions []metav1.Condition, kind string, status metav1.ConditionStatus, reason, message string) bool {
	c := meta.FindStatusCondition(conditions, kind)
	return c != nil && c.Status == status && (reason == "" || c.Reason == reason) && strings.Contains(c.Message, message)
}
