// Package datapath holds the tests of level 3: clusters of network namespaces, with nodes, gateways and pods, in which the real kernel applies the plans of
// package network. For every path, the captured packets are compared with a golden trace and with the result of network.Explain. The tests need root. They
// leave nothing behind, because the namespaces have no names and end with the process.
package datapath
