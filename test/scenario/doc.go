// Package scenario holds the stories of level 4: actions of users and faults on real clusters with identical addresses. It needs root, and "make build
// previous" before; "make scenario" runs all of this.
package scenario
