// Package playground runs bin/playground and bin/liqoctl for tests on real clusters: it creates clusters, installs this build into them, and finds
// the processes of their pods on this machine. It needs root. Run "make build" before.
package playground
