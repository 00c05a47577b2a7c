package apitest

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Server is an API server with an etcd of its own. Both end with the test that started them.
type Server struct {
	// Config and KubeConfig are those of an administrator. Config has no limit of requests.
	Config     *rest.Config
	KubeConfig []byte

	authority       *Authority
	etcd, apiServer *program
	etcdURL         string
}

// Environment is like APIServer, for tests that also need a kubeconfig, or set flags of the server (name, value).
func Environment(t testing.TB, flags ...[2]string) (*Server, *rest.Config) {
	t.Helper()
	server, config, _ := WithAuthority(t, flags...)
	return server, config
}

// WithAuthority is like Environment, for tests that need client certificates which the API server trusts.
func WithAuthority(t testing.TB, flags ...[2]string) (*Server, *rest.Config, *Authority) {
	t.Helper()
	programs := binaries(t)
	data := filepath.Join(t.TempDir(), "etcd")
	writePrepared(t, programs, data)
	server := start(t, programs, data, flags...)
	waitForDefinitions(t, server.Config)
	return server, server.Config, server.authority
}

// start starts an etcd with its data in a folder, and an API server, and waits until the API server is ready.
func start(t testing.TB, programs, data string, flags ...[2]string) *Server {
	t.Helper()
	authority, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files, err := authority.writeServerFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	port := reservePort(t)
	s := &Server{authority: authority, etcdURL: "http://127.0.0.1:" + reservePort(t)}
	s.etcd = begin(t, "etcd", []string{
		filepath.Join(programs, "etcd"),
		"--data-dir=" + data,
		"--listen-client-urls=" + s.etcdURL,
		"--advertise-client-urls=" + s.etcdURL,
		"--socket-reuse-port",
		"--listen-peer-urls=http://127.0.0.1:0",
		// Without fsync, a killed etcd loses no data. Only a power failure of the machine can lose data.
		"--unsafe-no-fsync",
		"--log-level=warn",
	})
	args := []string{
		filepath.Join(programs, "kube-apiserver"),
		"--etcd-servers=" + s.etcdURL,
		"--bind-address=127.0.0.1",
		"--secure-port=" + port,
		"--permit-port-sharing",
		"--cert-dir=" + dir,
		"--tls-cert-file=" + files.certificate,
		"--tls-private-key-file=" + files.key,
		"--client-ca-file=" + files.authority,
		"--service-account-issuer=https://127.0.0.1:" + port + "/",
		"--service-account-key-file=" + files.accounts,
		"--service-account-signing-key-file=" + files.accounts,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC",
		"--allow-privileged",
		// No controller creates the ServiceAccounts that this plugin requires.
		"--disable-admission-plugins=ServiceAccount",
		// The clients limit the request rate; this server must not queue requests.
		"--enable-priority-and-fairness=false",
	}
	for _, flag := range flags {
		args = append(args, "--"+flag[0]+"="+flag[1])
	}
	s.apiServer = begin(t, "the API server", args)

	certificate, key, err := authority.User("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	s.Config = &rest.Config{
		Host:            "https://127.0.0.1:" + port,
		TLSClientConfig: rest.TLSClientConfig{CAData: authority.pem(), CertData: certificate, KeyData: key},
		QPS:             -1,
	}
	s.KubeConfig, err = clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: s.Config.Host, CertificateAuthorityData: s.Config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"admin": {ClientCertificateData: s.Config.CertData, ClientKeyData: s.Config.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "admin"}},
		CurrentContext: "test",
	})
	if err != nil {
		t.Fatalf("writing a kubeconfig: %v", err)
	}
	requests, err := discovery.NewDiscoveryClientForConfig(s.Config)
	if err != nil {
		t.Fatalf("creating a client: %v", err)
	}
	// A machine with two cores may start several servers at the same time.
	Eventually(t, 2*time.Minute, "the API server to be ready", func() error {
		s.etcd.mustRun(t)
		s.apiServer.mustRun(t)
		return requests.RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error()
	})
	return s
}

// reservePort returns a port of 127.0.0.1 which only programs of this user that share ports can use until the test ends: a socket
// that does not listen is bound to it.
func reservePort(t testing.TB) string {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("reserving a port: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(socket) })
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		t.Fatalf("reserving a port: %v", err)
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatalf("reserving a port: %v", err)
	}
	address, err := unix.Getsockname(socket)
	if err != nil {
		t.Fatalf("reserving a port: %v", err)
	}
	return strconv.Itoa(address.(*unix.SockaddrInet4).Port)
}
