// Command playground runs real Kubernetes clusters on one Linux machine, without Docker. Each node is a set of Linux namespaces.
// Several clusters with the same pod and Service addresses can run at the same time.
package main

import (
	"embed"
	"os"

	"liqo.io/playground/cli"
)

// sources is the source code of the programs that run in pods. The machine that uses them compiles them.
//
//go:embed pause/*.go testserver/*.go
var sources embed.FS

func main() { os.Exit(cli.Main(sources)) }
