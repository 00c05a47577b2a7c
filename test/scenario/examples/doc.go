// Package examples holds the stories of level 4 that follow the tutorials in examples/ word by word, and those that go on from where the quick
// start ends: its shop is moved between the clusters while somebody uses it, the clusters are cut apart while pods come and go on both
// sides, and the virtual kubelet is killed in the middle of a burst of pods. It needs root, and "make build" before.
//
// On two clusters of its own it applies the manifests in testdata/portable, which stand for what people bring along, and has administrators change
// things at the same time or while the clusters are cut apart.
//
// The clusters are in a home of their own, so that people who try the examples on the same machine are not disturbed.
package examples
