// Package story is the language that scenarios are written in: a World of real clusters with the same addresses, of which rome uses
// milan and naples, and Stories told on it step by step. Every step says how many seconds it took. Whatever a story made must be gone at its
// end: all objects of all clusters are compared with those from before. When a story fails, the state of the world is printed.
package story
