package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/test/clitest"
)

// everything lists the objects that a command could change in a cluster.
func everything(t *testing.T, c client.Client) (out []string) {
	t.Helper()
	for _, list := range []client.ObjectList{
		&corev1.NamespaceList{}, &corev1.SecretList{}, &authv1beta1.TenantList{}, &authv1beta1.IdentityList{}, &authv1beta1.ResourceSliceList{},
		&networkingv1beta1.ConfigurationList{}, &networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{}, &networkingv1beta1.PublicKeyList{},
		&offloadingv1beta1.NamespaceOffloadingList{}, &offloadingv1beta1.VirtualNodeList{},
	} {
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		objects, err := kube.Items(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			line := fmt.Sprintf("%T %s/%s %s %d %v %v", object, object.GetNamespace(), object.GetName(), object.GetUID(), object.GetGeneration(), object.GetLabels(), object.GetAnnotations())
			if secret, ok := object.(*corev1.Secret); ok {
				line += fmt.Sprint(secret.Data)
			}
			out = append(out, line)
		}
	}
	return out
}

// TestDryRunOnAPIServer: the API server checks what a command would do, the command prints it, and nothing is stored.
func TestDryRunOnAPIServer(t *testing.T) {
	t.Parallel()
	kubeconfig, c := server(t)
	clitest.Create(t, c, tenancy("turin")...)
	clitest.Create(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "x"}})
	before := everything(t, c)
	for command, want := range map[string]string{
		"offload namespace default":                                                                                "NamespaceOffloading offloading in namespace default would be created",
		"create resourceslice milan --remote-cluster-id turin --cpu 3":                                             "ResourceSlice milan in namespace tenant-of-turin would be changed: metadata.annotations[liqo.io/create-virtual-node], ",
		"create resourceslice fiat --remote-cluster-id turin":                                                      "It would wait for ResourceSlice fiat in namespace tenant-of-turin",
		"create configuration --remote-cluster-id turin --pod-cidr 10.9.0.0/16 --external-cidr 10.8.0.0/16 --wait": "Configuration turin in namespace tenant-of-turin would be created",
		"create gatewayserver --remote-cluster-id turin --wait":                                                    "GatewayServer turin in namespace tenant-of-turin would be created",
		"create gatewayclient --remote-cluster-id turin --addresses 1.2.3.4 --port 5 --wait":                       "It would wait for Connection gw-turin in namespace tenant-of-turin",
		"create publickey --remote-cluster-id turin --public-key AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=":     "PublicKey turin in namespace tenant-of-turin would be created",
		"create nonce --remote-cluster-id paris":                                                                   "Secret liqo-nonce in namespace liqo-tenant-paris would be created, which can be checked once its namespace exists",
		"create nonce --remote-cluster-id Paris":                                                                   "ERRO  creating Namespace /liqo-tenant-Paris",
		"drain tenant turin":                                                                                       "Tenant turin in namespace tenant-of-turin would be changed: spec.tenantCondition",
		"uncordon tenant turin":                                                                                    "INFO  Dry run: no changes needed",
		"cordon rs gpu --remote-cluster-id turin":                                                                  "ResourceSlice gpu in namespace tenant-of-turin would be changed: metadata.annotations[liqo.io/cordon]",
		"generate peering-user --consumer-cluster-id turin --tls-compatibility-mode=false":                         "CertificateSigningRequest liqo-peer-user-turin would be changed: approval",
	} {
		code, out, errOut := run(t, append(strings.Fields(command), "--dry-run", "--kubeconfig", kubeconfig)...)
		if !strings.Contains(errOut, want) || out != "" || (code == 0) == strings.Contains(want, "ERRO") {
			t.Errorf("%s: code %d, says %q%s, want %q", command, code, errOut, out, want)
		}
	}
	if diff := cmp.Diff(before, everything(t, c)); diff != "" {
		t.Error("something was written:", diff)
	}
}

// dryRuns: both clusters check the dry run of a command that changes both, and store nothing.
func (n networks) dryRuns() {
	t := n.T
	private, public := keyPair(t, "r")
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: authv1beta1.KeysSecret}, Data: map[string][]byte{
		authv1beta1.PrivateKeyKey: private, authv1beta1.PublicKeyKey: public,
	}}
	clitest.Create(t, n.rome, keys)
	rome, milan := everything(t, n.rome), everything(t, n.milan)
	for command, wants := range map[string][]string{
		"peer": {
			"(remote, dry run) Tenant rome in namespace liqo-tenant-rome would be created\n", "(local, dry run) Identity controlplane-milan in namespace liqo-tenant-milan would be created\n",
			"(local, dry run) ResourceSlice milan in namespace liqo-tenant-milan would be created\n", "It would wait for Node milan",
		},
		"authenticate":        {"(local, dry run) Secret liqo-signed-nonce in namespace liqo-tenant-milan would be created\n"},
		"network rotate-keys": {"(remote, dry run) PublicKey rome in namespace liqo-tenant-rome would be changed: spec.publicKey", "(local, dry run) Secret gw-milan in namespace liqo-tenant-milan would be changed"},
		"unpeer --delete-namespaces": {
			"(remote, dry run) GatewayServer rome in namespace liqo-tenant-rome would be deleted", "(local, dry run) Namespace liqo-tenant-milan would be deleted",
		},
	} {
		n.has(n.must(n.both(command+" --dry-run")), append(wants, " INFO  Dry run succeeded: no changes applied\n")...)
	}
	if diff := cmp.Diff(rome, everything(t, n.rome)) + cmp.Diff(milan, everything(t, n.milan)); diff != "" {
		t.Error("something was written:", diff)
	}
	if err := n.rome.Delete(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
}
