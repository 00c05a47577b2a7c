// Package preview has the clients through which commands write: one that only shows what would be written, and one that records what was written.
package preview
