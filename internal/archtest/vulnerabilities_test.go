package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReleasesNeedTheVulnerabilityDatabase: if the database can't be reached, the check of a release fails, and other checks only report it. A finding fails
// every check.
func TestReleasesNeedTheVulnerabilityDatabase(t *testing.T) {
	check := func(says, code string, env ...string) (string, bool) {
		stub := filepath.Join(t.TempDir(), "govulncheck")
		if err := os.WriteFile(stub, []byte("#!/bin/sh\necho '"+says+"'\nexit "+code+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "tools", "vulnerabilities.sh"))
		cmd.Env = append(append(os.Environ(), "GOVULNCHECK="+stub, "GOVULNDB="), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err == nil
	}
	const unreachable = "govulncheck: fetching vulnerabilities: Get https://vuln.go.dev/index/db.json.gz: dial tcp: lookup vuln.go.dev: no such host"
	if out, passed := check(unreachable, "1", "REQUIRE_VULNDB=1"); passed || !strings.Contains(out, "NOT CHECKED") {
		t.Errorf("a release passes unchecked: %s", out)
	}
	if out, passed := check(unreachable, "1", "REQUIRE_VULNDB="); !passed || !strings.Contains(out, "NOT CHECKED") {
		t.Errorf("a machine without network fails, or is silent: %s", out)
	}
	for _, require := range []string{"REQUIRE_VULNDB=1", "REQUIRE_VULNDB="} {
		if out, passed := check("Vulnerability #1: GO-2026-0001", "3", require); passed || !strings.Contains(out, "GO-2026-0001") {
			t.Errorf("%s: a finding passes: %s", require, out)
		}
		if out, passed := check("No vulnerabilities found.", "0", require); !passed {
			t.Errorf("%s: %s", require, out)
		}
	}
}

// TestReleasesRunTheVulnerabilityCheck: make release and make push run the check that needs the database. A snapshot, which is not published, does not.
func TestReleasesRunTheVulnerabilityCheck(t *testing.T) {
	for _, target := range []string{"release", "push"} {
		for _, snapshot := range []string{"", "1"} {
			cmd := exec.CommandContext(t.Context(), "make", "--dry-run", "--no-builtin-rules", target, "VERSION=v1.2.3", "REGISTRY=registry.example.org/liqo", "SNAPSHOT="+snapshot)
			cmd.Dir = filepath.Join("..", "..")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("make %s: %v: %s", target, err, out)
			}
			if checked := strings.Contains(string(out), "REQUIRE_VULNDB=1 tools/vulnerabilities.sh"); checked != (snapshot == "") {
				t.Errorf("make %s with SNAPSHOT=%q runs the check: %t", target, snapshot, checked)
			}
		}
	}
}

// TestVulnerabilitiesOfAllModules: the check covers each module with our sources, and the third-party programs in our images. A finding in the first module
// does not prevent the checks of the others.
func TestVulnerabilitiesOfAllModules(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	modules := regexp.MustCompile(`(?m)^MODULES := (.+)$`).FindSubmatch(makefile)
	programs := regexp.MustCompile(`cd tools/restic && go build .* -o \$\(BIN\)/ (.+)`).FindSubmatch(makefile)
	if modules == nil || programs == nil {
		t.Fatal("the Makefile has no MODULES, or no programs of tools/restic")
	}
	want := []string{root + " ./..."}
	for _, module := range strings.Fields(string(modules[1])) {
		want = append(want, filepath.Join(root, module)+" ./...")
	}
	names := strings.Fields(string(programs[1]))
	slices.Sort(names)
	want = append(want, filepath.Join(root, "tools/restic")+" "+strings.Join(names, " "))
	dir := t.TempDir()
	stub, log := filepath.Join(dir, "govulncheck"), filepath.Join(dir, "log")
	for code, passes := range map[string]bool{"0": true, "3": false} {
		// Each call adds its directory and packages to the log. Only the first one fails.
		text := "#!/bin/sh\n[ -e '" + log + "' ] || code=" + code + "\necho \"$PWD $*\" >> '" + log + "'\necho GO-2026-0001\nexit ${code:-0}\n"
		if err := os.WriteFile(stub, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "tools", "vulnerabilities.sh"))
		cmd.Env = append(os.Environ(), "GOVULNCHECK="+stub, "GOVULNDB=")
		out, err := cmd.CombinedOutput()
		if (err == nil) != passes {
			t.Errorf("code %s of the first module: %v: %s", code, err, out)
		}
		checked, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(string(checked)), "\n")); diff != "" {
			t.Errorf("code %s: what is checked: %s", code, diff)
		}
		if err := os.Remove(log); err != nil {
			t.Fatal(err)
		}
	}
}
