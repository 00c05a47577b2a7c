package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
)

func review(t *testing.T, obj any) admission.Request {
	t.Helper()
	raw, ok := obj.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(obj); err != nil {
			t.Fatal(err)
		}
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: "demo", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
		UserInfo: authenticationv1.UserInfo{Username: "rome-a1b2c3"},
	}}
}

func offloadingOf(strategy offloadingv1beta1.PodOffloadingStrategy) *offloadingv1beta1.NamespaceOffloading {
	return &offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "offloading"}, Spec: offloadingv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: strategy},
	}
}

func going(o *offloadingv1beta1.NamespaceOffloading) *offloadingv1beta1.NamespaceOffloading {
	now := metav1.Now()
	o.DeletionTimestamp, o.Finalizers = &now, []string{"x"}
	return o
}

func reader(objs ...client.Object) client.Reader {
	return fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objs...).Build()
}

func TestPods(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}}}
	tolerating := pod.DeepCopy()
	tolerating.Spec.Tolerations = []corev1.Toleration{{Key: "own", Operator: corev1.TolerationOpExists}}
	everything := pod.DeepCopy()
	everything.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	type patch []string
	for name, c := range map[string]struct {
		cached, live client.Reader
		pod          *corev1.Pod
		want         patch
	}{
		"remote":                         {reader(offloadingOf(offloadingv1beta1.PodsRemote)), reader(), pod, patch{"add /spec/tolerations", "add /spec/affinity"}},
		"both":                           {reader(offloadingOf(offloadingv1beta1.PodsLocalAndRemote)), reader(), pod, patch{"add /spec/tolerations"}},
		"both, with tolerations":         {reader(offloadingOf(offloadingv1beta1.PodsLocalAndRemote)), reader(), tolerating, patch{"replace /spec/tolerations"}},
		"both, tolerating everything":    {reader(offloadingOf(offloadingv1beta1.PodsLocalAndRemote)), reader(), everything, nil},
		"remote, tolerating everything":  {reader(offloadingOf(offloadingv1beta1.PodsRemote)), reader(), everything, patch{"add /spec/affinity"}},
		"local":                          {reader(offloadingOf(offloadingv1beta1.PodsLocal)), reader(), pod, nil},
		"the cache is behind":            {reader(), reader(offloadingOf(offloadingv1beta1.PodsLocalAndRemote)), pod, patch{"add /spec/tolerations"}},
		"no longer":                      {reader(going(offloadingOf(offloadingv1beta1.PodsRemote))), reader(), pod, nil},
		"no longer, and not noticed yet": {reader(), reader(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}), pod, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := &pods{cached: c.cached, live: c.live, decoder: admission.NewDecoder(kube.NewScheme()), runtimeClass: "liqo"}
			response := h.Handle(t.Context(), review(t, c.pod))
			if !response.Allowed {
				t.Fatalf("refused: %+v", response.Result)
			}
			var got patch
			for _, p := range response.Patches {
				got = append(got, p.Operation+" "+p.Path)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSystemPodsAreNotOffloaded: pods that a cluster needs to work are not offloaded by accident.
func TestSystemPodsAreNotOffloaded(t *testing.T) {
	h := strays{decoder: admission.NewDecoder(kube.NewScheme()), runtimeClass: "liqo"}
	r := h.Handle(t.Context(), review(t, &corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}}))
	if !r.Allowed || len(r.Patches) != 1 || r.Patches[0].Operation != "add" || r.Patches[0].Path != "/spec/affinity" {
		t.Errorf("%+v", r)
	}
	if r := h.Handle(t.Context(), admission.Request{}); r.Allowed {
		t.Error("what can't be read is allowed")
	}
}

// TestPodsWaitForTheirNamespace: pods in a namespace that a user labeled by hand are rejected until it is offloaded.
func TestPodsWaitForTheirNamespace(t *testing.T) {
	labelled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo", Labels: map[string]string{offloadingv1beta1.LabelSchedulingEnabled: "true"}}}
	h := &pods{cached: reader(), live: reader(labelled), decoder: admission.NewDecoder(kube.NewScheme())}
	response := h.Handle(t.Context(), review(t, &corev1.Pod{}))
	if response.Allowed || !strings.Contains(response.Result.Message, "liqoctl offload namespace demo") {
		t.Errorf("%+v", response)
	}
}

type failing struct{ client.Reader }

func (failing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("no API server")
}

func TestPodsFailClosed(t *testing.T) {
	h := &pods{cached: failing{}, live: failing{}, decoder: admission.NewDecoder(kube.NewScheme())}
	if response := h.Handle(t.Context(), review(t, &corev1.Pod{})); response.Allowed {
		t.Error("allowed although nothing is known of the namespace")
	}
	h = &pods{cached: reader(offloadingOf(offloadingv1beta1.PodsRemote)), live: reader(), decoder: admission.NewDecoder(kube.NewScheme())}
	if response := h.Handle(t.Context(), review(t, []byte(`{"spec":[]}`))); response.Allowed {
		t.Error("allowed although it is no pod")
	}
}

func TestShadowPods(t *testing.T) {
	h := shadowPods{decoder: admission.NewDecoder(kube.NewScheme())}
	for name, c := range map[string]struct {
		object  string
		allowed bool
		path    string
	}{
		"no labels":      {`{"metadata":{"name":"web"},"spec":{"pod":{"containers":[]}}}`, true, "/metadata/labels"},
		"other labels":   {`{"metadata":{"labels":{"a":"b"}}}`, true, "/metadata/labels/liqo.io~1creator-user"},
		"somebody else":  {`{"metadata":{"labels":{"liqo.io/creator-user":"admin"}}}`, true, "/metadata/labels/liqo.io~1creator-user"},
		"stamped":        {`{"metadata":{"labels":{"liqo.io/creator-user":"rome-a1b2c3"}}}`, true, ""},
		"no pod in it":   {`{"spec":{"pod":{"containers":"none"}}}`, false, ""},
		"wrong type":     {`{"spec":{"pod":{"hostNetwork":"yes"}}}`, false, ""},
		"wrong quantity": {`{"spec":{"pod":{"containers":[{"resources":{"requests":{"cpu":"much"}}}]}}}`, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			response := h.Handle(t.Context(), review(t, []byte(c.object)))
			if response.Allowed != c.allowed {
				t.Fatalf("allowed is %v: %+v", response.Allowed, response.Result)
			}
			switch {
			case c.path == "" && len(response.Patches) > 0, c.path != "" && (len(response.Patches) != 1 || response.Patches[0].Path != c.path):
				t.Errorf("patches %+v, want one of %q", response.Patches, c.path)
			}
		})
	}
}
