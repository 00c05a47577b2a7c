package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMetricsAreDefinedOnce: only internal/metrics makes metrics, from its definitions, so that the reference lists all of them.
func TestMetricsAreDefinedOnce(t *testing.T) {
	makes := regexp.MustCompile(`\b(prometheus|promauto)\.(Must)?New(Const|Counter|Gauge|Histogram|Summary|Untyped|Desc)\w*\(`)
	defined := 0
	err := filepath.WalkDir(filepath.Join(root(t), "internal"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found := makes.FindAllString(string(text), -1)
		if relative, _ := filepath.Rel(root(t), path); under(relative, filepath.Join("internal", "metrics")) {
			defined += len(found)
		} else if len(found) > 0 {
			t.Errorf("%s makes a metric with %v: define it in internal/metrics", relative, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if defined == 0 {
		t.Error("internal/metrics makes no metric: the test looks for the wrong names")
	}
}
