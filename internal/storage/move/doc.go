// Package move decides how the data of a claim of Liqo moves to another node: each call of Next takes everything that exists and returns one step. Nothing
// is remembered elsewhere, so that a move goes on wherever it was cut off.
package move
