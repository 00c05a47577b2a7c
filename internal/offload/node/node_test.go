package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/test/apitest"
)

// link is the health of a provider, as the test sets it.
type link struct {
	mu    sync.Mutex
	state remote.State
	news  []chan struct{}
}

func (l *link) State() remote.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

func (l *link) Subscribe() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	ch := make(chan struct{}, 1)
	l.news = append(l.news, ch)
	return ch
}

func (l *link) set(up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = remote.State{Known: true, Up: up, Since: time.Now()}
	if !up {
		l.state.Err = errors.New("no route")
	}
	for _, ch := range l.news {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func TestNodeOnAPIServer(t *testing.T) {
	_, config, authority := apitest.WithAuthority(t)
	c := apitest.Client(t, config)
	watching, err := client.NewWithWatch(config, client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-milan"}}))
	virtual := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	virtual.Spec.ClusterID = "milan"
	virtual.Spec.ResourceQuota.Hard = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	must(c.Create(t.Context(), virtual))

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	address := listener.Addr().String()
	must(listener.Close())
	health := &link{}
	log := slog.New(slog.DiscardHandler)
	var turns atomic.Int32
	n, err := New(Options{
		AvailabilityChanged: func() { turns.Add(1) },
		Local:               watching, Health: health, Name: "milan", Virtual: "milan", Namespace: "liqo-tenant-milan", ForeignCluster: "milan",
		IP: "127.0.0.1", Listen: address, Log: log, Create: true, Version: func(context.Context) (string, error) { return "v1.37.0", nil },
	})
	must(err)
	certificate, err := NewCertificate(n)
	must(err)
	server, err := NewServer(remote.IdentityOf(&rest.Config{Host: "http://127.0.0.1:1"}), onePod{}, "milan", "Pod", StatsAge, log)
	must(err)
	authorizer := NewAuthorizer(watching, "milan", clock.RealClock{})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	for _, run := range []func(context.Context) error{n.Run, n.RunLease, certificate.Run, func(ctx context.Context) error { return server.Serve(ctx, address, authorizer, certificate) }} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}

	node := &corev1.Node{}
	expect := func(what string, check func() error) {
		t.Helper()
		apitest.Eventually(t, 20*time.Second, what, func() error {
			if err := c.Get(t.Context(), client.ObjectKey{Name: "milan"}, node); err != nil {
				return err
			}
			return check()
		})
	}
	ready := func(want corev1.ConditionStatus) func() error {
		return func() error {
			if got := condition(node, corev1.NodeReady).Status; got != want {
				return fmt.Errorf("ready is %q", got)
			}
			return nil
		}
	}
	foreign := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	must(c.Create(t.Context(), foreign))
	apitest.Eventually(t, 20*time.Second, "the foreign node to be known", func() error {
		if n.Object() == nil {
			return errors.New("it is not")
		}
		return nil
	})
	health.set(true)
	// When the foreign Node with that name is deleted, the virtual node creates its own.
	must(c.Delete(t.Context(), foreign, client.Preconditions{ResourceVersion: &foreign.ResourceVersion}))
	expect("the node", ready(corev1.ConditionTrue))

	t.Run("capacity and labels follow the VirtualNode", func(t *testing.T) {
		must(c.Get(t.Context(), client.ObjectKeyFromObject(virtual), virtual))
		virtual.Spec.ResourceQuota.Hard[corev1.ResourceCPU] = resource.MustParse("8")
		virtual.Spec.Labels = map[string]string{"region": "north"}
		must(c.Update(t.Context(), virtual))
		expect("the new capacity", func() error {
			if cpu := node.Status.Capacity.Cpu().String(); cpu != "8" || node.Labels["region"] != "north" {
				return fmt.Errorf("cpu %s, labels %v", cpu, node.Labels)
			}
			return nil
		})
	})
	t.Run("taints of others stay", func(t *testing.T) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectNoSchedule})
		must(c.Update(t.Context(), node))
		must(c.Get(t.Context(), client.ObjectKeyFromObject(virtual), virtual))
		virtual.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		must(c.Update(t.Context(), virtual))
		// The API server adds the not-ready taint to every new Node, so the Node has a third taint.
		expect("our taint, the VirtualNode's and theirs", func() error {
			for _, key := range []string{api.TaintVirtualNode, "gpu", "theirs"} {
				if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key }) {
					return fmt.Errorf("%s is not among %v", key, node.Spec.Taints)
				}
			}
			return nil
		})
	})
	t.Run("not ready while the provider is unreachable", func(t *testing.T) {
		health.set(false)
		expect("not ready", ready(corev1.ConditionFalse))
		health.set(true)
		expect("ready", ready(corev1.ConditionTrue))
	})
	t.Run("not ready while the network does not work", func(t *testing.T) {
		peer := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "milan"}}
		must(c.Create(t.Context(), peer))
		network := func(status corev1beta1.ConditionStatus, since time.Duration) {
			t.Helper()
			peer.Status.Role = corev1beta1.RoleProvider
			peer.Status.Modules.Networking = corev1beta1.Module{Enabled: true, Conditions: []corev1beta1.Condition{{
				Type: corev1beta1.NetworkConnectionStatus, Status: status, LastTransitionTime: metav1.NewTime(time.Now().Add(-since)),
			}}}
			must(c.Status().Update(t.Context(), peer))
		}
		networkIs := func(want corev1.ConditionStatus) func() error {
			return func() error {
				if got := condition(node, corev1.NodeNetworkUnavailable).Status; got != want {
					return fmt.Errorf("network unavailable is %q", got)
				}
				return nil
			}
		}
		network(corev1beta1.StatusEstablished, 0)
		expect("the network to count", networkIs(corev1.ConditionFalse))
		before := turns.Load()
		network(corev1beta1.StatusPending, -networkGrace) // on a busy machine, the second below may take several
		time.Sleep(time.Second)
		network(corev1beta1.StatusEstablished, 0)
		network(corev1beta1.StatusError, time.Minute)
		expect("not ready without a network", ready(corev1.ConditionFalse))
		if !n.Unavailable() {
			t.Error("pods are not told")
		}
		network(corev1beta1.StatusEstablished, 0)
		expect("ready", ready(corev1.ConditionTrue))
		if turned := turns.Load() - before; n.Unavailable() || turned != 2 {
			t.Errorf("pods heard %d times of one outage, and of a tunnel that moved for a second", turned)
		}
		network(corev1beta1.StatusError, 0)
		expect("patience to end by itself", ready(corev1.ConditionFalse))
		again, err := New(Options{
			Local: watching, Health: &link{}, Name: "milan", Virtual: "milan", Namespace: "liqo-tenant-milan", ForeignCluster: "milan",
			IP: "127.0.0.1", Listen: address, Log: log, Create: true,
		})
		must(err)
		during, end := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- again.Run(during) }()
		select {
		case <-again.Loaded():
		case err := <-ended:
			t.Fatalf("a second process ended: %v", err)
		}
		if !again.Unavailable() {
			t.Error("a process that is started anew tells the pods that all is well before it knows")
		}
		end()
		<-ended // what it writes late would count as a write of the other process below
		network(corev1beta1.StatusEstablished, 0)
		expect("ready", ready(corev1.ConditionTrue))
	})
	t.Run("nothing is written when nothing changes", func(t *testing.T) {
		version := node.ResourceVersion
		must(c.Get(t.Context(), client.ObjectKeyFromObject(virtual), virtual))
		virtual.Annotations = map[string]string{"note": "x"}
		must(c.Update(t.Context(), virtual))
		time.Sleep(300 * time.Millisecond)
		expect("the node as it was", func() error {
			if node.ResourceVersion != version {
				return fmt.Errorf("version %s, not %s", node.ResourceVersion, version)
			}
			return nil
		})
	})
	t.Run("heartbeat", func(t *testing.T) {
		lease := &coordinationv1.Lease{}
		apitest.Eventually(t, 10*time.Second, "the lease", func() error {
			return c.Get(t.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: "milan"}, lease)
		})
		if *lease.Spec.HolderIdentity != "milan" || len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].UID != node.UID {
			t.Errorf("%+v", lease)
		}
	})
	t.Run("authorization", func(t *testing.T) { whoMayAsk(t, authority, c, "https://"+address) })
	t.Run("certificate", func(t *testing.T) { isSigned(t, c, certificate) })
	t.Run("recreated after its deletion", func(t *testing.T) {
		uid := node.UID
		must(c.Delete(t.Context(), node))
		expect("another node", func() error {
			if node.UID == uid {
				return errors.New("it is the old one")
			}
			return nil
		})
	})
}

// whoMayAsk asks the kubelet API as several users.
func whoMayAsk(t *testing.T, authority *apitest.Authority, c client.Client, address string) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kubelet-reader"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes/proxy"}, Verbs: []string{"get"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubelet-reader"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "reader"}},
	}
	scraping, scraper := role.DeepCopy(), binding.DeepCopy()
	scraping.Name, scraping.Rules[0].Resources = "kubelet-scraper", []string{"nodes/metrics"}
	scraper.Name, scraper.RoleRef.Name, scraper.Subjects[0].Name = "kubelet-scraper", "kubelet-scraper", "scraper"
	narrow, agent := role.DeepCopy(), binding.DeepCopy() // the permissions that agents should use since Kubernetes 1.33
	narrow.Name, narrow.Rules[0].Resources = "kubelet-agent", []string{"nodes/pods", "nodes/healthz", "nodes/configz"}
	agent.Name, agent.RoleRef.Name, agent.Subjects[0].Name = "kubelet-agent", "kubelet-agent", "agent"
	for _, obj := range []client.Object{role, binding, scraping, scraper, narrow, agent} {
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	apitest.InForce(t, c)
	ask := func(method, path string, certificate *tls.Certificate) (int, string) {
		tlsConfig := &tls.Config{InsecureSkipVerify: true}
		if certificate != nil {
			tlsConfig.Certificates = []tls.Certificate{*certificate}
		}
		transport := &http.Transport{TLSClientConfig: tlsConfig}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), method, address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	user := func(name string) *tls.Certificate {
		certificate, key, err := authority.User(name)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			t.Fatal(err)
		}
		return &pair
	}
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	for name, test := range map[string]struct {
		method string
		path   string
		with   *tls.Certificate
		want   int
	}{
		"nobody":                   {http.MethodGet, "/pods", nil, http.StatusUnauthorized},
		"a certificate of another": {http.MethodGet, "/pods", selfSignedClient(t, "reader", key), http.StatusUnauthorized},
		"somebody without rights":  {http.MethodGet, "/pods", user("nobody-special"), http.StatusForbidden},
		"who may read":             {http.MethodGet, "/pods", user("reader"), http.StatusOK},
		"who may only read":        {http.MethodPost, "/pods", user("reader"), http.StatusForbidden},
		"who may scrape":           {http.MethodGet, "/metrics/resource", user("scraper"), http.StatusOK},
		"who may only scrape":      {http.MethodGet, "/pods", user("scraper"), http.StatusForbidden},
		"an agent, pods":           {http.MethodGet, "/pods", user("agent"), http.StatusOK},
		"an agent, health":         {http.MethodGet, "/healthz", user("agent"), http.StatusOK},
		"an agent, configuration":  {http.MethodGet, "/configz", user("agent"), http.StatusOK},
		"an agent, commands":       {http.MethodGet, "/exec/a/b/c", user("agent"), http.StatusForbidden},
		"an agent, statistics":     {http.MethodGet, "/stats/summary", user("agent"), http.StatusForbidden},
		"who may read, scraping":   {http.MethodGet, "/stats/summary", user("reader"), http.StatusForbidden},
	} {
		if got, body := ask(test.method, test.path, test.with); got != test.want {
			t.Errorf("%s: %d %s", name, got, body)
		}
	}
}

func selfSignedClient(t *testing.T, name string, key *ecdsa.PrivateKey) *tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name, Organization: []string{"system:masters"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// isSigned approves and signs the request as the cluster would, and waits until the Certificate uses the signed certificate.
func isSigned(t *testing.T, c client.Client, certificate *Certificate) {
	var csr certificatesv1.CertificateSigningRequest
	apitest.Eventually(t, 10*time.Second, "a CertificateSigningRequest", func() error {
		var list certificatesv1.CertificateSigningRequestList
		if err := c.List(t.Context(), &list); err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("%d", len(list.Items))
		}
		csr = list.Items[0]
		return nil
	})
	block, _ := pem.Decode(csr.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if request.Subject.CommonName != "system:node:milan" || request.Subject.Organization[0] != "system:nodes" || !request.IPAddresses[0].Equal(net.IPv4(127, 0, 0, 1)) {
		t.Errorf("request %+v", request)
	}
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(42), Subject: request.Subject, NotBefore: time.Now(), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, request.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"}}
	if err := c.SubResource("approval").Update(t.Context(), &csr); err != nil {
		t.Fatal(err)
	}
	csr.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := c.Status().Update(t.Context(), &csr); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, 10*time.Second, "the signed certificate in use", func() error {
		used, err := certificate.serving(t.Context())
		if err == nil && used.Leaf.SerialNumber.Int64() != 42 {
			err = fmt.Errorf("number %v", used.Leaf.SerialNumber)
		}
		return err
	})
}
