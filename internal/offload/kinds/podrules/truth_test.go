package podrules

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/offload/kinds"
)

// TestEveryReferenceToTheRootCAIsCopied: a pod gets the CA of the origin's API server, by whichever field it refers to it.
func TestEveryReferenceToTheRootCAIsCopied(t *testing.T) {
	ref := corev1.LocalObjectReference{Name: kinds.LocalRootCA}
	container := corev1.Container{
		Env:     []corev1.EnvVar{{Name: "CA", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref, Key: "ca.crt"}}}},
		EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref}}, {ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "own"}}}},
	}
	local := pod(func(p *corev1.Pod) {
		p.Spec.Containers, p.Spec.InitContainers = []corev1.Container{*container.DeepCopy()}, []corev1.Container{*container.DeepCopy()}
		p.Spec.Volumes = []corev1.Volume{
			{Name: "plain", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref}}},
			{Name: "projected", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref}}}}}},
		}
		p.Spec.Volumes = append(p.Spec.Volumes, pod(access).Spec.Volumes...)
	})
	refer := func(spec *corev1.PodSpec) (names []string, optional int) {
		add := func(name string, o *bool) {
			names = append(names, name)
			if o != nil && *o {
				optional++
			}
		}
		for _, v := range spec.Volumes {
			if v.ConfigMap != nil {
				add(v.ConfigMap.Name, v.ConfigMap.Optional)
			}
			if v.Projected != nil {
				for _, s := range v.Projected.Sources {
					if s.ConfigMap != nil {
						add(s.ConfigMap.Name, s.ConfigMap.Optional)
					}
				}
			}
		}
		for _, c := range append(slices.Clone(spec.InitContainers), spec.Containers...) {
			for _, e := range c.EnvFrom {
				add(e.ConfigMapRef.Name, e.ConfigMapRef.Optional)
			}
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
					add(e.ValueFrom.ConfigMapKeyRef.Name, e.ValueFrom.ConfigMapKeyRef.Optional)
				}
			}
		}
		return names, optional
	}
	away := withOriginAPIServer()
	away.APIServer, away.ConfigMapsReflected = APIServer{}, false
	const there = "kube-root-ca.crt.rome"
	for name, row := range map[string]struct {
		o        Options
		support  string
		ca       string
		optional int
	}{
		"with tokens":                        {withOriginAPIServer(), "", there, 0},
		"without, and ConfigMaps stay here":  {away, "", there, 7},
		"disabled":                           {withOriginAPIServer(), APIServerDisabled, there, 0},
		"with the API server of the cluster": {withOriginAPIServer(), APIServerRemote, kinds.LocalRootCA, 0},
	} {
		local.Annotations = map[string]string{AnnotationAPIServerSupport: row.support}
		spec := ShadowPod(local, "shop-rome", row.o).Spec.Pod
		names, optional := refer(&spec)
		if diff := cmp.Diff([]string{row.ca, row.ca, row.ca, row.ca, "own", row.ca, row.ca, "own", row.ca}, names); diff != "" || optional != row.optional {
			t.Errorf("%s: %d optional, %s", name, optional, diff)
		}
	}
	if names, _ := refer(&local.Spec); names[0] != kinds.LocalRootCA {
		t.Error("the local pod was changed")
	}
}

// TestTrustBundlesOfTheOrigin: a pod that reads the CA of the origin's API server from a ClusterTrustBundle gets that CA in the provider. Other bundles are
// reported.
func TestTrustBundlesOfTheOrigin(t *testing.T) {
	needs := func(name, signer *string) *corev1.Pod {
		return pod(func(p *corev1.Pod) {
			bundle := &corev1.ClusterTrustBundleProjection{Name: name, SignerName: signer, Path: "ca.pem", Optional: new(false)}
			p.Spec.Volumes = []corev1.Volume{{Name: "trust", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ClusterTrustBundle: bundle}}}}}}
		})
	}
	local := needs(nil, new("kubernetes.io/kube-apiserver-serving"))
	o := options
	o.ConfigMapsReflected = true
	want := []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt.rome"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.pem"}}, Optional: new(false),
	}}}
	if diff := cmp.Diff(want, ShadowPod(local, "shop-rome", o).Spec.Pod.Volumes[0].Projected.Sources); diff != "" {
		t.Error(diff)
	}
	if got := Problems(local); len(got) > 0 || local.Spec.Volumes[0].Projected.Sources[0].ClusterTrustBundle == nil {
		t.Errorf("reported %q, the local pod has %v", got, local.Spec.Volumes[0].Projected.Sources)
	}
	for says, local := range map[string]*corev1.Pod{
		"needs ClusterTrustBundle company, and gets that of the provider":                  needs(new("company"), nil),
		"needs ClusterTrustBundle of signer example.org/ca, and gets that of the provider": needs(nil, new("example.org/ca")),
	} {
		if got := strings.Join(Problems(local), "; "); !strings.HasPrefix(got, "spec.volumes trust "+says) {
			t.Errorf("%q, want %q", got, says)
		}
		if ShadowPod(local, "shop-rome", o).Spec.Pod.Volumes[0].Projected.Sources[0].ClusterTrustBundle == nil {
			t.Errorf("%s: it is not copied", says)
		}
	}
	local.Annotations = map[string]string{AnnotationAPIServerSupport: APIServerRemote}
	if ShadowPod(local, "shop-rome", o).Spec.Pod.Volumes[0].Projected.Sources[0].ClusterTrustBundle == nil || len(Problems(local)) > 0 {
		t.Error("a pod that uses the provider's API server does not get its CA")
	}
}

// TestTokensAreReadableAsAKubeletHasThem: a kubelet makes the file of a token readable for the user that all containers run as. A Secret can't set the owner of
// a file, so the mode of the file grants access instead.
func TestTokensAreReadableAsAKubeletHasThem(t *testing.T) {
	user := func(id int64) *corev1.SecurityContext { return &corev1.SecurityContext{RunAsUser: &id} }
	for name, row := range map[string]struct {
		change func(*corev1.PodSpec)
		want   *int32
	}{
		"nobody in particular": {func(*corev1.PodSpec) {}, nil},
		"one user":             {func(s *corev1.PodSpec) { s.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000))} }, new(int32(0o444))},
		"root":                 {func(s *corev1.PodSpec) { s.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(0))} }, new(int32(0o600))},
		"a group":              {func(s *corev1.PodSpec) { s.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(2000))} }, new(int32(0o600))},
		"one user, by each":    {func(s *corev1.PodSpec) { s.Containers[0].SecurityContext = user(7) }, new(int32(0o444))},
		"two users": {func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = user(7)
			s.InitContainers = []corev1.Container{{Name: "i", SecurityContext: user(8)}}
		}, nil},
		"one of two says nothing": {func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = user(7)
			s.InitContainers = []corev1.Container{{Name: "i"}}
		}, nil},
	} {
		spec := ShadowPod(pod(func(p *corev1.Pod) { access(p); row.change(&p.Spec) }), "shop-rome", withOriginAPIServer()).Spec.Pod
		if diff := cmp.Diff(row.want, spec.Volumes[0].Projected.Sources[0].Secret.Items[0].Mode); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestTheAPIServerHasAllItsNames: a missing name would lead to the API server of the provider.
func TestTheAPIServerHasAllItsNames(t *testing.T) {
	usual := []string{"kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	for name, row := range map[string]struct {
		domain   string
		searches []string
		want     []string
	}{
		"usual":             {"", nil, usual},
		"told":              {"cluster.local", nil, usual},
		"a domain":          {"rome.example", nil, append(slices.Clone(usual), "kubernetes.default.svc.rome.example")},
		"of the pod":        {"", []string{"shop.svc.turin.example.", "svc.milan.example", "example.org"}, append(slices.Clone(usual), "kubernetes.default.svc.turin.example", "kubernetes.default.svc.milan.example")},
		"of both, the same": {"rome.example", []string{"svc.rome.example"}, append(slices.Clone(usual), "kubernetes.default.svc.rome.example")},
	} {
		o := withOriginAPIServer()
		o.APIServer.Domain = row.domain
		spec := ShadowPod(pod(func(p *corev1.Pod) {
			access(p)
			if row.searches != nil {
				p.Spec.DNSConfig = &corev1.PodDNSConfig{Searches: row.searches}
			}
		}), "shop-rome", o).Spec.Pod
		if diff := cmp.Diff(row.want, spec.HostAliases[0].Hostnames); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	// In the namespace of the Service, its name alone is enough.
	spec := ShadowPod(pod(func(p *corev1.Pod) { access(p); p.Namespace = "default" }), "default-rome", withOriginAPIServer()).Spec.Pod
	if diff := cmp.Diff(append(usual, "kubernetes"), spec.HostAliases[0].Hostnames); diff != "" {
		t.Errorf("in namespace default: %s", diff)
	}
}

// TestDebuggingContainersAreAdapted: an ephemeral container that was added to an offloaded pod gets the same API server, CA and service account as the other
// containers.
func TestDebuggingContainersAreAdapted(t *testing.T) {
	local := pod(access)
	shadow := ShadowPod(local, "shop-rome", withOriginAPIServer())
	ref := corev1.LocalObjectReference{Name: kinds.LocalRootCA}
	local.Spec.EphemeralContainers = []corev1.EphemeralContainer{{TargetContainerName: "c", EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Image: "shell", Env: []corev1.EnvVar{
			{Name: "CA", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref, Key: "ca.crt"}}},
			local.Spec.Containers[0].Env[0], // the local name of the service account
		}, EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref}}},
	}}}
	before := local.DeepCopy()
	for support, row := range map[string]struct{ ca, host, account string }{
		"":                {"kube-root-ca.crt.rome", "kubernetes.default", "app"},
		APIServerDisabled: {"kube-root-ca.crt.rome", "", "app"},
		APIServerRemote:   {kinds.LocalRootCA, "", ""},
	} {
		local.Annotations = map[string]string{AnnotationAPIServerSupport: support}
		change, found := ChangeSpec(shadow, local, nil, withOriginAPIServer())
		if !found || len(change.Shadow.Spec.Pod.EphemeralContainers) != 1 {
			t.Fatalf("%q: no container was added", support)
		}
		added := change.Shadow.Spec.Pod.EphemeralContainers[0]
		values := map[string]string{}
		for _, e := range added.Env {
			if values[e.Name] = e.Value; e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
				values[e.Name] = e.ValueFrom.ConfigMapKeyRef.Name
			}
		}
		if values["CA"] != row.ca || added.EnvFrom[0].ConfigMapRef.Name != row.ca || values["KUBERNETES_SERVICE_HOST"] != row.host || values["ACCOUNT"] != row.account {
			t.Errorf("%q: %v, envFrom %s", support, values, added.EnvFrom[0].ConfigMapRef.Name)
		}
		if added.Name != "debug" || added.Image != "shell" || added.TargetContainerName != "c" {
			t.Errorf("%q: %+v", support, added)
		}
	}
	if local.Annotations = nil; !cmp.Equal(before, local) {
		t.Errorf("the local pod was changed: %s", cmp.Diff(before, local))
	}
}

// TestNodeAndNamespaceOfTheProviderAreReported: a pod that reads its namespace or node, and uses the origin API server, gets a warning that the
// values are the provider's.
func TestNodeAndNamespaceOfTheProviderAreReported(t *testing.T) {
	node := corev1.EnvVar{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}
	asks := func(p *corev1.Pod) { access(p); p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, node) }
	got := strings.Join(Problems(pod(asks)), "; ")
	for _, says := range []string{"NAMESPACE (metadata.namespace) of container", "NODE_NAME (spec.nodeName) of container", "serviceaccount/namespace", AnnotationAPIServerSupport} {
		if !strings.Contains(got, says) {
			t.Errorf("%q does not say %q", got, says)
		}
	}
	for path, own := range map[string]bool{"metadata.namespace": true, "metadata.uid": true, "metadata.name": false} {
		items := []corev1.DownwardAPIVolumeFile{{Path: "f", FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
		for volume, source := range map[string]corev1.VolumeSource{
			"plain":     {DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items}},
			"projected": {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{Items: items}}}}},
		} {
			got := strings.Join(Problems(pod(func(p *corev1.Pod) {
				access(p)
				p.Spec.Containers[0].Env = nil
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: source})
			})), "; ")
			if strings.HasPrefix(got, "file f ("+path+") of volume "+volume) != own || !own && got != "" {
				t.Errorf("%s in volume %s: %q", path, volume, got)
			}
		}
	}
	for name, change := range map[string]func(*corev1.Pod){
		"an account without rights": func(p *corev1.Pod) { asks(p); p.Spec.ServiceAccountName = "default" },
		"no token":                  func(p *corev1.Pod) { asks(p); p.Spec.Volumes = nil },
		"told to keep off": func(p *corev1.Pod) {
			asks(p)
			p.Annotations = map[string]string{AnnotationAPIServerSupport: APIServerDisabled}
		},
		"it does not ask": func(p *corev1.Pod) { access(p); p.Spec.Containers[0].Env = nil },
	} {
		if got := Problems(pod(change)); len(got) > 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestLegacyTokensAreNotCopiedByDefault: the warnings on the Secret and on each pod that needs it name the cure.
func TestLegacyTokensAreNotCopiedByDefault(t *testing.T) {
	copyOptions := kinds.CopyOptions{Origin: "rome", Destination: "milan"}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "robot"}, Type: corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte("t")}}
	o := options
	o.Secret = func(namespace, name string) *corev1.Secret {
		if namespace == "shop" && name == "robot" {
			return secret
		}
		return nil
	}
	ref := corev1.LocalObjectReference{Name: "robot"}
	uses := map[string]func(*corev1.Pod){
		"spec.volumes v": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "robot"}}}}
		},
		"spec.volumes w": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "w", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: ref}}}}}}}
		},
		"env T of container": func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "T", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref}}}}
		},
		"envFrom of container": func(p *corev1.Pod) {
			p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref}}}
		},
	}
	for field, change := range uses {
		if got := strings.Join(MissingObjects(pod(change), o), "; "); !strings.Contains(got, field) || !strings.Contains(got, "Secret robot") || !strings.Contains(got, kinds.AnnotationAllow) {
			t.Errorf("%s: %q", field, got)
		}
	}
	if out, why := kinds.Secret(secret, "shop-rome", copyOptions); out != nil || why == "" || kinds.SecretProblem(secret, copyOptions) == nil {
		t.Errorf("it is copied: %v", out)
	}
	secret.Annotations = map[string]string{kinds.AnnotationAllow: "true"}
	if out, why := kinds.Secret(secret, "shop-rome", copyOptions); out == nil || out.Type != corev1.SecretTypeOpaque || string(out.Data["token"]) != "t" || kinds.SecretProblem(secret, copyOptions) != nil {
		t.Errorf("allowed: %v, %s", out, why)
	}
	for field, change := range uses {
		if got := MissingObjects(pod(change), o); len(got) > 0 {
			t.Errorf("allowed, %s: %q", field, got)
		}
	}
}

// TestMissingAnnotationsAreReported: a pod that reads an annotation which is not copied gets a warning that it is empty in the provider.
func TestMissingAnnotationsAreReported(t *testing.T) {
	field := func(key string) *corev1.ObjectFieldSelector {
		return &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + key + "']"}
	}
	items := []corev1.DownwardAPIVolumeFile{{Path: "a", FieldRef: field("example.org/volume")}, {Path: "b", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"}}}
	local := pod(func(p *corev1.Pod) {
		p.Annotations = map[string]string{"example.org/env": "1", "example.org/volume": "2", "example.org/projected": "3", "example.org/unread": "4", "example.org/sent": "5", "note": "6"}
		for _, key := range []string{"example.org/env", "example.org/sent", "example.org/absent", "note"} {
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: field(key)}})
		}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "down", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items}}},
			corev1.Volume{Name: "mixed", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "c", FieldRef: field("example.org/projected")}}}},
			}}}})
	})
	got := strings.Join(AnnotationProblems(local, Options{Destination: "milan", AnnotationsReflected: []string{"example.org/sent"}}), "; ")
	if !strings.HasPrefix(got, "annotations example.org/env (env A of container c), example.org/volume (volume down), example.org/projected (volume mixed) are not copied to cluster milan") {
		t.Error(got)
	}
	if got := AnnotationProblems(pod(nil), Options{}); len(got) > 0 {
		t.Error(got)
	}
}

// TestProtectionsThatStayAreReported: annotations that keep autoscalers from evicting a pod are not copied, and the pod gets a warning.
func TestProtectionsThatStayAreReported(t *testing.T) {
	const safe, karpenter = "cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt"
	for name, row := range map[string]struct {
		annotations map[string]string
		accepted    []string
		want        string
	}{
		"protected":    {map[string]string{safe: "false", karpenter: "true"}, nil, "annotations " + safe + ", " + karpenter + " are not copied"},
		"one accepted": {map[string]string{safe: "false", karpenter: "true"}, []string{safe}, "annotations " + karpenter + " are not copied"},
		"evictable":    {map[string]string{safe: "true", karpenter: "false"}, nil, ""},
		"accepted":     {map[string]string{safe: "false"}, []string{safe}, ""},
	} {
		got := strings.Join(AnnotationProblems(pod(func(p *corev1.Pod) { p.Annotations = row.annotations }), Options{Destination: "milan", AnnotationsReflected: row.accepted}), "; ")
		if (got == "") != (row.want == "") || !strings.HasPrefix(got, row.want) || row.want != "" && !strings.Contains(got, "PodDisruptionBudget") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
