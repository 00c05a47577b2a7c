package reflection_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/apitest"
)

// copiesNotAskedFor: a provider reports the remote namespace of a namespace that is not offloaded to it. It gets no copies until the namespace is
// offloaded.
func copiesNotAskedFor(t *testing.T, w *world) {
	private := metav1.ObjectMeta{Namespace: w.localNS + "-private", Name: "private"}
	w.create(w.near, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: private.Namespace}})
	w.create(w.near, &corev1.Secret{ObjectMeta: private})
	w.create(w.near, &corev1.Service{ObjectMeta: private, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	there := metav1.ObjectMeta{Namespace: w.twinNS + "-private", Name: "private"}
	w.create(w.far, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: there.Namespace}})
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: providerID}}
	if err := w.near.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
		t.Fatal(err)
	}
	m.Status.CurrentMapping[private.Namespace] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: there.Namespace, Phase: offloadingv1beta1.MappingAccepted}
	if err := w.near.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.service("web", nil)
	w.there(&corev1.Service{}, "web", "the service that is offloaded to follow", func() error { return nil })
	time.Sleep(500 * time.Millisecond)
	for _, obj := range []client.Object{&corev1.Secret{ObjectMeta: there}, &corev1.Service{ObjectMeta: there}} {
		if err := w.far.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			t.Errorf("%T went to the provider: %v", obj, err)
		}
	}
	m.Spec.DesiredMapping[private.Namespace] = there.Namespace
	if err := w.near.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	copied := &corev1.Secret{}
	apitest.Eventually(t, 20*time.Second, "it to follow once it is asked for", func() error {
		return w.far.Get(t.Context(), client.ObjectKey{Namespace: there.Namespace, Name: there.Name}, copied)
	})
	// The namespace is no longer requested, and then requested again, before the provider has reacted.
	delete(m.Spec.DesiredMapping, private.Namespace)
	if err := w.near.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	// No event shows that the engine has observed this. Until then, changes follow.
	change := 0
	apitest.Eventually(t, 20*time.Second, "a change not to follow", func() error {
		change++
		data := map[string][]byte{"a": []byte(fmt.Sprint(change))}
		if err := w.near.Update(t.Context(), &corev1.Secret{ObjectMeta: private, Data: data}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		if err := w.far.Get(t.Context(), client.ObjectKeyFromObject(copied), copied); err != nil || string(copied.Data["a"]) == fmt.Sprint(change) {
			return fmt.Errorf("it follows although it is not asked for: %v, %w", copied.Data, err)
		}
		return nil
	})
	m.Spec.DesiredMapping[private.Namespace] = there.Namespace
	if err := w.near.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, 20*time.Second, "what changed meanwhile to follow", func() error {
		if err := w.far.Get(t.Context(), client.ObjectKeyFromObject(copied), copied); err != nil || string(copied.Data["a"]) != fmt.Sprint(change) {
			return fmt.Errorf("%v, %w", copied.Data, err)
		}
		return nil
	})
}
