// Package playground drives bin/playground and bin/liqoctl for tests on real clusters: it makes clusters, installs what was built into
// them, and finds the processes of their pods on this machine. It needs root, and "make build" before.
package playground
