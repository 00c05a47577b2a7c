// Package storage decides about claims of Liqo's StorageClass. A claim gets a backing claim in the cluster of its first pod, and a virtual volume that
// Kubernetes binds to the claim. Next computes the next step of one claim from everything that exists. All of it is pure functions without I/O.
package storage
