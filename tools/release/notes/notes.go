// Package notes takes the notes of a release from the changelog. It does no I/O.
package notes

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"liqo.io/liqo/tools/release/plan"
)

const unreleased = "Unreleased"

// Of returns the section of a version in a changelog, as the notes of its release. Prereleases and snapshots without a section have that of what is not
// released yet. A final version has to have its own.
func Of(changelog, version string, snapshot bool) (string, error) {
	titles := []string{strings.TrimPrefix(version, "v")}
	if snapshot || plan.IsPrerelease(version) {
		titles = append(titles, unreleased)
	}
	for _, name := range titles {
		if text, found := section(changelog, name); found && text != "" {
			return "# Liqo " + version + "\n\n" + text + "\n", nil
		} else if found {
			return "", fmt.Errorf("CHANGELOG.md: section %q is empty: say what changes for users", name)
		}
	}
	return "", fmt.Errorf("CHANGELOG.md has no section %q for version %s: rename section %q to it and commit that", titles[0], version, unreleased)
}

// Versions returns the given version and all versions that have a section in the changelog, without a leading v, the oldest one first.
func Versions(changelog, version string) []string {
	all := []string{version}
	for line := range strings.Lines(changelog) {
		if heading, isHeading := strings.CutPrefix(line, "## "); isHeading && semver.IsValid("v"+title(heading)) {
			all = append(all, "v"+title(heading))
		}
	}
	semver.Sort(all)
	all = slices.Compact(all)
	for i := range all {
		all[i] = strings.TrimPrefix(all[i], "v")
	}
	return all
}

// title returns the version in a heading, or another title: of "1.2.3", "v1.2.3" and "[1.2.3] - 2026-01-31" it is 1.2.3.
func title(heading string) string {
	name, _, _ := strings.Cut(heading, " - ")
	return strings.TrimPrefix(strings.Trim(strings.TrimSpace(name), "[]"), "v")
}

// section returns the text below the heading with the given name: "## 1.2.3", "## v1.2.3" or "## [1.2.3] - 2026-01-31".
func section(changelog, name string) (text string, found bool) {
	var lines []string
	for line := range strings.SplitSeq(changelog, "\n") {
		heading, isHeading := strings.CutPrefix(line, "## ")
		switch {
		case isHeading && found:
			return strings.TrimSpace(strings.Join(lines, "\n")), true
		case isHeading:
			found = title(heading) == name
		case found:
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n")), found
}
