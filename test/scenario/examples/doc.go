// Package examples holds the stories of level 4 that follow the tutorials in examples/ word by word, and stories that continue after the quick start. In these,
// the shop of the quick start is moved between the clusters while it is used, the clusters are cut off from each other while pods are created and deleted on
// both sides, and the virtual kubelet is killed in the middle of a burst of pods. The stories need root, and "make build" before.
//
// On two other clusters, the package applies the manifests in testdata/portable, which represent typical applications, and tests changes by several
// administrators at the same time or during a partition.
//
// The clusters are in a separate home folder of the playground, so that they do not disturb users who try the examples on the same machine.
package examples
