package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/dataplane/agent"
	"liqo.io/liqo/internal/gateway"
	gatewayagent "liqo.io/liqo/internal/gateway/agent"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/network/facts"
	"liqo.io/liqo/internal/network/gatewaypod"
	"liqo.io/liqo/test/apitest"
)

const (
	tenant = "liqo-tenant-milan"
	home   = "liqo"
)

// agents is an API server with the chart's objects of the network and the objects of one peer, and with the identities of the agents.
type agents struct {
	client.Client
	fabric, gateway *rest.Config
	written         atomic.Int64
}

func newAgents(t *testing.T) *agents {
	t.Helper()
	admin := apitest.APIServer(t)
	a := &agents{Client: apitest.Client(t, admin)}
	as := func(namespace, account string) *rest.Config {
		cfg := rest.CopyConfig(admin)
		cfg.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:" + namespace + ":" + account, Groups: []string{"system:serviceaccounts", "system:authenticated"},
		}
		cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return counting{rt, &a.written} })
		return cfg
	}
	a.fabric, a.gateway = as(home, "liqo-fabric"), as(tenant, "gw-milan")

	chart, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := installer.Render(chart, home, map[string]any{"discovery": map[string]any{"config": map[string]any{"clusterID": "rome"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{home, tenant} {
		a.make(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if name := object.GetName(); name == "liqo-fabric" || name == gatewaypod.ClusterRole {
			a.make(t, object)
		}
	}
	owner := gatewaypod.Owner{Namespace: tenant, Name: "milan", ClusterID: "milan"}
	wide := metav1.ObjectMeta{Name: owner.ClusterBinding()}
	a.make(t, &rbacv1.ClusterRoleBinding{ObjectMeta: wide, Subjects: owner.Subjects(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: gatewaypod.ClusterRole}})
	local := metav1.ObjectMeta{Namespace: tenant, Name: owner.Child()}
	a.make(t, &rbacv1.Role{ObjectMeta: local, Rules: owner.Rights(owner.Child())})
	a.make(t, &rbacv1.RoleBinding{ObjectMeta: local, Subjects: owner.Subjects(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: owner.Child()}})
	a.network(t)
	return a
}

// network creates the objects of a network with one peer.
func (a *agents) network(t *testing.T) {
	t.Helper()
	for name, of := range map[string]struct{ kind, cidr string }{
		"pod-cidr":      {ipamv1alpha1.NetworkTypePod, "10.244.0.0/16"},
		"external-cidr": {ipamv1alpha1.NetworkTypeExternal, "10.70.0.0/16"},
	} {
		n := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name, Labels: map[string]string{ipamv1alpha1.LabelNetworkType: of.kind}}}
		n.Spec.CIDR = of.cidr
		a.make(t, n)
		n.Status.CIDR = n.Spec.CIDR
		a.status(t, n)
	}
	for i, labels := range []map[string]string{nil, nil, {api.LabelType: api.TypeVirtualNode}} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: labels}}
		node.Spec.PodCIDRs = []string{fmt.Sprintf("10.244.%d.0/24", i)}
		node.Spec.PodCIDR = node.Spec.PodCIDRs[0]
		a.make(t, node)
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("172.16.0.%d", i+1)}}
		a.status(t, node)
	}
	peer := metav1.ObjectMeta{Namespace: tenant, Name: "milan", Labels: map[string]string{api.LabelRemoteClusterID: "milan"}}
	configuration := &networkingv1beta1.Configuration{ObjectMeta: peer}
	configuration.Spec.Remote.CIDR = networkingv1beta1.CIDRs{Pod: []string{"10.244.0.0/16"}, External: []string{"10.70.0.0/16"}}
	a.make(t, configuration)
	configuration.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.80.0.0/16"}, External: []string{"10.81.0.0/16"}}}
	a.status(t, configuration)
	server := &networkingv1beta1.GatewayServer{ObjectMeta: peer}
	server.Spec.Endpoint = networkingv1beta1.ServerEndpoint{Port: 51840, ServiceType: corev1.ServiceTypeNodePort}
	a.make(t, server)
	a.make(t, &networkingv1beta1.PublicKey{ObjectMeta: peer, Spec: networkingv1beta1.PublicKeySpec{PublicKey: slices.Repeat([]byte{7}, 32)}})
	connection := &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "gw-milan"}}
	connection.Spec.Type, connection.Spec.GatewayRef = networkingv1beta1.ConnectionServer, corev1.ObjectReference{Kind: "GatewayServer", Name: "milan"}
	a.make(t, connection)
	a.make(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "gw-milan"}, Data: map[string][]byte{"privateKey": make([]byte, 32)}})
	a.make(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "liqo-nonce"}})
	for _, name := range []string{"gw-milan-a", "gw-milan-b"} {
		a.pod(t, tenant, name, "10.244.1."+fmt.Sprint(10+name[len(name)-1]-'a'), false)
	}
}

// pod creates a running pod with an address on node-1.
func (a *agents) pod(t *testing.T, namespace, name, ip string, host bool) *corev1.Pod {
	t.Helper()
	labels := map[string]string{"app": "a"}
	if strings.HasPrefix(name, "gw-") {
		owner := gatewaypod.Owner{Namespace: tenant, Name: "milan", ClusterID: "milan"}
		labels = owner.Selector()
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "node-1", HostNetwork: host, Containers: []corev1.Container{{Name: "c", Image: "example.org/i"}}},
	}
	if name == "elsewhere" {
		pod.Spec.NodeName = "node-0"
	}
	a.make(t, pod)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}
	a.status(t, pod)
	return pod
}

func (a *agents) make(t *testing.T, object client.Object) {
	t.Helper()
	if err := a.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func (a *agents) status(t *testing.T, object client.Object) {
	t.Helper()
	if err := a.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// counting counts writes.
type counting struct {
	http.RoundTripper
	written *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		c.written.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

// during runs f until the test ends.
func during(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestAgentsOnAPIServer: the permissions that the chart and the controllers grant to agents are sufficient. Agents receive the events that they need,
// and few others.
func TestAgentsOnAPIServer(t *testing.T) {
	a := newAgents(t)
	t.Run("fabric", func(t *testing.T) { a.testFabric(t) })
	t.Run("gateway", func(t *testing.T) { a.testGateway(t) })
	t.Run("uninstallation", func(t *testing.T) { a.testUninstallation(t) })
}

func (a *agents) testFabric(t *testing.T) {
	news := make(chan struct{}, 1)
	watched, err := facts.NewWatcher(a.fabric, home, network.Options{}, "node-1", nil, func() {
		select {
		case news <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := watched.Read(t.Context()); !errors.Is(err, agent.ErrUnknown) {
		t.Errorf("before anything was heard: %v", err)
	}
	during(t, func(ctx context.Context) error { return watched.Run(ctx) })
	apitest.Eventually(t, 20*time.Second, "all facts", func() error {
		got, problems, err := watched.Read(t.Context())
		if err != nil {
			return err
		}
		if len(got.Nodes) != 2 || len(got.Peers) != 1 || len(got.Peers[0].Candidates) != 2 || len(got.Peers[0].PublicKey) != 32 {
			return fmt.Errorf("got %+v, %v", got, problems)
		}
		return nil
	})
	for len(news) > 0 {
		<-news
	}
	strays := []*corev1.Pod{a.pod(t, "default", "elsewhere", "10.244.7.1", false), a.pod(t, "default", "some", "10.244.7.2", false)}
	apitest.Eventually(t, 20*time.Second, "the pods of this node", func() error {
		got, _, err := watched.Read(t.Context())
		if err != nil {
			return err
		}
		if node, _ := got.Node("node-1"); fmt.Sprint(node.Running) != "[10.244.1.10 10.244.1.11 10.244.7.2]" {
			return fmt.Errorf("node-1 runs %v", node.Running)
		}
		return nil
	})
	if held, err := watched.Held(t.Context()); err != nil || len(held.Pods) != 3 {
		t.Errorf("a node's agent holds %d pods, %v, want those of gateways and its own", len(held.Pods), err)
	}
	for _, pod := range strays {
		if err := a.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	gw := &networkingv1beta1.GatewayServer{}
	if err := a.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: "milan"}, gw); err != nil {
		t.Fatal(err)
	}
	gw.Spec.MTU = 1300
	if err := a.Update(t.Context(), gw); err != nil {
		t.Fatal(err)
	}
	select {
	case <-news:
	case <-time.After(20 * time.Second):
		t.Error("nobody was told of a change")
	}
}

func (a *agents) testGateway(t *testing.T) {
	opts := &gatewayOptions{name: "milan", namespace: tenant, remoteClusterID: "milan", secretName: "gw-milan", podName: "gw-milan-a"}
	watched, err := facts.NewWatcher(a.gateway, home, network.Options{}, "", facts.Watching{
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{tenant: {FieldSelector: fields.OneTermEqualSelector("metadata.name", opts.secretName)}}},
	}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	during(t, func(ctx context.Context) error { return watched.Run(ctx, &corev1.Secret{}) })
	a.pod(t, "default", "stray", "10.244.7.7", false)
	a.pod(t, "default", "host", "172.16.0.2", true)
	apitest.Eventually(t, 20*time.Second, "the pods of the pod network", func() error {
		got, _, err := watched.Read(t.Context())
		if err != nil {
			return err
		}
		var pods corev1.PodList
		if err := watched.Reader().List(t.Context(), &pods); err != nil {
			return err
		}
		names := make([]string, 0, len(pods.Items))
		for i := range pods.Items {
			names = append(names, pods.Items[i].Name)
			if pods.Items[i].Name == "stray" && (pods.Items[i].Labels != nil || pods.Items[i].Spec.Containers != nil) {
				t.Errorf("more is kept than counts: %+v", pods.Items[i])
			}
		}
		slices.Sort(names)
		if want := []string{"gw-milan-a", "gw-milan-b", "stray"}; !slices.Equal(names, want) || len(got.OutOfCIDRPods) != 1 {
			return fmt.Errorf("it knows pods %q, want %q; strays are %v", names, want, got.OutOfCIDRPods)
		}
		return nil
	})
	if err := watched.Reader().Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: opts.secretName}, &corev1.Secret{}); err != nil {
		t.Errorf("reading its keys: %v", err)
	}
	writer, err := client.New(a.gateway, client.Options{Scheme: facts.Scheme(), Mapper: facts.Mapper()})
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: "liqo-nonce"}, &corev1.Secret{}); err == nil {
		t.Error("a gateway may read another Secret than its own")
	}

	seen := gateway.Observation{Now: time.Now(), Works: true, MTU: 1340, Peer: "milan", Interval: 10 * time.Second}
	seen.PingStats.Last, seen.PingStats.RTT = seen.Now, 2*time.Millisecond
	peer := &network.Peer{Gateway: "milan"}
	report := func() error {
		failed := &strings.Builder{}
		r := &gatewayagent.Connections{
			Client: writer, Cache: watched.Reader(), Namespace: opts.namespace, Name: opts.name, Pod: opts.podName, Log: slog.New(slog.NewTextHandler(failed, nil)),
		}
		if r.Report(t.Context(), seen, true, peer); failed.Len() > 0 {
			return errors.New(failed.String())
		}
		return nil
	}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "gw-milan-b"}} // this replica was active before
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, networkingv1beta1.LabelActive)
	if err := a.Patch(t.Context(), other, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, 20*time.Second, "the Connection and the labels", func() error {
		if err := report(); err != nil {
			return err
		}
		var connection networkingv1beta1.Connection
		if err := a.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: "gw-milan"}, &connection); err != nil {
			return err
		}
		if s := connection.Status; s.Value != networkingv1beta1.Connected || s.MTU != 1340 || s.Latency == nil || s.Latency.Value != "2ms" {
			return fmt.Errorf("the Connection says %+v", s)
		}
		var active corev1.PodList
		if err := a.List(t.Context(), &active, client.InNamespace(tenant), client.MatchingLabels{networkingv1beta1.LabelActive: "true"}); err != nil {
			return err
		}
		if len(active.Items) != 1 || active.Items[0].Name != opts.podName {
			return fmt.Errorf("%d pods are marked, want %s", len(active.Items), opts.podName)
		}
		return nil
	})
	var before int64
	apitest.Eventually(t, 20*time.Second, "a report without news to take no write", func() error {
		before = a.written.Load()
		if err := report(); err != nil {
			return err
		}
		if got := a.written.Load(); got != before {
			return fmt.Errorf("%d writes", got-before)
		}
		return nil
	})
}

func (a *agents) testUninstallation(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	watched := func() (*uninstallation, context.CancelFunc) {
		u, err := newUninstallation(a.fabric, home, "liqo-fabric")
		if err != nil {
			t.Fatal(err)
		}
		u.retryRefused = 200 * time.Millisecond
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = u.run(ctx) }()
		apitest.Eventually(t, 20*time.Second, "the DaemonSet to be seen", func() error {
			return u.cache.Get(ctx, client.ObjectKeyFromObject(u.object()), u.object())
		})
		return u, stop
	}
	u, stop := watched()
	if u.check(t.Context(), log) {
		t.Error("an ordinary end is taken for that of the installation")
	}
	stop()

	// Helm deletes account, permissions and DaemonSet at once, and the agent receives SIGTERM some time later.
	u, stop = watched()
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "liqo-fabric"}}
	if err := a.Get(t.Context(), client.ObjectKeyFromObject(daemonSet), daemonSet); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{
		daemonSet.DeepCopy(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "liqo-fabric"}},
	} {
		if err := a.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	apitest.Eventually(t, 20*time.Second, "the deletion to be seen", func() error {
		if !u.deleted.Load() {
			return errors.New("not yet")
		}
		return nil
	})
	if !u.check(t.Context(), log) {
		t.Error("the end of the installation was not noticed")
	}
	stop()
	// The authorizer of the API server observes the deleted permissions some time later.
	asking, err := client.New(a.fabric, client.Options{Scheme: facts.Scheme(), Mapper: facts.Mapper()})
	if err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, 20*time.Second, "the rights to be gone", func() error {
		if err := asking.Get(t.Context(), client.ObjectKeyFromObject(daemonSet), u.object()); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("asking for the DaemonSet is not forbidden yet"), err)
		}
		return nil
	})

	// A disconnected agent missed the deletion, and its account no longer exists. Missing permissions alone do not mean an uninstallation.
	stranger := rest.AnonymousClientConfig(a.fabric)
	stranger.BearerToken = "of an account that is gone"
	for _, c := range []struct {
		name string
		cfg  *rest.Config
		end  bool
	}{{"without rights", a.fabric, false}, {"without an account", stranger, true}} {
		u, err := newUninstallation(c.cfg, home, "liqo-fabric")
		if err != nil {
			t.Fatal(err)
		}
		u.retryRefused = 200 * time.Millisecond
		if got := u.check(t.Context(), log); got != c.end {
			t.Errorf("an agent %s takes the installation for gone: %v, want %v", c.name, got, c.end)
		}
	}
	nobody := rest.CopyConfig(a.fabric)
	nobody.Host = "https://127.0.0.1:1"
	if u, err = newUninstallation(nobody, home, "liqo-fabric"); err != nil {
		t.Fatal(err)
	}
	if u.check(t.Context(), log) {
		t.Error("an API server that does not answer is taken for the end of the installation")
	}
}
