package app

import (
	"context"
	"crypto/rand"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/apitest"
)

func decode(text string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	return object, yaml.Unmarshal([]byte(text), &object.Object)
}

func b64(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// manifests returns all manifests that an administrator writes to extend a namespace of rome to milan.
func (p *plan) manifests(t *testing.T) []manifest {
	t.Helper()
	rome, milan, here, far := p.rome, p.milan, p.tenantNamespace("milan"), p.tenantNamespace("rome")
	var keys corev1.Secret
	apitest.Eventually(t, settles, "rome to have a key pair", func() error {
		return rome.Get(t.Context(), client.ObjectKey{Namespace: api.Namespace, Name: authv1beta1.KeysSecret}, &keys)
	})
	signer, err := peering.ParsePrivateKey(keys.Data[authv1beta1.PrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	publicKey := keys.Data[authv1beta1.PublicKeyKey]
	nonce, err := peering.NewNonce(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := peering.SignedNonce(signer, publicKey, nonce, nil)
	if err != nil {
		t.Fatal(err)
	}
	request, err := peering.NewRequest(rand.Reader, signer, peering.ControlPlaneSubject("rome"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := milan.authority.Certificate(signer.Public(), pkix.Name{CommonName: "rome", Organization: []string{"liqo.io"}}, time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	wireguard := make([]byte, 32)
	_, _ = rand.Read(wireguard) // rand.Read never fails

	head := func(kind, namespace, name, peer string, more ...string) string {
		text := fmt.Sprintf("kind: %s\nmetadata:\n  namespace: %s\n  name: %s\n  labels:\n    liqo.io/remote-cluster-id: %s\n", kind, namespace, name, peer)
		for _, label := range more {
			text += "    " + label + "\n"
		}
		return text
	}
	tenantNamespace := func(name, peer string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n  labels:\n    liqo.io/tenant-namespace: \"true\"\n    liqo.io/remote-cluster-id: %s\n", name, peer)
	}
	configuration := func(namespace, peer, pods string) string {
		return "apiVersion: networking.liqo.io/v1beta1\n" + head("Configuration", namespace, peer, peer) +
			fmt.Sprintf("spec:\n  remote:\n    cidr:\n      pod: [%s]\n      external: [10.70.0.0/16]\n", pods)
	}
	key := func(namespace, peer string) string {
		return "apiVersion: networking.liqo.io/v1beta1\n" + head("PublicKey", namespace, peer, peer, `networking.liqo.io/gateway-resource: "true"`) +
			fmt.Sprintf("spec:\n  publicKey: %s\n", b64(wireguard))
	}
	tenant := fmt.Sprintf("spec:\n  clusterID: rome\n  publicKey: %s\n  csr: %s\n  signature: %s\n", b64(publicKey), b64(request), b64(signature))
	identity := func(certificate []byte) string {
		return "apiVersion: authentication.liqo.io/v1beta1\n" + head("Identity", here, "controlplane-milan", "milan") +
			fmt.Sprintf("spec:\n  clusterID: milan\n  type: ControlPlane\n  namespace: %s\n  authParams:\n    apiServer: %s\n    ca: %s\n    signedCRT: %s\n",
				far, milan.address(), b64(milan.config.CAData), b64(certificate))
	}
	granted := func(ctx context.Context) (string, error) {
		var admitted authv1beta1.Tenant
		if err := milan.Get(ctx, client.ObjectKey{Namespace: far, Name: "rome"}, &admitted); client.IgnoreNotFound(err) != nil {
			return "", err
		}
		if admitted.Status.AuthParams == nil {
			return "", errNotYet
		}
		return identity(admitted.Status.AuthParams.SignedCRT), nil
	}
	if p.vouched {
		tenant = "spec:\n  clusterID: rome\n  authzPolicy: TolerateNoHandshake\n"
		granted = func(context.Context) (string, error) { return identity(own), nil }
	}
	is := func(text string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return text, nil }
	}
	template := func(kind, name string) string {
		return fmt.Sprintf("TemplateRef:\n    apiVersion: networking.liqo.io/v1beta1\n    kind: %s\n    name: %s\n    namespace: liqo\n", kind, name)
	}
	all := []manifest{
		{"tenant namespace", rome, is(tenantNamespace(here, "milan"))},
		{"tenant namespace", milan, is(tenantNamespace(far, "rome"))},
		{"identity", rome, granted},
		{"resource slice", rome, is("apiVersion: authentication.liqo.io/v1beta1\n" +
			head("ResourceSlice", here, "milan", "milan", `liqo.io/replication: "true"`, "liqo.io/remoteID: milan") +
			"  annotations:\n    liqo.io/create-virtual-node: \"true\"\nspec:\n  class: default\n  resources:\n    cpu: \"2\"\n")},
		{"configuration", rome, is(configuration(here, "milan", "10.244.0.0/16"))},
		{"configuration", milan, is(configuration(far, "rome", "10.244.0.0/16"))},
		{"gateway server", milan, is("apiVersion: networking.liqo.io/v1beta1\n" + head("GatewayServer", far, "rome", "rome") +
			"spec:\n  mtu: 1340\n  endpoint:\n    port: 51840\n    serviceType: NodePort\n  server" + template("WgGatewayServerTemplate", "wireguard-server"))},
		{"gateway client", rome, is("apiVersion: networking.liqo.io/v1beta1\n" + head("GatewayClient", here, "milan", "milan") +
			"spec:\n  mtu: 1340\n  endpoint:\n    addresses: [192.0.2.7]\n    port: 51840\n  client" + template("WgGatewayClientTemplate", "wireguard-client"))},
		{"public key", rome, is(key(here, "milan"))},
		{"public key", milan, is(key(far, "rome"))},
		{"tenant", milan, is("apiVersion: authentication.liqo.io/v1beta1\n" + head("Tenant", far, "rome", "rome") + tenant)},
		{"offloading", rome, is("apiVersion: offloading.liqo.io/v1beta1\nkind: NamespaceOffloading\nmetadata:\n  namespace: shop\n  name: offloading\nspec:\n  podOffloadingStrategy: LocalAndRemote\n  namespaceMappingStrategy: DefaultName\n")},
	}
	if !p.vouched {
		all = append(all,
			manifest{"nonce", milan, is("apiVersion: v1\n" + head("Secret", far, "liqo-nonce", "rome", `liqo.io/nonce: "true"`) + "data:\n  nonce: " + b64(nonce) + "\n")},
			manifest{"signed nonce", rome, is("apiVersion: v1\n" + head("Secret", here, "liqo-signed-nonce", "milan", `liqo.io/signed-nonce: "true"`) + "data:\n  nonce: " + b64(nonce) + "\n")},
		)
	}
	return all
}
