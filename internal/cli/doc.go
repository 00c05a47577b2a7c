// Package cli implements liqoctl. Its commands install Liqo, peer clusters and offload namespaces; other commands show or undo that. Users could
// also apply the objects of a command themselves. A command applies them in the right order and reports the conditions for which it waits. Users
// can run it again at any point.
//
// Commands with a package of their own are admission, dashboard, inspect, moving, nettest, networking, object, offloading and setup; the others are
// here. They share cmdline, console, deletevolumes, explain, handshake, loss, preview, session, tunnel, undo and workload.
package cli
