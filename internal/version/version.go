// Package version says which build this is.
package version

// Version is the release this binary belongs to: a semantic version, since it is also the version of the chart and the default tag of the
// images. The linker sets it (-ldflags "-X liqo.io/liqo/internal/version.Version=v1.2.3"); a build without that is a development
// build.
var Version = "v0.0.0-dev"
