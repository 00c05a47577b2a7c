// Package plan says what a release consists of: versions, platforms, programs, images and the names of their files. It does no I/O.
package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// Version checks the version of a release. A version is also the tag of images, so it is complete and without build metadata.
func Version(version string) error {
	if semver.Canonical(version) != version || version == "" {
		return fmt.Errorf("VERSION is %q: give a semantic version with a leading v and no build metadata, such as v1.2.3 or v1.2.3-rc.1", version)
	}
	return nil
}

// IsPrerelease reports whether a version is announced as not final, like v1.2.3-rc.1.
func IsPrerelease(version string) bool { return semver.Prerelease(version) != "" }

// ChartVersion returns the version of the chart: Helm writes versions without the leading v.
func ChartVersion(version string) string { return strings.TrimPrefix(version, "v") }

// Platform is an operating system and an architecture, as Go calls them.
type Platform struct{ OS, Arch string }

// String returns the platform as OS/ARCH.
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// File returns the platform as a part of file names.
func (p Platform) File() string { return p.OS + "-" + p.Arch }

// Platforms are those that liqoctl is released for. Images are released for those of Linux.
var Platforms = []Platform{
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"linux", "amd64"}, {"linux", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// Select returns the platforms of a comma-separated list, in the order of Platforms. An empty list selects all.
func Select(list string) ([]Platform, error) {
	if list == "" {
		return Platforms, nil
	}
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		wanted[name] = true
	}
	var out []Platform
	for _, p := range Platforms {
		if wanted[p.String()] {
			out = append(out, p)
			delete(wanted, p.String())
		}
	}
	for name := range wanted {
		return nil, fmt.Errorf("PLATFORMS has %q: a release has %v only", name, Platforms)
	}
	return out, nil
}

// Program is a program that a release builds.
type Program struct {
	// Module is the folder of its Go module in the repository.
	Module string
	// Package is the import path of its main package, or its folder in the module.
	Package string
}

// Name is the name of the program's file.
func (p Program) Name() string { return path.Base(p.Package) }

// Liqoctl is the program that users install.
var Liqoctl = Program{".", "./cmd/liqoctl"}

// Image is a container image of a release. Its entrypoint is its first program.
type Image struct {
	Name     string
	User     string
	Programs []Program
	// Roots says whether the image has the public certificate authorities.
	Roots bool
}

// unprivileged is the user of images that need no rights of root.
const unprivileged = "65532:65532"

func component(name string, more ...Program) Image {
	return Image{Name: name, User: unprivileged, Programs: append([]Program{{".", "./cmd/" + name}}, more...), Roots: true}
}

// Images are all images of a release. Two run as root: volume-mover reads all files and gives them their owners, testserver serves port 80.
var Images = []Image{
	component("controller-manager"),
	component("fabric"),
	component("gateway", Program{".", "./cmd/keep"}),
	component("proxy"),
	{Name: "testserver", User: "0:0", Programs: []Program{{"playground", "./testserver"}}},
	component("virtual-kubelet"),
	{Name: "volume-mover", User: "0:0", Programs: []Program{
		{".", "./cmd/volume-mover"},
		{"tools/restic", "github.com/restic/restic/cmd/restic"},
		{"tools/restic", "github.com/restic/rest-server/cmd/rest-server"},
	}},
}

// Programs returns what is built for a platform, each program once.
func Programs(p Platform) []Program {
	out := []Program{Liqoctl}
	if p.OS != "linux" {
		return out
	}
	for _, image := range Images {
		out = append(out, image.Programs...)
	}
	return out
}

// Build is what one call of the compiler builds: programs for a platform.
type Build struct {
	Platform Platform
	Programs []Program
}

// Builds returns what a release for these platforms builds on a machine, each program once. The liqoctl of the machine itself writes the manual.
func Builds(platforms []Platform, machine Platform) []Build {
	var out []Build
	for _, p := range platforms {
		out = append(out, Build{p, Programs(p)})
	}
	if !slices.Contains(platforms, machine) {
		out = append(out, Build{machine, []Program{Liqoctl}})
	}
	return out
}

// LiqoctlArchive returns the name of the archive with liqoctl for a platform.
func LiqoctlArchive(p Platform) string {
	extension := "tar.gz"
	if p.OS == "windows" {
		extension = "zip"
	}
	return "liqoctl-" + p.File() + "." + extension
}

// LiqoctlProgram returns the name of liqoctl itself among the files of a release. It is there without an archive for Windows only.
func LiqoctlProgram(p Platform) string { return "liqoctl-" + p.File() }

// LiqoctlFile returns the name of liqoctl itself on a platform.
func LiqoctlFile(p Platform) string {
	if p.OS == "windows" {
		return "liqoctl.exe"
	}
	return "liqoctl"
}

// ChartArchive returns the name of the archive of the chart.
func ChartArchive(version string) string { return "liqo-" + ChartVersion(version) + ".tgz" }

// ImageReference returns the path and tag of an image below a registry.
func ImageReference(name, version string) string { return name + ":" + version }

// ChartReference returns the path and tag of the chart below a registry. Helm demands that the last part of the path is the name of the chart.
func ChartReference(version string) string { return "charts/liqo:" + ChartVersion(version) }
