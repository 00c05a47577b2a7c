// Package cgroup creates and removes control groups, on machines with cgroup v1 and on machines with only cgroup v2. It also mounts the
// cgroup hierarchies of a node inside the node's cgroup namespace.
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

// Hierarchy is one mounted cgroup hierarchy.
type Hierarchy struct {
	// Path is the mount point.
	Path string `json:"path"`
	// Options are the mount options that mount the same hierarchy again; they name its controllers. Empty means the cgroup v2 hierarchy.
	Options string `json:"options,omitempty"`
}

// inner is the child group of a node's group that contains the node's programs. Under cgroup v2, a group that delegates controllers to its
// children must not contain processes. The cpu hierarchy of cgroup v1 allows it, but there each thread in the node's group would get the
// same CPU share as a whole group of pods. A busy API server would then leave almost no CPU time for pods.
const inner = "init"

// Find returns the cgroup hierarchies of this machine: all hierarchies of cgroup v1, or the only one of cgroup v2.
func Find() ([]Hierarchy, error) {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	return parse(string(data))
}

// parse finds the hierarchies in the text of /proc/self/mounts.
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

// Group is a control group that has the same name in every hierarchy.
type Group struct {
	Hierarchies []Hierarchy
	// Name is a path below the root of the hierarchy, such as "parent/child".
	Name string
}

// Make creates the group and its parents. Groups that exist are not an error.
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
				return fmt.Errorf("creating control group: %w", err)
			}
			if err := inherit(parent, dir); err != nil {
				return fmt.Errorf("setting up control group %s: %w", dir, err)
			}
		}
	}
	return nil
}

// inherit copies the parent's cpuset into a group whose cpuset is empty. cgroup v1 creates every cpuset empty.
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
			continue // under cgroup v2, empty means all CPUs or memory nodes
		}
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// delegate enables all controllers of a cgroup v2 group for its children.
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

// Add moves a process into the group, or into its child group "init" where that exists.
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

// Remove kills all processes in the group and removes it together with all groups below it. It retries for up to 10 s.
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
			return nil // ignore errors: groups may appear and disappear during the walk
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

// Mount mounts the hierarchies of a node at /sys/fs/cgroup. The caller must be PID 1 of the node and the only process in its group, which is
// the root of the node's cgroup namespace.
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
			return fmt.Errorf("creating %s: %w", dir, err)
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

// retire moves PID 1 from the root of a hierarchy to the group "init". Child processes that PID 1 starts later are in that group too.
func retire(root string) error {
	dir := filepath.Join(root, inner)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating control group: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("1"), 0o644); err != nil {
		return fmt.Errorf("moving into control group %s: %w", dir, err)
	}
	return nil
}
