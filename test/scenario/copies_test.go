package scenario

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// Annotations that exclude an object from reflection or, for an AllowList, include it.
const (
	skipReflection  = "liqo.io/skip-reflection"
	allowReflection = "liqo.io/allow-reflection"
)

// copied is one reflected kind, with an object of it.
type copied struct {
	client.Object
	// change changes the object. says returns the content that must be the same in every cluster.
	change func(client.Object)
	says   func(client.Object) any
}

func kinds() []copied {
	host := func(name string) []networkingv1.IngressRule { return []networkingv1.IngressRule{{Host: name}} }
	return []copied{
		{&corev1.ConfigMap{Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {0, 1}}},
			func(o client.Object) { o.(*corev1.ConfigMap).Data["a"] = "2" },
			func(o client.Object) any { c := o.(*corev1.ConfigMap); return []any{c.Data, c.BinaryData} }},
		{&corev1.Secret{Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{"username": []byte("u"), "password": []byte("p")}},
			func(o client.Object) { o.(*corev1.Secret).Data["password"] = []byte("other") },
			func(o client.Object) any { c := o.(*corev1.Secret); return []any{c.Data, c.Type} }},
		{&corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "x"}, Ports: []corev1.ServicePort{{Name: "web", Port: 80}},
			SessionAffinity: corev1.ServiceAffinityClientIP, TrafficDistribution: new(corev1.ServiceTrafficDistributionPreferClose),
			IPFamilyPolicy: new(corev1.IPFamilyPolicyPreferDualStack)}},
			func(o client.Object) { o.(*corev1.Service).Spec.Ports[0].Port = 81 },
			func(o client.Object) any {
				c := o.(*corev1.Service).Spec
				return []any{c.Selector, c.Ports[0].Port, c.SessionAffinity, c.SessionAffinityConfig, c.TrafficDistribution, c.IPFamilyPolicy}
			}},
		{&networkingv1.Ingress{Spec: networkingv1.IngressSpec{Rules: host("shop.example")}},
			func(o client.Object) { o.(*networkingv1.Ingress).Spec.Rules = host("blog.example") },
			func(o client.Object) any { return o.(*networkingv1.Ingress).Spec.Rules }},
	}
}

// copies: the objects of a namespace are copied to the providers and stay the same there. Objects of others are not changed.
func copies(s *story.Story) {
	const ns = "copies"
	rome, milan, twin := s.Rome, s.Milan, story.Twin(ns)
	pod := story.PodOn("milan", ns, "nothing", "registry.local/nothing:1")
	s.Step("offload a namespace, and a pod whose image is not there", func() {
		s.Offload(ns)
		pod.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
		s.Must(rome.Create(s.Context(), pod))
	})
	all := kinds()
	s.Step("ConfigMaps, Secrets, Services and Ingresses follow", func() {
		for _, k := range all {
			k.SetNamespace(ns)
			k.SetName("it")
			k.SetLabels(map[string]string{"team": "blue"})
			s.Must(rome.Create(s.Context(), k.Object))
		}
		for _, k := range all {
			for _, provider := range s.Providers() {
				alike(s, provider, k, twin)
			}
		}
	})
	s.Step("a Service has the node ports of rome if it asks for them, and NetworkPolicies stay", func() {
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "closed"}}
		s.Must(rome.Create(s.Context(), policy))
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ported", Labels: map[string]string{"team": "blue"}, Annotations: map[string]string{"liqo.io/force-remote-node-port": "true"}},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
		}
		s.Must(rome.Create(s.Context(), service))
		alike(s, milan, copied{service, nil, func(o client.Object) any { return o.(*corev1.Service).Spec.Ports }}, twin)
		s.Must(rome.Delete(s.Context(), service))
		s.Gone(milan, copied{Object: service}.there(twin), start)
		for _, c := range s.Providers() {
			if err := c.Get(s.Context(), client.ObjectKey{Namespace: twin, Name: "closed"}, policy); !apierrors.IsNotFound(err) {
				s.Errorf("%s has the NetworkPolicy: %v", c.ID, err)
			}
		}
	})
	s.Step("changes follow", func() {
		for _, k := range all {
			k.change(k.Object)
			s.Must(rome.Update(s.Context(), k.Object))
		}
		for _, k := range all {
			alike(s, milan, k, twin)
		}
	})
	s.Step("what is changed or deleted in milan comes back", func() {
		for i, k := range all {
			there := k.there(twin)
			s.Must(milan.Get(s.Context(), client.ObjectKeyFromObject(there), there))
			if i%2 == 0 {
				s.Must(milan.Delete(s.Context(), there))
			} else {
				there.GetLabels()["team"] = "red"
				s.Must(milan.Update(s.Context(), there))
			}
		}
		for _, k := range all {
			alike(s, milan, k, twin)
		}
	})
	s.Step("what is annotated leaves milan, and comes back without the annotation", func() {
		for _, annotations := range []map[string]string{{skipReflection: "true"}, nil} {
			for _, k := range all {
				s.Must(rome.Get(s.Context(), client.ObjectKeyFromObject(k.Object), k.Object))
				k.SetAnnotations(annotations)
				s.Must(rome.Update(s.Context(), k.Object))
			}
			for _, k := range all {
				if annotations != nil {
					s.Gone(milan, k.there(twin), start)
				} else {
					alike(s, milan, k, twin)
				}
			}
		}
	})
	s.Step("what milan has already of that name stays milan's, and rome says so", func() {
		theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: twin, Name: "theirs"}, Data: map[string]string{"of": "milan"}}
		s.Must(milan.Create(s.Context(), theirs))
		ours := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "theirs"}, Data: map[string]string{"of": "rome"}}
		s.Must(rome.Create(s.Context(), ours))
		event(s, rome, ns, "theirs", func(e corev1.Event) bool { return e.Type == corev1.EventTypeWarning && e.Reason == "FailedReflection" })
		var now corev1.ConfigMap
		s.Must(milan.Get(s.Context(), client.ObjectKeyFromObject(theirs), &now))
		if now.ResourceVersion != theirs.ResourceVersion {
			s.Errorf("milan's own ConfigMap was touched: %+v", now)
		}
		s.Must(rome.Delete(s.Context(), ours))
		s.Must(milan.Delete(s.Context(), &now))
	})
	s.Step("what happens to a pod in milan, and how often, is told in rome", func() {
		event(s, rome, ns, "nothing", func(e corev1.Event) bool {
			return e.Reason == "ErrImageNeverPull" && strings.HasSuffix(e.Source.Component, " (remote)") && e.InvolvedObject.UID == pod.UID && e.Count > 1
		})
		s.Must(rome.Delete(s.Context(), pod))
		s.Gone(rome, pod, start)
	})
	s.Step("what is deleted goes", func() {
		for _, k := range all {
			s.Must(rome.Delete(s.Context(), k.Object))
		}
		for _, k := range all {
			for _, provider := range s.Providers() {
				s.Gone(provider, k.there(twin), start)
			}
		}
	})
}

// there returns an empty object to read the copy into.
func (k copied) there(twin string) client.Object {
	there, ok := k.DeepCopyObject().(client.Object)
	if !ok {
		panic("copies of objects are objects")
	}
	there.SetNamespace(twin)
	return there
}

// alike waits until a provider has a copy of the object with the same labels and content.
func alike(s *story.Story, c *playground.Cluster, k copied, twin string) client.Object {
	s.Helper()
	there := k.there(twin)
	s.Eventually(start, fmt.Sprintf("%s to have the %T of rome", c.ID, k.Object), func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(there), there); err != nil {
			return err
		}
		if diff := cmp.Diff(k.says(k.Object), k.says(there)); diff != "" || there.GetDeletionTimestamp() != nil || there.GetLabels()["team"] != "blue" {
			return fmt.Errorf("labels %v, deleted %v, difference %s", there.GetLabels(), there.GetDeletionTimestamp(), diff)
		}
		return nil
	})
	return there
}

// event waits for an event about an object that is returns true for.
func event(s *story.Story, c *playground.Cluster, namespace, about string, is func(corev1.Event) bool) {
	s.Helper()
	s.Eventually(start, "an event about "+about, func(ctx context.Context) error {
		var list corev1.EventList
		if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return err
		}
		var others []string
		for _, e := range list.Items {
			if e.InvolvedObject.Name != about {
				continue
			}
			if is(e) {
				return nil
			}
			others = append(others, fmt.Sprintf("%s %s of %s: %s", e.Type, e.Reason, e.Source.Component, e.Message))
		}
		return fmt.Errorf("there are %q", others)
	})
}
