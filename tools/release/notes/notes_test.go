package notes

import (
	"slices"
	"strings"
	"testing"
)

const sample = `# Changelog

Preface.

## Unreleased

### Added

- Next thing.

## [1.2.3] - 2026-01-31

### Added

- First thing.

### Fixed

- Second thing.

## v1.2.2

- Old thing.

## 1.2.1
`

func TestNotesAreTheSectionOfTheVersion(t *testing.T) {
	for _, test := range []struct {
		version  string
		snapshot bool
		want     string
	}{
		{"v1.2.3", false, "# Liqo v1.2.3\n\n### Added\n\n- First thing.\n\n### Fixed\n\n- Second thing.\n"},
		{"v1.2.2", false, "# Liqo v1.2.2\n\n- Old thing.\n"},
		{"v1.3.0-rc.1", false, "# Liqo v1.3.0-rc.1\n\n### Added\n\n- Next thing.\n"},
		{"v1.3.0", true, "# Liqo v1.3.0\n\n### Added\n\n- Next thing.\n"},
		{"v1.2.2", true, "# Liqo v1.2.2\n\n- Old thing.\n"},
	} {
		got, err := Of(sample, test.version, test.snapshot)
		if err != nil || got != test.want {
			t.Errorf("%s: %q, %v", test.version, got, err)
		}
	}
}

func TestFinalVersionsNeedTheirSection(t *testing.T) {
	for version, want := range map[string]string{"v1.3.0": `no section "1.3.0"`, "v1.2.1": "is empty", "v1.2": "no section"} {
		if _, err := Of(sample, version, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", version, err)
		}
	}
}

func TestVersionsAreThoseOfTheChangelog(t *testing.T) {
	for version, want := range map[string][]string{
		"v1.2.3":      {"1.2.1", "1.2.2", "1.2.3"},
		"v1.3.0-rc.1": {"1.2.1", "1.2.2", "1.2.3", "1.3.0-rc.1"},
	} {
		if got := Versions(sample, version); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", version, got, want)
		}
	}
}
