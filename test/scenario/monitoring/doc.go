// Package monitoring holds the stories about the monitoring of two peered clusters: a Prometheus in each of them, and `liqoctl dashboard` in a browser.
package monitoring
