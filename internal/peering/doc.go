// Package peering decides how two clusters establish trust and what a provider grants to a consumer. It covers nonces and signatures,
// certificate requests and their subjects, the verdict on a ResourceSlice, quotas, and which part of a replicated object flows in which
// direction. It also compiles the status of a ForeignCluster, which summarizes a peering.
//
// Nothing in this package reads a clock, a random source or a cluster. Callers pass in time, randomness, keys and objects, and carry out
// the decisions.
package peering
