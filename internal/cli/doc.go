// Package cli is liqoctl: the commands that install Liqo, peer clusters, offload namespaces, and show and undo all that. Everything a
// command does could be done by applying objects by hand; it does it in order, names what it waits for, and can be run again at
// any point.
package cli
