// Package dataplane describes the network configuration of a host as data: links, neighbours, rules, routes, filters and tunnels. Diff
// computes the changes from one state to another, in an order that keeps filters and routes in force throughout. The package itself
// performs no I/O; the packages kernel and fake apply the changes.
package dataplane
