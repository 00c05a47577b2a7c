// Package build builds the programs and images of a cluster from the Go module proxy, once per version, and caches them.
package build

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"liqo.io/playground/process"
)

// Step is one build step that was completed or found in the cache.
type Step struct {
	Name     string        `json:"name"`
	Cached   bool          `json:"cached"`
	Duration time.Duration `json:"duration"`
}

// Builder builds sets of programs and images.
type Builder struct {
	// Cache is the folder of all build results. It grows with each new version. It may be removed while no cluster is running.
	Cache string
	// Sources contains the folders "pause" and "testserver", the sources of two programs for images.
	Sources fs.FS
	// Report is called after each step, Start before each step that is not in the cache.
	Report func(Step)
	Start  func(name string)
	// Wait is called, if it is not nil, when another command is building in the same cache. holder describes that command.
	Wait func(holder string)
}

// CacheDir returns the folder to use as Builder.Cache: $PLAYGROUND_CACHE, else $XDG_CACHE_HOME/liqo-playground, else
// ~/.cache/liqo-playground. It returns an error if it cannot determine the folder.
func CacheDir() (string, error) {
	if dir := os.Getenv("PLAYGROUND_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	return filepath.Join(dir, "liqo-playground"), nil
}

// Set builds what is missing and returns a folder with bin/, cni/ and images/. That folder never changes: other versions get another folder.
// Only one call of Set at a time runs on a cache; others wait until ctx ends.
func (b Builder) Set(ctx context.Context, metricsServer bool) (string, error) {
	if err := os.MkdirAll(b.Cache, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache: %w", err)
	}
	unlock, err := process.Lock(ctx, filepath.Join(b.Cache, "lock"), b.Wait)
	if err != nil {
		return "", err
	}
	defer unlock()
	list := items(metricsServer)
	all := sha256.New()
	var dirs []string
	for _, i := range list {
		key, err := i.key(runtime.Version())
		if err != nil {
			return "", err
		}
		fmt.Fprintln(all, key)
		dirs = append(dirs, filepath.Join(b.Cache, key))
	}
	images, err := b.imagesKey(dirs)
	if err != nil {
		return "", err
	}
	fmt.Fprintln(all, images)
	set := filepath.Join(b.Cache, "set-"+short(all.Sum(nil)))
	if _, err := os.Stat(set); err == nil {
		return set, nil
	}
	for n, i := range list {
		if err := b.once(i.name+" "+i.version, dirs[n], func(dir string) error { return b.compile(ctx, i, dir) }); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(b.Cache, images)
	if err := b.once("images", dir, func(out string) error { return b.images(ctx, dirs, metricsServer, out) }); err != nil {
		return "", err
	}
	return set, b.place(set, func(out string) error { return assemble(out, list, dirs, dir) })
}

// once creates a folder with the function make, unless the folder exists.
func (b Builder) once(name, dir string, make func(dir string) error) error {
	if _, err := os.Stat(dir); err == nil {
		b.Report(Step{Name: name, Cached: true})
		return nil
	}
	b.Start(name)
	began := time.Now()
	if err := b.place(dir, make); err != nil {
		return fmt.Errorf("building %s: %w", name, err)
	}
	b.Report(Step{Name: name, Duration: time.Since(began)})
	return nil
}

// place creates a folder atomically: make fills a temporary folder, which place then renames.
func (b Builder) place(dir string, make func(dir string) error) error {
	temporary, err := os.MkdirTemp(b.Cache, ".making-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	if err := os.Chmod(temporary, 0o755); err != nil {
		return err
	}
	if err := make(temporary); err != nil {
		return err
	}
	return os.Rename(temporary, dir)
}

func (b Builder) compile(ctx context.Context, i item, dir string) error {
	source, err := os.MkdirTemp(b.Cache, ".source-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(source) }()
	if err := unpack(modules, "modules/"+i.module, source); err != nil {
		return err
	}
	if err := golang(ctx, source, i.arguments(dir)...); err != nil {
		return err
	}
	for _, link := range i.links {
		if err := os.Link(filepath.Join(dir, filepath.Base(i.packages[0])), filepath.Join(dir, link)); err != nil {
			return err
		}
	}
	return nil
}

// golang runs the go command in a folder. It does not use the user's workspace or GOFLAGS.
func golang(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return errors.New("running go: it is not installed, or not in PATH")
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		return fmt.Errorf("running go: %w: %s", cmp.Or(ctx.Err(), err), strings.Join(lines[max(0, len(lines)-10):], "\n"))
	}
	return nil
}

// assemble creates one folder with hard links to all programs and images.
func assemble(out string, list []item, dirs []string, images string) error {
	for n, i := range list {
		folder := "bin"
		if i.name == "cni" {
			folder = "cni"
		}
		if err := linkAll(dirs[n], filepath.Join(out, folder), i.programs()); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(images)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return linkAll(images, filepath.Join(out, "images"), names)
}

func linkAll(from, to string, names []string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if err := os.Link(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}
