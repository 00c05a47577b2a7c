// Package network holds the stories of level 4 about the network: which pods, nodes and hosts reach each other, and how the loss or change of a gateway, a
// node, a key or a cable affects open connections. Rome and milan have the same pod and service addresses, naples has others. Rome uses both, so it is their
// hub. Every cluster has two nodes, and every gateway two replicas. The stories need root, and "make build" before; "make network-scenario" does both.
package network
