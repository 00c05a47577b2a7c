// Package build runs Go's compiler and reads the state of the repository.
package build

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"liqo.io/liqo/tools/release/plan"
)

// Commit is the commit that a release is built from.
type Commit struct {
	Hash string
	Date time.Time
	// Changed are the files that differ from the commit.
	Changed []string
}

// ReadCommit returns the commit that is checked out in a repository.
func ReadCommit(ctx context.Context, repository string) (Commit, error) {
	shown, err := output(ctx, repository, nil, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return Commit{}, err
	}
	hash, seconds, _ := strings.Cut(strings.TrimSpace(string(shown)), " ")
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return Commit{}, fmt.Errorf("reading the date of commit %s: %w", hash, err)
	}
	status, err := output(ctx, repository, nil, "git", "status", "--porcelain")
	if err != nil {
		return Commit{}, err
	}
	commit := Commit{Hash: hash, Date: time.Unix(at, 0).UTC()}
	for line := range strings.Lines(string(status)) {
		commit.Changed = append(commit.Changed, strings.TrimSpace(line[2:]))
	}
	return commit, nil
}

// Clean returns an error if files differ from the commit: a release is built from what the repository has.
func (c Commit) Clean() error {
	if len(c.Changed) == 0 {
		return nil
	}
	return fmt.Errorf("%d files differ from commit %.12s, %s first: commit them, or build a snapshot with SNAPSHOT=1", len(c.Changed), c.Hash, c.Changed[0])
}

// linkerFlags leave out what differs between two builds, and what debuggers need.
func linkerFlags(version string) string {
	return "-s -w -buildid= -X liqo.io/liqo/internal/version.Version=" + version
}

// environment returns the variables of a build for a platform. It replaces those of the caller that change the result.
func environment(p plan.Platform) []string {
	return append(os.Environ(), "GOOS="+p.OS, "GOARCH="+p.Arch, "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOWORK=off")
}

// Programs builds programs into a folder. It calls Go once per module, so that packages are loaded once.
func Programs(ctx context.Context, repository, folder, version string, b plan.Build) error {
	p, packages := b.Platform, map[string][]string{}
	for _, program := range b.Programs {
		if !slices.Contains(packages[program.Module], program.Package) {
			packages[program.Module] = append(packages[program.Module], program.Package)
		}
	}
	for module, list := range packages {
		args := append([]string{"build", "-ldflags", linkerFlags(version), "-o", folder + string(filepath.Separator)}, list...)
		if _, err := output(ctx, filepath.Join(repository, module), environment(p), "go", args...); err != nil {
			return fmt.Errorf("building for %s: %w", p, err)
		}
	}
	return nil
}

// output runs a program and returns its output. If it fails, the error has what it printed.
func output(ctx context.Context, folder string, env []string, name string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Env = folder, env
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("running %s %s: %w\n%s", name, args[0], err, problems.String())
	}
	return out, nil
}

// Pages runs a liqoctl of this machine and returns its completion scripts and manual pages, keyed by file name. The pages are dated as the commit.
func Pages(ctx context.Context, liqoctl string, date time.Time) (map[string][]byte, error) {
	// Nothing of this machine: help texts may show the home folder, and the month of a date depends on the time zone.
	env := []string{"HOME=/home/user", "TZ=UTC", "SOURCE_DATE_EPOCH=" + strconv.FormatInt(date.Unix(), 10)}
	pages := map[string][]byte{}
	for shell, file := range map[string]string{"bash": "liqoctl.bash", "zsh": "_liqoctl", "fish": "liqoctl.fish", "powershell": "liqoctl.ps1"} {
		script, err := output(ctx, "", env, liqoctl, "completion", shell)
		if err != nil {
			return nil, err
		}
		pages["completions/"+file] = script
	}
	folder, err := os.MkdirTemp("", "man")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // a temporary folder
	if _, err := output(ctx, "", env, liqoctl, "docs", "--man", folder); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if pages["man/"+entry.Name()], err = os.ReadFile(filepath.Join(folder, entry.Name())); err != nil {
			return nil, err
		}
	}
	return pages, nil
}
