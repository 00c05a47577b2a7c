//go:build tools

// Package nebula pins the version of Nebula that the example runs.
package nebula

import (
	_ "github.com/slackhq/nebula/cmd/nebula"
	_ "github.com/slackhq/nebula/cmd/nebula-cert"
)
