package gatewaypod

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMetricsServiceOfAGateway: it exists if the template has a port for metrics, selects the pods of this gateway, and settles.
func TestMetricsServiceOfAGateway(t *testing.T) {
	text := func(ports string) string {
		return `{spec: {deployment: {spec: {template: {spec: {containers: [
  {name: wireguard}, {name: gateway, ports: [{name: healthz, containerPort: 8083}` + ports + `]}
]}}}}}}`
	}
	without, err := render(t, text(""))
	if err != nil {
		t.Fatal(err)
	}
	if s := testOwner().MetricsService(without); s != nil {
		t.Errorf("without metrics there is a Service %+v", s)
	}
	with, err := render(t, text(", {name: metrics, containerPort: 8082}"))
	if err != nil {
		t.Fatal(err)
	}
	want := testOwner().MetricsService(with)
	if want == nil || want.Name != "gw-milan-metrics" || want.Spec.ClusterIP != corev1.ClusterIPNone || want.Spec.Ports[0].Port != 8082 {
		t.Fatalf("with metrics there is a Service %+v", want)
	}
	if diff := cmp.Diff(testOwner().Selector(), want.Spec.Selector); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
	have := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"of": "others"}}}
	UpdateMetricsService(have, want)
	once := have.DeepCopy()
	UpdateMetricsService(have, want)
	if diff := cmp.Diff(once, have); diff != "" || have.Labels["of"] != "others" || have.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("the second update changes the Service %+v:\n%s", have, diff)
	}
	names := map[string]bool{}
	for _, end := range []string{"a", "b"} {
		long := Owner{Name: strings.Repeat("x", 58) + end}
		if err := (&Owner{Name: long.Name, ClusterID: "milan"}).Check(); err != nil {
			t.Fatal(err)
		}
		if name := long.MetricsName(); len(name) > maxServiceName {
			t.Errorf("%s has %d characters", name, len(name))
		}
		names[long.MetricsName()] = true
	}
	if len(names) != 2 {
		t.Errorf("two gateways share a name: %v", names)
	}
}
