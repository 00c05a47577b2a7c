package commands

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// recordNames is a stand-in for the program playground. It writes the names of the clusters that it is called for into the file names.
const recordNames = `#!/bin/bash
while (($# > 0)); do
	if [[ $1 == --name ]]; then
		echo "$2" >>"$NAMES"
	fi
	shift
done
`

// TestFirstHourHasClustersOfItsOwn: whoever runs the demo, then types the commands of the README and then follows the quick start gets other clusters each time. The
// demo deletes those that it creates.
func TestFirstHourHasClustersOfItsOwn(t *testing.T) {
	root := filepath.Join("..", "..")
	read := func(path ...string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	folder := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		file := filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	write("bin/playground", recordNames)
	write("demo/down.sh", read("demo", "down.sh"))
	// named runs a text for a shell, and returns the names of the clusters.
	named := func(text string) []string {
		t.Helper()
		names := filepath.Join(t.TempDir(), "names")
		shell := exec.CommandContext(t.Context(), "/bin/bash", "-c", text)
		shell.Dir, shell.Env = folder, append(os.Environ(), "NAMES="+names)
		if out, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s in\n%s", err, out, text)
		}
		recorded, err := os.ReadFile(names)
		if err != nil {
			t.Fatal(err)
		}
		found := strings.Fields(string(recorded))
		slices.Sort(found)
		return slices.Compact(found)
	}
	_, up, _ := strings.Cut(read("demo", "up.sh"), "\ncluster() {")
	up, _, _ = strings.Cut(up, "\n}")
	_, section, _ := strings.Cut(read("README.md"), "\n### No clusters at hand\n")
	byHand := fences.FindStringSubmatch(section)
	if up == "" || byHand == nil {
		t.Fatal("demo/up.sh has no function cluster, or the README no commands that create clusters")
	}
	demo := named("demo/down.sh")
	if created := named("state=$PWD; playground=bin/playground; cluster() {" + up + "\n}; cluster rome; cluster milan"); !slices.Equal(created, demo) {
		t.Errorf("the demo creates %q and deletes %q", created, demo)
	}
	owner := map[string]string{}
	for page, names := range map[string][]string{"make demo": demo, "README.md": named(byHand[1]), "the quick start": deletedBy(read("examples", "quick-start", "README.md"))} {
		if len(names) != 2 {
			t.Errorf("%s has the clusters %q, want two", page, names)
		}
		for _, name := range names {
			if other := owner[name]; other != "" {
				t.Errorf("%s and %s both have a cluster %s", page, other, name)
			}
			owner[name] = page
		}
	}
}

// deletedBy returns the names of the clusters that a tutorial deletes at its end.
func deletedBy(readme string) (names []string) {
	for _, found := range regexp.MustCompile(`(?m)^playground delete cluster --name (\S+)$`).FindAllStringSubmatch(readme, -1) {
		names = append(names, found[1])
	}
	return names
}
