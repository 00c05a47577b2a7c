package controllers

import (
	"context"
	"crypto"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/accounts"
	"liqo.io/liqo/internal/peering/sharing"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/test/apitest"
)

const within = 20 * time.Second

// cluster is an API server with our controllers, and a signer in the place of the controller manager of Kubernetes.
type cluster struct {
	client.Client
	id        string
	config    *rest.Config
	cached    client.Reader // what the running controllers see, which is older than what Client reads; nil while none run
	authority *apitest.Authority
	link      *cable
	// tokens is how consumers of this cluster get tokens.
	tokens accounts.Tokens
	// ahead is how far this cluster's clock is ahead of the machine's.
	ahead atomic.Int64
}

func (c *cluster) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// cable is the way from one cluster to the other; it can be cut.
type cable struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (c *cable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, errors.New("the cable is cut")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// newPair starts a consumer and a provider that can reach each other.
func newPair(t *testing.T) (rome, milan *cluster) {
	t.Helper()
	apitest.Both(t, func() { rome = newCluster(t, "rome") }, func() { milan = newCluster(t, "milan") })
	rome.run(t)
	milan.run(t)
	return rome, milan
}

func newCluster(t *testing.T, id string) *cluster {
	t.Helper()
	_, cfg, authority := apitest.WithAuthority(t)
	c := &cluster{Client: apitest.Client(t, cfg), id: id, config: cfg, authority: authority, link: &cable{}}
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.Namespace}})
	c.create(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: rootCA}, Data: map[string]string{rootCAKey: "CA of " + id},
	})
	for _, role := range chartObjects(t, id, "consumer-roles.yaml", "ClusterRole", func() *rbacv1.ClusterRole { return &rbacv1.ClusterRole{} }) {
		c.create(t, role)
	}
	c.create(t, chartObjects(t, id, "replication-policy.yaml", "ValidatingAdmissionPolicy",
		func() *admissionregistrationv1.ValidatingAdmissionPolicy {
			return &admissionregistrationv1.ValidatingAdmissionPolicy{}
		})[0])
	c.create(t, chartObjects(t, id, "replication-policy.yaml", "ValidatingAdmissionPolicyBinding",
		func() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
			return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		})[0])
	c.grant(t)
	c.node(t, "one", "cpu", "64", "memory", "256Gi", "nvidia.com/gpu", "8")
	authority.Now = c.now
	go authority.Sign(t.Context(), c)
	return c
}

// controllerManager is the user that our controllers run as here.
const controllerManager = "controller-manager"

// grant gives our controllers the rights that their markers ask for, as the chart does.
func (c *cluster) grant(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "liqo", "files", "controller-manager.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	subjects := subjects(rbacv1.UserKind, controllerManager)
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		wide, local := &rbacv1.ClusterRole{}, &rbacv1.Role{}
		if err := errors.Join(yaml.Unmarshal([]byte(document), wide), yaml.Unmarshal([]byte(document), local)); err != nil {
			t.Fatal(err)
		}
		if local.Namespace == "" {
			c.create(t, wide)
			c.create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "test"}, RoleRef: clusterRole(wide.Name), Subjects: subjects})
			continue
		}
		role := clusterRole(local.Name)
		role.Kind = "Role"
		c.create(t, local)
		c.create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: local.Namespace, Name: "test"}, RoleRef: role, Subjects: subjects})
	}
}

// run starts our controllers. The other cluster is reached with the very kubeconfig that they made.
func (c *cluster) run(t *testing.T) {
	t.Helper()
	t.Cleanup(c.start(t))
}

// start does the same, and returns how to stop them.
func (c *cluster) start(t *testing.T) (stop func()) {
	t.Helper()
	skipNameValidation := true
	own := rest.CopyConfig(c.config)
	own.Impersonate = rest.ImpersonationConfig{UserName: controllerManager, Groups: []string{"system:authenticated"}}
	mgr, err := ctrl.NewManager(own, ctrl.Options{
		Scheme: kube.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &skipNameValidation},
	})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := cache.New(own, cache.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := mgr.Add(pods); err != nil {
		t.Fatal(err)
	}
	err = Setup(mgr, Options{
		ClusterID: c.id, Namespace: api.Namespace, VirtualKubeletPods: pods, Now: c.now,
		APIServer: APIServer{Address: "https://" + strings.TrimPrefix(c.config.Host, "https://"), CA: c.config.CAData},
		Labels:    map[string]string{api.LabelManaged: api.True},
		Tokens:    c.tokens,
		Offer:     sharing.Offer{Enabled: true, NodeLabels: map[string]string{"city": c.id}},
		Sharing:   sharingPolicy, SharingWindow: 100 * time.Millisecond,
		Health:      remote.HealthOptions{Interval: 100 * time.Millisecond, RetryInterval: 50 * time.Millisecond, Timeout: time.Second},
		RightsEvery: 200 * time.Millisecond,
		RemoteConfig: func(secret *corev1.Secret) (*rest.Config, string, error) {
			cfg, namespace, err := remote.Config(secret)
			if err == nil {
				cfg.Dial = c.link.dial
			}
			return cfg, namespace, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	c.cached = mgr.GetClient()
	return func() {
		c.cached = nil
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the manager of %s ended: %v", c.id, err)
		}
	}
}

// chartObjects are the objects of a kind that a template of the chart makes for a cluster.
func chartObjects[T client.Object](t *testing.T, id, template, kind string, fresh func() T) []T {
	t.Helper()
	return chartObjectsWith(t, id, template, kind, fresh, nil)
}

// chartObjectsWith does the same with values for authentication.
func chartObjectsWith[T client.Object](t *testing.T, id, template, kind string, fresh func() T, authentication map[string]any) []T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "liqo", "templates", template))
	if err != nil {
		t.Fatal(err)
	}
	chart, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{"discovery": map[string]any{"config": map[string]any{"clusterID": id}}}
	if authentication != nil {
		values["authentication"] = authentication
	}
	manifest, err := installer.Render(chart, api.Namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	var found []T
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		any := &metav1.PartialObjectMetadata{}
		if err := yaml.Unmarshal([]byte(document), any); err != nil {
			t.Fatal(err)
		}
		if any.Kind != kind || !strings.Contains(string(data), strconv.Quote(any.Name)) {
			continue
		}
		o := fresh()
		if err := yaml.Unmarshal([]byte(document), o); err != nil {
			t.Fatal(err)
		}
		found = append(found, o)
	}
	if len(found) == 0 {
		t.Fatalf("the chart's template %s makes no %s", template, kind)
	}
	return found
}

func (c *cluster) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatalf("creating %T %s in %s: %v", o, o.GetName(), c.id, err)
	}
}

// change patches an object until it succeeds.
func change[T client.Object](t *testing.T, c *cluster, o T, f func(T)) {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	before := o.DeepCopyObject().(T)
	f(o)
	if err := c.Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// eventually reads the object until ok is content with it.
func eventually[T client.Object](t *testing.T, c *cluster, o T, what string, ok func(T) bool) T {
	t.Helper()
	apitest.Eventually(t, within, fmt.Sprintf("%T %s in %s: %s", o, client.ObjectKeyFromObject(o), c.id, what), func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if !ok(o) {
			return fmt.Errorf("is %+v", o)
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

func (c *cluster) delete(t *testing.T, o client.Object) {
	t.Helper()
	if err := c.Delete(t.Context(), o); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}

// meta is the metadata of an object of the peering with the other cluster.
func (c *cluster) meta(other *cluster, name string, labels ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: api.TenantNamespace(other.id), Name: name, Labels: map[string]string{api.LabelRemoteClusterID: other.id}}
	for _, l := range labels {
		m.Labels[l] = api.True
	}
	return m
}

func (c *cluster) tenantNamespace(other *cluster) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: api.TenantNamespace(other.id), Labels: map[string]string{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: other.id},
	}}
}

// key reads the key pair that the controllers made.
func (c *cluster) key(t *testing.T) (private, public []byte) {
	t.Helper()
	secret := eventually(t, c, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: authv1beta1.KeysSecret}},
		"a key pair", func(*corev1.Secret) bool { return true })
	return secret.Data[authv1beta1.PrivateKeyKey], secret.Data[authv1beta1.PublicKeyKey]
}

// newKey returns a new key pair in PEM, and its private key.
func newKey(t *testing.T) (private, public []byte, key crypto.Signer) {
	t.Helper()
	private, public, err := peering.NewKey(peering.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if key, err = peering.ParsePrivateKey(private); err != nil {
		t.Fatal(err)
	}
	return private, public, key
}

// signer is the private key of that pair.
func (c *cluster) signer(t *testing.T) crypto.Signer {
	t.Helper()
	private, _ := c.key(t)
	signer, err := peering.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func keyOf(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }

// checkRights asks the API server itself what a user may do: "<verb> <group> <resource>[/<subresource>]".
func checkRights(t *testing.T, c *cluster, namespace, user, group string, want map[string]bool) {
	t.Helper()
	got := map[string]bool{}
	for right := range want {
		parts := strings.Split(right, " ")
		kind, sub, _ := strings.Cut(parts[2], "/")
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: []string{group, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: parts[0], Group: parts[1], Resource: kind, Subresource: sub,
			},
		}}
		c.create(t, review)
		got[right] = review.Status.Allowed
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights of %s in namespace %s of %s (-want +got):\n%s", user, namespace, c.id, diff)
	}
}
