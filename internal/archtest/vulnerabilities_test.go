package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReleasesNeedTheVulnerabilityDatabase: a database that can't be reached fails the check of a release, and is reported elsewhere; a finding fails everywhere.
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
