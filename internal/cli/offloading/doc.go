// Package offloading has the commands that offload namespaces to other clusters, and end that.
package offloading
