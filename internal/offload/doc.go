// Package offload decides about offloading. It decides which clusters a namespace extends to, the names of its remote namespaces, and what a provider
// does for a NamespaceMap. It also decides which Pod belongs to a ShadowPod and when it is created, how a virtual kubelet is deployed, and how
// admission changes a pod. All of it is pure functions without I/O; the subpackages carry out their decisions.
package offload
