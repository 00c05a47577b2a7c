package kubelet

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// TestMetricsServiceOfAVirtualKubelet: it exists with the metrics, selects the pods of this virtual kubelet, and settles.
func TestMetricsServiceOfAVirtualKubelet(t *testing.T) {
	want := Service(kubeletNode(), kubeletFacts())
	if want == nil || want.Name != "vk-milan-metrics" || want.Spec.ClusterIP != corev1.ClusterIPNone || want.Spec.Ports[0].Port != 5872 {
		t.Fatalf("Service %+v", want)
	}
	pod := Deployment(kubeletNode(), kubeletFacts()).Spec.Template
	for key, value := range want.Spec.Selector {
		if pod.Labels[key] != value {
			t.Errorf("label %s=%s of the selector is not on the pods", key, value)
		}
	}
	have := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"of": "others"}}}
	UpdateService(have, want)
	once := have.DeepCopy()
	UpdateService(have, want)
	if diff := cmp.Diff(once, have); diff != "" || have.Labels["of"] != "others" || have.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("the second update changes the Service %+v:\n%s", have, diff)
	}
	off := kubeletFacts()
	off.Options.MetricsEnabled = false
	custom := kubeletNode()
	custom.Spec.Template = &offloadingv1beta1.DeploymentTemplate{}
	if Service(kubeletNode(), off) != nil || Service(custom, kubeletFacts()) != nil {
		t.Error("there is a Service without metrics, or for pods of a user's template")
	}
	names := map[string]bool{}
	for _, node := range []string{"milan", "pool.milan.example", "pool-milan-example", strings.Repeat("x", 63), strings.Repeat("x", 64)} {
		name := ServiceName(node)
		if problems := validation.IsDNS1035Label(name); len(problems) > 0 {
			t.Errorf("%s is no name of a Service: %v", name, problems)
		}
		names[name] = true
	}
	if len(names) != 5 {
		t.Errorf("virtual nodes share names: %v", names)
	}
}
