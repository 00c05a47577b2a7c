package image

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// Names of the images that every playground cluster holds.
const (
	TestserverName = "playground.local/testserver:v1"
	BusyboxName    = "playground.local/busybox:v1"
	PauseName      = "playground.local/pause:v1"
)

// Programs are the host paths of the static programs the built-in images are made of. Testserver and Pause come from
//
//	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' ./testserver ./pause
//
// and Busybox from Debian's package busybox-static, which puts it at /bin/busybox.
type Programs struct {
	Testserver, Pause, Busybox string
	// Applets are the commands Busybox can stand for, as Applets returns them.
	Applets []string
}

// Builtin describes the images of tests and of the pod sandbox:
//
//   - testserver: /bin/testserver alone, running as user 65532, serving HTTP on 8080 and UDP on 5353;
//   - busybox: a shell and its commands, with testserver beside them as the client that resolves names;
//   - pause: /pause, which containerd needs for every pod.
func Builtin(programs Programs) []Spec {
	shell := []File{
		{Path: "/bin/busybox", Source: programs.Busybox},
		{Path: "/bin/testserver", Source: programs.Testserver},
	}
	for _, applet := range programs.Applets {
		shell = append(shell, File{Path: "/bin/" + applet, Link: "/bin/busybox"})
	}
	return []Spec{
		{Name: TestserverName, Entrypoint: []string{"/bin/testserver"}, User: "65532",
			Files: []File{{Path: "/bin/testserver", Source: programs.Testserver}}},
		{Name: BusyboxName, Cmd: []string{"/bin/sh"}, Files: shell},
		{Name: PauseName, Entrypoint: []string{"/pause"}, User: "65534:65534",
			Files: []File{{Path: "/pause", Source: programs.Pause}}},
	}
}

// Applets asks a busybox for the commands it can stand for, sorted. It leaves out wget: in a static busybox of glibc it
// crashes at the first host name, and "testserver get" does its work.
func Applets(ctx context.Context, busybox string) ([]string, error) {
	out, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the applets of %s: %w", busybox, err)
	}
	applets := slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool {
		return name == "busybox" || name == "testserver" || name == "wget" || path.Base(name) != name
	})
	slices.Sort(applets)
	return slices.Compact(applets), nil
}
