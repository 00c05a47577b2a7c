// Package network computes the network configuration of each host from the objects of a cluster and its peers. It computes what a node and
// a gateway need in their kernels, how an address translates, which replica of a gateway is active, and every hop between two pods. It
// performs no I/O.
package network
