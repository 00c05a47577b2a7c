package cli

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/test/apitest"
	"liqo.io/liqo/test/clitest"
)

// controlPlane answers certificate requests and signs nonces, until the test ends.
func controlPlane(t *testing.T, c client.Client) {
	authority, err := apitest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() { authority.Sign(ctx, c) })
	running.Go(func() {
		for ctx.Err() == nil {
			var secrets corev1.SecretList
			_ = c.List(ctx, &secrets, client.MatchingLabels{authv1beta1.LabelSignedNonce: api.True}) // the next pass comes to what failed
			for i := range secrets.Items {
				if secret := &secrets.Items[i]; len(secret.Data[authv1beta1.SignedNonceKey]) == 0 {
					secret.Data[authv1beta1.SignedNonceKey] = append([]byte("signed "), secret.Data[authv1beta1.NonceKey]...)
					_ = c.Update(ctx, secret)
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// TestPeeringByHandOnAPIServer goes through the manifests that two administrators exchange, and the errors of each command.
func TestPeeringByHandOnAPIServer(t *testing.T) {
	t.Parallel()
	kubeconfig, c := server(t)
	clitest.Create(t, c, tenancy("turin")...)
	controlPlane(t, c)
	private, public := keyPair(t, "x")
	clitest.Create(t, c,
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: authv1beta1.KeysSecret},
			Data:       map[string][]byte{authv1beta1.PrivateKeyKey: private, authv1beta1.PublicKeyKey: public},
		},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "the CA"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-turin", Name: "kubeconfig-x"}, Data: map[string][]byte{"kubeconfig": []byte("to turin\n")}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-turin", Name: "kubeconfig-controlplane-turin", Labels: map[string]string{authv1beta1.LabelIdentityType: "ControlPlane"}}},
	)
	identity := &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-turin", Name: "resourceslice-mine", Labels: map[string]string{api.LabelRemoteClusterID: "turin"}},
	}
	mine := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-turin", Name: "mine"}}
	clitest.Create(t, c, identity, mine)
	liqoctl := func(command string) (int, string, string) {
		return run(t, append(strings.Fields(command), "--kubeconfig", kubeconfig)...)
	}
	refused := func(command, want string) {
		t.Helper()
		if code, out, errOut := liqoctl(command); code != 1 || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%s: code %d, prints %q, says %q, want %q", command, code, out, errOut, want)
		}
	}
	printed := func(command string) string {
		t.Helper()
		code, out, errOut := liqoctl(command)
		if code != 0 || out == "" {
			t.Fatalf("%s: code %d, prints %q, says %q", command, code, out, errOut)
		}
		return out
	}

	refused("generate tenant --remote-cluster-id milan", "this cluster has not signed a nonce of cluster milan: run liqoctl create nonce --remote-cluster-id rome on milan")
	var tenant authv1beta1.Tenant
	if err := yaml.Unmarshal([]byte(printed("generate tenant --remote-cluster-id milan --nonce abc --proxy-url http://proxy:1")), &tenant); err != nil {
		t.Fatal(err)
	}
	subject := peering.ControlPlaneSubject("rome")
	if string(tenant.Spec.Signature) != "signed abc" || tenant.Namespace != "liqo-tenant-rome" || tenant.Name != "rome" || *tenant.Spec.ProxyURL != "http://proxy:1" ||
		peering.CheckRequest(tenant.Spec.CSR, subject, tenant.Spec.PublicKey) != nil {
		t.Errorf("the Tenant is %+v", tenant)
	}
	printed("generate tenant --remote-cluster-id milan -o json --remote-tenant-namespace other")

	refused("generate identity --remote-cluster-id paris", "there is no tenant namespace for cluster paris")
	refused("generate identity --remote-cluster-id milan", "there is no Tenant of cluster milan in namespace liqo-tenant-milan: run liqoctl generate tenant --remote-cluster-id rome on milan, and apply its output here")
	admitted := &authv1beta1.Tenant{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "tenant-of-turin", Name: "turin"}, admitted); err != nil {
		t.Fatal(err)
	}
	admitted.Status = authv1beta1.TenantStatus{TenantNamespace: "tenant-of-turin", AuthParams: &authv1beta1.AuthParams{APIServer: "https://rome:6443", SignedCRT: []byte("x"), CA: []byte("y")}}
	if err := c.Status().Update(t.Context(), admitted); err != nil {
		t.Fatal(err)
	}
	var granted authv1beta1.Identity
	if err := yaml.Unmarshal([]byte(printed("generate identity --remote-cluster-id turin")), &granted); err != nil {
		t.Fatal(err)
	}
	if granted.Name != "controlplane-rome" || granted.Namespace != "liqo-tenant-rome" || granted.Spec.Namespace != "tenant-of-turin" || granted.Spec.AuthParams.APIServer != "https://rome:6443" {
		t.Errorf("the Identity is %+v", granted)
	}

	refused("get kubeconfig other --remote-cluster-id turin", "there is no Identity other in namespace tenant-of-turin (known: resourceslice-mine)")
	refused("get kubeconfig resourceslice-mine --remote-cluster-id turin", "has no kubeconfig yet: run the command again when it has")
	refused("create virtualnode v --remote-cluster-id turin", "want exactly one of --resource-slice-name and --kubeconfig-secret-name")
	refused("create virtualnode v --remote-cluster-id turin --kubeconfig-secret-name no", "--kubeconfig-secret-name no: there is no Secret no in namespace tenant-of-turin")
	refused("create virtualnode v --remote-cluster-id turin --kubeconfig-secret-name kubeconfig-controlplane-turin", "may not run pods in the provider: give the Secret of a ResourceSlice, kubeconfig-resourceslice-NAME")
	refused("create virtualnode v --remote-cluster-id turin --kubeconfig-secret-name x --vk-options-template y", "--vk-options-template y: want namespace/name")
	refused("create virtualnode v --remote-cluster-id turin --resource-slice-name no", "there is no ResourceSlice no in namespace tenant-of-turin")
	refused("create virtualnode v --remote-cluster-id turin --resource-slice-name mine", "is not granted: Authentication: no decision yet; Resources: no decision yet")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(mine), mine); err != nil {
		t.Fatal(err)
	}
	mine.Status.Conditions = []authv1beta1.ResourceSliceCondition{
		{Type: authv1beta1.ResourceSliceAuthentication, Status: authv1beta1.ResourceSliceAccepted}, {Type: authv1beta1.ResourceSliceResources, Status: authv1beta1.ResourceSliceAccepted},
	}
	if err := c.Status().Update(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	refused("create virtualnode v --remote-cluster-id turin --resource-slice-name mine", "has no kubeconfig yet: run the command again when it has")
	identity.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "kubeconfig-x"}
	if err := c.Status().Update(t.Context(), identity); err != nil {
		t.Fatal(err)
	}
	if got := printed("get kubeconfig resourceslice-mine --remote-cluster-id turin"); got != "to turin\n" {
		t.Errorf("the kubeconfig is %q", got)
	}
	printed("create virtualnode v --remote-cluster-id turin --resource-slice-name mine -o yaml")
	golden(t, "virtualnode", printed("create vn v --remote-cluster-id turin --kubeconfig-secret-name kubeconfig-x --storage-classes fast,slow --ingress-classes nginx "+
		"--load-balancer-classes lb --labels a=b --node-selector c=d --runtime-class-name kata --vk-options-template ns/t --resource x/y=1 -o yaml"))
	if code, _, errOut := liqoctl("create virtualnode v --remote-cluster-id turin --kubeconfig-secret-name kubeconfig-x --create-node=false"); code != 0 || !strings.Contains(errOut, "gets no Node") {
		t.Errorf("code %d: %s", code, errOut)
	}
	// The controller manager creates it for the Identity. It says that turin is reachable.
	if err := c.Create(t.Context(), &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "turin"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "turin"}}); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := liqoctl("delete virtualnode v --wait=false"); code != 0 || !strings.Contains(errOut, "VirtualNode v in namespace tenant-of-turin deleted") {
		t.Errorf("code %d: %s", code, errOut)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "tenant-of-turin", Name: "v"}, &offloadingv1beta1.VirtualNode{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the VirtualNode is there: %v", err)
	}
	refused("delete virtualnode v", "there is no virtualnode v in any namespace (known: none)")
	testPeeringUser(t, c, liqoctl, refused)
}

func testPeeringUser(t *testing.T, c client.Client, liqoctl func(string) (int, string, string), refused func(command, want string)) {
	const generate = "generate peering-user --consumer-cluster-id turin"
	refused("delete peering-user --consumer-cluster-id turin", "there is no peering user for cluster turin")
	refused("generate peering-user --consumer-cluster-id rome", "that is this cluster")
	refused(generate+" --tls-compatibility-mode maybe", "want one of auto, true, false")
	refused(generate+" --lifetime 1m", "--lifetime 1m0s: want at least 10m0s")
	users := map[string]bool{}
	for _, lifetime := range []time.Duration{365 * 24 * time.Hour, time.Hour} {
		command := generate
		if lifetime == time.Hour {
			command += " --lifetime 1h"
		}
		code, out, errOut := liqoctl(command)
		if code != 0 || strings.Count(errOut, "WARN") != 3 {
			t.Fatalf("code %d: %s", code, errOut)
		}
		config, err := clientcmd.Load([]byte(out))
		if err != nil {
			t.Fatal(err)
		}
		cluster, user, current := config.Clusters["turin"], config.AuthInfos["turin-user"], config.Contexts[config.CurrentContext]
		if cluster == nil || user == nil || current == nil || cluster.Server != "https://rome:6443" || string(cluster.CertificateAuthorityData) != "the CA" ||
			current.Namespace != "liqo" {
			t.Fatalf("the kubeconfig is %s", out)
		}
		certificate, err := pki.First(user.ClientCertificateData)
		if err != nil {
			t.Fatal(err)
		}
		users[certificate.Subject.CommonName] = true
		csr := &certificatesv1.CertificateSigningRequest{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "liqo-peer-user-turin"}, csr); err != nil {
			t.Fatal(err)
		}
		if seconds := csr.Spec.ExpirationSeconds; seconds == nil || time.Duration(*seconds)*time.Second != lifetime {
			t.Errorf("the certificate is requested for %v seconds, want %s", seconds, lifetime)
		}
		for namespace, name := range map[string]string{"liqo": "liqo-peer-user-turin-liqo-ns-reader", "tenant-of-turin": "liqo-peer-user-turin-tenant-ns-writer"} {
			var binding rbacv1.RoleBinding
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &binding); err != nil {
				t.Fatal(err)
			}
			if name := binding.Subjects[0].Name; name != certificate.Subject.CommonName || !strings.HasPrefix(name, "liqo-peer-user-turin-") {
				t.Errorf("%s is bound, the certificate is for %s", name, certificate.Subject.CommonName)
			}
		}
		refused(generate, "there is a peering user for cluster turin already")
		if code, _, errOut := liqoctl("delete peering-user --consumer-cluster-id turin"); code != 0 || !strings.Contains(errOut, "Peering user for cluster turin deleted") {
			t.Errorf("code %d: %s", code, errOut)
		}
	}
	// The name of one whose rights were taken is not given again: its certificate still counts.
	if len(users) != 2 {
		t.Errorf("the users are %v", users)
	}
}
