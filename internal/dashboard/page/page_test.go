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
	for _, pattern := range []string{"src/*", "dist/*", "build.mjs", "package.json", "package-lock.json", "tsconfig.json"} {
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
