package peering

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/address"
	"liqo.io/liqo/internal/eks"
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
	if err := checkOneCredential(params); err != nil {
		return err
	}
	if params.AwsConfig != nil {
		return checkAws(params.AwsConfig)
	}
	if !Granted(params) {
		return errors.New("authParams.signedCRT is empty")
	}
	return nil
}

func checkOneCredential(params *authv1beta1.AuthParams) error {
	var has []string
	for _, credential := range [...]struct {
		field string
		is    bool
	}{{"signedCRT", len(params.SignedCRT) > 0}, {"token", params.Token != nil}, {"awsConfig", params.AwsConfig != nil}} {
		if credential.is {
			has = append(has, credential.field)
		}
	}
	if len(has) > 1 {
		return fmt.Errorf("authParams has %s, want one of them: remove the others", strings.Join(has, " and "))
	}
	return nil
}

// CheckProxyURL returns an error if text can't be the URL of a proxy in front of an API server. An address in it must not be one of the machine that uses it, or of
// a metadata service. What a host name resolves to is checked when a program connects (see package remote).
func CheckProxyURL(text string) error {
	proxy, err := url.Parse(text)
	if err != nil || !slices.Contains([]string{"http", "https", "socks5"}, proxy.Scheme) || proxy.Host == "" {
		return fmt.Errorf("%q, want http://host:port", text)
	}
	if at, err := netip.ParseAddr(proxy.Hostname()); err == nil {
		if err := address.Check(at, nil); err != nil {
			return fmt.Errorf("%q, want the address of a proxy that this cluster reaches: %w", text, err)
		}
	}
	return nil
}

// Kubeconfig returns the YAML of the kubeconfig with which this cluster authenticates as the Identity in its provider. privateKey is the
// PEM key that the Identity's certificate was issued for, or its token was sealed for.
func Kubeconfig(identity *authv1beta1.Identity, privateKey []byte) ([]byte, error) {
	params := &identity.Spec.AuthParams
	if err := CheckAuthParams(params); err != nil {
		return nil, err
	}
	token := ""
	if params.Token != nil {
		key, err := ParsePrivateKey(privateKey)
		if err != nil {
			return nil, err
		}
		if token, err = OpenToken(params.Token, key); err != nil {
			return nil, InField("authParams.token", err)
		}
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
	switch {
	case params.AwsConfig != nil:
		b.WriteString(getToken(awsUser(params.AwsConfig)))
	case params.Token != nil:
		line("    token: ", token)
		line("    as: ", params.Token.User)
		if params.Token.Group != "" {
			b.WriteString("    as-groups:\n")
			line("    - ", params.Token.Group)
		}
	default:
		line("    client-certificate-data: ", base64.StdEncoding.EncodeToString(params.SignedCRT))
		line("    client-key-data: ", base64.StdEncoding.EncodeToString(privateKey))
	}
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

// awsUser returns the user of AWS in the configuration.
func awsUser(config *authv1beta1.AwsConfig) eks.User {
	return eks.User{
		AccessKeyID: config.AwsAccessKeyID, SecretAccessKey: config.AwsSecretAccessKey, Region: config.AwsRegion, Cluster: config.AwsClusterName,
	}
}

// checkAws returns an error if the user of AWS can't authenticate, or if a value could become more than one argument of the aws CLI. The error
// contains no key.
func checkAws(config *authv1beta1.AwsConfig) error {
	err := awsUser(config).Check()
	if err == nil {
		err = eks.CheckARN(config.AwsUserArn)
	}
	if err != nil {
		return fmt.Errorf("authParams.awsConfig.%w", err)
	}
	return nil
}

// getToken returns the part of a kubeconfig with the command of the aws CLI that prints tokens. kubectl runs the command. Liqo's own programs
// recognize the command and create the tokens without running it.
func getToken(user eks.User) string {
	var b strings.Builder
	line := func(prefix, value string) { fmt.Fprintf(&b, "%s%s\n", prefix, quote(value)) }
	b.WriteString("    exec:\n")
	line("      apiVersion: ", eks.APIVersion)
	b.WriteString("      interactiveMode: Never\n")
	line("      command: ", eks.Command)
	b.WriteString("      args:\n")
	for _, argument := range user.Arguments() {
		line("      - ", argument)
	}
	b.WriteString("      env:\n")
	for _, variable := range user.Environment() {
		line("      - name: ", variable.Name)
		line("        value: ", variable.Value)
	}
	return b.String()
}

// quote turns any string into a YAML scalar: every JSON string is a YAML scalar.
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
		return fmt.Errorf("metadata.ownerReferences of Secret %s/%s does not name Identity %s with UID %s as its controller: delete the Secret, which is then created again",
			secret.GetNamespace(), secret.GetName(), identity.Name, identity.UID)
	case secret.GetLabels()[authv1beta1.LabelIdentityType] != string(identity.Spec.Type):
		return fmt.Errorf("the kubeconfig Secret %s/%s: label %s is %q, want %q as spec.type of Identity %s: delete the Secret, which is then created again",
			secret.GetNamespace(), secret.GetName(), authv1beta1.LabelIdentityType, secret.GetLabels()[authv1beta1.LabelIdentityType], identity.Spec.Type, identity.Name)
	case secret.GetLabels()[api.LabelRemoteClusterID] != identity.Spec.ClusterID:
		return fmt.Errorf("the kubeconfig Secret %s/%s: label %s is %q, want %q as spec.clusterID of Identity %s: delete the Secret, which is then created again",
			secret.GetNamespace(), secret.GetName(), api.LabelRemoteClusterID, secret.GetLabels()[api.LabelRemoteClusterID], identity.Spec.ClusterID, identity.Name)
	}
	return nil
}
