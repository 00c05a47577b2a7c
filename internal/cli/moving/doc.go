// Package moving has the command that moves a volume: it reads the state of the move, asks storage/move for the next step, and carries it out.
package moving
