// Package monitoring tests the alerts and dashboards of the chart with Prometheus' own parser, query engine and templates. It is a separate module,
// so that Liqo does not depend on the dependencies of Prometheus.
package monitoring
