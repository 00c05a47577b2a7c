package commands

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	targets   = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	makeCalls = regexp.MustCompile("(?m)(?:`|^ *)make ([a-z][a-z0-9-]*)")
	fences    = regexp.MustCompile("(?ms)^ *```[a-z]*\n(.*?)^ *```$")
	codeSpans = regexp.MustCompile("`[^`\n]+`")
)

// TestDocumentsNameExistingTargets: every target of make that a document names in code, in a block or in a sentence, exists.
func TestDocumentsNameExistingTargets(t *testing.T) {
	root := filepath.Join("..", "..")
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, found := range targets.FindAllStringSubmatch(string(makefile), -1) {
		known = append(known, found[1])
	}
	named := 0
	check := func(path string) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var code strings.Builder
		for _, block := range fences.FindAllStringSubmatch(string(text), -1) {
			code.WriteString(block[1] + "\n")
		}
		code.WriteString(strings.Join(codeSpans.FindAllString(fences.ReplaceAllString(string(text), ""), -1), "\n"))
		for _, call := range makeCalls.FindAllStringSubmatch(code.String(), -1) {
			named++
			if !slices.Contains(known, call[1]) {
				t.Errorf("%s: make %s: the Makefile has no such target", path, call[1])
			}
		}
		return nil
	}
	for _, document := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md"} {
		if err := check(filepath.Join(root, document)); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"docs", "examples", "demo"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
				return err
			}
			return check(path)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if named < 50 {
		t.Errorf("only %d targets were found: the test reads the wrong text", named)
	}
}

// TestMakeRunsWhatOthersType: targets and variables that contributors know from other versions do what they expect.
func TestMakeRunsWhatOthersType(t *testing.T) {
	for typed, want := range map[string]string{
		"ctl":                                 "install -m 755 ",
		"unit PACKAGE=./internal/offload/...": "go test ./internal/offload/... -skip OnAPIServer",
		"unit PACKAGE_PATH=./internal/offload/...": "go test ./internal/offload/... -skip OnAPIServer",
		"unit":           "go test ./api/... ./internal/...",
		"test-container": "The tests need no container: run make unit",
		"e2e":            "go test ./test/scenario/network ",
	} {
		dry := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run", "--no-print-directory", "VERSION=v0.0.0"}, strings.Fields(typed)...)...)
		dry.Dir = filepath.Join("..", "..")
		// The variables of a make that runs this test are not those of the user who types.
		dry.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
			name, _, _ := strings.Cut(variable, "=")
			return slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "PACKAGE", "PACKAGE_PATH"}, name)
		})
		out, err := dry.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("make %s: %v, no %q in\n%s", typed, err, want, out)
		}
	}
}
