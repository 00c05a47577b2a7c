// Package app puts the programs together: for each binary its options, its clients and one list of everything that runs in it. Nothing is
// decided here.
package app
