// Package remote reaches the other cluster of a peering: it turns the kubeconfig of an Identity into a client configuration that
// notices a dead link, and it watches whether the other side answers. It knows nothing of what is done there.
package remote

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"liqo.io/liqo/api"
)

// KubeconfigKey is the key of the kubeconfig in the Secret of an Identity.
const KubeconfigKey = "kubeconfig"

// How long a silent HTTP/2 connection may stay silent before it is pinged, and how long the answer may take. Together they bound
// the life of a watch on a link that was cut without a word.
const (
	readIdle    = 10 * time.Second
	pingTimeout = 5 * time.Second
)

// Config reads the kubeconfig Secret of an Identity; see Parse. The second result is the tenant namespace in the other cluster, empty if the
// Secret does not say it.
func Config(secret *corev1.Secret) (cfg *rest.Config, tenantNamespace string, err error) {
	cfg, err = Parse(secret.Data[KubeconfigKey])
	if err != nil {
		return nil, "", fmt.Errorf("reading key %q of Secret %s/%s: %w", KubeconfigKey, secret.Namespace, secret.Name, err)
	}
	return cfg, secret.Annotations[api.AnnotationRemoteTenantNamespace], nil
}

// Parse reads a kubeconfig. It must hold all it needs: whoever could write one that names files or programs would have this process send its
// own credentials elsewhere, or run what it should not. The configuration has no client-side rate limit (the other side's priority and
// fairness decides), does not compress (the answers are small and the processors few), and closes connections that stopped answering.
func Parse(kubeconfig []byte) (*rest.Config, error) {
	if len(kubeconfig) == 0 {
		return nil, errors.New("the kubeconfig is empty")
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	switch {
	case cfg.ExecProvider != nil || cfg.AuthProvider != nil:
		return nil, errors.New("programs and plugins are not run for credentials")
	case cfg.BearerTokenFile != "" || cfg.CertFile != "" || cfg.KeyFile != "" || cfg.CAFile != "":
		return nil, errors.New("files that a kubeconfig names are not read: it has to hold certificates, keys and tokens itself")
	}
	Tune(cfg)
	return cfg, nil
}

// Tune gives a configuration the properties that Config promises.
func Tune(cfg *rest.Config) {
	cfg.QPS = -1
	cfg.DisableCompression = true
	cfg.UserAgent = "liqo"
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		watchLink(rt)
		return rt
	})
	RelistAfterOutages(cfg)
}

// watchLink arms the HTTP/2 health check of the transport below rt, if it has one that was not armed yet.
func watchLink(rt http.RoundTripper) {
	for {
		if t, ok := rt.(*http.Transport); ok {
			// client-go shares a transport among configurations: what is armed may be in use, and must not be written.
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

var errNoAnswer = errors.New("not asked yet")
