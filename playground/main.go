// Command playground runs real Kubernetes clusters on one Linux machine, without containers around them: a node is
// a set of namespaces, and several clusters with the same addresses live side by side.
package main

import (
	"embed"
	"os"

	"liqo.io/playground/cli"
)

// sources are the programs that run in pods; they are built on the machine that uses them.
//
//go:embed pause/*.go testserver/*.go
var sources embed.FS

func main() { os.Exit(cli.Main(sources)) }
