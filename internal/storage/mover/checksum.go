package mover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/storage/move"
)

// Times are compared to the microsecond: some file systems store no finer ones.
const timePrecision = time.Microsecond

// modeBits selects the type of a file and its permissions, including set-user-ID, set-group-ID and the sticky bit.
const modeBits = unix.S_IFMT | 0o7777

// sumTree returns the checksum of a directory with everything below it: names, types, modes, owners, times, contents, targets of symbolic links, hard
// links, numbers of devices, and extended attributes with the ACLs. It leaves out sockets, which belong to running programs.
func sumTree(ctx context.Context, root string, out io.Writer) (*move.Result, error) {
	total, err := size(root)
	if err != nil {
		return nil, err
	}
	t := &tree{ctx: ctx, root: root, sum: sha256.New(), links: map[inode]string{}, progress: newProgress(out, total)}
	if err := filepath.WalkDir(root, t.visit); err != nil {
		return nil, fmt.Errorf("computing the checksum of the volume: %w", err)
	}
	return &move.Result{Checksum: hex.EncodeToString(t.sum.Sum(nil)), Files: t.files, Bytes: t.progress.done}, nil
}

// size returns the number of bytes in the files below root.
func size(root string) (int64, error) {
	var total int64
	err := filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("reading the size of the volume: %w", err)
	}
	return total, nil
}

type inode struct{ device, number uint64 }

type tree struct {
	ctx      context.Context
	root     string
	sum      hash.Hash
	files    int64
	progress *progress
	// links maps files with several paths to the first of these paths.
	links map[inode]string
}

// visit adds one file or directory. WalkDir visits them sorted by name.
func (t *tree) visit(path string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	name, err := filepath.Rel(t.root, path)
	if err != nil {
		return err
	}
	if name == lostAndFound && entry.IsDir() {
		return filepath.SkipDir
	}
	if entry.Type()&fs.ModeSocket != 0 {
		return nil
	}
	var stat syscall.Stat_t
	if err := syscall.Lstat(path, &stat); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	t.files++
	kind := stat.Mode & syscall.S_IFMT
	t.field("name", name)
	if kind == syscall.S_IFLNK {
		stat.Mode = kind // a symbolic link has no permissions
	}
	t.field("owner", fmt.Sprintf("%o %d %d", stat.Mode&modeBits, stat.Uid, stat.Gid))
	t.field("time", time.Unix(stat.Mtim.Unix()).Truncate(timePrecision).UTC().Format(time.RFC3339Nano))
	if stat.Nlink > 1 && kind != syscall.S_IFDIR {
		id := inode{stat.Dev, stat.Ino}
		if first, found := t.links[id]; found {
			t.field("hard link", first)
			return nil
		}
		t.links[id] = name
	}
	if err := t.attributes(path); err != nil {
		return err
	}
	switch kind {
	case syscall.S_IFREG:
		return t.content(path)
	case syscall.S_IFLNK:
		target, err := os.Readlink(path)
		t.field("target", target)
		return err
	case syscall.S_IFCHR, syscall.S_IFBLK:
		t.field("device", fmt.Sprint(stat.Rdev))
	}
	return nil
}

// field adds a text with its length. Without the length, different sequences of fields could have the same checksum.
func (t *tree) field(kind, text string) { fmt.Fprintf(t.sum, "%s %d %s\n", kind, len(text), text) }

// content adds the content of a file.
func (t *tree) content(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return t.read(file)
}

// read reads everything from a reader, and adds the checksum of what it read to the checksum of the tree.
func (t *tree) read(from io.Reader) error {
	content := sha256.New()
	buffer := make([]byte, 1<<20)
	for {
		n, err := from.Read(buffer)
		content.Write(buffer[:n])
		t.progress.add(n, "verify")
		switch {
		case errors.Is(err, io.EOF):
			t.field("content", hex.EncodeToString(content.Sum(nil)))
			return nil
		case err != nil:
			return err
		case t.ctx.Err() != nil:
			return t.ctx.Err()
		}
	}
}

// kept reports whether an extended attribute is copied. Other attributes, such as the SELinux labels, belong to the cluster or to a lower layer.
func kept(attribute string) bool {
	return strings.HasPrefix(attribute, "user.") || strings.HasPrefix(attribute, "system.posix_acl_") || attribute == "security.capability"
}

func (t *tree) attributes(path string) error {
	names, err := listAttributes(path)
	if err != nil {
		return fmt.Errorf("reading the extended attributes of %s: %w", path, err)
	}
	for _, name := range names {
		size, err := unix.Lgetxattr(path, name, nil)
		if err != nil {
			return fmt.Errorf("reading attribute %s of %s: %w", name, path, err)
		}
		value := make([]byte, size)
		if size > 0 {
			if size, err = unix.Lgetxattr(path, name, value); err != nil {
				return fmt.Errorf("reading attribute %s of %s: %w", name, path, err)
			}
		}
		t.field("attribute", name)
		t.field("value", string(value[:size]))
	}
	return nil
}

// listAttributes returns the sorted names of the attributes that are copied. It is empty for file systems without attributes.
func listAttributes(path string) ([]string, error) {
	size, err := unix.Llistxattr(path, nil)
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil || size == 0 {
		return nil, err
	}
	buffer := make([]byte, size)
	if size, err = unix.Llistxattr(path, buffer); err != nil {
		return nil, err
	}
	var out []string
	for name := range strings.SplitSeq(string(buffer[:size]), "\x00") {
		if kept(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// sumDevice returns the checksum of the first bytes of a device. The rest of a larger device is not part of the volume.
func sumDevice(ctx context.Context, path string, size int64, out io.Writer) (*move.Result, error) {
	device, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the volume: %w", err)
	}
	defer func() { _ = device.Close() }()
	t := &tree{ctx: ctx, sum: sha256.New(), progress: newProgress(out, size)}
	if err := t.read(io.LimitReader(device, size)); err != nil {
		return nil, fmt.Errorf("computing the checksum of the volume: %w", err)
	}
	return &move.Result{Checksum: hex.EncodeToString(t.sum.Sum(nil)), Files: 1, Bytes: t.progress.done}, nil
}
