package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"liqo.io/playground/cgroup"
	"liqo.io/playground/component"
)

// mountAll changes a copy of this machine's mounts into the node's own mounts. Programs and libraries stay those of the machine.
// /etc is an overlay over the machine's /etc. /var, /opt, /tmp and /run belong to the node.
func mountAll(spec Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("leaving the machine's mounts: %w", err)
	}
	in := func(name string) string { return filepath.Join(spec.Dir, name) }
	self, err := os.Executable()
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") },
		func() error { return mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") },
		func() error { return cgroup.Mount(spec.Hierarchies) },
		func() error { return sysctls(in(values)) },
		func() error {
			return mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir="+in(etc)+",workdir="+in(etcWork))
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	// Open all sources before the first mount, because a mount can cover the source of another one. For example, all may be below /var.
	binds, err := open([]bind{
		{in(optional), "/opt", false},
		{spec.Set, component.Set, true},
		{self, component.Self, true},
		{in(temporary), "/tmp", false},
		{in(credentials), component.Credentials, false},
		{in(disk), "/var", false},
		{in(logs), component.Logs, false},
		{spec.Volumes, component.Volumes, false},
	})
	if err != nil {
		return err
	}
	for _, b := range binds {
		if err := b.mount(); err != nil {
			return err
		}
	}
	if err := mount("run", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	if err := folders(); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts with pods: %w", err)
	}
	return nil
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mounting %s on %s: %w", kind, target, err)
	}
	return nil
}

// sysctls makes /proc/sys show the values that kubelet requires, and makes its folders kernel, vm and fs read-only to protect the
// machine's settings.
func sysctls(dir string) error {
	for name, value := range map[string]string{"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"} {
		file := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := mount(file, "/proc/sys/"+name, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	for _, name := range []string{"kernel", "vm", "fs"} {
		target := "/proc/sys/" + name
		if err := mount(target, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
		if err := mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return err
		}
	}
	return nil
}

type bind struct {
	source, target string
	readOnly       bool
}

// open replaces each source by its path in /proc/self/fd, which stays valid when another mount covers the original path.
func open(binds []bind) ([]bind, error) {
	for i, b := range binds {
		fd, err := unix.Open(b.source, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("opening %s: %w", b.source, err)
		}
		binds[i].source = fmt.Sprintf("/proc/self/fd/%d", fd)
	}
	return binds, nil
}

func (b bind) mount() error {
	info, err := os.Stat(b.source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(b.target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(b.target), 0o755); err == nil {
		err = os.WriteFile(b.target, nil, 0o755)
	}
	if err != nil {
		return err
	}
	if err := mount(b.source, b.target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if !b.readOnly {
		return nil
	}
	return mount("", b.target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// folders creates the folders and links that the node's programs expect.
func folders() error {
	for _, dir := range []string{
		"/run/netns", "/run/lock", "/run/containerd", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/etcd", "/var/lib/cni",
		"/var/log/pods", "/var/log/containers", "/var/tmp", "/var/cache", "/etc/cni/net.d", "/opt/cni/bin",
	} {
		mode := fs.FileMode(0o755)
		if dir == "/var/lib/etcd" {
			mode = 0o700
		}
		if err := os.MkdirAll(dir, mode); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", "/var/run"); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	plugins, err := os.ReadDir(component.Set + "/cni")
	if err != nil {
		return err
	}
	for _, p := range plugins {
		err := os.Symlink(component.Set+"/cni/"+p.Name(), "/opt/cni/bin/"+p.Name())
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}
