package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestGuidesUseExistingCommands: every call of liqoctl in the guides and in the README has an existing command and existing flags.
func TestGuidesUseExistingCommands(t *testing.T) {
	guides, err := filepath.Glob(filepath.Join("..", "..", "docs", "guide", "*.md"))
	runbooks, failed := filepath.Glob(filepath.Join("..", "..", "docs", "guide", "runbooks", "*.md"))
	if err != nil || failed != nil || len(guides) == 0 || len(runbooks) == 0 {
		t.Fatalf("there are %d guides and %d runbooks: %v", len(guides), len(runbooks), errors.Join(err, failed))
	}
	guides = append(guides, runbooks...)
	guides = append(guides, filepath.Join("..", "..", "README.md"))
	for _, guide := range guides {
		text, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		shell := false
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
			if language, fence := strings.CutPrefix(line, "```"); fence {
				shell = strings.TrimSpace(language) == "bash"
			}
			line, _, _ = strings.Cut(line, " #")
			call, is := strings.CutPrefix(strings.TrimSpace(line), "liqoctl ")
			if remote, through := strings.CutPrefix(strings.TrimSpace(line), "ssh "); through {
				var options string
				if options, call, is = strings.Cut(remote, " liqoctl "); is && !slices.Contains(strings.Fields(options), "-t") {
					t.Errorf("%s: %s: without -t, Ctrl-C ends ssh only, and liqoctl goes on on the other machine", filepath.Base(guide), line)
				}
			}
			if !shell || !is {
				continue
			}
			call, _, _ = strings.Cut(call, " | ")
			command, rest, err := newApp(genericiooptions.NewTestIOStreamsDiscard()).command().Find(strings.Fields(call))
			if err == nil {
				err = command.ParseFlags(rest)
			}
			if err != nil {
				t.Errorf("%s: liqoctl %s: %v", filepath.Base(guide), call, err)
			}
		}
	}
}
