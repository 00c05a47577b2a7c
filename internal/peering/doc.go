// Package peering thinks about how two clusters come to trust each other and what a provider grants: nonces and signatures,
// certificate requests and who may have them, the verdict on a ResourceSlice, quotas, which part of a replicated object flows where, and
// the one picture of a peering that a ForeignCluster shows.
//
// Nothing here reads a clock, a random source or a cluster: callers pass time, randomness, keys and objects in, and carry out what
// comes back.
package peering
