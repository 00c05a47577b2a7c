// Package invite decides about the tokens and invitations with which a cluster enrolls with the authentication service of a provider: their form, who
// may use them and how often, the address of the service, and the key that its certificate must have.
//
// Nothing in this package reads a clock, a random source or a cluster.
package invite
