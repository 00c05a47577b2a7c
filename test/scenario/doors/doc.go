// Package doors holds the stories of level 4 about the ways to peer two clusters: with a token that one administrator gives to another, through the tunnel
// alone, as a peering user, from behind a router that accepts no incoming connections, and two consumers with the same provider. Each story peers clusters that
// are not peered, runs pods in the provider, and removes everything. It needs root, and "make build" before; "make doors" does both.
package doors
