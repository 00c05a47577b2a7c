// Package offload thinks about offloading: which clusters a namespace extends to and how its twins are called, what a provider does
// for a NamespaceMap, which Pod a ShadowPod stands for and when it is made, how a virtual kubelet is run, and what admission
// changes in a pod. Everything here is a pure function of facts; the folders below do what it says.
package offload
