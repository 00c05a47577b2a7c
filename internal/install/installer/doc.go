// Package installer does what package install decided: it finds out about a cluster, applies the custom resource definitions and the
// chart that are part of this program, takes a failed installation back, and removes all traces of one. Every function does its part
// and returns; waiting for the outcome is left to the caller, who can show it.
package installer
