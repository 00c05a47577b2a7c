package scenario

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// Settings of an administrator about which objects of a namespace are copied and what a provider offers, and the default settings.
const (
	chosen = `{offloading: {
  podPolicy: {runtimeClasses: [special]},
  reflection: {
    configmap: {type: AllowList}, secret: {workers: 0}, skip: {labels: [example.com/private]},
    ingress: {ingressClasses: [{name: public, default: true}]}, service: {loadBalancerClasses: [{name: example.com/fast, default: true}]}}}}`
	byDefault = `{offloading: {
  podPolicy: {runtimeClasses: []},
  reflection: {
    configmap: {type: DenyList}, secret: {workers: 3}, skip: {labels: []}, ingress: {ingressClasses: []}, service: {loadBalancerClasses: []}}}}`
)

// choices checks which objects and metadata of a namespace are copied to milan. chosen selects the settings or the defaults.
func choices(s *story.Story, ns string) {
	s.Helper()
	rome, milan, twin := s.Rome, s.Milan, story.Twin(ns)
	meta := func(name string, annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: annotations, Labels: map[string]string{"team": "blue", "example.com/private": "secret"}}
	}
	// class returns the class of a copy. For the local object, it returns the class that the copy must have.
	class := func(o client.Object, has *string, wants string) string {
		switch {
		case o.GetNamespace() == ns:
			return wants
		case has == nil:
			return ""
		default:
			return *has
		}
	}
	stay := []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta("plain", map[string]string{skipReflection: "false"})},
		&corev1.Secret{ObjectMeta: meta("secret", map[string]string{allowReflection: "true"})},
	}
	allowed := copied{&corev1.ConfigMap{ObjectMeta: meta("allowed", map[string]string{allowReflection: "true", "cloud.google.com/neg": "home"})}, nil,
		func(o client.Object) any { return o.(*corev1.ConfigMap).Data }}
	ingress := copied{&networkingv1.Ingress{ObjectMeta: meta("door", nil), Spec: networkingv1.IngressSpec{
		IngressClassName: new("of-rome"), Rules: []networkingv1.IngressRule{{Host: "shop.example"}},
	}}, nil, func(o client.Object) any {
		i := o.(*networkingv1.Ingress)
		return []any{i.Spec.Rules, class(o, i.Spec.IngressClassName, "public")}
	}}
	service := copied{&corev1.Service{ObjectMeta: meta("fast", nil), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: new("example.com/of-rome"), Ports: []corev1.ServicePort{{Port: 80}},
	}}, nil, func(o client.Object) any {
		c := o.(*corev1.Service).Spec
		return []any{c.Ports[0].Port, class(o, c.LoadBalancerClass, "example.com/fast")}
	}}
	for _, object := range append(stay, allowed.Object, ingress.Object, service.Object) {
		s.Must(rome.Create(s.Context(), object))
	}
	for _, k := range []copied{allowed, ingress, service} {
		there := alike(s, milan, k, twin)
		if value, is := there.GetLabels()["example.com/private"]; is {
			s.Errorf("the %T in milan has the label example.com/private: %s", there, value)
		}
		if value, is := there.GetAnnotations()["cloud.google.com/neg"]; is {
			s.Errorf("the %T in milan has the annotation cloud.google.com/neg: %s", there, value)
		}
	}
	for _, object := range stay {
		if err := milan.Get(s.Context(), client.ObjectKey{Namespace: twin, Name: object.GetName()}, copied{Object: object}.there(twin)); !apierrors.IsNotFound(err) {
			s.Errorf("milan has the %T %s: %v", object, object.GetName(), err)
		}
	}
	for _, object := range append(stay, allowed.Object, ingress.Object, service.Object) {
		s.Must(rome.Delete(s.Context(), object))
	}
	for _, k := range []copied{allowed, ingress, service} {
		s.Gone(milan, k.there(twin), start)
	}
}

// special returns a RuntimeClass of milan.
func special() *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "special"}, Handler: "runc"}
}

// specialPod returns a pod that requests that RuntimeClass.
func specialPod(namespace string) *corev1.Pod {
	pod := story.PodOn("milan", namespace, "special", playground.TestServer)
	pod.Annotations = map[string]string{"liqo.io/remote-runtime-class-name": "special"}
	return pod
}
