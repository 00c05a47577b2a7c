package playground

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Images that every node has from its start.
const (
	// TestServer is an echo server over HTTP on port 8080, which also responds to /healthz. Its program is /testserver.
	TestServer = "registry.local/testserver:1"
	// Shell is a static busybox. It also contains /bin/testserver.
	Shell = "registry.local/shell:1"
)

// Machine is the built checkout on this machine.
type Machine struct {
	// Root is the folder of the checkout.
	Root string
	// Dir is the folder for kubeconfigs and other files that a run leaves for people to read.
	Dir string
}

// Find returns the checkout that contains the working folder. It fails if a program or image was not built. Kubeconfigs go to dir.
func Find(dir string) (Machine, error) {
	root, err := os.Getwd()
	if err != nil {
		return Machine{}, err
	}
	for !exists(filepath.Join(root, "go.mod")) {
		parent := filepath.Dir(root)
		if parent == root {
			return Machine{}, errors.New("finding the checkout: the working folder is not inside it")
		}
		root = parent
	}
	m := Machine{Root: root, Dir: dir}
	for _, built := range []string{m.bin("images/controller-manager.tar"), m.bin("playground"), m.bin("liqoctl")} {
		if !exists(built) {
			return Machine{}, fmt.Errorf("%s is missing: run make build", built)
		}
	}
	return m, nil
}

// Previous returns the previous release, as "make previous" built it from its sources. Its own playground is not used: this checkout creates the
// clusters.
func (m Machine) Previous() (Machine, error) {
	previous := Machine{Root: m.bin("previous"), Dir: m.Dir}
	if built := filepath.Join(previous.Root, "built"); !exists(built) {
		return Machine{}, fmt.Errorf("%s is missing: run make previous", built)
	}
	return previous, nil
}

// Version returns the version of the build.
func (m Machine) Version(ctx context.Context) (string, error) {
	said, err := m.Liqoctl(ctx, "version", "--client")
	if err != nil {
		return "", err
	}
	words := strings.Fields(said)
	if len(words) == 0 {
		return "", errors.New("asking liqoctl for its version: it says nothing")
	}
	return words[len(words)-1], nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

func (m Machine) bin(name string) string { return filepath.Join(m.Root, "bin", name) }

// VolumeMover is the image that moves of volumes need. Clusters don't have it from their start.
const VolumeMover = "volume-mover"

// components are the images that every installation runs.
var components = []string{"controller-manager", "virtual-kubelet", "gateway", "fabric", "proxy"}

// Playground runs bin/playground and returns its output; the error contains its error output.
func (m Machine) Playground(ctx context.Context, args ...string) (string, error) {
	return run(ctx, m.bin("playground"), args...)
}

// Liqoctl runs bin/liqoctl without confirmations, and returns its output and error output together.
func (m Machine) Liqoctl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, m.bin("liqoctl"), append(args, "--skip-confirm")...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("liqoctl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Shell runs a command line as the administrator of a cluster: liqoctl and kubectl are in PATH, and the kubeconfig is that of the cluster. It returns
// the output; the error contains the error output.
func (m Machine) Shell(ctx context.Context, c *Cluster, line string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(m.Root, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+c.Kubeconfig)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

func run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// Partition blocks all traffic between two clusters. This machine still reaches both.
func (m Machine) Partition(ctx context.Context, a, b *Cluster) error {
	_, err := m.Playground(ctx, "partition", a.Name, b.Name)
	return err
}

// Heal ends a partition.
func (m Machine) Heal(ctx context.Context, a, b *Cluster) error {
	_, err := m.Playground(ctx, "heal", a.Name, b.Name)
	return err
}
