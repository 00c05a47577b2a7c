package app

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/internal/kube"
)

// TestEventsDoNotDelayWorkers: a worker that emits an Event never waits, and a burst of Events does not cause a burst of writes.
func TestEventsDoNotDelayWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
		e := newEvents(c, slog.New(slog.DiscardHandler), "milan", "milan")
		for range 3 * announcementsWaiting {
			e.announce(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
		}
		go func() { _ = e.run(t.Context()) }()
		told := func() int {
			synctest.Wait()
			var list corev1.EventList
			if err := c.List(t.Context(), &list); err != nil {
				t.Fatal(err)
			}
			return len(list.Items)
		}
		if n := told(); n != 1 {
			t.Errorf("%d announcements were told at once, want 1", n)
		}
		time.Sleep(announcementPause)
		if n := told(); n != 2 {
			t.Errorf("%d announcements were told after a pause, want 2", n)
		}
		time.Sleep(2 * announcementsWaiting * announcementPause)
		if n := told(); n != announcementsWaiting {
			t.Errorf("%d announcements were told, want the %d that there is room for", n, announcementsWaiting)
		}
	})
}

// TestMetricsOfReflection: dashboards find the metrics of reflection by their names.
func TestMetricsOfReflection(t *testing.T) {
	pods := 3
	registry := prometheus.NewPedanticRegistry()
	m := newReflectionMetrics(registry, "milan", "pool", func(tell func(string, string, int)) { tell("Pod", "shop", pods) })
	m.fail("Service", "shop")
	// A counter: it counts on when the provider has fewer, and is 0 where another virtual kubelet did it. Events count as everything else.
	for done, now := range []int{3, 1, 0} {
		pods = now
		if done > 0 {
			m.did("Pod", "shop")
			m.did("Event", "shop")
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
