// Package cgroup makes control groups on machines with cgroup v1 and on those with v2 alone, and mounts them for a node
// that lives in a cgroup namespace.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Hierarchy is one mounted tree of control groups.
type Hierarchy struct {
	// Path is where it is mounted.
	Path string `json:"path"`
	// Options mount it again; they name its controllers. Empty means the tree of cgroup v2.
	Options string `json:"options,omitempty"`
}

// inner is the group, below a node's own, where its programs are. Under cgroup v2 a group that hands controllers down may not hold processes
// itself; in the cpu hierarchy of v1 it may, but there each thread in it would weigh as much as a group of pods, and a busy API server leave
// pods next to nothing.
const inner = "init"

// Find returns the hierarchies of this machine: all of v1, or the only one of v2.
func Find() ([]Hierarchy, error) {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	return parse(string(data))
}

// parse reads the text of /proc/self/mounts.
func parse(mounts string) ([]Hierarchy, error) {
	var old, unified []Hierarchy
	for _, line := range strings.Split(mounts, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		switch fields[2] {
		case "cgroup2":
			unified = append(unified, Hierarchy{Path: fields[1]})
		case "cgroup":
			options := slices.DeleteFunc(strings.Split(fields[3], ","), func(o string) bool {
				generic := []string{"rw", "ro", "relatime", "noatime", "nosuid", "nodev", "noexec", "xattr", "clone_children", "noprefix"}
				return slices.Contains(generic, o) || strings.HasPrefix(o, "release_agent=")
			})
			if len(options) == 1 && strings.HasPrefix(options[0], "name=") {
				options = append([]string{"none"}, options...)
			}
			old = append(old, Hierarchy{Path: fields[1], Options: strings.Join(options, ",")})
		}
	}
	switch {
	case len(old) > 0:
		return old, nil
	case len(unified) > 0:
		return unified[:1], nil
	}
	return nil, errors.New("finding control groups: none are mounted")
}

// Group is a control group of the same name in every hierarchy.
type Group struct {
	Hierarchies []Hierarchy
	// Name is a path below the root: "parent/child".
	Name string
}

// Make makes the group and its parents.
func (g Group) Make() error {
	for _, h := range g.Hierarchies {
		dir := h.Path
		for _, part := range strings.Split(g.Name, "/") {
			if h.Options == "" {
				if err := delegate(dir); err != nil {
					return err
				}
			}
			parent := dir
			dir = filepath.Join(dir, part)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("making control group: %w", err)
			}
			if err := inherit(parent, dir); err != nil {
				return fmt.Errorf("setting up control group %s: %w", dir, err)
			}
		}
	}
	return nil
}

// inherit gives a new cpuset of v1, which would be empty, what its parent has.
func inherit(parent, dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(own)) != "" {
			continue
		}
		value, err := os.ReadFile(filepath.Join(parent, name))
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(value)) == "" {
			continue // v2: empty means all
		}
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// delegate hands all controllers of a v2 group down to its children.
func delegate(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("reading controllers: %w", err)
	}
	for _, controller := range strings.Fields(string(data)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644); err != nil {
			return fmt.Errorf("handing down controller %s of %s: %w", controller, dir, err)
		}
	}
	return nil
}

// Add moves a process into the group.
func (g Group) Add(pid int) error {
	for _, h := range g.Hierarchies {
		dir := filepath.Join(h.Path, g.Name)
		if _, err := os.Stat(filepath.Join(dir, inner)); err == nil {
			dir = filepath.Join(dir, inner)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return fmt.Errorf("moving process %d into control group %s: %w", pid, dir, err)
		}
	}
	return nil
}

// Remove kills what is left in the group and removes it with all groups below it.
func (g Group) Remove() error {
	var err error
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if err = g.remove(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func (g Group) remove() error {
	var errs []error
	for _, h := range g.Hierarchies {
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(h.Path, g.Name), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // groups come and go while we look
		})
		for _, dir := range slices.Backward(dirs) {
			err := os.Remove(dir)
			if errors.Is(err, unix.EBUSY) {
				killAll(dir)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("removing control group: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

func killAll(dir string) {
	data, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for _, field := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 && pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// Mount mounts the hierarchies of a node at /sys/fs/cgroup. The caller is PID 1 of the node, alone in the group that is the
// root of its cgroup namespace.
func Mount(hierarchies []Hierarchy) error {
	const root = "/sys/fs/cgroup"
	if len(hierarchies) == 1 && hierarchies[0].Options == "" {
		if err := unix.Mount("cgroup2", root, "cgroup2", 0, ""); err != nil {
			return fmt.Errorf("mounting cgroup2: %w", err)
		}
		if err := retire(root); err != nil {
			return err
		}
		return delegate(root)
	}
	if err := unix.Mount("cgroup", root, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting %s: %w", root, err)
	}
	for _, h := range hierarchies {
		dir := filepath.Join(root, filepath.Base(h.Path))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("making %s: %w", dir, err)
		}
		if err := unix.Mount("cgroup", dir, "cgroup", 0, h.Options); err != nil {
			return fmt.Errorf("mounting control groups %s: %w", h.Options, err)
		}
		if slices.Contains(strings.Split(h.Options, ","), "cpu") {
			if err := retire(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// retire moves PID 1, and so all that it starts, from the root of a hierarchy to the inner group.
func retire(root string) error {
	dir := filepath.Join(root, inner)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making control group: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("1"), 0o644); err != nil {
		return fmt.Errorf("moving into control group %s: %w", dir, err)
	}
	return nil
}
