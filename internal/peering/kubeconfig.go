package peering

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// CheckAuthParams returns an error if the parameters that a provider sent can't be turned into a kubeconfig.
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

// CheckProxyURL returns an error if text can't be the URL of a proxy in front of an API server.
func CheckProxyURL(text string) error {
	proxy, err := url.Parse(text)
	if err != nil || !slices.Contains([]string{"http", "https", "socks5"}, proxy.Scheme) || proxy.Host == "" {
		return fmt.Errorf("%q, want http://host:port", text)
	}
	return nil
}

// Kubeconfig returns the YAML of the kubeconfig with which this cluster authenticates as the Identity in its provider. privateKey is the
// PEM key that the Identity's certificate was issued for.
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

// quote turns any string into a YAML scalar. Every JSON string is one.
func quote(value string) string {
	text, err := json.Marshal(value)
	if err != nil {
		return `""` // strings always marshal
	}
	return string(text)
}

// IdentityOf returns the name of the Identity that a kubeconfig Secret belongs to: the Identity is its controller, and the Secret is named
// after it. It returns "" for every other Secret.
func IdentityOf(secret metav1.Object) string {
	owner := metav1.GetControllerOf(secret)
	if owner == nil || owner.Kind != "Identity" || secret.GetName() != KubeconfigSecretName(owner.Name) {
		return ""
	}
	if group, _, _ := strings.Cut(owner.APIVersion, "/"); group != authv1beta1.GroupVersion.Group {
		return ""
	}
	return owner.Name
}

// CheckKubeconfigSecret returns an error if a Secret is not the kubeconfig of the Identity, which must be in the same namespace. Without
// this check, a user who may write Secrets but no Identities could connect this cluster to a server of the user's choice.
func CheckKubeconfigSecret(secret metav1.Object, identity *authv1beta1.Identity) error {
	switch {
	case IdentityOf(secret) != identity.Name || secret.GetNamespace() != identity.Namespace || !metav1.IsControlledBy(secret, identity):
		return fmt.Errorf("metadata.ownerReferences of Secret %s/%s does not name Identity %s with UID %s as its controller: delete the Secret, it is written again",
			secret.GetNamespace(), secret.GetName(), identity.Name, identity.UID)
	case secret.GetLabels()[authv1beta1.LabelIdentityType] != string(identity.Spec.Type):
		return fmt.Errorf("the kubeconfig Secret %s/%s: label %s is %q, want %q as spec.type of Identity %s: delete the Secret, it is written again",
			secret.GetNamespace(), secret.GetName(), authv1beta1.LabelIdentityType, secret.GetLabels()[authv1beta1.LabelIdentityType], identity.Spec.Type, identity.Name)
	case secret.GetLabels()[api.LabelRemoteClusterID] != identity.Spec.ClusterID:
		return fmt.Errorf("the kubeconfig Secret %s/%s: label %s is %q, want %q as spec.clusterID of Identity %s: delete the Secret, it is written again",
			secret.GetNamespace(), secret.GetName(), api.LabelRemoteClusterID, secret.GetLabels()[api.LabelRemoteClusterID], identity.Spec.ClusterID, identity.Name)
	}
	return nil
}
