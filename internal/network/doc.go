// Package network turns what is known of a cluster and its peers into the plan of each host: what a node and a gateway need in their
// kernels, how an address translates, which replica of a gateway is at work, and every hop between two pods. It is pure.
package network
