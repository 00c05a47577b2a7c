// Package notes takes the notes of a release from the changelog. It does no I/O.
package notes

import (
	"fmt"
	"strings"

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
	for _, title := range titles {
		if text, found := section(changelog, title); found && text != "" {
			return "# Liqo " + version + "\n\n" + text + "\n", nil
		} else if found {
			return "", fmt.Errorf("CHANGELOG.md: section %q is empty: say what changes for users", title)
		}
	}
	return "", fmt.Errorf("CHANGELOG.md has no section %q for version %s: rename section %q to it and commit that", titles[0], version, unreleased)
}

// section returns the text below the heading with the given title: "## 1.2.3", "## v1.2.3" or "## [1.2.3] - 2026-01-31".
func section(changelog, title string) (text string, found bool) {
	var lines []string
	for line := range strings.SplitSeq(changelog, "\n") {
		heading, isHeading := strings.CutPrefix(line, "## ")
		switch {
		case isHeading && found:
			return strings.TrimSpace(strings.Join(lines, "\n")), true
		case isHeading:
			name, _, _ := strings.Cut(heading, " - ")
			found = strings.TrimPrefix(strings.Trim(strings.TrimSpace(name), "[]"), "v") == title
		case found:
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n")), found
}
