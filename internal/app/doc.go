// Package app assembles the programs. For each binary, it contains the options, the clients, and one list of all components. It
// contains no other logic.
package app
