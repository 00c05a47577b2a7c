// Package tunnel connects the networks of two clusters, and disconnects them: their address ranges, their gateways and the keys of these. Several commands of liqoctl use it.
package tunnel
