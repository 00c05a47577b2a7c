package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/test/apitest"
)

// cluster is an API server on which the controllers run, and nothing else: no kubelet, no garbage collector, no namespace controller.
type cluster struct {
	client.Client
	typed kubernetes.Interface
	// shadowWrites counts what the controllers write about ShadowPods and their Pods, EndpointSlices and IPs.
	shadowWrites *writeCounts
	// cached and offloadedPods are what the controllers see, which is older than what Client reads.
	cached, offloadedPods client.Reader
}

const (
	within        = 20 * time.Second
	ownID         = "rome"
	liqoNamespace = "liqo"
)

// TestControllersOnAPIServer runs every scenario against one API server, in namespaces and clusters of their own.
func TestControllersOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	c := start(t, config)
	for name, scenario := range map[string]func(*testing.T, *cluster){
		"namespace offloading": func(t *testing.T, c *cluster) {
			testNamespaceOffloading(t, c)
			testProtectedNamespace(t, c)
		},
		"namespace map":             testNamespaceMap,
		"shadow pod":                testShadowPod,
		"shadow pod, foreign pod":   testForeignPod,
		"shadow pod metadata":       testShadowPodMetadata,
		"shadow pod changes":        testShadowPodChanges,
		"shadow pod grace period":   testShadowPodGrace,
		"shadow pod end":            testShadowPodEnd,
		"virtual node":              testVirtualNode,
		"two virtual nodes":         testTwoVirtualNodes,
		"virtual node of a slice":   testVirtualNodeOfSlice,
		"unreachable provider":      testUnreachableProvider,
		"virtual node, foreign one": testForeignNode,
		"virtual node, namesakes":   testNamesakes,
		"namespace map, refused":    testRefusedNamespace,
		"endpoints":                 testEndpoints,
		"endpoints, hostile":        testHostileEndpoints,
		"endpoints, foreign slice":  testForeignSlice,
		"addresses of pods":         testPodIPs,
	} {
		t.Run(name, func(t *testing.T) { scenario(t, c) })
	}
}

// start runs the controllers until the test ends.
func start(t *testing.T, admin *rest.Config, settings ...func(*Options)) *cluster {
	t.Helper()
	config := ordinary(t, admin)
	c := run(t, admin, config, settings...)
	c.create(t, &offloadingv1beta1.VkOptionsTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: liqoNamespace, Name: offloadingv1beta1.VkOptionsTemplateDefault},
		Spec:       offloadingv1beta1.VkOptionsTemplateSpec{ContainerImage: "registry.example/virtual-kubelet:v1", CreateNode: true},
	})
	return c
}

// run is like start, but the manager uses config, whose permissions may be restricted.
func run(t *testing.T, admin, config *rest.Config, settings ...func(*Options)) *cluster {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	writes := &writeCounts{}
	skipNameValidation := true
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Controller: controllerconfig.Controller{SkipNameValidation: &skipNameValidation},
		Scheme:     kube.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache: cache.Options{ByObject: Cache(), DefaultTransform: cache.TransformStripManagedFields()},
		NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
			c, err := client.NewWithWatch(config, options)
			if err != nil {
				return nil, err
			}
			return counting(c, writes), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := OffloadedPods(mgr)
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := ConsumerSecrets(mgr)
	if err != nil {
		t.Fatal(err)
	}
	options := Options{
		ClusterID: ownID, LiqoNamespace: liqoNamespace, GlobalLabels: map[string]string{api.LabelManaged: api.True},
		OffloadedPods: pods, ConsumerSecrets: secrets, Addresses: plan{}, ProtectedNamespaces: []string{"guarded-*"},
		PodMetadata: offload.PodMetadata{Annotations: []string{"prometheus.io/*"}}, ChosenNamespaces: []string{"*"},
	}
	for _, set := range settings {
		set(&options)
	}
	if err := Setup(mgr, options); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the manager: %v", err)
		}
	})
	typed, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{Client: apitest.Client(t, admin), typed: typed, shadowWrites: writes, cached: mgr.GetClient(), offloadedPods: pods}
}

// ordinary returns a configuration with the rights that the chart gives to the controller manager, and no other.
func ordinary(t *testing.T, admin *rest.Config) *rest.Config {
	t.Helper()
	c := apitest.Client(t, admin)
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: liqoNamespace}}); err != nil {
		t.Fatal(err)
	}
	chart, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := installer.Render(chart, liqoNamespace, map[string]any{"discovery": map[string]any{"config": map[string]any{"clusterID": ownID}}})
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		switch object.GetKind() {
		case "Namespace", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
			if err := c.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	config := rest.CopyConfig(admin)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + liqoNamespace + ":liqo-controller-manager",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + liqoNamespace, "system:authenticated"},
	}
	return config
}

// writeCounts counts writes by namespace, because controllers still write for one scenario while the next one runs.
type writeCounts struct{ sync.Map }

func (w *writeCounts) add(namespace string) {
	n, _ := w.LoadOrStore(namespace, &atomic.Int32{})
	n.(*atomic.Int32).Add(1)
}

func (w *writeCounts) in(namespace string) int32 {
	n, _ := w.LoadOrStore(namespace, &atomic.Int32{})
	return n.(*atomic.Int32).Load()
}

// counting counts the writes of Pods, EndpointSlices and IPs and of the status of ShadowPods.
func counting(c client.WithWatch, writes *writeCounts) client.Client {
	count := func(obj client.Object) {
		switch obj.(type) {
		case *corev1.Pod, *offloadingv1beta1.ShadowPod, *ipamv1alpha1.IP, *discoveryv1.EndpointSlice:
			writes.add(obj.GetNamespace())
		}
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			count(obj)
			return c.Create(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			count(obj)
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			count(obj)
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
}

func (c *cluster) create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatalf("creating %T %s: %v", obj, obj.GetName(), err)
	}
}

func (c *cluster) namespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
}

func (c *cluster) remove(t *testing.T, obj client.Object, opts ...client.DeleteOption) {
	t.Helper()
	if err := c.Delete(t.Context(), obj, opts...); client.IgnoreNotFound(err) != nil {
		t.Fatalf("deleting %T %s: %v", obj, obj.GetName(), err)
	}
}

// change patches an object.
func change[T client.Object](t *testing.T, c *cluster, obj T, mutate func(T)) {
	t.Helper()
	if _, err := controllerutil.CreateOrPatch(t.Context(), c.Client, obj, func() error { mutate(obj); return nil }); err != nil {
		t.Fatalf("changing %T %s: %v", obj, obj.GetName(), err)
	}
}

// report patches the status of an object, as another program would.
func report[T client.Object](t *testing.T, c *cluster, obj T, mutate func(T)) {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
	before := obj.DeepCopyObject().(client.Object)
	mutate(obj)
	if err := c.Status().Patch(t.Context(), obj, client.MergeFrom(before)); err != nil {
		t.Fatalf("changing the status of %T %s: %v", obj, obj.GetName(), err)
	}
}

// eventually reads the object into obj until check returns nil.
func eventually[T client.Object](t *testing.T, c *cluster, obj T, what string, check func(T) error) {
	t.Helper()
	apitest.Eventually(t, within, what, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		return check(obj)
	})
}

// gone waits until the object is deleted.
func (c *cluster) gone(t *testing.T, obj client.Object) {
	t.Helper()
	apitest.Gone(t, within, obj, c.Client)
}

// endNamespace removes the finalizers of a namespace that is being deleted, as the namespace controller would.
func (c *cluster) endNamespace(t *testing.T, name string) {
	t.Helper()
	apitest.Eventually(t, within, "namespace "+name+" to be deleted", func() error {
		ns, err := c.typed.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ns.DeletionTimestamp.IsZero() {
			return errors.New("nobody deletes it")
		}
		ns.Spec.Finalizers = nil
		_, err = c.typed.CoreV1().Namespaces().Finalize(t.Context(), ns, metav1.UpdateOptions{})
		return err
	})
}

// dropFinalizers removes these finalizers from an object that is being deleted, as the garbage collector would.
func dropFinalizers(t *testing.T, c *cluster, obj client.Object, finalizers ...string) {
	t.Helper()
	apitest.Eventually(t, within, fmt.Sprintf("%T %s to be deleted", obj, obj.GetName()), func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		if obj.GetDeletionTimestamp().IsZero() {
			return errors.New("nobody deletes it")
		}
		for _, f := range finalizers {
			controllerutil.RemoveFinalizer(obj, f)
		}
		return c.Update(t.Context(), obj)
	})
}

func has(m map[string]string, want map[string]string) error {
	for k, v := range want {
		if m[k] != v {
			return fmt.Errorf("%s is %q, want %q, in %v", k, m[k], v, maps.Clone(m))
		}
	}
	return nil
}
