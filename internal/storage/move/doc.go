// Package move decides how the data of a claim of Liqo moves to another node. Each call of Next takes all existing objects and returns one step. There is no
// other state, so an interrupted move resumes at the step where it stopped.
package move
