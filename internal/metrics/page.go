package metrics

import (
	"fmt"
	"strings"
)

// intro is the beginning of the reference page; ' stands for a backquote.
const intro = `# Metrics

This page is generated from the definitions in 'internal/metrics'.

'liqoctl install --enable-metrics' makes the programs serve Prometheus metrics under '/metrics', and the Prometheus Operator scrape them
([monitoring](../guide/monitoring.md)).

- Each pod serves its own metrics. With several replicas of the controller manager, each one reports the metrics about peers: aggregate them
  with 'max without (instance, pod)'. Of the metrics below, a standby replica of a virtual kubelet serves
  'liqo_build_info' only.
- Label 'cluster_id' is the cluster ID of the peer. It is empty for what belongs to no peer.
- The number of series depends on the numbers of peers, nodes, virtual nodes and offloaded namespaces, never on the number of pods.
- The controller manager also serves the metrics of controller-runtime: 'controller_runtime_*', 'workqueue_*' and 'rest_client_*'. All
  programs serve those of Go and of the process: 'go_*' and 'process_*'.
- Counters start again at 0 with their pod. Functions of Prometheus such as 'rate' and 'increase' take that into account.

`

// Page returns the reference page of all metrics, in Markdown.
func Page() string {
	var page strings.Builder
	page.WriteString(strings.ReplaceAll(intro, "'", "`"))
	page.WriteString("| metric | type | labels | series | served by | meaning |\n|---|---|---|---|---|---|\n")
	for _, d := range All() {
		labels := "none"
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s | %s |\n", d.Name, d.Type, labels, d.Series, strings.Join(d.Programs, ", "), d.Help)
	}
	return page.String()
}
