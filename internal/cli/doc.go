// Package cli implements liqoctl. Its commands install Liqo, peer clusters and offload namespaces; other commands show or undo that.
// Everything a command does could also be done by applying objects by hand. A command does it in the right order and reports what it waits
// for. It can be run again at any point.
package cli
