// Package doors holds the stories of level 4 about the ways in which two clusters come to know each other: by a token that one
// administrator hands to another, through the tunnel alone, as a peering user, from behind a router that lets nothing in, and two of them
// by the same provider. Each story peers clusters that are strangers, runs pods over there, and gives everything back. It needs root, and
// "make build" before; "make doors" does both.
package doors
