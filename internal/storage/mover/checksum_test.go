package mover

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/storage/move"
)

// filled returns a directory with a file of each kind.
func filled(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	when := time.Unix(1_700_000_000, 123_456_000)
	for _, problem := range []error{
		os.Mkdir(filepath.Join(root, "empty"), 0o750),
		os.WriteFile(filepath.Join(root, "file"), []byte("content"), 0o640),
		os.Link(filepath.Join(root, "file"), filepath.Join(root, "same")),
		os.Symlink("file", filepath.Join(root, "link")),
		unix.Mkfifo(filepath.Join(root, "pipe"), 0o600),
		os.WriteFile(filepath.Join(root, "attributes"), nil, 0o600),
		unix.Setxattr(filepath.Join(root, "attributes"), "user.colour", []byte("red"), 0),
	} {
		if problem != nil && !errors.Is(problem, unix.ENOTSUP) {
			t.Fatal(problem)
		}
	}
	for _, name := range []string{"file", "attributes", "pipe", "empty", "."} {
		if err := os.Chtimes(filepath.Join(root, name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	stamp := unix.NsecToTimespec(when.UnixNano())
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(root, "link"), []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		t.Fatal(err)
	}
	return root
}

func sum(t *testing.T, root string) *move.Result {
	t.Helper()
	out, err := sumTree(t.Context(), root, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestChecksumCoversMetadata: equal trees have equal checksums wherever they are, and each lost detail gives another one.
func TestChecksumCoversMetadata(t *testing.T) {
	want := sum(t, filled(t))
	if got := sum(t, filled(t)); *got != *want || want.Files != 7 || want.Bytes != int64(len("content")) {
		t.Fatalf("two equal trees: %+v and %+v", got, want)
	}
	within := func(change func(at func(string) string) error) func(string) error {
		return func(root string) error { return change(func(name string) string { return filepath.Join(root, name) }) }
	}
	when := time.Unix(1_700_000_000, 123_456_000)
	for name, change := range map[string]func(string) error{
		"content": within(func(at func(string) string) error {
			return errors.Join(os.WriteFile(at("file"), []byte("c0ntent"), 0o640), os.Chtimes(at("file"), when, when))
		}),
		"mode":             within(func(at func(string) string) error { return os.Chmod(at("file"), 0o600) }),
		"mode of the root": within(func(at func(string) string) error { return os.Chmod(at("."), 0o711) }),
		"set-user-ID":      within(func(at func(string) string) error { return os.Chmod(at("file"), 0o640|os.ModeSetuid) }),
		"time":             within(func(at func(string) string) error { return os.Chtimes(at("file"), when, when.Add(time.Millisecond)) }),
		"time of a folder": within(func(at func(string) string) error { return os.Chtimes(at("empty"), when, when.Add(time.Second)) }),
		"empty folder": within(func(at func(string) string) error {
			return errors.Join(os.Remove(at("empty")), os.Chtimes(at("."), when, when))
		}),
		"symbolic link": within(func(at func(string) string) error {
			return errors.Join(os.Remove(at("link")), os.Symlink("same", at("link")), os.Chtimes(at("."), when, when))
		}),
		"hard link": within(func(at func(string) string) error {
			return errors.Join(os.Remove(at("same")), os.WriteFile(at("same"), []byte("content"), 0o640), os.Chtimes(at("same"), when, when),
				os.Chtimes(at("."), when, when))
		}),
		"attribute": within(func(at func(string) string) error {
			err := unix.Setxattr(at("attributes"), "user.colour", []byte("blue"), 0)
			if errors.Is(err, unix.ENOTSUP) { // such a file system keeps none
				return os.Chmod(at("attributes"), 0o400)
			}
			return err
		}),
	} {
		root := filled(t)
		if err := change(root); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := sum(t, root); got.Checksum == want.Checksum {
			t.Errorf("%s: the checksum does not show the change", name)
		}
	}
	root := filled(t)
	if err := errors.Join(os.Mkdir(filepath.Join(root, lostAndFound), 0o700), os.Chtimes(root, when, when)); err != nil {
		t.Fatal(err)
	}
	if got := sum(t, root); *got != *want {
		t.Errorf("%s is of the file system, and changes the checksum", lostAndFound)
	}
}

// TestDevicesAreNotSent: the first pod of a move names a device in the volume, before it copies anything. Whiteouts of overlay file systems are copied.
func TestDevicesAreNotSent(t *testing.T) {
	root := filled(t)
	device := filepath.Join(root, "empty", "null")
	if err := unix.Mknod(filepath.Join(root, "whiteout"), unix.S_IFCHR, 0); err != nil {
		t.Fatal(err)
	}
	if err := withoutDevices(root); err != nil {
		t.Errorf("a volume without devices: %v", err)
	}
	if err := unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"send", "send-live"} {
		_, err := (&Program{Restic: "/nonexistent", Out: io.Discard, Err: io.Discard, State: t.TempDir()}).Run(t.Context(), []string{command, root})
		if err == nil || !strings.Contains(err.Error(), "the device "+device+", which a move does not copy") {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// TestChecksumOfADevice covers the bytes of the source only: the target may be larger.
func TestChecksumOfADevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "device")
	of := func(content string) *move.Result {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := sumDevice(t.Context(), path, 4, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	small, large, other := of("data"), of("data and more"), of("date")
	if *small != *large || small.Checksum == other.Checksum || small.Bytes != 4 {
		t.Errorf("%+v, %+v and %+v", small, large, other)
	}
}

// stub is a restic that notes how it is called, and does what a script says.
func stub(t *testing.T, script string) (program *Program, calls func() string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	text := "#!/bin/sh\necho \"$@\" >> " + log + "\n" + script
	if err := os.WriteFile(filepath.Join(dir, "restic"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return &Program{Restic: filepath.Join(dir, "restic"), Out: io.Discard, Err: io.Discard}, func() string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// TestTheRepositoryIsCreatedOnce: a sender that runs again uses the repository that is there, and reports the checksum of the volume.
func TestTheRepositoryIsCreatedOnce(t *testing.T) {
	root := filled(t)
	for script, inits := range map[string]int{"[ $1 != cat ] || exit 10": 1, "true": 0} {
		program, calls := stub(t, script)
		result, err := program.Run(t.Context(), []string{"send", root})
		if err != nil || *result != *sum(t, root) {
			t.Fatalf("%+v, %v", result, err)
		}
		said := calls()
		if strings.Count(said, "init") != inits || !strings.Contains(said, "backup --json --force --host liqo --exclude "+filepath.Join(root, lostAndFound)+" "+root) {
			t.Errorf("%q: calls %q", script, said)
		}
	}
}

// TestOnlyTheVolumeIsRestored: other paths in a snapshot, which a hostile sender added, are left out.
func TestOnlyTheVolumeIsRestored(t *testing.T) {
	root := filled(t)
	program, calls := stub(t, "true")
	if _, err := program.Run(t.Context(), []string{"receive", root}); err != nil {
		t.Fatal(err)
	}
	if said := calls(); !strings.Contains(said, "--target / --include "+root+" ") {
		t.Errorf("calls %q", said)
	}
}

// TestAReceivedDeviceIsCountedAndSummed: what restic prints is on the device, and its checksum is that of the sender.
func TestAReceivedDeviceIsCountedAndSummed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(path, []byte("old and longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	program, _ := stub(t, "printf data")
	received, err := program.Run(t.Context(), []string{"receive", path})
	if err != nil {
		t.Fatal(err)
	}
	sent, err := program.Run(t.Context(), []string{"send", path})
	if err != nil {
		t.Fatal(err)
	}
	if received.Bytes != 4 || sent.Bytes != int64(len("old and longer")) {
		t.Errorf("received %+v, sent %+v", received, sent)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "dataand longer" {
		t.Errorf("the device has %q, %v", content, err)
	}
}

// TestAFailureNamesItsCause: the message of restic is in the error, and no result is reported.
func TestAFailureNamesItsCause(t *testing.T) {
	program, _ := stub(t, "echo disk full >&2; exit 3")
	result, err := program.Run(t.Context(), []string{"receive", filled(t)})
	if result != nil || err == nil || !strings.Contains(Report(result, err), "restic restore: exit status 3: disk full") {
		t.Errorf("%+v, %v", result, err)
	}
	if _, err := program.Run(t.Context(), []string{"take", "/data"}); err == nil || !strings.Contains(err.Error(), "want send PATH or receive PATH") {
		t.Error(err)
	}
}
