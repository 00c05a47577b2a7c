// Package mover is the program in the pods of a volume's move: it runs restic to copy a volume to a repository or from there, and reports a checksum of
// everything in the volume.
package mover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/storage/move"
)

// Program copies one volume. Its repository and its password are in the environment variables of restic.
type Program struct {
	// Restic is the path of restic.
	Restic string
	// Out receives the progress, as lines of JSON.
	Out io.Writer
	// Err receives the messages of restic.
	Err io.Writer
}

// The name of the host in snapshots, so that a restarted pod with another name finds the last one, and the name of a device's content.
const (
	host       = "liqo"
	deviceFile = "volume"
)

// lostAndFound belongs to the file system and not to its content.
const lostAndFound = "lost+found"

// Run executes "send PATH" or "receive PATH" for the directory or the device at PATH. It can be repeated after each failure: what was copied before is not
// copied again.
func (p *Program) Run(ctx context.Context, args []string) (*move.Result, error) {
	if len(args) != 2 || args[0] != "send" && args[0] != "receive" {
		return nil, fmt.Errorf("want send PATH or receive PATH, got %q", args)
	}
	path := args[1]
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading the volume: %w", err)
	}
	switch device := !info.IsDir(); {
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
	// --force reads all files again. Otherwise restic takes the content of unchanged files from the snapshot before, and an unequal copy stays unequal.
	err := p.restic(ctx, nil, p.Out, "backup", "--json", "--force", "--host", host, "--exclude", filepath.Join(path, lostAndFound), path)
	if err != nil {
		return nil, err
	}
	return sumTree(ctx, path, p.Out)
}

func (p *Program) receive(ctx context.Context, path string) (*move.Result, error) {
	// The snapshot has the path of the directory, so that its owner and its mode are restored too. Whoever holds the password, such as a hostile
	// provider, may have put other paths into it: they are left out.
	err := p.restic(ctx, nil, p.Out, "restore", "latest", "--json", "--host", host, "--sparse", "--target", "/", "--include", path,
		"--exclude-xattr", "trusted.*", "--exclude-xattr", "security.selinux")
	if err != nil {
		return nil, err
	}
	if err := persist(path); err != nil {
		return nil, err
	}
	return sumTree(ctx, path, p.Out)
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

// noRepository is the exit code of restic if the store answers, but has no repository.
const noRepository = 10

// initialize creates the repository if there is none. Other errors, such as a wrong password, stay as they are.
func (p *Program) initialize(ctx context.Context) error {
	err := p.restic(ctx, nil, io.Discard, "cat", "config")
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && ended.ExitCode() == noRepository {
		return p.restic(ctx, nil, io.Discard, "init")
	}
	return err
}

// restic runs restic. An error has its last messages.
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

// maxMessage is how much of an error fits into the status of a pod, with room for its beginning.
const maxMessage = 2000

func last(text string) string {
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-maxMessage):]
}

// persist waits until everything below path is on its disk.
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

// Report returns the text for the termination message of the container: the result, or the error.
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
