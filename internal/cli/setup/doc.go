// Package setup has the commands that install, upgrade and remove Liqo in one cluster, and the command that prints its version.
package setup
