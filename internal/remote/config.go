// Package remote provides access to the other cluster of a peering. It turns the kubeconfig of an Identity into a client
// configuration that detects dead connections, and it checks whether the other API server is reachable. It contains no logic of
// the peering itself.
package remote

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/address"
)

// KubeconfigKey is the key of the kubeconfig in the Secret of an Identity.
const KubeconfigKey = "kubeconfig"

// readIdle is the time without received data after which an HTTP/2 connection is pinged. pingTimeout is how long the answer may
// take. Together they limit how long a watch can last on a link that was cut silently.
const (
	readIdle    = 10 * time.Second
	pingTimeout = 5 * time.Second
	// dialTimeout is that of the default dialer of client-go.
	dialTimeout = 30 * time.Second
)

// Config reads the kubeconfig Secret of an Identity; see Parse. The second result is the tenant namespace in the other cluster,
// empty if the Secret does not name it.
func Config(secret *corev1.Secret) (cfg *rest.Config, tenantNamespace string, err error) {
	cfg, err = Parse(secret.Data[KubeconfigKey])
	if err != nil {
		return nil, "", fmt.Errorf("reading key %q of Secret %s/%s: %w", KubeconfigKey, secret.Namespace, secret.Name, err)
	}
	return cfg, secret.Annotations[api.AnnotationRemoteTenantNamespace], nil
}

// Parse parses a kubeconfig and applies Tune. The kubeconfig must contain its credentials: a kubeconfig that names files could
// make this process send its own credentials elsewhere, and one that names programs could make it run them. Parse returns an
// error for both. There is one exception: a kubeconfig may have an access key and the command of the aws CLI that prints tokens for an EKS
// cluster. Parse does not run this command, because this process creates the tokens itself.
func Parse(kubeconfig []byte) (*rest.Config, error) { return parse(kubeconfig, time.Now) }

func parse(kubeconfig []byte, now func() time.Time) (*rest.Config, error) {
	if len(kubeconfig) == 0 {
		return nil, errors.New("the kubeconfig is empty")
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	useEKS(cfg, now)
	switch {
	case cfg.ExecProvider != nil || cfg.AuthProvider != nil:
		return nil, errors.New("programs and plugins are not run for credentials")
	case cfg.BearerTokenFile != "" || cfg.CertFile != "" || cfg.KeyFile != "" || cfg.CAFile != "":
		return nil, errors.New("files that a kubeconfig names are not read: it has to hold certificates, keys and tokens itself")
	}
	Tune(cfg)
	if cfg.Proxy != nil {
		cfg.Dial = dialProxy().DialContext
	}
	return cfg, nil
}

// dialProxy returns the dialer for the proxy that a kubeconfig names. A provider, or an invitation, chooses the proxy. It must not be this machine or a metadata
// service, which the dialer checks after the host name was resolved.
func dialProxy() *net.Dialer {
	return &net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout, Control: func(_, text string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(text)
		if err == nil {
			err = address.Check(at.Addr(), nil)
		}
		if err != nil {
			return fmt.Errorf("connecting to the proxy of the kubeconfig (proxy-url) is refused: %w", err)
		}
		return nil
	}}
}

// Tune sets the properties of all configurations of this package. There is no client-side rate limit: the API Priority and
// Fairness of the other API server decides. There is no compression: responses are small, and CPU time is scarce. Connections
// that stop responding are closed, watches relist after outages (see RelistAfterOutages), and redirects are errors (see RefuseRedirects).
func Tune(cfg *rest.Config) {
	cfg.QPS = -1
	cfg.DisableCompression = true
	cfg.UserAgent = "liqo"
	RefuseRedirects(cfg)
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		watchLink(rt)
		return rt
	})
	RelistAfterOutages(cfg)
}

// watchLink enables the HTTP/2 health check of the transport below rt, unless it is enabled already.
func watchLink(rt http.RoundTripper) {
	for {
		if t, ok := rt.(*http.Transport); ok {
			// client-go shares a transport among configurations. A transport with a health check may be in use, and must not be
			// changed.
			if t.HTTP2 == nil {
				t.HTTP2 = &http.HTTP2Config{SendPingTimeout: readIdle, PingTimeout: pingTimeout}
			}
			return
		}
		wrapper, ok := rt.(utilnet.RoundTripperWrapper)
		if !ok {
			return
		}
		rt = wrapper.WrappedRoundTripper()
	}
}

var errNoAnswer = errors.New("not probed yet")

// ErrUnauthorized is in State.Err if the API server responds, and rejects this cluster's credentials (401 Unauthorized).
var ErrUnauthorized = errors.New("401 Unauthorized")
