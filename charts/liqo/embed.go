// Package liqo carries the Helm chart inside the programs that install it, so that a program and its chart are always of one version.
package liqo

import "embed"

// Files is the chart as Helm loads it: Chart.yaml at its root.
//
//go:embed Chart.yaml values.yaml values.schema.json .helmignore crds files all:templates
var Files embed.FS

// CRDs is the folder of Files that holds the custom resource definitions, one per file.
const CRDs = "crds"
