package kinds

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/fieldtest"
)

var plainOptions = CopyOptions{Origin: "rome", Destination: "milan"}

// everyField sets each field of a struct alone, including fields of later Kubernetes releases. For each field, copied determines whether the result
// of forward must contain it. The result must contain no other field.
func everyField[T any](t *testing.T, copied map[string]bool, forward func(*T) *T) {
	t.Helper()
	for field := range reflect.TypeFor[T]().Fields() {
		if field.Name == "TypeMeta" || field.Name == "ObjectMeta" {
			continue
		}
		travels, found := copied[field.Name]
		if !found {
			t.Errorf("field %s has no rule: decide whether it travels", field.Name)
			continue
		}
		delete(copied, field.Name)
		in := new(T)
		fieldtest.Fill(reflect.ValueOf(in).Elem().FieldByName(field.Name))
		value := reflect.ValueOf(in).Elem().FieldByName(field.Name)
		out := reflect.ValueOf(forward(in)).Elem().FieldByName(field.Name)
		switch {
		case value.IsZero():
			t.Errorf("field %s was not filled", field.Name)
		case travels && !reflect.DeepEqual(out.Interface(), value.Interface()):
			t.Errorf("field %s is not copied: %s", field.Name, cmp.Diff(value.Interface(), out.Interface()))
		case !travels && !out.IsZero():
			t.Errorf("field %s is not dropped: %v", field.Name, out.Interface())
		}
	}
	for name := range copied {
		t.Errorf("rule for %s, which there is not", name)
	}
}

func TestEveryFieldOfAConfigMapHasARule(t *testing.T) {
	everyField(t, map[string]bool{"Data": true, "BinaryData": true, "Immutable": true}, func(in *corev1.ConfigMap) *corev1.ConfigMap {
		in.Name = "web"
		out, _ := ConfigMap(in, "shop-rome", plainOptions)
		return out
	})
}

func TestEveryFieldOfASecretHasARule(t *testing.T) {
	// StringData is for writing only.
	everyField(t, map[string]bool{"Data": true, "Type": true, "Immutable": true, "StringData": false}, func(in *corev1.Secret) *corev1.Secret {
		out, _ := Secret(in, "shop-rome", plainOptions)
		return out
	})
}

func TestEveryFieldOfAnIngressHasARule(t *testing.T) {
	everyField(t, map[string]bool{"DefaultBackend": true, "Rules": true, "TLS": true, "IngressClassName": false}, func(in *networkingv1.IngressSpec) *networkingv1.IngressSpec {
		out, _ := Ingress(&networkingv1.Ingress{Spec: *in}, "shop-rome", IngressOptions{CopyOptions: plainOptions})
		return &out.Spec
	})
}

func meta(change func(*metav1.ObjectMeta)) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "u1", ResourceVersion: "7", Generation: 3, GenerateName: "w", Finalizers: []string{"a/b"},
		OwnerReferences: []metav1.OwnerReference{{Name: "owner"}}, Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"a": "1"},
	}
	if change != nil {
		change(&m)
	}
	return m
}

var plainMeta = metav1.ObjectMeta{
	Namespace: "shop-rome", Name: "web", Labels: map[string]string{"app": "web", api.LabelOrigin: "rome", api.LabelDestination: "milan"},
	Annotations: map[string]string{"a": "1", AnnotationLabels: "app", AnnotationAnnotations: "a"},
}

func TestRootCA(t *testing.T) {
	for origin, want := range map[string]string{"rome": "kube-root-ca.crt.rome", "barcelona": "kube-root-ca.crt.barce", "abcd-e": "kube-root-ca.crt.abcd-a", "x": "kube-root-ca.crt.x"} {
		if got := RootCA(origin); got != want {
			t.Errorf("%s: %s, not %s", origin, got, want)
		}
	}
}

func TestConfigMap(t *testing.T) {
	local := &corev1.ConfigMap{ObjectMeta: meta(nil), Data: map[string]string{"k": "v"}, BinaryData: map[string][]byte{"b": {0, 255}}, Immutable: new(true)}
	want := &corev1.ConfigMap{ObjectMeta: plainMeta, Data: map[string]string{"k": "v"}, BinaryData: map[string][]byte{"b": {0, 255}}, Immutable: new(true)}
	got, _ := ConfigMap(local, "shop-rome", plainOptions)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, row := range map[string]struct {
		name        string
		kind        offloadingv1beta1.ReflectionType
		annotations map[string]string
		want        string // name of the copy
	}{
		"any":                          {name: "web", want: "web"},
		"skipped":                      {name: "web", annotations: map[string]string{AnnotationSkip: ""}},
		"not allowed":                  {name: "web", kind: offloadingv1beta1.AllowList},
		"allowed":                      {name: "web", kind: offloadingv1beta1.AllowList, annotations: map[string]string{AnnotationAllow: ""}, want: "web"},
		"the root CA":                  {name: "kube-root-ca.crt", want: "kube-root-ca.crt.rome"},
		"the root CA, which no list":   {name: "kube-root-ca.crt", kind: offloadingv1beta1.AllowList, want: "kube-root-ca.crt.rome"},
		"the root CA, skipped":         {name: "kube-root-ca.crt", annotations: map[string]string{AnnotationSkip: ""}},
		"one that has its copy's name": {name: "kube-root-ca.crt.rome"},
		"the root CA of another one":   {name: "kube-root-ca.crt.paris", want: "kube-root-ca.crt.paris"},
	} {
		o := plainOptions
		o.Type = row.kind
		got, why := ConfigMap(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: row.name, Annotations: row.annotations}}, "x", o)
		switch {
		case row.want == "" && (got != nil || why == ""):
			t.Errorf("%s: %v, %q", name, got, why)
		case row.want != "" && (got == nil || got.Name != row.want || ConfigMapName(row.name, o) != row.want || LocalConfigMapName(got.Name, o) != row.name):
			t.Errorf("%s: %v, %s", name, got, why)
		}
	}
	if name := LocalConfigMapName("kube-root-ca.crt", plainOptions); name != "" {
		t.Errorf("the provider's own is the copy of %s", name)
	}
}

func TestSecret(t *testing.T) {
	local := &corev1.Secret{ObjectMeta: meta(nil), Type: corev1.SecretTypeTLS, Data: map[string][]byte{"b": {0, 255}}, Immutable: new(false)}
	want := &corev1.Secret{ObjectMeta: plainMeta, Type: corev1.SecretTypeTLS, Data: map[string][]byte{"b": {0, 255}}, Immutable: new(false)}
	got, _ := Secret(local, "shop-rome", plainOptions)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, why := Secret(&corev1.Secret{Type: corev1.SecretTypeServiceAccountToken}, "x", plainOptions); got != nil || why == "" {
		t.Errorf("token of a service account: %v", got)
	}
	if got, why := Secret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationSkip: ""}}}, "x", plainOptions); got != nil || why == "" {
		t.Errorf("skipped: %v", got)
	}
}

func TestIngress(t *testing.T) {
	spec := networkingv1.IngressSpec{
		IngressClassName: new("ours"),
		DefaultBackend:   &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web"}},
		TLS:              []networkingv1.IngressTLS{{Hosts: []string{"a.example"}, SecretName: "a"}},
		Rules:            []networkingv1.IngressRule{{Host: "a.example"}},
	}
	local := &networkingv1.Ingress{ObjectMeta: meta(func(m *metav1.ObjectMeta) { m.Annotations["kubernetes.io/ingress.class"] = "ours" }), Spec: spec}
	local.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}
	want := &networkingv1.Ingress{ObjectMeta: plainMeta, Spec: spec}
	want.Spec.IngressClassName = nil
	got, _ := Ingress(local, "shop-rome", IngressOptions{CopyOptions: plainOptions})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	want.Spec.IngressClassName = new("theirs")
	got, _ = Ingress(local, "shop-rome", IngressOptions{CopyOptions: plainOptions, Class: "theirs"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if local.Annotations["kubernetes.io/ingress.class"] != "ours" || *local.Spec.IngressClassName != "ours" {
		t.Error("the local ingress was changed")
	}
	local.Annotations = map[string]string{AnnotationSkip: ""}
	if got, why := Ingress(local, "x", IngressOptions{CopyOptions: plainOptions}); got != nil || why == "" {
		t.Errorf("skipped: %v", got)
	}
}

func TestMergePlain(t *testing.T) {
	configMap := func(value string, immutable bool) *corev1.ConfigMap {
		c := &corev1.ConfigMap{ObjectMeta: *plainMeta.DeepCopy(), Data: map[string]string{"k": value}, BinaryData: map[string][]byte{"b": []byte(value)}}
		if immutable {
			c.Immutable = new(true)
		}
		return c
	}
	labelled := func(c *corev1.ConfigMap) *corev1.ConfigMap { c.Labels["theirs"] = "x"; return c }
	for name, row := range map[string]struct {
		have, want *corev1.ConfigMap
		change     Change
	}{
		"nothing":                        {configMap("v", false), configMap("v", false), Same},
		"what the provider adds stays":   {labelled(configMap("v", false)), configMap("v", false), Same},
		"data":                           {configMap("v", false), configMap("w", false), Update},
		"becomes immutable, and changes": {configMap("v", false), configMap("w", true), Update},
		"immutable":                      {configMap("v", true), configMap("w", true), Replace},
		"immutable no more":              {configMap("v", true), configMap("v", false), Replace},
		"immutable, a label":             {configMap("v", true), labelled(configMap("v", true)), Update},
	} {
		try(t, "ConfigMap, "+name, row.have, row.want, row.change, MergeConfigMap)
		secret := func(c *corev1.ConfigMap) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: *c.ObjectMeta.DeepCopy(), Data: c.BinaryData, Immutable: c.Immutable, Type: corev1.SecretTypeOpaque}
		}
		try(t, "Secret, "+name, secret(row.have), secret(row.want), row.change, MergeSecret)
	}
	try(t, "another type", &corev1.Secret{Type: corev1.SecretTypeOpaque}, &corev1.Secret{Type: corev1.SecretTypeTLS}, Replace, MergeSecret)

	ingress := func(class *string, host string) *networkingv1.Ingress {
		return &networkingv1.Ingress{ObjectMeta: *plainMeta.DeepCopy(), Spec: networkingv1.IngressSpec{IngressClassName: class, Rules: []networkingv1.IngressRule{{Host: host}}}}
	}
	for name, row := range map[string]struct {
		have, want *networkingv1.Ingress
		change     Change
	}{
		"nothing":                       {ingress(nil, "a"), ingress(nil, "a"), Same},
		"a host":                        {ingress(nil, "a"), ingress(nil, "b"), Update},
		"the provider's choice stays":   {ingress(new("theirs"), "a"), ingress(nil, "a"), Same},
		"an offered class":              {ingress(new("theirs"), "a"), ingress(new("offered"), "a"), Update},
		"a class that is offered stays": {ingress(new("offered"), "a"), ingress(new("offered"), "a"), Same},
	} {
		try(t, "Ingress, "+name, row.have, row.want, row.change, MergeIngress)
	}
}

// try checks the result of merge, and that a second merge changes nothing.
func try[T interface {
	comparable
	DeepCopy() T
}](t *testing.T, name string, have, want T, change Change, merge func(have, want T) (T, Change)) {
	t.Helper()
	before, asked := have.DeepCopy(), want.DeepCopy()
	got, changed := merge(have, want)
	if changed != change {
		t.Errorf("%s: change %d, want %d: %s", name, changed, change, cmp.Diff(have, got))
	}
	if diff := cmp.Diff(before, have) + cmp.Diff(asked, want); diff != "" {
		t.Errorf("%s: what is there was changed: %s", name, diff)
	}
	if changed != Update {
		return
	}
	if again, changed := merge(got, want); changed != Same {
		t.Errorf("%s: it never settles: %s", name, cmp.Diff(got, again))
	}
}
