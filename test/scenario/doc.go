// Package scenario holds the stories of level 4: what users do and what may befall them, on real clusters with identical addresses. It
// needs root, and "make build previous" before; "make scenario" does it all.
package scenario
