// Package nettest has the command that checks whether pods, Services and nodes of peered clusters reach each other: it runs servers in all of them, plans the checks, and judges
// the answers.
package nettest
