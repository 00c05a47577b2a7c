package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"liqo.io/playground/component"
	"liqo.io/playground/image"
)

// programsModule is the go.mod for the programs in Sources. They use only the standard library.
const programsModule = "module playground.local/programs\n\ngo 1.26\n"

// imagesKey returns the name of the folder of images in the cache. It depends on everything that goes into the images.
func (b Builder) imagesKey(dirs []string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, "images", dirs)
	for _, root := range []string{"pause", "testserver"} {
		if err := hashFiles(h, b.Sources, root); err != nil {
			return "", fmt.Errorf("reading the sources of %s: %w", root, err)
		}
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return "", fmt.Errorf("finding busybox: %w", err)
	}
	data, err := os.ReadFile(busybox)
	if err != nil {
		return "", err
	}
	h.Write(data)
	return "images-" + short(h.Sum(nil)), nil
}

// images writes all image archives to the folder out. dirs are the folders of the built items.
func (b Builder) images(ctx context.Context, dirs []string, metricsServer bool, out string) error {
	programs, err := os.MkdirTemp(b.Cache, ".programs-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(programs) }()
	for _, root := range []string{"pause", "testserver"} {
		if err := unpack(b.Sources, root, filepath.Join(programs, "src", root)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(programs, "src", "go.mod"), []byte(programsModule), 0o644); err != nil {
		return err
	}
	if err := golang(ctx, filepath.Join(programs, "src"), "build", "-trimpath", "-ldflags=-s -w", "-o", programs+"/", "./pause", "./testserver"); err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(programs, name) }
	shell, err := shell(in("testserver"))
	if err != nil {
		return err
	}
	specs := map[string]image.Spec{
		"pause":      single(component.PauseImage, in("pause"), "65535:65535"),
		"testserver": single(component.TestServerImage, in("testserver"), ""),
		"shell":      shell,
		"coredns":    single(component.CoreDNSImage, find(dirs, "coredns"), ""),
	}
	if metricsServer {
		specs["metrics-server"] = single(component.MetricsServerImage, find(dirs, "metrics-server"), "65532")
	}
	for name, spec := range specs {
		if err := image.WriteFile(filepath.Join(out, name+".tar"), spec); err != nil {
			return err
		}
	}
	return nil
}

// single returns the Spec of an image with a single program.
func single(name, program, user string) image.Spec {
	path := "/" + filepath.Base(program)
	return image.Spec{Name: name, Entrypoint: []string{path}, User: user, Files: []image.File{{Path: path, Source: program}}}
}

// find returns the path of a program in the first of the folders that contains it. Otherwise, it returns the program's name.
func find(dirs []string, program string) string {
	for _, dir := range dirs {
		name := filepath.Join(dir, program)
		if _, err := os.Stat(name); err == nil {
			return name
		}
	}
	return program
}

// shell returns the Spec of an image with this machine's busybox, a link for each busybox command, and the test server.
func shell(testServer string) (image.Spec, error) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return image.Spec{}, err
	}
	if err := static(busybox); err != nil {
		return image.Spec{}, err
	}
	var list bytes.Buffer
	cmd := exec.Command(busybox, "--list")
	cmd.Stdout = &list
	if err := cmd.Run(); err != nil {
		return image.Spec{}, fmt.Errorf("asking busybox for its commands: %w", err)
	}
	spec := image.Spec{Name: component.ShellImage, Cmd: []string{"/bin/sh"}, Files: []image.File{
		{Path: "/bin/busybox", Source: busybox},
		{Path: "/bin/testserver", Source: testServer},
		{Path: "/bin/curl", Link: "/bin/testserver"},
		{Path: "/bin/jq", Link: "/bin/testserver"},
	}}
	for _, name := range strings.Fields(list.String()) {
		// A static wget crashes, because glibc loads its name service modules dynamically.
		if name != "busybox" && name != "wget" {
			spec.Files = append(spec.Files, image.File{Path: "/bin/" + name, Link: "/bin/busybox"})
		}
	}
	return spec, nil
}

// static returns an error if a program is dynamically linked. Such a program cannot run in an image without libraries.
func static(program string) error {
	file, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("reading %s: %w", program, err)
	}
	defer func() { _ = file.Close() }()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("busybox is not static: apt-get install -y --no-install-recommends busybox-static")
		}
	}
	return nil
}
