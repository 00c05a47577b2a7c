// Package test runs real clusters. It needs root and what the playground needs, and fails without.
package test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tools are the programs under test; home is the tests' own, away from anyone's clusters.
type tools struct{ program, kubectl, home string }

var tool tools

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests make real clusters:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	if os.Geteuid() != 0 {
		return 1, fmt.Errorf("they need root, and this is user %d", os.Geteuid())
	}
	dir, err := os.MkdirTemp("", "playground-test-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	tool.program, tool.home = filepath.Join(dir, "playground"), filepath.Join(dir, "home")
	if err := os.Setenv("PLAYGROUND_HOME", tool.home); err != nil {
		return 1, err
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", tool.program, "liqo.io/playground")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building the playground: %w: %s", err, out)
	}
	warm := exec.Command(tool.program, "get", "binaries")
	warm.Stderr = os.Stderr
	out, err := warm.Output()
	if err != nil {
		return 1, fmt.Errorf("building the programs: %w", err)
	}
	tool.kubectl = filepath.Join(strings.TrimSpace(string(out)), "kubectl")
	code := m.Run()
	if out, err := exec.Command(tool.program, "delete", "cluster", "--all").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("deleting what is left: %w: %s", err, out)
	}
	return code, nil
}

// try runs the playground and returns its output.
func try(ctx context.Context, args ...string) (string, error) {
	return output(exec.CommandContext(ctx, tool.program, args...))
}

func output(cmd *exec.Cmd) (string, error) {
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s%s", strings.Join(cmd.Args[1:], " "), err, &problem, &out)
	}
	for line := range strings.Lines(problem.String()) { // also of a creation that succeeds in the end
		if strings.Contains(line, "still waiting") {
			fmt.Print(line)
		}
	}
	return out.String(), nil
}

func playground(t *testing.T, args ...string) string {
	t.Helper()
	out, err := try(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// cluster is a cluster of a test.
type cluster struct{ name, kubeconfig string }

// create makes a cluster that goes with the test.
func create(t *testing.T, name string, flags ...string) cluster {
	t.Helper()
	t.Cleanup(func() { remove(t, name) })
	began := time.Now()
	playground(t, append([]string{"create", "cluster", "--name", name, "--wait", "5m"}, flags...)...)
	t.Logf("cluster %s was ready after %.1f s (load %s)", name, time.Since(began).Seconds(), load())
	return connect(t, name)
}

func remove(t *testing.T, name string) {
	if _, err := try(context.Background(), "delete", "cluster", "--if-exists", "--name", name); err != nil {
		t.Error(err)
	}
}

func connect(t *testing.T, name string) cluster {
	t.Helper()
	c := cluster{name, filepath.Join(t.TempDir(), name+".kubeconfig")}
	if err := os.WriteFile(c.kubeconfig, []byte(playground(t, "get", "kubeconfig", "--name", name)), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c cluster) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, tool.kubectl, append([]string{"--kubeconfig", c.kubeconfig}, args...)...)
}

func (c cluster) try(ctx context.Context, args ...string) (string, error) {
	return output(c.command(ctx, args...))
}

func (c cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.try(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func (c cluster) apply(t *testing.T, manifest string) {
	t.Helper()
	cmd := c.command(t.Context(), "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if _, err := output(cmd); err != nil {
		t.Fatal(err)
	}
}

// eventually runs kubectl until it succeeds and the output contains a text.
func (c cluster) eventually(t *testing.T, patience time.Duration, want string, args ...string) string {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		out, err := c.try(t.Context(), args...)
		if err == nil && strings.Contains(out, want) {
			return strings.TrimSpace(out)
		}
		if time.Now().After(end) {
			t.Fatalf("kubectl %s: not %q after %v: %v %s", strings.Join(args, " "), want, patience, err, out)
		}
	}
}

// load returns the other load of the machine: figures mean little without it.
func load() string {
	data, _ := os.ReadFile("/proc/loadavg")
	return string(bytes.Fields(data)[0])
}
