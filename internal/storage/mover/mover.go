// Package mover is the program in the pods that move a volume. It runs restic to copy the volume to or from a repository, and reports a checksum of everything
// in the volume.
package mover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/storage/move"
)

// Program copies one volume. The environment variables of restic contain the address of the repository and the passwords.
type Program struct {
	// Restic is the path of restic.
	Restic string
	// Out receives the progress as JSON lines.
	Out io.Writer
	// Err receives the messages of restic.
	Err io.Writer
	// State is a directory for the files of live copies. Only this pod uses it.
	State string
}

// host is the host name in snapshots. It is constant, so that a restarted pod finds the last snapshot although its own name differs. deviceFile is the name
// that the content of a device has in a snapshot.
const (
	host       = "liqo"
	deviceFile = "volume"
)

// lostAndFound belongs to the file system, not to its content.
const lostAndFound = "lost+found"

// Run executes "send PATH" or "receive PATH" for the directory or device at PATH. After a failure it can be repeated, and does not copy everything again.
// "send-live PATH" and "receive-live PATH" copy a directory again and again, until Finish.
func (p *Program) Run(ctx context.Context, args []string) (*move.Result, error) {
	if len(args) != 2 || !slices.Contains([]string{"send", "receive", "send-live", "receive-live"}, args[0]) {
		return nil, fmt.Errorf("want send PATH or receive PATH, or the same with -live, got %q", args)
	}
	path := args[1]
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading the volume: %w", err)
	}
	device := !info.IsDir()
	if !device && strings.HasPrefix(args[0], "send") {
		if err := withoutDevices(path); err != nil {
			return nil, err
		}
	}
	switch {
	case args[0] == "send-live":
		return p.live(ctx, path, p.sendLive)
	case args[0] == "receive-live":
		return p.live(ctx, path, p.receiveLive)
	case args[0] == "send" && device:
		return p.sendDevice(ctx, path)
	case args[0] == "send":
		return p.send(ctx, path)
	case device:
		return p.receiveDevice(ctx, path)
	default:
		return p.receive(ctx, path)
	}
}

func (p *Program) send(ctx context.Context, path string) (*move.Result, error) {
	if err := p.initialize(ctx); err != nil {
		return nil, err
	}
	// --force reads all files again. Otherwise restic takes unchanged files from the last snapshot, and an unequal copy would stay unequal.
	if err := p.backup(ctx, path, "--force"); err != nil {
		return nil, err
	}
	return sumTree(ctx, path, p.Out)
}

// withoutDevices returns an error if the volume contains a device: the pod that receives the volume may not create one, because the other cluster would choose
// which. The whiteouts of overlay file systems are no devices, although they look like one.
func withoutDevices(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeDevice == 0 {
			return ignoreVanished(err)
		}
		var stat unix.Stat_t
		if err := unix.Lstat(path, &stat); err != nil || stat.Rdev == 0 {
			return ignoreVanished(err)
		}
		return fmt.Errorf("the volume contains the device %s, which a move does not copy: cancel the move, and delete the device", path)
	})
}

// ignoreVanished returns nil if a file vanished while programs use the volume.
func ignoreVanished(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (p *Program) backup(ctx context.Context, path string, further ...string) error {
	args := append([]string{"backup", "--json"}, further...)
	return p.restic(ctx, nil, p.Out, append(args, "--host", host, "--exclude", filepath.Join(path, lostAndFound), path)...)
}

func (p *Program) receive(ctx context.Context, path string) (*move.Result, error) {
	if err := p.restore(ctx, path); err != nil {
		return nil, err
	}
	return sumTree(ctx, path, p.Out)
}

func (p *Program) restore(ctx context.Context, path string, further ...string) error {
	// The snapshot includes the directory itself, so that its owner and mode are restored too. A hostile provider with the password may have added other paths
	// to the snapshot; restic ignores them because of --include. --delete removes files that only an earlier snapshot has.
	args := []string{"restore", "latest", "--json", "--host", host, "--sparse", "--target", "/", "--include", path, "--delete",
		"--exclude-xattr", "trusted.*", "--exclude-xattr", "security.selinux"}
	if err := p.restic(ctx, nil, p.Out, append(args, further...)...); err != nil {
		return err
	}
	return persist(path)
}

func (p *Program) sendDevice(ctx context.Context, path string) (*move.Result, error) {
	if err := p.initialize(ctx); err != nil {
		return nil, err
	}
	device, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the volume: %w", err)
	}
	defer func() { _ = device.Close() }()
	if err := p.restic(ctx, device, p.Out, "backup", "--json", "--host", host, "--stdin", "--stdin-filename", deviceFile); err != nil {
		return nil, err
	}
	size, err := device.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("reading the size of the volume: %w", err)
	}
	return sumDevice(ctx, path, size, p.Out)
}

func (p *Program) receiveDevice(ctx context.Context, path string) (*move.Result, error) {
	device, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the volume: %w", err)
	}
	defer func() { _ = device.Close() }()
	written := &counter{progress: newProgress(p.Out, 0), to: device}
	if err := p.restic(ctx, nil, written, "dump", "latest", "/"+deviceFile, "--host", host); err != nil {
		return nil, err
	}
	if err := device.Sync(); err != nil {
		return nil, fmt.Errorf("writing the volume to its disk: %w", err)
	}
	return sumDevice(ctx, path, written.progress.done, p.Out)
}

// noRepository is the exit code of restic if the store answers but has no repository.
const noRepository = 10

// initialize creates the repository if there is none. It returns other errors, such as a wrong password.
func (p *Program) initialize(ctx context.Context) error {
	err := p.restic(ctx, nil, io.Discard, "cat", "config")
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && ended.ExitCode() == noRepository {
		return p.restic(ctx, nil, io.Discard, "init")
	}
	return err
}

// restic runs restic. The error contains restic's last messages.
func (p *Program) restic(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	command := exec.CommandContext(ctx, p.Restic, append(args, "--no-cache")...)
	var said bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = in, out, io.MultiWriter(p.Err, &said)
	command.Env = append(os.Environ(), "RESTIC_PROGRESS_FPS=1")
	if err := command.Run(); err != nil {
		return fmt.Errorf("restic %s: %w: %s", args[0], errors.Join(ctx.Err(), err), last(said.String()))
	}
	return nil
}

// maxMessage is the maximum length of an error message of restic, so that it fits into the status of a pod together with its prefix.
const maxMessage = 2000

func last(text string) string {
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-maxMessage):]
}

// persist waits until everything below path is written to the disk.
func persist(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the volume: %w", err)
	}
	defer func() { _ = directory.Close() }()
	if err := unix.Syncfs(int(directory.Fd())); err != nil {
		return fmt.Errorf("writing the volume to its disk: %w", err)
	}
	return nil
}

// Report returns the termination message of the container: the result or the error.
func Report(result *move.Result, err error) string {
	if err != nil {
		return err.Error()
	}
	text, err := json.Marshal(result)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
