package reflection

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestMetricsOfReflection: dashboards find the metrics of reflection by their names.
func TestMetricsOfReflection(t *testing.T) {
	pods := 3
	registry := prometheus.NewPedanticRegistry()
	m := NewMetrics(registry, "milan", "pool", func(report func(string, string, int)) { report("Pod", "shop", pods) })
	m.Fail("Service", "shop")
	// Failures are 0 before the first one, so that dashboards show 0 and count the first failure as an increase. Reflected objects are a counter: it
	// does not decrease when the provider has fewer objects, and it is 0 if another virtual kubelet reflected them. Events count as all other kinds.
	for done, now := range []int{3, 1, 0} {
		pods = now
		if done > 0 {
			m.Did("Pod", "shop")
			m.Did("Event", "shop")
		}
		event := ""
		if done > 0 {
			event = fmt.Sprintf(`liqo_virtual_kubelet_reflection_item_counter{cluster_id="milan",namespace="shop",node_name="pool",reflector_resource="Event"} %d`, done)
		}
		want := fmt.Sprintf(`
			# HELP liqo_virtual_kubelet_reflected_items Reflected resources that exist in the provider now, whichever virtual kubelet reflects them.
			# TYPE liqo_virtual_kubelet_reflected_items gauge
			liqo_virtual_kubelet_reflected_items{cluster_id="milan",namespace="shop",node_name="pool",reflector_resource="Pod"} %d
			# HELP liqo_virtual_kubelet_reflection_error_counter Failed writes to the other cluster, which are retried.
			# TYPE liqo_virtual_kubelet_reflection_error_counter counter
			liqo_virtual_kubelet_reflection_error_counter{cluster_id="milan",namespace="shop",node_name="pool",reflector_resource="Pod"} 0
			liqo_virtual_kubelet_reflection_error_counter{cluster_id="milan",namespace="shop",node_name="pool",reflector_resource="Service"} 1
			# HELP liqo_virtual_kubelet_reflection_item_counter Resources that this virtual kubelet created or changed in the other cluster.
			# TYPE liqo_virtual_kubelet_reflection_item_counter counter
			%s
			liqo_virtual_kubelet_reflection_item_counter{cluster_id="milan",namespace="shop",node_name="pool",reflector_resource="Pod"} %d
		`, now, event, done)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	}
}
