package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"liqo.io/liqo/tools/release/archive"
	"liqo.io/liqo/tools/release/asdf"
	"liqo.io/liqo/tools/release/build"
	"liqo.io/liqo/tools/release/chart"
	"liqo.io/liqo/tools/release/manifests"
	"liqo.io/liqo/tools/release/notes"
	"liqo.io/liqo/tools/release/oci"
	"liqo.io/liqo/tools/release/plan"
	"liqo.io/liqo/tools/release/sbom"
)

// The OCI layouts of a release. The chart has one of its own, since nodes import all images of a layout, and a chart is none.
const (
	imageLayout = "oci/images"
	chartLayout = "oci/chart"
)

// sumsFile has the checksums of a release. It is written last: a folder without it has no whole release.
const sumsFile = "SHA256SUMS"

// release is what build was asked for, and the commit that it builds.
type release struct {
	repository, dist, work       string
	version, registry, downloads string
	snapshot                     bool
	platforms                    []plan.Platform
	commit                       build.Commit
}

// build makes all files of a release. It checks everything that can be wrong before it compiles, which takes long.
func (r *release) build(ctx context.Context) error {
	if err := plan.Version(r.version); err != nil {
		return err
	}
	var err error
	if r.commit, err = build.ReadCommit(ctx, r.repository); err != nil {
		return err
	}
	if !r.snapshot {
		if err := r.commit.Clean(); err != nil {
			return err
		}
	}
	changelog, err := os.ReadFile(filepath.Join(r.repository, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	text, err := notes.Of(string(changelog), r.version, r.snapshot)
	if err != nil {
		return err
	}
	if _, err := asdf.Releases(r.downloads, r.version); err != nil {
		return err
	}
	if err := os.RemoveAll(r.dist); err != nil {
		return fmt.Errorf("removing an earlier release: %w", err)
	}
	if err := r.write("notes.md", []byte(text)); err != nil {
		return err
	}
	versions := strings.Join(notes.Versions(string(changelog), r.version), "\n") + "\n"
	if err := r.write("versions.txt", []byte(versions)); err != nil {
		return err
	}
	if err := r.compile(ctx); err != nil {
		return err
	}
	return r.assemble(ctx)
}

// assemble makes the files of a release from the programs.
func (r *release) assemble(ctx context.Context) error {
	if err := r.liqoctl(ctx); err != nil {
		return err
	}
	if err := r.images(); err != nil {
		return err
	}
	if err := r.chart(); err != nil {
		return err
	}
	return r.sums()
}

// write writes a file of the release.
func (r *release) write(name string, data []byte) error {
	path := filepath.Join(r.dist, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // for everybody to read
		return err
	}
	return os.WriteFile(path, data, 0o644) //nolint:gosec // for everybody to read
}

// program returns the path of a program that was built.
func (r *release) program(p plan.Platform, name string) string {
	return filepath.Join(r.work, p.File(), name)
}

// compile builds all programs, and liqoctl for this machine too, which writes its manual.
func (r *release) compile(ctx context.Context) error {
	for _, b := range plan.Builds(r.platforms, r.own()) {
		fmt.Fprintln(os.Stderr, "building for", b.Platform)
		if err := build.Programs(ctx, r.repository, filepath.Join(r.work, b.Platform.File()), r.version, b); err != nil {
			return err
		}
	}
	return nil
}

// own returns the platform of this machine.
func (r *release) own() plan.Platform { return plan.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH} }

// liqoctl writes the archives with liqoctl, and what package managers read about them.
func (r *release) liqoctl(ctx context.Context) error {
	pages, err := build.Pages(ctx, r.program(r.own(), plan.LiqoctlFile(r.own())), r.commit.Date)
	if err != nil {
		return err
	}
	for _, name := range []string{"LICENSE", "README.md"} {
		if pages[name], err = os.ReadFile(filepath.Join(r.repository, name)); err != nil {
			return err
		}
	}
	var downloads []manifests.Download
	for _, p := range r.platforms {
		sum, err := r.liqoctlArchive(p, pages)
		if err != nil {
			return err
		}
		downloads = append(downloads, manifests.Download{Platform: p, URL: r.downloads + "/" + plan.LiqoctlArchive(p), SHA256: sum})
	}
	plugin, err := manifests.Krew(r.version, downloads)
	if err != nil {
		return err
	}
	if err := r.write("krew.yaml", plugin); err != nil {
		return err
	}
	if err := r.write("liqoctl.rb", manifests.Formula(r.version, downloads)); err != nil {
		return err
	}
	return r.plugin()
}

// plugin writes the archive with the plugin of asdf for liqoctl.
func (r *release) plugin() error {
	releases, err := asdf.Releases(r.downloads, r.version)
	if err != nil {
		return err
	}
	files, err := asdf.Plugin(releases)
	if err != nil {
		return err
	}
	data, err := archive.TarGz(files, r.commit.Date)
	if err != nil {
		return err
	}
	return r.write("asdf-liqoctl.tar.gz", data)
}

// liqoctlArchive writes the archive with liqoctl for a platform and its bill of materials, and for Windows the program itself. It returns the checksum of
// the archive.
func (r *release) liqoctlArchive(p plan.Platform, pages map[string][]byte) (string, error) {
	path := r.program(p, plan.LiqoctlFile(p))
	binary, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	files := []archive.File{{Name: plan.LiqoctlFile(p), Mode: 0o755, Data: binary}}
	for name, data := range pages {
		files = append(files, archive.File{Name: name, Mode: 0o644, Data: data})
	}
	pack := archive.TarGz
	if p.OS == "windows" {
		pack = archive.Zip
		if err := r.write(plan.LiqoctlProgram(p), binary); err != nil {
			return "", err
		}
	}
	data, err := pack(files, r.commit.Date)
	if err != nil {
		return "", err
	}
	if err := r.bill(sbom.Subject{Name: "liqoctl", Version: r.version, OS: p.OS, Arch: p.Arch}, path); err != nil {
		return "", err
	}
	return digest(data), r.write(plan.LiqoctlArchive(p), data)
}

// bill writes the bill of materials of what consists of the programs at the given paths.
func (r *release) bill(subject sbom.Subject, paths ...string) error {
	var programs []*debug.BuildInfo
	for _, path := range paths {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the modules of %s: %w", path, err)
		}
		programs = append(programs, info)
	}
	text, err := sbom.Of(subject, r.commit.Date, programs...)
	if err != nil {
		return err
	}
	return r.write(fmt.Sprintf("sbom/%s-%s-%s.cdx.json", subject.Name, subject.OS, subject.Arch), text)
}

// images writes the OCI layout with the images.
func (r *release) images() error {
	layout, err := oci.NewLayout(filepath.Join(r.dist, imageLayout), r.registry)
	if err != nil {
		return err
	}
	roots, err := publicRoots()
	if err != nil {
		return err
	}
	for _, image := range plan.Images {
		built, architectures := map[string]v1.Image{}, []string{}
		for _, p := range r.platforms {
			if p.OS != "linux" {
				continue
			}
			if built[p.Arch], err = r.image(image, p, roots); err != nil {
				return fmt.Errorf("creating image %s for %s: %w", image.Name, p, err)
			}
			architectures = append(architectures, p.Arch)
		}
		if len(architectures) == 0 {
			continue
		}
		if err := layout.AddIndex(plan.ImageReference(image.Name, r.version), oci.Index(built, architectures, r.labels(image.Name))); err != nil {
			return err
		}
	}
	return nil
}

// labels returns the labels of an image, in the words of OCI.
func (r *release) labels(name string) map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title": name, prefix + "version": r.version, prefix + "revision": r.commit.Hash, prefix + "licenses": "Apache-2.0",
	}
}

// image makes an image for a platform, and writes its bill of materials.
func (r *release) image(image plan.Image, p plan.Platform, roots []byte) (v1.Image, error) {
	spec := oci.Spec{
		Architecture: p.Arch, Entrypoint: "/" + image.Programs[0].Name(), User: image.User, Labels: r.labels(image.Name), Date: r.commit.Date,
	}
	var paths []string
	for _, program := range image.Programs {
		path := r.program(p, program.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		spec.Files = append(spec.Files, archive.File{Name: program.Name(), Mode: 0o755, Data: data})
		paths = append(paths, path)
	}
	if image.Roots {
		spec.Files = append(spec.Files, archive.File{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Data: roots})
	}
	if err := r.bill(sbom.Subject{Name: image.Name, Version: r.version, OS: p.OS, Arch: p.Arch, Image: true}, paths...); err != nil {
		return nil, err
	}
	return oci.Image(spec)
}

// chart writes the chart as an archive with the index of a chart server, and as an OCI layout.
func (r *release) chart() error {
	files, err := chart.Files(os.DirFS(filepath.Join(r.repository, "charts", "liqo")), r.version)
	if err != nil {
		return err
	}
	packed, err := archive.TarGz(files, r.commit.Date)
	if err != nil {
		return err
	}
	metadata := files[0].Data // of Chart.yaml, the first one
	index, err := manifests.HelmIndex(metadata, plan.ChartArchive(r.version), digest(packed), r.commit.Date)
	if err != nil {
		return err
	}
	if err := r.write("chart/"+plan.ChartArchive(r.version), packed); err != nil {
		return err
	}
	if err := r.write("chart/index.yaml", index); err != nil {
		return err
	}
	artifact, err := oci.Chart(packed, metadata, r.labels("liqo"))
	if err != nil {
		return err
	}
	layout, err := oci.NewLayout(filepath.Join(r.dist, chartLayout), r.registry)
	if err != nil {
		return err
	}
	return layout.AddArtifact(plan.ChartReference(r.version), artifact)
}

// sums writes the checksums of all files of the release, as sha256sum does.
func (r *release) sums() error {
	var lines strings.Builder
	err := filepath.WalkDir(r.dist, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.dist, path)
		fmt.Fprintf(&lines, "%s  %s\n", digest(data), filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return fmt.Errorf("computing checksums: %w", err)
	}
	return r.write(sumsFile, []byte(lines.String()))
}

// digest returns the SHA-256 checksum in hexadecimal digits.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
