package examples

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// mount is the folder in which Kubernetes mounts the credentials of a pod for its API server.
const mount = "/var/run/secrets/kubernetes.io/serviceaccount/"

// home: a pod in milan uses the API server of rome with its ServiceAccount and no other permissions. A pod that opts out has no token.
func home(s *story.Story) {
	const ns, account = "home", "reader"
	rome := s.Rome
	s.Step("a pod in milan, of a ServiceAccount that may list ConfigMaps", func() {
		s.Offload(ns)
		meta := metav1.ObjectMeta{Namespace: ns, Name: account}
		s.Must(rome.Create(s.Context(), &corev1.ServiceAccount{ObjectMeta: meta}))
		s.Must(rome.Create(s.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}}}))
		s.Must(rome.Create(s.Context(), &rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: account}},
		}))
		const support = "liqo.io/api-server-support"
		annotations := map[string]map[string]string{
			"caller": nil, "shy": {support: "disabled"}, "guest": {support: "remote", "liqo.io/remote-service-account-name": "default"},
		}
		for name := range annotations {
			pod := story.PodOn("milan", ns, name, playground.TestServer)
			pod.Spec.ServiceAccountName = account
			pod.Annotations = annotations[name]
			s.Must(rome.Create(s.Context(), pod))
		}
		s.PodsReady(rome, ns, len(annotations), start)
	})
	var api caller
	s.Step("it lists ConfigMaps of rome, and nothing else", func() {
		read := func(file string) string {
			said := s.Exec(rome, story.WebSocket, ns, "caller", "", "/testserver", "cat", file)
			if said.Code != 0 {
				s.Fatalf("reading %s: %+v", file, said)
			}
			return said.Out
		}
		environment := map[string]string{}
		for _, variable := range strings.Split(read("/proc/1/environ"), "\x00") {
			name, value, _ := strings.Cut(variable, "=")
			environment[name] = value
		}
		host, port := environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
		if host == "" || port == "" {
			s.Fatalf("the pod is not told where its API server is: %v", environment)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(read(mount + "ca.crt"))) {
			s.Fatal("the pod is given no certificate authority")
		}
		if got := read(mount + "namespace"); got != ns {
			s.Errorf("the pod is told that its namespace is %q, want %q", got, ns)
		}
		api = caller{
			from: inside(s, s.Milan, story.Twin(ns), "caller"), host: host, port: port, address: address(host, read("/etc/hosts")),
			roots: roots, token: strings.TrimSpace(read(mount + "token")),
		}
		for path, want := range map[string]int{
			"/api/v1/namespaces/" + ns + "/configmaps":           http.StatusOK,
			"/api/v1/namespaces/" + ns + "/secrets":              http.StatusForbidden,
			"/api/v1/namespaces/kube-system/configmaps":          http.StatusForbidden,
			"/api/v1/namespaces/" + story.Twin(ns) + "/services": http.StatusForbidden,
		} {
			status, said, err := api.get(s.Context(), path)
			s.Must(err)
			if status != want {
				s.Errorf("%s: status %d, want %d: %s", path, status, want, said)
			}
		}
	})
	s.Step("a token that is due is replaced", func() {
		milan, key := s.Milan, client.ObjectKey{Namespace: story.Twin(ns), Name: podrules.TokenSecret("caller")}
		var secret corev1.Secret
		s.Must(milan.Get(s.Context(), key, &secret))
		due := secret.DeepCopy()
		due.Annotations["offloading.liqo.io/service-account-refresh"] = time.Now().UTC().Format(time.RFC3339)
		s.Must(milan.Patch(s.Context(), due, client.MergeFrom(&secret)))
		s.Eventually(start, "another token", func(ctx context.Context) error {
			if err := milan.Get(ctx, key, &secret); err != nil {
				return err
			}
			for name, token := range secret.Data {
				if strings.HasPrefix(name, "kube-api-access-") && string(token) != api.token {
					api.token = string(token)
					return nil
				}
			}
			return fmt.Errorf("the annotations are %v", secret.Annotations)
		})
		status, said, err := api.get(s.Context(), "/api/v1/namespaces/"+ns+"/configmaps")
		s.Must(err)
		if status != http.StatusOK {
			s.Errorf("with the new token: status %d: %s", status, said)
		}
	})
	s.Step("it counts no longer than the pod is there", func() {
		s.Must(rome.Delete(s.Context(), s.Pod(rome, ns, "caller")))
		s.Gone(rome, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "caller"}}, start)
		config := rest.AnonymousClientConfig(rome.Config)
		config.BearerToken = api.token
		set, err := kubernetes.NewForConfig(config)
		s.Must(err)
		s.Eventually(start, "rome to refuse the token", func(ctx context.Context) error {
			_, err := set.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
			if err == nil {
				err = errors.New("it takes it")
			}
			if !apierrors.IsUnauthorized(err) {
				return err
			}
			return nil
		})
	})
	s.Step("one that asks for it speaks with the API server of milan, as a ServiceAccount there", func() {
		said := s.Exec(rome, story.WebSocket, ns, "guest", "", "/testserver", "cat", mount+"token")
		parts := strings.Split(said.Out, ".")
		if len(parts) != 3 {
			s.Fatalf("its token is no token: %+v", said)
		}
		claims, err := base64.RawURLEncoding.DecodeString(parts[1])
		s.Must(err)
		if want := `"sub":"system:serviceaccount:` + story.Twin(ns) + `:default"`; !strings.Contains(string(claims), want) {
			s.Errorf("its token says %s, want %s", claims, want)
		}
	})
	s.Step("one that opts out has no token", func() {
		if said := s.Exec(rome, story.WebSocket, ns, "shy", "", "/testserver", "cat", mount+"token"); said.Code == 0 {
			s.Error("it has one")
		}
	})
}

// caller sends requests to an API server from within a pod.
type caller struct {
	from                playground.Inside
	host, port, address string
	roots               *x509.CertPool
	token               string
}

// address returns the address of a name according to a hosts file. If the name is an address, it returns that.
func address(name, hosts string) string {
	for line := range strings.Lines(hosts) {
		fields := strings.Fields(line)
		for i := 1; i < len(fields); i++ {
			if fields[i] == name {
				return fields[0]
			}
		}
	}
	return name
}

func (c caller) get(ctx context.Context, path string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: c.roots, ServerName: c.host, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return c.from.Dial(ctx, network, net.JoinHostPort(c.address, c.port))
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort(c.host, c.port)+path, nil)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := client.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("asking the API server at %s: %w", c.address, err)
	}
	defer func() { _ = response.Body.Close() }()
	said, err := io.ReadAll(response.Body)
	return response.StatusCode, string(said), err
}
