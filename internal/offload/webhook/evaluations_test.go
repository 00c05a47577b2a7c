package webhook

import (
	"bytes"
	"slices"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/test/apitest"
)

// TestSelectorsDecideForOffloadedPodsOnAPIServer: an API server converts an object for each set of expressions that it evaluates, which costs more than the
// expressions. For the objects of an offloaded pod, the conditions of these policies and webhooks are false, and no others are evaluated: selectors decide about the rest.
func TestSelectorsDecideForOffloadedPodsOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	for _, object := range chart(t, values(), "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingWebhookConfiguration") {
		if object.GetKind() == "MutatingWebhookConfiguration" { // the others call the controller manager, which does not run here
			hooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
			hooks = slices.DeleteFunc(hooks, func(hook any) bool { return hook.(map[string]any)["name"] != "stray.mutate.liqo.io" })
			if err := unstructured.SetNestedSlice(object.Object, hooks, "webhooks"); err != nil || len(hooks) != 1 {
				t.Fatalf("%d webhooks, %v", len(hooks), err)
			}
		}
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	namespace(t, admin, "shop-rome", map[string]string{api.LabelRemoteClusterID: "rome"})
	apitest.InForce(t, admin)
	as := func(user string, groups ...string) client.Client {
		other := rest.CopyConfig(config)
		other.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:masters")}
		return apitest.Client(t, other)
	}
	rome, manager := as("pool-0a1b2c3d4e5f", "rome"), as("system:serviceaccount:liqo:liqo-controller-manager")

	options := podrules.Options{Origin: "rome", Destination: "milan", Node: "milan"}
	local := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	sp := &offloadingv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "web", UID: "1", Labels: map[string]string{
			api.LabelOrigin: "rome", api.LabelDestination: "milan", offloadingv1beta1.LabelNodeName: "milan", offloadingv1beta1.LabelCreatorUser: "pool-0a1b2c3d4e5f",
		}},
		Spec: offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "web", Image: "web:1"}}, AutomountServiceAccountToken: new(false),
		}},
	}
	for _, row := range []struct {
		by   client.Client
		obj  client.Object
		want []string
	}{
		{rome, podrules.TokensSecret(local, "shop-rome", options), []string{"liqo-copies", "liqo-peering-user"}},
		{rome, sp.DeepCopy(), nil},
		{manager, offload.Pod(sp, offload.PodMetadata{}), nil},
		{admin, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: sp.Spec.Pod}, []string{"stray.mutate.liqo.io"}},
	} {
		before := conditionsEvaluated(t, config)
		row.obj.SetUID("")
		if err := row.by.Create(t.Context(), row.obj); err != nil {
			t.Fatalf("%T: %v", row.obj, err)
		}
		var got []string
		for name, count := range conditionsEvaluated(t, config) {
			if count != before[name] {
				got = append(got, name)
			}
		}
		if slices.Sort(got); !slices.Equal(got, row.want) {
			t.Errorf("%T: the conditions of %q were evaluated, want %q", row.obj, got, row.want)
		}
	}
}

// conditionsEvaluated returns, by the name of a policy or webhook, how often the API server has evaluated its matchConditions with the result false.
func conditionsEvaluated(t *testing.T, config *rest.Config) map[string]uint64 {
	t.Helper()
	data, err := kubernetes.NewForConfigOrDie(config).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint64{}
	for _, metric := range families["apiserver_admission_match_condition_evaluation_seconds"].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == "name" {
				out[label.GetValue()] += metric.GetHistogram().GetSampleCount()
			}
		}
	}
	return out
}
