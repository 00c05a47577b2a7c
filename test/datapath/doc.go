// Package datapath holds the tests of level 3: clusters built out of network namespaces, with nodes, gateways and pods, on which the plans of
// package network are carried out by the real kernel. Every packet walk is captured and compared with a golden trace and with what
// network.Explain says. It needs root; nothing is left behind, as the namespaces have no names and end with the process.
package datapath
