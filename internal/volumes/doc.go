// Package volumes connects the concern of storage with that of offloading, because neither imports the other: it lets the engine of a virtual kubelet carry out
// the decisions about claims with data in a provider, and it lists the volumes whose data the remote namespaces must keep.
package volumes
