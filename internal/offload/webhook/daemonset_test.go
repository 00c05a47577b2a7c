package webhook

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/test/apitest"
)

func TestDaemonSetReviews(t *testing.T) {
	h := daemonSets{decoder: admission.NewDecoder(kube.NewScheme()), runtimeClass: "liqo"}
	review := func(set *appsv1.DaemonSet) admission.Response {
		raw, err := json.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		return h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: raw}}})
	}
	set := &appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}}
	if r := review(set); !r.Allowed || len(r.Patches) != 0 {
		t.Errorf("one that stays away by itself: %+v", r)
	}
	set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	if r := review(set); !r.Allowed || len(r.Patches) != 1 || r.Patches[0].Operation != "add" || r.Patches[0].Path != "/spec/template/spec/affinity" {
		t.Errorf("one that tolerates everything: %+v", r)
	}
	set.Spec.Template.Spec.Affinity = &corev1.Affinity{}
	if r := review(set); len(r.Patches) != 1 || r.Patches[0].Operation != "replace" {
		t.Errorf("one with an affinity: %+v", r)
	}
	if r := h.Handle(t.Context(), admission.Request{}); r.Allowed {
		t.Error("what can't be read is allowed")
	}
}

// TestDaemonSetPodsOnAPIServer creates pods as the DaemonSet controller does.
func TestDaemonSetPodsOnAPIServer(t *testing.T) {
	c := apitest.Client(t, apitest.APIServer(t))
	handler := daemonSetPods{live: c, decoder: admission.NewDecoder(kube.NewScheme()), runtimeClass: "liqo"}
	install := func() *admissionregistrationv1.MutatingWebhookConfiguration {
		t.Helper()
		configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
		for _, object := range chart(t, values(), "MutatingWebhookConfiguration") {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, configuration); err != nil {
				t.Fatal(err)
			}
		}
		configuration.Webhooks = slices.DeleteFunc(configuration.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
			return *w.ClientConfig.Service.Path != PathDaemonSetPod
		})
		if len(configuration.Webhooks) != 1 {
			t.Fatalf("%d webhooks have the path %s", len(configuration.Webhooks), PathDaemonSetPod)
		}
		server := httptest.NewTLSServer(&admission.Webhook{Handler: handler})
		t.Cleanup(server.Close)
		configuration.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{
			URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}
		if err := c.Create(t.Context(), configuration); err != nil {
			t.Fatal(err)
		}
		return configuration
	}
	installed := install()
	virtual := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{api.LabelType: api.TypeVirtualNode}}}
	for _, node := range []*corev1.Node{virtual, {ObjectMeta: metav1.ObjectMeta{Name: "real"}}} {
		if err := c.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	no, yes := false, true
	attempt := func(node string, change func(*corev1.Pod)) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "agent-", Labels: map[string]string{"controller-revision-hash": "5d9c7b4f8"}, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "1", Controller: &yes},
			}},
			Spec: corev1.PodSpec{
				Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "agent", Image: "agent:1"}},
				Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}},
				}}},
			},
		}
		if change != nil {
			change(pod)
		}
		return c.Create(t.Context(), pod)
	}
	asking := func(p *corev1.Pod) { p.Annotations = map[string]string{"liqo.io/run-on-virtual-nodes": "true"} }
	apitest.Eventually(t, within, "the webhook to be called", func() error {
		if attempt("milan", nil) == nil {
			return errors.New("not yet")
		}
		return nil
	})
	for name, test := range map[string]struct {
		node   string
		change func(*corev1.Pod)
		says   string
	}{
		"on a virtual node":        {"milan", nil, "kept off virtual node milan"},
		"on a real node":           {"real", nil, ""},
		"asked for by annotation":  {"milan", asking, ""},
		"asked for by selector":    {"milan", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"liqo.io/type": "virtual-node"} }, ""},
		"another pod, by its name": {"milan", func(p *corev1.Pod) { p.OwnerReferences = nil }, ""},
	} {
		if err := attempt(test.node, test.change); (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
	if err := attempt("no-such-node", nil); err != nil {
		t.Errorf("on a node that does not exist: %v", err)
	}
	before := virtual.DeepCopy()
	virtual.Spec.Unschedulable = true
	if err := c.Patch(t.Context(), virtual, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := attempt("milan", asking); err == nil || !strings.Contains(err.Error(), "is cordoned") {
		t.Errorf("on a cordoned virtual node: %v", err)
	}
	kept := func(node string) error {
		// The webhook never affects pods of real nodes, whatever state the virtual node is in.
		if err := attempt("real", nil); err != nil {
			t.Fatalf("on a real node: %v", err)
		}
		if err := attempt(node, nil); err == nil || !strings.Contains(err.Error(), "kept off virtual node "+node) {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	}
	// The virtual Node and the installation are deleted, another virtual Node is created, and the installation is back.
	for _, object := range []client.Object{virtual, installed} {
		if err := c.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	apitest.Eventually(t, within, "the webhook not to be called", func() error { return errors.Join(attempt("real", nil), attempt("milan", nil)) })
	if err := c.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "naples", Labels: virtual.Labels}}); err != nil {
		t.Fatal(err)
	}
	install()
	apitest.Eventually(t, within, "the installation that is back to know the new node", func() error { return kept("naples") })
}
