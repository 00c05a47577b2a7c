// Package peering decides how two clusters establish trust. It covers nonces and signatures, certificate requests and their subjects, what a
// Tenant permits, and which part of a replicated object flows in which direction. It also compiles the status of a ForeignCluster, which
// summarizes a peering.
//
// Nothing in this package reads a clock, a random source or a cluster. Callers pass in time, randomness, keys and objects, and carry out
// the decisions.
package peering
