// Package session has what every command of liqoctl works with: the flags that all commands share, connections to one cluster or to the two clusters of a
// peering, waiting for the state of an object, and finding objects by the words of a user.
package session
