package page

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDistIsBuiltFromTheSources: the list that the build has written names each source and each built file, with the content that it has now.
func TestDistIsBuiltFromTheSources(t *testing.T) {
	var files []string
	for _, pattern := range []string{"src/*", "dist/*", "axe/*", "build.mjs", "package.json", "package-lock.json", "tsconfig.json"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("files %s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	var want strings.Builder
	for _, name := range files {
		if name == "dist/SHA256SUMS" {
			continue
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(content), name)
	}
	built, err := os.ReadFile("dist/SHA256SUMS")
	if diff := cmp.Diff(want.String(), string(built)); err != nil || diff != "" {
		t.Errorf("folder dist was not built from these sources: run `make page` and commit the result: %v (-now +built):\n%s", err, diff)
	}
}

// TestTextIsNeverHTML: names and messages come from clusters of others. The page has no statement that makes a browser read text as HTML or run it.
func TestTextIsNeverHTML(t *testing.T) {
	sources, err := filepath.Glob("src/*.ts*")
	if err != nil || len(sources) == 0 {
		t.Fatalf("the sources are %v, %v", sources, err)
	}
	for _, name := range sources {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{
			"innerHTML", "InnerHTML", "outerHTML", "insertAdjacentHTML", "srcdoc", "document.write", "DOMParser", "createContextualFragment", "eval(", "new Function",
		} {
			if strings.Contains(string(content), statement) {
				t.Errorf("%s has %s: let Preact render the text instead", name, statement)
			}
		}
	}
}
