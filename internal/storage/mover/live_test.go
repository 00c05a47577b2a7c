package mover

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"liqo.io/liqo/internal/storage/move"
)

// engine is a script in place of restic. It notes its arguments, and copies the volume to a file and back. Each pass of a sender ends with code 3, unless the
// volume is at rest.
const engine = `#!/bin/sh
echo "$@" >> "$LOG"
case "$1" in
backup) cp "$VOLUME/file" "$STORE"; [ -e "$VOLUME/rest" ] || exit 3 ;;
restore) cp -p "$STORE" "$VOLUME/file" ;;
esac
`

// TestLiveCopies: both programs copy until they are told to finish, then once more, and report the checksum of the end. Files that vanish during a pass are
// no error before the end.
func TestLiveCopies(t *testing.T) {
	for _, role := range []string{"send-live", "receive-live"} {
		dir := t.TempDir()
		volume, store, log := filepath.Join(dir, "volume"), filepath.Join(dir, "store"), filepath.Join(dir, "log")
		program := &Program{Restic: filepath.Join(dir, "restic"), Out: io.Discard, Err: io.Discard, State: dir}
		first := volume + "/file"
		if role == "receive-live" {
			first = store
		}
		if err := errors.Join(os.Mkdir(volume, 0o700), os.WriteFile(program.Restic, []byte(engine), 0o700), os.WriteFile(first, []byte("early"), 0o600)); err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"LOG": log, "VOLUME": volume, "STORE": store} {
			t.Setenv(name, value)
		}
		if program.Control(t.Context(), "follows") == nil {
			t.Error("it follows before it has copied anything")
		}
		ended := make(chan error, 1)
		var result *move.Result
		go func() {
			var err error
			result, err = program.Run(t.Context(), []string{role, volume})
			ended <- err
		}()
		for program.Control(t.Context(), "follows") != nil {
			time.Sleep(time.Millisecond)
		}
		// The last change, and the end of all changes.
		if err := errors.Join(os.WriteFile(first, []byte("late"), 0o600), os.WriteFile(volume+"/rest", nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a command that was killed tells it again
			if err := program.Control(t.Context(), "finish"); err != nil {
				t.Fatal(err)
			}
		}
		// It waits with its end for who asks for the result.
		var report bytes.Buffer
		reader := &Program{State: dir, Out: &report}
		if err := reader.Control(t.Context(), "result"); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if report.String() != Report(result, nil) {
			t.Errorf("%s reports %q when it is asked, and ends with %+v", role, report.String(), result)
		}
		for _, file := range []string{volume + "/file", store} {
			if text, err := os.ReadFile(file); err != nil || string(text) != "late" {
				t.Errorf("%s: %s has %q, %v", role, file, text, err)
			}
		}
		if want := sum(t, volume); *result != *want {
			t.Errorf("%s reports %+v, want %+v", role, result, want)
		}
		called, err := os.ReadFile(log)
		if err != nil || strings.Contains(string(called), "--force") || strings.Count(string(called), "--host") != 2 {
			t.Errorf("%s: %s, %v", role, called, err)
		}
	}
	if err := (&Program{State: t.TempDir()}).Control(t.Context(), "x"); err == nil {
		t.Error("a command that does not exist")
	}
}
