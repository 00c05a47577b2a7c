// Package chart packs the Helm chart of the repository.
package chart

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"

	"liqo.io/liqo/tools/release/archive"
	"liqo.io/liqo/tools/release/plan"
)

// contents are the files and folders of the chart, those that liqoctl embeds.
var contents = []string{"Chart.yaml", "values.yaml", "values.schema.json", ".helmignore", "crds", "files", "templates"}

var (
	versionLine    = regexp.MustCompile(`(?m)^version: .*$`)
	appVersionLine = regexp.MustCompile(`(?m)^appVersion: .*$`)
)

// SetVersion returns Chart.yaml with the version of a release: version is that of the chart, appVersion the tag of the images.
func SetVersion(chart []byte, version string) ([]byte, error) {
	if len(versionLine.FindAll(chart, -1)) != 1 || len(appVersionLine.FindAll(chart, -1)) != 1 {
		return nil, errors.New("setting the version in Chart.yaml: want one line with version and one with appVersion")
	}
	chart = versionLine.ReplaceAll(chart, []byte("version: "+plan.ChartVersion(version)))
	return appVersionLine.ReplaceAll(chart, []byte("appVersion: "+version)), nil
}

// Files returns the files of the chart's archive, in a folder that has the chart's name, as Helm demands.
func Files(source fs.FS, version string) ([]archive.File, error) {
	var out []archive.File
	for _, root := range contents {
		err := fs.WalkDir(source, root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := fs.ReadFile(source, name)
			if err == nil && name == "Chart.yaml" {
				data, err = SetVersion(data, version)
			}
			out = append(out, archive.File{Name: "liqo/" + name, Mode: 0o644, Data: data})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("reading %s of the chart: %w", root, err)
		}
	}
	return out, nil
}
