package reflection_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/test/apitest"
)

// at returns the metadata of an object in the local namespace of this world.
func (w *world) at(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.localNS, Name: name}
}

func plainCopiesFollow(t *testing.T, w *world) {
	w.start()
	config := &corev1.ConfigMap{ObjectMeta: w.at("config"), Data: map[string]string{"a": "1", "b": "2"}, BinaryData: map[string][]byte{"c": {0, 255}}}
	secret := &corev1.Secret{ObjectMeta: w.at("secret"), Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{"username": []byte("u"), "password": {0, 255}}}
	ca := &corev1.ConfigMap{ObjectMeta: w.at("kube-root-ca.crt"), Data: map[string]string{"ca.crt": "ours"}}
	ingress := &networkingv1.Ingress{ObjectMeta: w.at("ingress"), Spec: networkingv1.IngressSpec{
		IngressClassName: new("ours"), Rules: []networkingv1.IngressRule{{Host: "a.example"}}, TLS: []networkingv1.IngressTLS{{Hosts: []string{"a.example"}, SecretName: "secret"}},
	}}
	token := &corev1.Secret{ObjectMeta: w.at("token"), Type: corev1.SecretTypeServiceAccountToken}
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "theirs"}}
	w.create(w.far, theirs)
	for _, obj := range []client.Object{config, secret, ca, ingress, token} {
		w.create(w.near, obj)
	}
	gotConfig, gotSecret, gotIngress := &corev1.ConfigMap{}, &corev1.Secret{}, &networkingv1.Ingress{}
	w.there(gotConfig, "kube-root-ca.crt.rome", "the root CA to follow", func() error { return nil })
	if gotConfig.Data["ca.crt"] != "ours" {
		t.Errorf("root CA: %v", gotConfig.Data)
	}
	w.there(gotConfig, "config", "the config map to follow", func() error { return nil })
	w.there(gotSecret, "secret", "the secret to follow", func() error { return nil })
	w.there(gotIngress, "ingress", "the ingress to follow", func() error { return nil })
	if gotConfig.Data["b"] != "2" || gotConfig.BinaryData["c"][1] != 255 || gotConfig.Labels[api.LabelOrigin] != consumerID {
		t.Errorf("%+v", gotConfig)
	}
	if gotSecret.Type != corev1.SecretTypeBasicAuth || gotSecret.Data["password"][1] != 255 {
		t.Errorf("%+v", gotSecret)
	}
	if *gotIngress.Spec.IngressClassName != "theirs" || gotIngress.Spec.Rules[0].Host != "a.example" || gotIngress.Spec.TLS[0].SecretName != "secret" {
		t.Errorf("%+v", gotIngress.Spec)
	}
	if n := w.farWrites.Load(); n != 4 {
		t.Errorf("%d writes in the provider for 4 copies", n)
	}
	w.change(config, func() { delete(config.Data, "a"); config.Data["b"], config.Immutable = "3", new(true) })
	w.there(gotConfig, "config", "the change to follow", func() error {
		if _, a := gotConfig.Data["a"]; a || gotConfig.Data["b"] != "3" || gotConfig.Immutable == nil {
			return fmt.Errorf("%v", gotConfig.Data)
		}
		return nil
	})
	w.change(ca, func() { ca.Data["ca.crt"] = "newer" })
	w.there(gotConfig, "kube-root-ca.crt.rome", "the new CA to follow", func() error {
		if gotConfig.Data["ca.crt"] != "newer" {
			return errors.New("not yet")
		}
		return nil
	})
	// A recreated object of that name, with another type or content, requires a new copy.
	for _, obj := range []client.Object{config, secret} {
		if err := w.near.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	w.create(w.near, &corev1.ConfigMap{ObjectMeta: w.at("config"), Data: map[string]string{"b": "4"}})
	w.create(w.near, &corev1.Secret{ObjectMeta: w.at("secret"), Data: map[string][]byte{"x": []byte("y")}})
	w.there(gotConfig, "config", "another config map to follow", func() error {
		if gotConfig.Data["b"] != "4" || gotConfig.Immutable != nil {
			return fmt.Errorf("%v", gotConfig.Data)
		}
		return nil
	})
	w.there(gotSecret, "secret", "another secret to follow", func() error {
		if gotSecret.Type != corev1.SecretTypeOpaque || len(gotSecret.Data) != 1 {
			return fmt.Errorf("%v", gotSecret)
		}
		return nil
	})
	if err := w.far.Get(t.Context(), client.ObjectKey{Namespace: w.twinNS, Name: "token"}, gotSecret); !apierrors.IsNotFound(err) {
		t.Errorf("the token of a service account crossed: %v", err)
	}
	if err := w.far.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil || theirs.Data["ca.crt"] != "theirs" || len(theirs.Labels) > 0 {
		t.Errorf("the provider's own CA was touched: %v, %v", err, theirs)
	}
	w.quiet()
	for _, obj := range []client.Object{ca, ingress} {
		if err := w.near.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	w.there(gotConfig, "kube-root-ca.crt.rome", "the copy of the CA to go", nil)
	w.there(gotIngress, "ingress", "the ingress to go", nil)
}

// eventsComeBack: the provider's Events about a pod and about a copy are copied to the consumer. They refer to the right object, and their counts are updated.
func eventsComeBack(t *testing.T, w *world) {
	w.start()
	pod := w.pod("web-0")
	w.waitReady(1)
	secret := &corev1.Secret{ObjectMeta: w.at("secret")}
	w.create(w.near, secret)
	w.there(&corev1.Secret{}, "secret", "the secret to follow", func() error { return nil })
	told := func(name, kind, about string) *corev1.Event {
		e := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: w.twinNS, Name: name},
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: w.twinNS, Name: about, UID: "theirs"},
			Reason:         "BackOff", Message: "it fails", Type: corev1.EventTypeWarning, Count: 1, Source: corev1.EventSource{Component: "kubelet", Host: "node-3"},
		}
		w.create(w.far, e)
		return e
	}
	heard := func(name string, check func(*corev1.Event) error) {
		t.Helper()
		got := &corev1.Event{}
		apitest.Eventually(t, 10*time.Second, "event "+name, func() error {
			if err := w.near.Get(t.Context(), client.ObjectKey{Namespace: w.localNS, Name: name}, got); err != nil {
				return err
			}
			return check(got)
		})
	}
	first := told("web-0.1", "Pod", "web-0")
	heard("web-0.1", func(e *corev1.Event) error {
		if e.InvolvedObject.UID != pod.UID || e.InvolvedObject.Namespace != w.localNS || e.Source.Component != "kubelet"+kinds.RemoteSource || e.Count != 1 {
			t.Errorf("%+v", e)
		}
		return nil
	})
	told("web-0.2", "ShadowPod", "web-0")
	heard("web-0.2", func(e *corev1.Event) error {
		if e.InvolvedObject.Kind != "Pod" || e.InvolvedObject.UID != pod.UID {
			t.Errorf("%+v", e.InvolvedObject)
		}
		return nil
	})
	told("secret.1", "Secret", "secret")
	heard("secret.1", func(e *corev1.Event) error {
		if e.InvolvedObject.UID != secret.UID {
			t.Errorf("%+v", e.InvolvedObject)
		}
		return nil
	})
	told("nobody.1", "Pod", "nobody")
	told("node.1", "Endpoints", "web-0")
	ours := &corev1.Event{ObjectMeta: w.at("taken.1"), InvolvedObject: corev1.ObjectReference{Namespace: w.localNS}, Message: "ours"}
	w.create(w.near, ours)
	told("taken.1", "Pod", "web-0")
	before := first.DeepCopy()
	first.Count, first.LastTimestamp = 7, metav1.Now()
	if err := w.far.Patch(t.Context(), first, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	heard("web-0.1", func(e *corev1.Event) error {
		if e.Count != 7 {
			return fmt.Errorf("count %d", e.Count)
		}
		return nil
	})
	if err := w.far.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, 10*time.Second, "the copy of an event that is gone to go", func() error {
		err := w.near.Get(t.Context(), client.ObjectKey{Namespace: w.localNS, Name: "web-0.1"}, &corev1.Event{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%w, want none", err)
	})
	var all corev1.EventList
	if err := w.near.List(t.Context(), &all, client.InNamespace(w.localNS)); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		switch e := &all.Items[i]; {
		case e.Name == "nobody.1" || e.Name == "node.1":
			t.Errorf("an event about nothing of ours: %+v", e.InvolvedObject)
		case e.Name == "taken.1" && e.Message != "ours":
			t.Error("an event of ours was overwritten")
		}
	}
}

// eventsFlood: however many Events a provider has, the number of writes in this cluster is limited, and all Events are copied in the end.
func eventsFlood(t *testing.T, w *world) {
	w.start()
	w.service("web", nil)
	w.there(&corev1.Service{}, "web", "the service to follow", func() error { return nil })
	const flood, perSecond = 160, 20
	w.nearWrites.Store(0)
	began := time.Now()
	for i := range flood {
		w.create(w.far, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: w.twinNS, Name: fmt.Sprintf("web.%d", i)},
			InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: w.twinNS, Name: "web"}, Count: 1,
		})
	}
	apitest.Eventually(t, 30*time.Second, "all events to come", func() error {
		n := int(w.nearWrites.Load())
		if most := 5*perSecond + 3 + int(perSecond*time.Since(began).Seconds()); n > most {
			t.Fatalf("%d writes after %s, at most %d are allowed", n, time.Since(began), most)
		}
		if n < flood {
			return fmt.Errorf("%d of %d", n, flood)
		}
		return nil
	})
}
