// Package ipam decides which address ranges a cluster uses and where those of its peers appear here: a prefix tree, allocation that
// keeps what was given before, and the remapping arithmetic. It is pure.
package ipam
