package peering

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// CheckAuthParams tells why a kubeconfig can't be made of what a provider sent; nil means it can.
func CheckAuthParams(params *authv1beta1.AuthParams) error {
	server, err := url.Parse(params.APIServer)
	if err != nil || server.Scheme != "https" || server.Host == "" {
		return fmt.Errorf("authParams.apiServer is %q, want https://host[:port]", params.APIServer)
	}
	if params.ProxyURL != nil && *params.ProxyURL != "" {
		if err := CheckProxyURL(*params.ProxyURL); err != nil {
			return fmt.Errorf("authParams.proxyURL is %w", err)
		}
	}
	if params.AwsConfig != nil {
		return errors.New("authParams.awsConfig: identities of EKS providers are not supported by this version")
	}
	if len(params.SignedCRT) == 0 {
		return errors.New("authParams.signedCRT is empty")
	}
	return nil
}

// CheckProxyURL tells why a URL can't be that of a proxy on the way to an API server.
func CheckProxyURL(text string) error {
	proxy, err := url.Parse(text)
	if err != nil || !slices.Contains([]string{"http", "https", "socks5"}, proxy.Scheme) || proxy.Host == "" {
		return fmt.Errorf("%q, want http://host:port", text)
	}
	return nil
}

// Kubeconfig is the YAML of a kubeconfig that leads into the provider of an Identity as that Identity. privateKey is the PEM key that its
// certificate was issued for.
func Kubeconfig(identity *authv1beta1.Identity, privateKey []byte) ([]byte, error) {
	params := &identity.Spec.AuthParams
	if err := CheckAuthParams(params); err != nil {
		return nil, err
	}
	var b strings.Builder
	line := func(prefix, value string) { fmt.Fprintf(&b, "%s%s\n", prefix, quote(value)) }
	name := identity.Spec.ClusterID
	b.WriteString("apiVersion: v1\nkind: Config\nclusters:\n")
	line("- name: ", name)
	b.WriteString("  cluster:\n")
	line("    server: ", params.APIServer)
	if len(params.CA) > 0 {
		line("    certificate-authority-data: ", base64.StdEncoding.EncodeToString(params.CA))
	}
	if params.ProxyURL != nil && *params.ProxyURL != "" {
		line("    proxy-url: ", *params.ProxyURL)
	}
	b.WriteString("users:\n")
	line("- name: ", identity.Name)
	b.WriteString("  user:\n")
	line("    client-certificate-data: ", base64.StdEncoding.EncodeToString(params.SignedCRT))
	line("    client-key-data: ", base64.StdEncoding.EncodeToString(privateKey))
	b.WriteString("contexts:\n")
	line("- name: ", name)
	b.WriteString("  context:\n")
	line("    cluster: ", name)
	line("    user: ", identity.Name)
	if identity.Spec.Namespace != "" {
		line("    namespace: ", identity.Spec.Namespace)
	}
	line("current-context: ", name)
	return []byte(b.String()), nil
}

// quote makes a YAML scalar of any string: JSON strings are YAML.
func quote(value string) string {
	text, err := json.Marshal(value)
	if err != nil {
		return `""` // strings always marshal
	}
	return string(text)
}
