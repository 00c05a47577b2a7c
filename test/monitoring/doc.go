// Package monitoring tests the alerts and boards of the chart with Prometheus' own parser, query engine and templates. It is a module of its own, so that the
// dependencies of Prometheus are not those of Liqo.
package monitoring
