package webhook

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/test/apitest"
)

// TestPlainCopiesPolicyOnAPIServer tries what a consumer may do with ConfigMaps, Secrets, Ingresses and NetworkPolicies, with its groups and
// permissions.
func TestPlainCopiesPolicyOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	strict := values()
	strict["offloading"] = map[string]any{
		"acceptedMetadata": map[string]any{"annotations": map[string]any{"ingresses": []any{"example.org/*"}}},
		"ingressPolicy":    map[string]any{"hosts": []any{"shop.example", "*.rome.example"}},
		"reflection": map[string]any{
			"ingress": map[string]any{"ingressClasses": []any{map[string]any{"name": "peers", "default": true}}},
			"service": map[string]any{"loadBalancerClasses": []any{map[string]any{"name": "peers/internal", "default": true}}},
		},
	}
	for _, object := range chart(t, strict, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRole") {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	namespace(t, admin, "shop-rome", map[string]string{api.LabelRemoteClusterID: "rome"})
	namespace(t, admin, "local", nil)
	ref, subjects := offload.RemoteNamespaceRights("rome")
	if err := admin.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "twin"}, RoleRef: ref, Subjects: subjects}); err != nil {
		t.Fatal(err)
	}
	consumer := rest.CopyConfig(config)
	consumer.Impersonate = rest.ImpersonationConfig{UserName: "pool-0a1b2c3d4e5f", Groups: []string{"rome", "system:authenticated"}}
	rome := apitest.Client(t, consumer)

	made := 0
	meta := func() metav1.ObjectMeta {
		made++
		return metav1.ObjectMeta{Namespace: "shop-rome", Name: fmt.Sprintf("web-%d", made), Labels: map[string]string{api.LabelOrigin: "rome", api.LabelDestination: "milan"}}
	}
	configMap := func(change func(*corev1.ConfigMap)) client.Object {
		c := &corev1.ConfigMap{ObjectMeta: meta(), Data: map[string]string{"k": "v"}}
		if change != nil {
			change(c)
		}
		return c
	}
	secret := func(change func(*corev1.Secret)) client.Object {
		s := &corev1.Secret{ObjectMeta: meta(), Data: map[string][]byte{"k": {1}}}
		if change != nil {
			change(s)
		}
		return s
	}
	ingress := func(change func(*networkingv1.Ingress)) client.Object {
		i := &networkingv1.Ingress{ObjectMeta: meta(), Spec: networkingv1.IngressSpec{
			IngressClassName: new("peers"), Rules: []networkingv1.IngressRule{{Host: "shop.example"}, {Host: "*.rome.example"}}, TLS: []networkingv1.IngressTLS{{Hosts: []string{"a.b.rome.example"}}},
		}}
		if change != nil {
			change(i)
		}
		return i
	}
	annotated := func(key string) client.Object {
		return ingress(func(i *networkingv1.Ingress) { i.Annotations = map[string]string{key: "x"} })
	}
	service := func(class string) client.Object {
		return &corev1.Service{ObjectMeta: meta(), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class, Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	budget := func(change func(*policyv1.PodDisruptionBudgetSpec)) client.Object {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: meta(), Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}, MinAvailable: new(intstr.FromInt32(1))}}
		change(&b.Spec)
		return b
	}
	unlabelled := func(obj client.Object) client.Object {
		obj.SetLabels(nil)
		return obj
	}
	token := func(s *corev1.Secret) {
		s.Type, s.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "default"}
	}
	apitest.InForce(t, admin)
	for what, row := range map[string]struct {
		obj  client.Object
		says string
	}{
		"a config map":                {configMap(nil), ""},
		"a secret":                    {secret(nil), ""},
		"a secret with a type":        {secret(func(s *corev1.Secret) { s.Type = "example.org/any" }), ""},
		"an ingress":                  {ingress(nil), ""},
		"an ingress without a class":  {ingress(func(i *networkingv1.Ingress) { i.Spec.IngressClassName = nil }), ""},
		"a service of an offered one": {service("peers/internal"), ""},

		"a config map of nobody":         {configMap(func(c *corev1.ConfigMap) { c.Labels = nil }), "belongs to cluster 'rome'"},
		"a secret without an origin":     {unlabelled(secret(nil)), "belongs to cluster 'rome'"}, // Secrets of consumers are counted by this label
		"a secret of another":            {secret(func(s *corev1.Secret) { s.Labels[api.LabelOrigin] = "turin" }), "is 'turin'"},
		"an ingress of nobody":           {ingress(func(i *networkingv1.Ingress) { i.Labels = nil }), "belongs to cluster 'rome'"},
		"a finalizer":                    {configMap(func(c *corev1.ConfigMap) { c.Finalizers = []string{"example.org/never"} }), "finalizers are refused"},
		"a token of an account":          {secret(token), "type kubernetes.io/service-account-token are refused"},
		"in a namespace of the provider": {secret(func(s *corev1.Secret) { s.Namespace = "local" }), "cannot create resource"},
		"a class that is not offered":    {ingress(func(i *networkingv1.Ingress) { i.Spec.IngressClassName = new("internal") }), "ingress class internal is not offered"},
		"a load balancer that is not":    {service("theirs"), "load balancer class theirs is not offered"},
		"a host of others":               {ingress(func(i *networkingv1.Ingress) { i.Spec.Rules[1].Host = "bank.example" }), "host bank.example in spec.rules is refused by the provider (chart value offloading.ingressPolicy.hosts"},
		"a domain above its own":         {ingress(func(i *networkingv1.Ingress) { i.Spec.Rules[1].Host = "*.example" }), "host *.example in spec.rules is refused"},
		"a name that only ends alike":    {ingress(func(i *networkingv1.Ingress) { i.Spec.Rules[1].Host = "evilrome.example" }), "host evilrome.example in spec.rules is refused"},
		"all hosts":                      {ingress(func(i *networkingv1.Ingress) { i.Spec.Rules[1].Host = "" }), "a rule for all hosts in spec.rules is refused"},
		"what no rule matches": {ingress(func(i *networkingv1.Ingress) {
			i.Spec.DefaultBackend = &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "x", Port: networkingv1.ServiceBackendPort{Number: 80}}}
		}), "spec.defaultBackend is refused"},
		"a certificate of others":            {ingress(func(i *networkingv1.Ingress) { i.Spec.TLS[0].Hosts = []string{"bank.example"} }), "host bank.example in spec.tls is refused"},
		"the controller's configuration":     {annotated("nginx.ingress.kubernetes.io/server-snippet"), "server-snippet is refused"},
		"a secret of another namespace":      {annotated("nginx.ingress.kubernetes.io/auth-tls-secret"), "auth-tls-secret is refused"},
		"hosts by annotation":                {annotated("nginx.ingress.kubernetes.io/server-alias"), "server-alias is refused"},
		"a certificate of the provider's CA": {annotated("cert-manager.io/cluster-issuer"), "cluster-issuer is refused"},
		"a budget":                           {budget(func(s *policyv1.PodDisruptionBudgetSpec) {}), ""},
		"a budget of nobody":                 {unlabelled(budget(func(s *policyv1.PodDisruptionBudgetSpec) {})), "belongs to cluster 'rome'"},
		"a budget in percent":                {budget(func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable = new(intstr.FromString("50%")) }), "only spec.minAvailable with a number"},
		"a budget of what may be missing": {budget(func(s *policyv1.PodDisruptionBudgetSpec) {
			s.MinAvailable, s.MaxUnavailable = nil, new(intstr.FromInt32(0))
		}), "only spec.minAvailable with a number"},
		"a class of the older way": {ingress(func(i *networkingv1.Ingress) {
			i.Spec.IngressClassName, i.Annotations = nil, map[string]string{"kubernetes.io/ingress.class": "internal"}
		}), "annotation kubernetes.io/ingress.class is refused"},
		"a controller that nobody here knows": {annotated("k8gb.io/strategy"), "annotation k8gb.io/strategy is refused by the provider (chart value offloading.acceptedMetadata.annotations.ingresses)"},
		"harmless annotations":                {annotated("nginx.ingress.kubernetes.io/proxy-body-size"), ""},
		"what the administrator accepts":      {annotated("example.org/any"), ""},
		"copies to all namespaces, a config map": {configMap(func(c *corev1.ConfigMap) {
			c.Annotations = map[string]string{"reflector.v1.k8s.emberstack.com/reflection-auto-enabled": "true"}
		}), "annotation reflector.v1.k8s.emberstack.com/reflection-auto-enabled is refused"},
		"copies to all namespaces, a secret": {secret(func(s *corev1.Secret) {
			s.Annotations = map[string]string{"replicator.v1.mittwald.de/replicate-to": "*"}
		}),
			"annotation replicator.v1.mittwald.de/replicate-to is refused"},
		"a dashboard":      {configMap(func(c *corev1.ConfigMap) { c.Labels["grafana_dashboard"] = "1" }), "label grafana_dashboard is refused"},
		"a cluster's link": {secret(func(s *corev1.Secret) { s.Labels["liqo.io/remote-cluster-id"] = "turin" }), "label liqo.io/remote-cluster-id is refused"},
		"tokens":           {secret(func(s *corev1.Secret) { s.Annotations = map[string]string{kinds.AnnotationTokenPod: "a"} }), ""},
		"a network policy": {&networkingv1.NetworkPolicy{ObjectMeta: meta()}, "cannot create resource"},
	} {
		err := rome.Create(t.Context(), row.obj)
		if (row.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", what, err, row.says)
		}
	}

	// An Ingress keeps the hosts that it already has, even if they are no longer accepted, but can't get more of them.
	old := ingress(func(i *networkingv1.Ingress) {
		i.Spec.Rules[0].Host, i.Spec.TLS[0].Hosts = "bank.example", []string{"bank.example"}
	}).(*networkingv1.Ingress)
	if err := admin.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for says, change := range map[string]func(*networkingv1.Ingress){
		"": func(i *networkingv1.Ingress) { i.Spec.Rules[1].Host = "a.rome.example" },
		"host other.example in spec.rules is refused": func(i *networkingv1.Ingress) { i.Spec.Rules[1].Host = "other.example" },
		"host other.example in spec.tls is refused":   func(i *networkingv1.Ingress) { i.Spec.TLS[0].Hosts = append(i.Spec.TLS[0].Hosts, "other.example") },
	} {
		changed := old.DeepCopy()
		change(changed)
		if err := rome.Patch(t.Context(), changed, client.MergeFrom(old)); (says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("changing the hosts of an Ingress: %v, want %q", err, says)
		}
	}

	// What virtual kubelets copy by themselves is accepted, key by key.
	for resource, object := range map[string]func(key string) client.Object{
		"ingresses": annotated,
		"configmaps": func(key string) client.Object {
			return configMap(func(c *corev1.ConfigMap) { c.Annotations = map[string]string{key: "x"} })
		},
		"secrets": func(key string) client.Object {
			return secret(func(s *corev1.Secret) { s.Annotations = map[string]string{key: "x"} })
		},
		"services": func(key string) client.Object {
			return &corev1.Service{ObjectMeta: annotated(key).(*networkingv1.Ingress).ObjectMeta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		},
	} {
		keys, labels := kinds.AcceptedMetadata(resource)
		for _, key := range keys {
			if err := rome.Create(t.Context(), object(strings.Replace(key, "*", "any", 1))); err != nil {
				t.Errorf("%s: annotation %s: %v", resource, key, err)
			}
		}
		for _, key := range labels {
			if key == "offloading.liqo.io/*" {
				key += "-other"
			}
			if err := rome.Create(t.Context(), configMap(func(c *corev1.ConfigMap) { c.Labels[strings.Replace(key, "*", "any", 1)] = "x" })); err != nil {
				t.Errorf("label %s: %v", key, err)
			}
		}
	}

	// A consumer can neither change nor delete objects of others, for example the CA that the provider's pods trust.
	theirs := configMap(func(c *corev1.ConfigMap) { c.Name, c.Labels = "kube-root-ca.crt", nil }).(*corev1.ConfigMap)
	if err := admin.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	changed := theirs.DeepCopy()
	changed.Data["ca.crt"] = "mine"
	if err := rome.Patch(t.Context(), changed, client.MergeFrom(theirs)); err == nil || !strings.Contains(err.Error(), "belongs to cluster 'rome'") {
		t.Errorf("changing what is not its own: %v", err)
	}
	changed.Labels = map[string]string{api.LabelOrigin: "rome", api.LabelDestination: "milan"}
	if err := rome.Patch(t.Context(), changed, client.MergeFrom(theirs)); err == nil || !strings.Contains(err.Error(), "was not made by cluster rome") {
		t.Errorf("taking over what is not its own: %v", err)
	}
	if err := rome.Delete(t.Context(), theirs); err == nil || !strings.Contains(err.Error(), "was not made by cluster rome") {
		t.Errorf("deleting what is not its own: %v", err)
	}
	if err := rome.Create(t.Context(), &corev1.Event{ObjectMeta: meta(), InvolvedObject: corev1.ObjectReference{Namespace: "shop-rome"}}); err == nil || !strings.Contains(err.Error(), "cannot create resource") {
		t.Errorf("an event: %v", err)
	}
	if err := rome.List(t.Context(), &corev1.SecretList{}, client.InNamespace("local")); err == nil {
		t.Error("it reads Secrets of the provider")
	}

	// A consumer reads all Secrets of its remote namespace. So no one else may create service account tokens there, also where the provider shares the namespace.
	shared := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome"}}
	if err := admin.Patch(t.Context(), shared, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"liqo.io/share-with-consumer": "true"}}}`))); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{"shop-rome", "local"} {
		var err error
		apitest.Eventually(t, time.Minute, "the API server to see the annotation of the namespace", func() error {
			err = admin.Create(t.Context(), unlabelled(secret(func(s *corev1.Secret) { token(s); s.Namespace = in })))
			if err != nil && strings.Contains(err.Error(), "use another namespace") {
				return err
			}
			return nil
		})
		if (err == nil) != (in == "local") || err != nil && !strings.Contains(err.Error(), "in remote namespaces, where the consumer reads them") {
			t.Errorf("a token of an account by an administrator, in namespace %s: %v", in, err)
		}
	}
}
