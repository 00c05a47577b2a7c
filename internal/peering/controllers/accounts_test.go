package controllers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/accounts"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/test/apitest"
)

// withTokens makes a cluster issue tokens, with what the chart adds for that, and the policy of Tenants.
func (c *cluster) withTokens(t *testing.T, life time.Duration) {
	t.Helper()
	c.tokens = accounts.Tokens{Enabled: true, Life: life}
	role := chartObjectsWith(t, c.id, "consumer-tokens.yaml", "ClusterRole", func() *rbacv1.ClusterRole { return &rbacv1.ClusterRole{} },
		map[string]any{"identity": "token"})[0]
	c.create(t, role)
	c.create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: clusterRole(role.Name), Subjects: subjects(rbacv1.UserKind, controllerManager),
	})
	c.create(t, chartObjects(t, c.id, "tenant-policy.yaml", "ValidatingAdmissionPolicy",
		func() *admissionregistrationv1.ValidatingAdmissionPolicy {
			return &admissionregistrationv1.ValidatingAdmissionPolicy{}
		})[0])
	c.create(t, chartObjects(t, c.id, "tenant-policy.yaml", "ValidatingAdmissionPolicyBinding",
		func() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
			return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		})[0])
}

// TestTokenIdentitiesOnAPIServer: a provider that signs no certificates grants tokens. They have the rights of certificates and no other ones, they
// are renewed, and they end with the Tenant.
func TestTokenIdentitiesOnAPIServer(t *testing.T) {
	var rome, milan *cluster
	apitest.Both(t, func() { rome = newCluster(t, "rome") }, func() { milan = newCluster(t, "milan") })
	milan.withTokens(t, 9*time.Second)
	rome.run(t)
	milan.run(t)
	rome.create(t, rome.tenantNamespace(milan))
	milan.create(t, milan.tenantNamespace(rome))
	naples := &cluster{id: "naples"}
	milan.create(t, milan.tenantNamespace(naples))
	rome.create(t, sliceOf(rome, milan))
	rome.create(t, mapOf(rome, milan))
	peer(t, rome, milan)
	settled(t, rome, milan)

	thief := steal(t, rome, milan, "shop-rome")
	noCertificates(t, milan)
	sealed(t, rome, milan)
	for _, name := range []string{"controlplane-milan", "resourceslice-milan"} {
		onlyAsItsUser(t, rome, milan, naples, name)
	}
	asWithACertificate(t, rome, milan)
	renewedTokens(t, rome, milan)

	tenant := &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)}
	change(t, milan, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantDrained })
	thief.may(t, false)
	before := tokenOf(t, rome, milan, "resourceslice-milan").BearerToken
	milan.delete(t, &corev1.ServiceAccount{ObjectMeta: milan.meta(rome, peering.SliceAccountName("milan"))}) // as garbage collection does, after its ResourceSlice
	change(t, milan, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantActive })
	settled(t, rome, milan)
	// In rome, all may still be as it was before the drain. The token of the deleted ServiceAccount is good for nothing.
	eventually(t, rome, &corev1.Secret{ObjectMeta: rome.meta(milan, "kubeconfig-resourceslice-milan")}, "renewed", func(secret *corev1.Secret) bool {
		cfg, _, err := remote.Config(secret)
		return err == nil && cfg.BearerToken != before
	})
	thief = steal(t, rome, milan, "bank-rome")
	endForGood(t, rome, milan, thief)
}

// endForGood deletes the Tenant of rome while a thief has a copy of its tokens. No garbage collector runs here, as after
// "kubectl delete --cascade=orphan". The tokens become invalid. They stay so when the cluster has a Tenant again, and when an administrator of milan
// grants rights to each name that a token of rome was for.
func endForGood(t *testing.T, rome, milan *cluster, thief *stolen) {
	t.Helper()
	tenant := eventually(t, milan, &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)}, "there", func(*authv1beta1.Tenant) bool { return true })
	accounts := &corev1.ServiceAccountList{}
	if err := milan.List(t.Context(), accounts, client.MatchingLabels{peering.LabelAccount: "true"}); err != nil || len(accounts.Items) != 2 {
		t.Fatalf("%d ServiceAccounts, %v, want that of the control plane and that of the virtual kubelet", len(accounts.Items), err)
	}
	for i := range accounts.Items {
		if owner := metav1.GetControllerOf(&accounts.Items[i]); owner == nil || owner.Kind == "Tenant" && owner.UID != tenant.UID {
			t.Errorf("ServiceAccount %s belongs to %v", accounts.Items[i].Name, owner)
		}
	}
	milan.delete(t, tenant)
	milan.gone(t, tenant)
	thief.may(t, false)
	for _, left := range []client.ObjectList{&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &corev1.ServiceAccountList{}} {
		if err := milan.List(t.Context(), left, client.MatchingLabels{peering.LabelAccount: "true"}); err != nil || apimeta.LenList(left) > 0 {
			t.Errorf("the Tenant left %d objects in a %T, %v", apimeta.LenList(left), left, err)
		}
	}
	refusedAs(t, "the token of the control plane", thief.controlPlane)
	refusedAs(t, "the token of the virtual kubelet", thief.slice)

	nonce := &corev1.Secret{}
	if err := milan.Get(t.Context(), client.ObjectKey{Namespace: tenant.Namespace, Name: authv1beta1.NonceSecret}, nonce); err != nil {
		t.Fatal(err)
	}
	signature, err := peering.Sign(rome.signer(t), nonce.Data[authv1beta1.NonceKey])
	if err != nil {
		t.Fatal(err)
	}
	milan.create(t, tenantOf(t, rome, milan, signature))
	eventually(t, milan, tenant, "admitted again", func(tn *authv1beta1.Tenant) bool { return tn.Status.AuthParams != nil })
	kubelet := peering.ResourceSliceSubject("milan", rome.id)
	milan.create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "of-an-administrator"}, RoleRef: clusterRole("cluster-admin"),
		Subjects: slices.Concat(subjects(rbacv1.UserKind, rome.id), subjects(rbacv1.UserKind, peering.TokenUserPrefix+rome.id),
			subjects(rbacv1.UserKind, kubelet.User), subjects(rbacv1.GroupKind, kubelet.Group),
			[]rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: tenant.Namespace, Name: peering.AccountName}}),
	})
	refusedAs(t, "the token of the former control plane", thief.controlPlane)
	refusedAs(t, "the token of the former virtual kubelet", thief.slice)
}

// noCertificates checks that the signer did not even receive a request.
func noCertificates(t *testing.T, milan *cluster) {
	t.Helper()
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := milan.List(t.Context(), requests); err != nil || len(requests.Items) > 0 {
		t.Errorf("milan has %d CertificateSigningRequests, %v", len(requests.Items), err)
	}
}

// tokenOf is the kubeconfig of an Identity, and the token in it.
func tokenOf(t *testing.T, rome, milan *cluster, identity string) *rest.Config {
	t.Helper()
	secret := eventually(t, rome, &corev1.Secret{ObjectMeta: rome.meta(milan, "kubeconfig-"+identity)}, "made", func(*corev1.Secret) bool { return true })
	cfg, _, err := remote.Config(secret)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.BearerToken == "" || len(cfg.CertData) > 0 {
		t.Fatalf("the kubeconfig of %s has no token", identity)
	}
	return cfg
}

// sealed: no object but rome's kubeconfig Secrets has a token that can be read.
func sealed(t *testing.T, rome, milan *cluster) {
	t.Helper()
	var secrets [][]byte
	for _, identity := range []string{"controlplane-milan", "resourceslice-milan"} {
		secrets = append(secrets, []byte(tokenOf(t, rome, milan, identity).BearerToken))
	}
	for _, c := range []*cluster{rome, milan} {
		for _, list := range []client.ObjectList{&authv1beta1.TenantList{}, &authv1beta1.IdentityList{}, &authv1beta1.ResourceSliceList{}, &authv1beta1.RenewList{}} {
			if err := c.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(list)
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range secrets {
				if bytes.Contains(text, secret) {
					t.Errorf("%T of %s holds a token in plain text", list, c.id)
				}
			}
		}
	}
}

// onlyAsItsUser tries what else a token might be good for.
func onlyAsItsUser(t *testing.T, rome, milan, naples *cluster, identity string) {
	t.Helper()
	cfg := tokenOf(t, rome, milan, identity)
	as := func(user string, groups ...string) client.Client {
		other := rest.CopyConfig(cfg)
		other.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		return apitest.Client(t, other)
	}
	own, slices := cfg.Impersonate.UserName, client.InNamespace("liqo-tenant-rome")
	tries := map[string]func() error{}
	for name, c := range map[string]client.Client{"itself": as(""), "its user": apitest.Client(t, cfg)} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: peering.AccountName}}
		tries["another token as "+name] = func() error {
			return c.SubResource("token").Create(t.Context(), account, &authenticationv1.TokenRequest{})
		}
		tries["a later end of its ServiceAccount as "+name] = func() error {
			return c.Patch(t.Context(), account.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+peering.AnnotationReplaced+`":null}}}`)))
		}
		tries["a certificate as "+name] = func() error {
			return c.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{Name: "thief"},
				Spec: certificatesv1.CertificateSigningRequestSpec{
					Request: []byte("x"), SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
				},
			})
		}
		tries["another Tenant's slices as "+name] = func() error {
			return c.List(t.Context(), &authv1beta1.ResourceSliceList{}, client.InNamespace(milan.meta(naples, "").Namespace))
		}
		tries["the Tenant's Secrets as "+name] = func() error { return c.List(t.Context(), &corev1.SecretList{}, slices) }
		tries["the Tenants as "+name] = func() error { return c.List(t.Context(), &authv1beta1.TenantList{}, slices) }
		tries["its own role as "+name] = func() error {
			return c.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "thief"}})
		}
	}
	list := func(c client.Client) func() error {
		return func() error { return c.List(t.Context(), &authv1beta1.ResourceSliceList{}, slices) }
	}
	tries["slices as itself"] = list(as(""))
	tries["slices as another consumer"] = list(as(peering.TokenUserPrefix + "naples"))
	tries["slices as the certificate's user"] = list(as("rome", peering.OrganizationControlPlane))
	tries["slices as the controller manager"] = list(as(controllerManager))
	tries["slices as an administrator"] = list(as(own, "system:masters"))
	tries["slices in another consumer's group"] = list(as(own, "naples"))
	for what, try := range tries {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %s: %v, want forbidden", identity, what, err)
		}
	}
	// Nothing is gained by leaving out the group.
	alone := as(own)
	if cfg.Impersonate.Groups != nil {
		if err := alone.List(t.Context(), &corev1.PodList{}, client.InNamespace("shop-rome")); !apierrors.IsForbidden(err) {
			t.Errorf("%s without its group reads pods: %v", identity, err)
		}
		return
	}
	foreign := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "foreign"}}
	if err := alone.Create(t.Context(), foreign); !apierrors.IsForbidden(err) {
		t.Errorf("%s makes an object that is no copy: %v", identity, err)
	}
}

// asWithACertificate compares all rights of tokens with those of certificates, in the namespaces of the consumer and in others.
//
// A ServiceAccount is also in the groups of all ServiceAccounts, and of those of its namespace. What it may do beyond what every user may must be to
// act as its user, and to read the public keys of tokens, which Kubernetes lets every ServiceAccount do.
func asWithACertificate(t *testing.T, rome, milan *cluster) {
	t.Helper()
	rightsOf := func(cfg *rest.Config, namespace string) map[string]bool {
		review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
		if err := apitest.Client(t, cfg).Create(t.Context(), review); err != nil || review.Status.EvaluationError != "" || review.Status.Incomplete {
			t.Fatalf("the rights in namespace %s: %v, %+v", namespace, err, review.Status)
		}
		rights := map[string]bool{}
		for _, r := range review.Status.ResourceRules {
			rights[fmt.Sprint(r.Verbs, r.APIGroups, r.Resources, r.ResourceNames)] = true
		}
		for _, r := range review.Status.NonResourceRules {
			rights[fmt.Sprint(r.Verbs, r.NonResourceURLs)] = true
		}
		return rights
	}
	as := func(cfg *rest.Config, user string, groups ...string) *rest.Config {
		cfg = rest.CopyConfig(cfg)
		cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		return cfg
	}
	control, kubelet := peering.ControlPlaneSubject(rome.id), peering.ResourceSliceSubject("milan", rome.id)
	for identity, row := range map[string]struct {
		certificate peering.Subject
		itself      map[string]bool
	}{
		"controlplane-milan":  {control, map[string]bool{"[impersonate] [] [users] [liqo.io:rome]": true}},
		"resourceslice-milan": {kubelet, map[string]bool{"[impersonate] [] [users] [" + kubelet.User + "]": true, "[impersonate] [] [groups] [rome]": true}},
	} {
		row.itself["[get] [/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/]"] = true
		cfg := tokenOf(t, rome, milan, identity)
		for _, namespace := range []string{"liqo-tenant-rome", "shop-rome", "liqo", "default", "kube-system"} {
			want := rightsOf(as(milan.config, row.certificate.User, row.certificate.Group, "system:authenticated"), namespace)
			if diff := cmp.Diff(want, rightsOf(cfg, namespace)); diff != "" {
				t.Errorf("%s: rights with a token in namespace %s (-with a certificate +with a token):\n%s", identity, namespace, diff)
			}
			all, more := rightsOf(as(milan.config, "anybody", "system:authenticated"), namespace), rightsOf(as(cfg, ""), namespace)
			maps.DeleteFunc(more, func(right string, _ bool) bool { return all[right] })
			if diff := cmp.Diff(row.itself, more); diff != "" {
				t.Errorf("%s: rights of the ServiceAccount itself in namespace %s, beyond those of every user (-want +got):\n%s", identity, namespace, diff)
			}
		}
	}
}

// renewedTokens waits for two renewals of each token; both are used at once.
func renewedTokens(t *testing.T, rome, milan *cluster) {
	t.Helper()
	for _, name := range []string{"controlplane-milan", "resourceslice-milan"} {
		identity := &authv1beta1.Identity{ObjectMeta: rome.meta(milan, name)}
		for round := range 2 {
			if err := rome.Get(t.Context(), keyOf(identity), identity); err != nil {
				t.Fatal(err)
			}
			old, before := identity.Spec.AuthParams.DeepCopy(), tokenOf(t, rome, milan, name).BearerToken
			eventually(t, rome, identity, fmt.Sprintf("renewed, round %d", round+1), func(i *authv1beta1.Identity) bool {
				return peering.Newer(&i.Spec.AuthParams, old)
			})
			if took := identity.Spec.AuthParams.Token.IssuedAt.Sub(old.Token.IssuedAt.Time); took < milan.tokens.Life*2/3-time.Second {
				t.Errorf("%s was renewed after %s already", name, took)
			}
			apitest.Eventually(t, within, "the kubeconfig to have the new token", func() error {
				if tokenOf(t, rome, milan, name).BearerToken == before {
					return errors.New("it has the old one")
				}
				return nil
			})
		}
	}
	settled(t, rome, milan)
}
