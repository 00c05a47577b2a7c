// Package network holds the stories of level 4 that are about the network: who reaches whom, and what a gateway, a node, a key or a cable
// that goes costs those who talk. Rome and milan have the same pod and service addresses, naples has others; rome uses both, so that
// it is their hub. Every cluster has two nodes, every gateway two replicas. It needs root, and "make build" before;
// "make network-scenario" does both.
package network
