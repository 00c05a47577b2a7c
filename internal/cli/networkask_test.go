package cli

import (
	"context"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/test/apitest"
	"liqo.io/liqo/test/clitest"
)

// chartDocuments returns the objects of the chart, as YAML, for a cluster.
func chartDocuments(t *testing.T, clusterID string) iter.Seq[string] {
	t.Helper()
	chart, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := installer.Render(chart, "liqo", map[string]any{"discovery": map[string]any{"config": map[string]any{"clusterID": clusterID}}})
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitSeq(manifest, "\n---\n")
}

// peeringUserRights makes what the chart has for peering users: their roles, and the policies about them.
func peeringUserRights(t *testing.T, c client.Client) {
	t.Helper()
	for document := range chartDocuments(t, "milan") {
		any := &metav1.PartialObjectMetadata{}
		if err := yaml.Unmarshal([]byte(document), any); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains([]string{"liqo-peering-user", "liqo-tenant"}, any.Name) {
			continue
		}
		object, ok := map[string]client.Object{
			"Role": &rbacv1.Role{}, "ClusterRole": &rbacv1.ClusterRole{},
			"ValidatingAdmissionPolicy": &admissionregistrationv1.ValidatingAdmissionPolicy{}, "ValidatingAdmissionPolicyBinding": &admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
		}[any.Kind]
		if !ok {
			continue
		}
		if err := yaml.Unmarshal([]byte(document), object); err != nil {
			t.Fatal(err)
		}
		clitest.Create(t, c, object)
	}
}

// peeringControllers do what the controller managers of both clusters do for a peering, until the test ends.
func peeringControllers(t *testing.T, rome, milan *memorySide) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() {
		for ctx.Err() == nil {
			// The next pass reaches the failed request.
			_, _, _, _, err := rome.secrets(ctx, milan), milan.secrets(ctx, rome), milan.tenants(ctx, rome), rome.requests(ctx, milan), recordOf(ctx, rome.client)
			if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
				t.Logf("the record of milan: %v", err)
			}
			var identities authv1beta1.IdentityList
			_ = rome.client.List(ctx, &identities)
			for i := range identities.Items {
				if identity := &identities.Items[i]; identity.Status.KubeconfigSecretRef == nil {
					identity.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: authv1beta1.KubeconfigSecretPrefix + identity.Name}
					_ = rome.client.Status().Update(ctx, identity)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// recordOf keeps rome's record of milan: what there is works.
func recordOf(ctx context.Context, rome client.Client) error {
	record := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "milan"}}
	if err := client.IgnoreAlreadyExists(rome.Create(ctx, record)); err != nil {
		return err
	}
	if err := rome.Get(ctx, client.ObjectKeyFromObject(record), record); err != nil {
		return err
	}
	there := func(list client.ObjectList) bool { return rome.List(ctx, list) == nil && meta.LenList(list) > 0 }
	record.Status.Role = corev1beta1.RoleProvider
	record.Status.Modules.Networking.Enabled = there(&networkingv1beta1.NetworkRequestList{})
	record.Status.Modules.Authentication.Enabled = there(&authv1beta1.IdentityList{})
	return rome.Status().Update(ctx, record)
}

// TestPeeringUserIsEnoughOnAPIServers: with the kubeconfig of a peering user alone, a consumer peers, disconnects and connects the networks, and
// unpeers. The control planes create the network, so the user needs no permissions on gateways.
func TestPeeringUserIsEnoughOnAPIServers(t *testing.T) {
	t.Parallel()
	romeConfig, rome := serverOf(t, "rome")
	env, config, authority := apitest.WithAuthority(t)
	milanConfig, milan := installation(t, "milan", env.KubeConfig, config)
	peeringUserRights(t, milan)
	private, public := keyPair(t, "x")
	for _, c := range []client.Client{rome, milan} {
		clitest.Create(t, c,
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: authv1beta1.KeysSecret},
				Data:       map[string][]byte{authv1beta1.PrivateKeyKey: private, authv1beta1.PublicKeyKey: public},
			},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "the CA"}},
			rangeObject(ipamv1alpha1.NetworkTypePod, "10.1.0.0/16"), rangeObject(ipamv1alpha1.NetworkTypeExternal, "10.70.0.0/16"),
			&networkingv1beta1.WgGatewayServerTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: networkingv1beta1.ServerTemplateDefault}},
		)
	}
	signing, stop := context.WithCancel(t.Context())
	go authority.Sign(signing, milan)
	code, out, errOut := run(t, "generate", "peering-user", "--consumer-cluster-id", "rome", "--kubeconfig", milanConfig)
	stop()
	if code != 0 {
		t.Fatalf("code %d: %s", code, errOut)
	}
	user, err := clientcmd.Load([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	user.Clusters["rome"].Server, user.Clusters["rome"].CertificateAuthorityData = "https://"+strings.TrimPrefix(config.Host, "https://"), config.CAData
	apitest.InForce(t, milan)
	userConfig := filepath.Join(t.TempDir(), "user")
	if err := clientcmd.WriteToFile(*user, userConfig); err != nil {
		t.Fatal(err)
	}
	peeringControllers(t, &memorySide{side: &side{id: "rome"}, client: rome}, &memorySide{side: &side{id: "milan"}, client: milan})

	request := &networkingv1beta1.NetworkRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	for _, step := range []struct {
		command string
		code    int
		says    string
		asked   bool
	}{
		{"network connect --wait", 1, "peer with it first", false},
		{"peer --create-resource-slice=false --timeout 90s", 0, "NetworkRequest milan correctly ensured", true},
		{"network disconnect --skip-confirm", 0, "", false},
		{"network connect --wait", 0, "NetworkRequest milan correctly ensured", true},
		{"network connect --gw-server-service-type NodePort", 0, "--gw-server-service-type has no effect", true},
		{"unpeer", 0, "", false},
	} {
		code, _, errOut := run(t, append(strings.Fields(step.command), "--kubeconfig", romeConfig, "--remote-kubeconfig", userConfig)...)
		if code != step.code || !strings.Contains(errOut, step.says) {
			t.Fatalf("%s: code %d, want %d, says %s, want %q", step.command, code, step.code, errOut, step.says)
		}
		if err := rome.Get(t.Context(), client.ObjectKeyFromObject(request), request); (err == nil) != step.asked || client.IgnoreNotFound(err) != nil {
			t.Fatalf("%s: milan is asked for a network: %v, want %v", step.command, err, step.asked)
		}
	}
	for c, object := range map[client.Client]client.Object{
		milan: &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}},
		rome:  &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "controlplane-milan"}},
	} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("%T is left: %v", object, err)
		}
	}
}
