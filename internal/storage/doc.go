// Package storage decides about claims of Liqo's StorageClasses. A claim gets a backing claim in the cluster of its first pod, and a virtual volume that
// Kubernetes binds to the claim. Next computes the next step for one claim from all existing objects. The package contains only pure functions without I/O.
package storage
