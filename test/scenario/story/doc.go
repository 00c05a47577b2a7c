// Package story is the framework of the scenarios. A World is a set of real clusters with the same addresses, of which rome uses milan and naples. A Story is a
// sequence of steps on a World. Every step prints its duration. At the end of a story, everything that it created must be deleted: all objects of all clusters
// are compared with those from before the story. When a story fails, the state of the clusters is printed.
package story
