package build

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository makes a repository with one commit of a known date.
func repository(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	write(t, folder, "committed")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "a"}} {
		command := exec.Command("git", args...)
		command.Dir = folder
		command.Env = append(os.Environ(), "GIT_COMMITTER_DATE=1700000000 +0100", "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return folder
}

func write(t *testing.T, folder, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(name), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestChangedFilesAreRefused(t *testing.T) {
	folder := repository(t)
	commit, err := ReadCommit(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	if commit.Date.Unix() != 1700000000 || len(commit.Hash) != 40 || commit.Clean() != nil {
		t.Errorf("%+v: %v", commit, commit.Clean())
	}
	write(t, folder, "new")
	commit, err = ReadCommit(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := commit.Clean(); err == nil || !strings.Contains(err.Error(), "new first: commit them") || !strings.Contains(err.Error(), "SNAPSHOT=1") {
		t.Errorf("%v", err)
	}
}
