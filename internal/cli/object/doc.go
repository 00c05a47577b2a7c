// Package object has the commands about single objects of a peering: create, generate, get and delete.
package object
