package image

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestBuiltinImagesCanBeWritten(t *testing.T) {
	busybox := filepath.Join(t.TempDir(), "busybox")
	if err := os.WriteFile(busybox, []byte("#!/bin/sh\nprintf 'wget\\nsh\\nbusybox\\nls\\nls\\n'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	applets, err := Applets(t.Context(), busybox)
	if err != nil || !slices.Equal(applets, []string{"ls", "sh"}) {
		t.Fatalf("%v, %v", applets, err)
	}
	var names []string
	for _, spec := range Builtin(Programs{Testserver: busybox, Pause: busybox, Busybox: busybox, Applets: applets}) {
		names = append(names, spec.Name)
		if err := Write(io.Discard, spec); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(names, []string{TestserverName, BusyboxName, PauseName}) {
		t.Error(names)
	}
}
