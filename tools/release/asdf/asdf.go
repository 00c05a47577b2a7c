// Package asdf has the plugin by which the version manager asdf installs liqoctl. It does no I/O.
package asdf

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"liqo.io/liqo/tools/release/archive"
)

//go:embed plugin
var plugin embed.FS

// Releases returns the address of the folder with all releases, given the address of the folder with the files of one version.
func Releases(downloads, version string) (string, error) {
	releases, found := strings.CutSuffix(downloads, "/"+version)
	if !found {
		return "", fmt.Errorf("DOWNLOADS is %q: its last part must be the version %s, because the plugin of asdf finds each version in a folder of its name", downloads, version)
	}
	return releases, nil
}

// Plugin returns the files of the plugin. It downloads from the folder with all releases at the given address.
func Plugin(releases string) ([]archive.File, error) {
	files := []archive.File{{Name: "releases", Mode: 0o644, Data: []byte(releases + "\n")}}
	err := fs.WalkDir(plugin, "plugin", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, "plugin/")
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(name, "bin/") {
			mode = 0o755 // embed.FS keeps no modes
		}
		data, err := plugin.ReadFile(path)
		files = append(files, archive.File{Name: name, Mode: mode, Data: data})
		return err
	})
	return files, err
}
