package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/test/apitest"
)

const (
	liqo   = "liqo"
	within = 20 * time.Second
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// cluster is an API server with the chart's objects for the controller manager's permissions and for the address ranges. Only the controllers under test run:
// there is no garbage collector and no namespace controller.
type cluster struct {
	client.Client
	// manager is the configuration of the controller manager's own identity.
	manager *rest.Config
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	admin := apitest.APIServer(t)
	c := &cluster{Client: apitest.Client(t, admin), manager: rest.CopyConfig(admin)}
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: liqo}})
	chart, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := installer.Render(chart, liqo, map[string]any{
		"discovery":  map[string]any{"config": map[string]any{"clusterID": "rome"}},
		"networking": map[string]any{"enabled": true},
		"ipam": map[string]any{
			"podCIDRs": []any{"10.200.0.0/16", "fd00:10::/56"}, "serviceCIDR": "10.90.0.0/16", "reservedSubnets": []any{"10.71.0.0/16", "192.168.0.0/16"},
		},
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
		case "Namespace", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Network":
			c.create(t, object)
		}
	}
	c.manager.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + liqo + ":liqo-controller-manager",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + liqo, "system:authenticated"},
	}
	return c
}

// run runs the controllers until stop is called, or the test ends.
func (c *cluster) run(t *testing.T) (stop func()) {
	t.Helper()
	mgr, err := ctrl.NewManager(c.manager, ctrl.Options{
		Scheme: kube.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: controllerOptions(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Setup(mgr, Options{LiqoNamespace: liqo, Pools: ipam.DefaultPools(), Labels: map[string]string{api.LabelManaged: api.True}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the manager: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func (c *cluster) create(t *testing.T, objs ...client.Object) {
	t.Helper()
	for _, obj := range objs {
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatalf("creating %T %s: %v", obj, obj.GetName(), err)
		}
	}
}

func (c *cluster) namespace(t *testing.T, name string) {
	t.Helper()
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func (c *cluster) remove(t *testing.T, obj client.Object) {
	t.Helper()
	if err := c.Delete(t.Context(), obj); client.IgnoreNotFound(err) != nil {
		t.Fatalf("deleting %T %s: %v", obj, obj.GetName(), err)
	}
}

func (c *cluster) gone(t *testing.T, obj client.Object) {
	t.Helper()
	apitest.Gone(t, within, obj, c.Client)
}

// network waits until a Network has this range and its condition has this reason.
func (c *cluster) network(t *testing.T, namespace, name, cidr, reason string) *ipamv1alpha1.Network {
	t.Helper()
	n := &ipamv1alpha1.Network{}
	apitest.Eventually(t, within, "Network "+name, func() error {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, n); err != nil {
			return err
		}
		return ready(n.Status.CIDR, cidr, n.Status.Conditions, n.Generation, reason)
	})
	return n
}

// ip waits until the condition of an IP has this reason, and returns the IP.
func (c *cluster) ip(t *testing.T, namespace, name, reason string) *ipamv1alpha1.IP {
	t.Helper()
	ip := &ipamv1alpha1.IP{}
	apitest.Eventually(t, within, "IP "+name, func() error {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, ip); err != nil {
			return err
		}
		return ready("", "", ip.Status.Conditions, ip.Generation, reason)
	})
	return ip
}

func ready(got, want string, conditions []metav1.Condition, generation int64, reason string) error {
	condition := meta.FindStatusCondition(conditions, kube.ConditionReady)
	if condition == nil {
		return errors.New("no condition")
	}
	if got != want || condition.Reason != reason || condition.ObservedGeneration != generation ||
		(condition.Status == metav1.ConditionTrue) != (reason == reasons.Reconciled) {
		return fmt.Errorf("%q and %+v, want %q and reason %s", got, condition, want, reason)
	}
	return nil
}

func newNetwork(namespace, name, cidr string) *ipamv1alpha1.Network {
	return &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: ipamv1alpha1.NetworkSpec{CIDR: cidr}}
}

func newIP(namespace, name, addr string) *ipamv1alpha1.IP {
	return &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: ipamv1alpha1.IPSpec{IP: addr}}
}
