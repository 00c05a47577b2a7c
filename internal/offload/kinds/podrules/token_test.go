package podrules

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"liqo.io/liqo/internal/offload/kinds"
)

// withOriginAPIServer are the options of a node whose pods reach our API server.
func withOriginAPIServer() Options {
	o := options
	o.APIServer = APIServer{Host: kinds.OriginAPIServer, Port: "443", Address: "10.70.0.3"}
	o.ConfigMapsReflected = true
	return o
}

// access is a pod as the API server makes it: with a token, the CA and the namespace.
func access(p *corev1.Pod) {
	p.Spec.ServiceAccountName = "app"
	p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(3607))}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: kinds.LocalRootCA}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}},
			{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
		}}},
	}}}}}
	p.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "ACCOUNT", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.serviceAccountName"}}},
		{Name: "KUBERNETES_SERVICE_PORT", Value: "own"}, namespaceOfRemotePod,
	}
}

// namespaceOfRemotePod stays a reference, which the provider resolves to the remote namespace: pods find Services in the provider by that namespace.
var namespaceOfRemotePod = corev1.EnvVar{Name: "NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}

func TestPodsUseTheOriginAPIServer(t *testing.T) {
	spec := ShadowPod(pod(access), "shop-rome", withOriginAPIServer()).Spec.Pod
	key := "kube-api-access-x-3c469e" // of "token"
	secret := func(key, path string) corev1.VolumeProjection {
		return corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: TokenSecret("web")}, Items: []corev1.KeyToPath{{Key: key, Path: path}}}}
	}
	want := []corev1.VolumeProjection{
		secret(key, "token"),
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt.rome"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
		secret("namespace", "namespace"),
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}},
	}
	if diff := cmp.Diff(want, spec.Volumes[0].Projected.Sources); diff != "" {
		t.Error(diff)
	}
	env := []corev1.EnvVar{
		{Name: "KUBERNETES_SERVICE_HOST", Value: "kubernetes.default"}, {Name: "KUBERNETES_SERVICE_PORT_HTTPS", Value: "443"},
		{Name: "KUBERNETES_PORT", Value: "tcp://kubernetes.default:443"}, {Name: "KUBERNETES_PORT_443_TCP", Value: "tcp://kubernetes.default:443"},
		{Name: "KUBERNETES_PORT_443_TCP_PROTO", Value: "tcp"}, {Name: "KUBERNETES_PORT_443_TCP_ADDR", Value: "kubernetes.default"},
		{Name: "KUBERNETES_PORT_443_TCP_PORT", Value: "443"}, {Name: "ACCOUNT", Value: "app"}, {Name: "KUBERNETES_SERVICE_PORT", Value: "own"},
		namespaceOfRemotePod,
	}
	if diff := cmp.Diff(env, spec.Containers[0].Env); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]corev1.HostAlias{{IP: "10.70.0.3", Hostnames: []string{"kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}}}, spec.HostAliases); diff != "" {
		t.Error(diff)
	}
	if *spec.AutomountServiceAccountToken || spec.ServiceAccountName != "" {
		t.Errorf("it has an account of the provider: %v %q", *spec.AutomountServiceAccountToken, spec.ServiceAccountName)
	}
	if diff := cmp.Diff([]Token{{Key: key, Seconds: 3600}}, Tokens(pod(access), withOriginAPIServer())); diff != "" {
		t.Error(diff)
	}
	stripped := pod(access)
	stripped.Spec.Volumes = CachedVolumes(stripped.Spec.Volumes)
	if diff := cmp.Diff(Tokens(pod(access), withOriginAPIServer()), Tokens(stripped, withOriginAPIServer())); diff != "" {
		t.Errorf("stripped: %s", diff)
	}
}

// TestPodsWithoutTheOriginAPIServer: pods that opt out, use no token, or cannot reach the origin API server.
func TestPodsWithoutTheOriginAPIServer(t *testing.T) {
	by := func(support string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { access(p); p.Annotations = map[string]string{AnnotationAPIServerSupport: support} }
	}
	for name, test := range map[string]struct {
		change  func(*corev1.Pod)
		server  APIServer
		tokens  int
		aliases int
	}{
		"ordinary":             {access, withOriginAPIServer().APIServer, 1, 1},
		"by a host of its own": {access, APIServer{Host: "api.rome.example", Port: "6443"}, 1, 0},
		"disabled":             {by(APIServerDisabled), withOriginAPIServer().APIServer, 0, 0},
		"remote":               {by(APIServerRemote), withOriginAPIServer().APIServer, 0, 0},
		"without a token":      {nil, withOriginAPIServer().APIServer, 0, 0},
		"out of reach":         {access, APIServer{}, 0, 0},
	} {
		o := withOriginAPIServer()
		o.APIServer = test.server
		spec := ShadowPod(pod(test.change), "shop-rome", o).Spec.Pod
		if n := len(Tokens(pod(test.change), o)); n != test.tokens || len(spec.HostAliases) != test.aliases {
			t.Errorf("%s: %d tokens, aliases %v", name, n, spec.HostAliases)
		}
		var own int
		for _, v := range spec.Volumes {
			for _, s := range v.Projected.Sources {
				if s.ServiceAccountToken != nil && name != "remote" {
					t.Errorf("%s: the provider is asked for a token of its own", name)
				}
				if s.Secret != nil {
					own++
				}
			}
		}
		if (own > 0) != (test.tokens > 0) {
			t.Errorf("%s: %d sources are of the Secret", name, own)
		}
	}
	waiting := withOriginAPIServer()
	waiting.APIServer = APIServer{Waiting: "no address"}
	if WaitsForAPIServer(pod(access), waiting) == "" || WaitsForAPIServer(pod(nil), waiting) != "" || WaitsForAPIServer(pod(by(APIServerDisabled)), waiting) != "" {
		t.Error("who needs the API server waits for it, and nobody else")
	}
}

func TestTokensAreReplacedInTime(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	local, wanted := pod(access), Tokens(pod(access), withOriginAPIServer())
	secret := TokensSecret(local, "shop-rome", withOriginAPIServer())
	if secret.Name != TokenSecret("web") || string(secret.Data["namespace"]) != "shop" || !OwnsTokens(secret, options) || PodOfTokens(secret) != "web" {
		t.Errorf("%+v", secret)
	}
	if TokensDue(secret, local, wanted, now) != 0 {
		t.Error("one without tokens serves")
	}
	FillTokens(secret, map[string]string{wanted[0].Key: "t"}, now, now.Add(time.Hour))
	if due := TokensDue(secret, local, wanted, now); due != 48*time.Minute {
		t.Errorf("due in %s, want four fifths of an hour", due)
	}
	if due := TokensDue(secret, local, wanted, now.Add(time.Hour)); due != 0 {
		t.Errorf("too late, due in %s", due)
	}
	later := local.DeepCopy()
	if later.UID = "u2"; TokensDue(secret, later, wanted, now) != 0 {
		t.Error("tokens of another pod serve")
	}
	bare := secret.DeepCopy()
	if delete(bare.Annotations, kinds.AnnotationTokenPod); TokensDue(bare, local, wanted, now) != 0 {
		t.Error("a Secret that no longer names its pod stays so")
	}
	if TokensDue(secret, local, append(wanted, Token{Key: "more"}), now) != 0 {
		t.Error("one of two tokens serves")
	}
	FillTokens(secret, nil, now, now.Add(-time.Hour)) // the token expired an hour ago, because a clock is wrong
	if due := TokensDue(secret, local, wanted, now); due != time.Minute {
		t.Errorf("they are replaced all the time: due in %s", due)
	}
	other := options
	if other.Node = "another"; OwnsTokens(secret, other) || OwnsTokens(&corev1.Secret{}, options) {
		t.Error("somebody else's Secret is ours")
	}
}

func TestLongNamesOfServiceAccounts(t *testing.T) {
	local := pod(access)
	local.Spec.ServiceAccountName = strings.Repeat("a", 100)
	if v, found := TokensSecret(local, "", options).Labels[LabelServiceAccount]; !found || v != "" {
		t.Errorf("label %q", v)
	}
}

// tokensOf returns a Secret of that name, with the annotation that it holds the tokens of a pod.
func tokensOf(pod, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{kinds.AnnotationTokenPod: pod}}}
}

// TestTokenSecretsHaveUniqueNames: the name differs from Secrets of the user and from those of other pods, even with long names.
func TestTokenSecretsHaveUniqueNames(t *testing.T) {
	seen := map[string]string{}
	for _, pod := range []string{"web", "web-token", "web-0", strings.Repeat("a", 253), strings.Repeat("a", 252) + "b", strings.Repeat("a", 230) + "." + strings.Repeat("c", 22)} {
		name := TokenSecret(pod)
		if name == FormerTokenSecret(pod) || seen[name] != "" || len(name) > 253 {
			t.Errorf("the tokens of %s are in %s, those of %q as well", pod, name, seen[name])
		}
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		seen[name] = pod
		for _, name := range []string{name, FormerTokenSecret(pod)} {
			if got := PodOfTokens(tokensOf(pod, name)); got != pod {
				t.Errorf("%s is of pod %q", name, got)
			}
		}
	}
	for pod, name := range map[string]string{"web": "web-token-01234567", "": "-token", "other": TokenSecret("web")} {
		if got := PodOfTokens(tokensOf(pod, name)); got != "" {
			t.Errorf("%s, which says it is of pod %q, is of pod %q", name, pod, got)
		}
	}
}
