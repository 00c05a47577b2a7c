package archtest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestControllersRetryOften: every controller is made by kube.NewController, or takes its options from kube.ControllerOptions. The default of
// controller-runtime retries a lasting error only every 1000 s.
func TestControllersRetryOften(t *testing.T) {
	found := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found += bytes.Count(source, []byte("kube.NewController("))
		for _, line := range strings.Split(string(source), "\n") {
			direct := strings.Contains(line, "ControllerManagedBy(") && path != filepath.Join("..", "kube", "controller.go")
			if direct || strings.Contains(line, "controller.New(") && !strings.Contains(line, "kube.ControllerOptions(") {
				t.Errorf("%s: use kube.NewController or kube.ControllerOptions: %s", path, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no controller was found")
	}
}
