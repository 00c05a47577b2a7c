package provider

import (
	"os"
	"path/filepath"
	"testing"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters:
- {name: rome, cluster: {server: "https://192.0.2.1:6443"}}
- {name: milan, cluster: {server: "https://192.0.2.2:6443"}}
users:
- {name: admin, user: {token: secret}}
contexts:
- {name: rome, context: {cluster: rome, user: admin}}
- {name: milan, context: {cluster: milan, user: admin}}
current-context: rome
`

// TestConnections: the provider connects by a kubeconfig and a context, or by a host and credentials. It refuses anything else, and names the attribute and
// the cure.
func TestConnections(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		kubernetes attributes
		host       string
		problems   []string
	}{
		"kubeconfig": {kubernetes: attributes{"config_path": file}, host: "https://192.0.2.1:6443"},
		"context":    {kubernetes: attributes{"config_path": file, "config_context": "milan"}, host: "https://192.0.2.2:6443"},
		"host":       {kubernetes: attributes{"host": "https://192.0.2.3", "token": "secret", "insecure": true}, host: "https://192.0.2.3"},
		"both":       {kubernetes: attributes{"config_path": file, "host": "https://192.0.2.3"}, problems: []string{file, "https://192.0.2.3", "set one of them"}},
		"plain HTTP": {kubernetes: attributes{"host": "http://192.0.2.3", "token": "secret"}, problems: []string{"http://192.0.2.3", "https://HOST"}},
		"no scheme":  {kubernetes: attributes{"host": "192.0.2.3:6443", "token": "secret"}, problems: []string{"192.0.2.3:6443", "https://HOST"}},
		"two users":  {kubernetes: attributes{"config_path": file, "token": "secret"}, problems: []string{"kubernetes.token goes with kubernetes.host", file}},
		"none":       {kubernetes: attributes{}, problems: []string{"neither config_path nor host", "set the path"}},
		"no file":    {kubernetes: attributes{"config_path": file + "x"}, problems: []string{"kubernetes.config_path", file + "x"}},
		"no context": {kubernetes: attributes{"config_path": file, "config_context": "turin"}, problems: []string{"turin"}},
	} {
		t.Run(name, func(t *testing.T) {
			tf := newTerraform(t)
			problems := tf.configure(attributes{"kubernetes": test.kubernetes})
			contains(t, problems, test.problems...)
			switch {
			case len(test.problems) > 0 && problems == "":
				t.Error("the configuration passes")
			case len(test.problems) == 0 && (problems != "" || tf.config.Host != test.host || tf.config.BearerToken != "secret"):
				t.Errorf("%s: %v", problems, tf.config)
			}
		})
	}
}

// TestInstancesAreIndependent: each alias of the provider uses its own cluster.
func TestInstancesAreIndependent(t *testing.T) {
	rome, milan := configured(t), newTerraform(t)
	if problems := milan.configure(attributes{"kubernetes": attributes{"host": "https://192.0.2.2"}}); problems != "" {
		t.Fatal(problems)
	}
	if rome.config.Host != "https://192.0.2.1" || milan.config.Host != "https://192.0.2.2" {
		t.Errorf("%s, %s", rome.config.Host, milan.config.Host)
	}
}

// TestInstallationsOfOthersAreNotUsed: a ConfigMap like that of an installation, in a namespace of a tenant, does not decide where tokens are written. The user names the
// namespace of the installation.
func TestInstallationsOfOthersAreNotUsed(t *testing.T) {
	forged := installation("turin")
	forged.SetNamespace("aaa-tenant")
	real := installation("rome")
	real.SetNamespace("liqo-system")
	tf := newTerraform(t, forged, real)
	host := attributes{"host": "https://192.0.2.1", "token": "t"}
	if problems := tf.configure(attributes{"kubernetes": host}); problems != "" {
		t.Fatal(problems)
	}
	_, problems := tf.apply("liqo_peer", nil, toMilan(t))
	contains(t, problems, "liqo is not installed in namespace liqo of the cluster of https://192.0.2.1", "set attribute namespace")
	if problems := tf.configure(attributes{"kubernetes": host, "namespace": "liqo-system"}); problems != "" {
		t.Fatal(problems)
	}
	tf.control = peeringWith(t, isPeered, notPeered)
	tf.applied("liqo_peer", nil, toMilan(t))
	secret := tokenSecret()
	secret.Namespace = "liqo-system"
	if !tf.get(secret) {
		t.Error("the token is not in the namespace of the installation")
	}
}

// TestUnconfiguredProviderSaysWhy: a resource of a provider whose configuration is not known yet names the attribute and the cure.
func TestUnconfiguredProviderSaysWhy(t *testing.T) {
	tf := newTerraform(t)
	_, problems := tf.apply("liqo_offload", nil, attributes{"namespace": "shop"})
	contains(t, problems, "attribute kubernetes is unknown", "-target")
}
