// Package dataplane is the state of a host's network as data: links, neighbours, rules, routes, filters, tunnels; what differs between
// two states, and in which order to change one into the other without a gap. It is pure; packages kernel and fake do it.
package dataplane
