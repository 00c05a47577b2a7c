// Package version contains the version of this build.
package version

// Version is the release of this binary. It is a semantic version, because it is also the version of the chart and the default
// tag of the images. The linker sets it (-ldflags "-X liqo.io/liqo/internal/version.Version=v1.2.3"). A build without that flag
// is a development build.
var Version = "v0.0.0-dev"
