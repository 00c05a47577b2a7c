package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/handshake"
	"liqo.io/liqo/internal/cli/inspect"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/test/clitest"
)

// world is two clusters in memory, rome and milan, whose controllers have always done their work already. It is the transport of the commands that
// run in it, so that it sees each of their requests and can answer in the place of a server.
type world struct {
	clusters map[string]*memorySide // by ID, which is their host too
	dir      string                 // of the kubeconfigs, named like the clusters

	mu   sync.Mutex
	seen []string       // the requests so far, see describe
	nth  map[string]int // how often each was made
	// wrote counts what changed something.
	wrote int
	// changes are the changes that the last command reported.
	changes []string
	// answer is asked before a server is; nil answers nothing.
	answer func(request string, r *http.Request) (*http.Response, error)
	// silent controllers do nothing.
	silent bool
	// ticks is whether gateways measure their tunnels every second.
	ticks bool
}

type memorySide struct {
	*memory
	*side
	client client.Client
	// looked is when the controllers looked last, see control.
	looked map[int][2]int
}

// newWorld makes the clusters as they were at a snapshot.
func newWorld(t *testing.T, at worldSnapshot) *world {
	t.Helper()
	w := &world{clusters: map[string]*memorySide{}, dir: t.TempDir()}
	for _, id := range []string{"rome", "milan"} {
		m := &memory{kinds: servedKinds(), id: id, discovered: map[string][]byte{}}
		m.restore(memorySnapshot{})
		config := &rest.Config{Host: "https://" + id, Transport: direct{m}, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
		c, err := client.New(config, client.Options{Scheme: session.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		w.clusters[id] = &memorySide{memory: m, client: c}
		kubeconfig := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: %[1]s, clusters: [{name: %[1]s, cluster: {server: "https://%[1]s"}}],
			users: [{name: u, user: {}}], contexts: [{name: %[1]s, context: {cluster: %[1]s, user: u}}]}`, id)
		if err := os.WriteFile(filepath.Join(w.dir, id), []byte(kubeconfig), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.begin(at)
	return w
}

// installedWorld is two installations that know nothing of each other.
func installedWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, nil)
	for id, c := range w.clusters {
		clitest.Create(t, c.client, installedObjects(t, id)...)
	}
	for _, c := range w.clusters { // the first look
		for _, resource := range []string{"networks", "nodes"} {
			c.touched[resource] = c.version
		}
	}
	w.settle()
	return w
}

// direct is the client of controllers. Its requests are neither counted nor disturbed.
type direct struct{ *memory }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) { return d.serve(r), nil }

type worldSnapshot map[string]memorySnapshot

func (w *world) snapshot() worldSnapshot {
	out := worldSnapshot{}
	for id, c := range w.clusters {
		out[id] = c.snapshot()
	}
	return out
}

// begin restores a snapshot of the clusters, and clears the recorded requests.
func (w *world) begin(at worldSnapshot) {
	for id, c := range w.clusters {
		c.restore(at[id])
		c.looked = map[int][2]int{}
		c.side = &side{id: id, address: map[string]string{"rome": "192.0.2.1", "milan": "192.0.2.2"}[id], Client: c.client}
	}
	w.clusters["rome"].peer, w.clusters["milan"].peer = w.clusters["milan"].side, w.clusters["rome"].side
	w.seen, w.nth, w.wrote, w.answer, w.silent = nil, map[string]int{}, 0, nil, false
}

// app is liqoctl in this world.
func (w *world) app(out, errOut io.Writer) *session.Session {
	quiet()
	app := session.New(genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: errOut})
	app.Wrap = func(config *rest.Config) *rest.Config {
		config.Transport, config.ContentType, config.KeyData = w, runtime.ContentTypeJSON, nil // without a key, the transport needs no TLS
		return config
	}
	// The machine's own resolver asks servers of its own, and is one for all bubbles of the process.
	app.Resolve = func(_ context.Context, _, host string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return app
}

// run runs a command whose words %rome and %milan are the kubeconfigs.
func (w *world) run(ctx context.Context, command string) (code int, out, errOut string) {
	var stdout, stderr bytes.Buffer
	app := w.app(&stdout, &stderr)
	words := strings.Fields(command)
	for i, word := range words {
		words[i] = strings.ReplaceAll(word, "%", w.dir+"/")
	}
	code = execute(ctx, app, words)
	w.changes = app.Journal.Changes()
	return code, stdout.String(), stderr.String()
}

// describe names a request: cluster, method, path, whether it watches, which object it is about, and how often it was made before.
func (w *world) describe(r *http.Request) string {
	verb := r.Method
	if r.URL.Query().Get("watch") != "" {
		verb = "WATCH"
	}
	request := fmt.Sprintf("%s %s %s", r.URL.Host, verb, r.URL.Path)
	if only := r.URL.Query().Get("fieldSelector"); only != "" {
		request += "?" + only
	}
	if w.isDry(r) {
		request += " (dry run)"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nth[request]++
	request = fmt.Sprintf("%s #%d", request, w.nth[request])
	w.seen = append(w.seen, request)
	return request
}

// isDry reports whether a request is a dry run, without changing the request.
func (w *world) isDry(r *http.Request) bool {
	var body []byte
	if r.Body != nil && r.Method == http.MethodDelete {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return isDry(r.URL.Query(), r.Method, body)
}

// RoundTrip serves a request of the command, and lets the controllers react to its changes.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	request := w.describe(r)
	if w.answer != nil {
		if response, err := w.answer(request, r); response != nil || err != nil {
			return response, err
		}
	}
	c := w.clusters[r.URL.Host]
	if c == nil {
		return nil, fmt.Errorf("nobody is at %s", r.URL.Host)
	}
	dry := w.isDry(r)
	response := c.serve(r)
	if r.Method == http.MethodGet {
		return response, nil
	}
	if response.StatusCode < http.StatusMultipleChoices && !strings.HasSuffix(r.URL.Path, "subjectaccessreviews") && !dry {
		w.mu.Lock()
		w.wrote++
		w.mu.Unlock()
	}
	if !w.silent {
		w.settle()
	}
	return response, nil
}

// settle has the controllers of both clusters work until they find nothing to do.
func (w *world) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx := context.Background()
	rome, milan := w.clusters["rome"], w.clusters["milan"]
	for range 20 {
		busy := false
		for _, s := range []*memorySide{rome, milan} {
			looked, err := s.control(ctx, w.clusters[s.peer.id])
			if err != nil {
				panic(fmt.Sprintf("the controllers of %s: %v", s.side.id, err))
			}
			busy = busy || looked
		}
		if !busy {
			return
		}
	}
	panic("the controllers do not come to rest")
}

// installedObjects are those of an installation.
func installedObjects(t *testing.T, id string) []client.Object {
	t.Helper()
	private, public := keyPair(t, id[:1])
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "liqo", Name: name} }
	one := int32(1)
	pods := map[string]string{"rome": "10.1.0.0/16", "milan": "10.2.0.0/16"}[id]
	network := func(name, cidr string) client.Object {
		object := &ipamv1alpha1.Network{ObjectMeta: in(name), Spec: ipamv1alpha1.NetworkSpec{CIDR: cidr}}
		object.Labels = map[string]string{ipamv1alpha1.LabelNetworkType: name}
		return object
	}
	out := []client.Object{
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: api.ClusterIDConfigMap, Labels: map[string]string{"app.kubernetes.io/name": "clusterid-configmap"}},
			Data:       map[string]string{api.ClusterIDKey: id},
		},
		&corev1.ConfigMap{ObjectMeta: in(inspect.NetworkConfigMap), Data: map[string]string{"POD_CIDRS": pods, "SERVICE_CIDR": "10.3.0.0/16"}},
		&corev1.ConfigMap{ObjectMeta: in("kube-root-ca.crt"), Data: map[string]string{"ca.crt": "the CA"}},
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: session.ControllerManager, Labels: map[string]string{"app.kubernetes.io/version": "v1.2.3"}},
			Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "liqo"}}, Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "registry/controller-manager:v1.2.3", Args: []string{"--api-server-address=https://" + id}}}},
			}},
			Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
		},
		&corev1.Secret{ObjectMeta: in(authv1beta1.KeysSecret), Data: map[string][]byte{authv1beta1.PrivateKeyKey: private, authv1beta1.PublicKeyKey: public}},
		&corev1.Service{ObjectMeta: in(handshake.ProxyService), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8118}}}},
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: invite.Service, Annotations: map[string]string{invite.AnnotationAddress: id + ".example.com"}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
		},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: id + "-1"}, Spec: corev1.NodeSpec{PodCIDR: pods}, Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.10"}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}},
		network(ipamv1alpha1.NetworkPod, pods), network(ipamv1alpha1.NetworkExternal, "10.70.0.0/16"),
		&ipamv1alpha1.IP{ObjectMeta: in(ipamv1alpha1.IPAPIServerProxy)},
		&networkingv1beta1.WgGatewayServerTemplate{ObjectMeta: in(networkingv1beta1.ServerTemplateDefault)},
		&networkingv1beta1.WgGatewayClientTemplate{ObjectMeta: in(networkingv1beta1.ClientTemplateDefault)},
	}
	namespaces := []client.Object{}
	for _, name := range []string{"liqo", "kube-system", "default", "demo"} {
		namespaces = append(namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return append(namespaces, out...)
}
