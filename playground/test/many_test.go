package test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

var clusters = flag.Int("clusters", 3, "how many clusters live side by side")

// TestManyClusters: clusters with the same addresses run side by side, and leave nothing behind.
func TestManyClusters(t *testing.T) {
	before := snapshot(t)
	names := make([]string, *clusters)
	var group errgroup.Group
	began := time.Now()
	for i := range names {
		names[i] = fmt.Sprintf("city%d", i+1)
		t.Cleanup(func() { remove(t, names[i]) })
		group.Go(func() error {
			_, err := try(t.Context(), "create", "cluster", "--name", names[i], "--wait", "5m")
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d clusters were ready after %.1f s (load %s)", len(names), time.Since(began).Seconds(), load())
	t.Logf("memory available: %s", available(t))
	addresses := map[string]bool{}
	for _, name := range names {
		c := connect(t, name)
		addresses[c.kubectl(t, "get", "nodes", `-o=jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)] = true
		if state := c.kubectl(t, "get", "nodes", `-o=jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`); state != "True" {
			t.Errorf("the node of %s is Ready: %s", name, state)
		}
		if pods := c.kubectl(t, "get", "nodes", "-o=jsonpath={.items[0].spec.podCIDR}"); pods != "10.244.0.0/24" {
			t.Errorf("the node of %s has pods %s", name, pods)
		}
	}
	if len(addresses) != len(names) {
		t.Errorf("%d clusters have %d addresses", len(names), len(addresses))
	}
	began = time.Now()
	playground(t, "delete", "cluster", "--all")
	t.Logf("%d clusters were gone after %.1f s", len(names), time.Since(began).Seconds())
	playground(t, "delete", "cluster", "--all")
	playground(t, "delete", "cluster", "--if-exists", "--name", names[0])
	if _, err := try(t.Context(), "delete", "cluster", "--name", names[0]); err == nil || !strings.Contains(err.Error(), "there is no cluster") {
		t.Errorf("deleting it again: %v", err)
	}
	if diff := cmp.Diff(before, snapshot(t)); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
}

// snapshot lists what clusters of this home could leave behind. The machine may have others, made by others.
func snapshot(t *testing.T) map[string][]string {
	t.Helper()
	have := map[string][]string{}
	have["interfaces"] = names(t, "/sys/class/net")
	have["files"] = names(t, filepath.Join(tool.home, "clusters"))
	for _, name := range []string{"internet", "settings.json"} {
		if _, err := os.Stat(filepath.Join(tool.home, name)); err == nil {
			have["files"] = append(have["files"], name)
		}
	}
	rules, err := output(exec.Command("nft", "list", "ruleset"))
	if err != nil {
		t.Fatal(err)
	}
	have["rules"] = strings.Split(rules, "\n")
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		if strings.Contains(line, tool.home) {
			have["mounts"] = append(have["mounts"], line)
		}
	}
	have["groups"], have["processes"], have["namespaces"] = groups(t), processes(t), namespaces()
	return have
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// groups lists the control groups that clusters of this home may have: all but those of the default home.
func groups(t *testing.T) []string {
	var list []string
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "liqo-playground-") {
			list = append(list, path)
			return fs.SkipDir
		}
		return nil
	})
	return list
}

// processes lists those that work in this home, by their arguments or their control group.
func processes(t *testing.T) []string {
	var list []string
	for _, pid := range names(t, "/proc") {
		if _, err := strconv.Atoi(pid); err != nil || pid == strconv.Itoa(os.Getpid()) {
			continue
		}
		arguments, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		group, _ := os.ReadFile("/proc/" + pid + "/cgroup")
		if strings.Contains(string(arguments), tool.home) || strings.Contains(string(group), "liqo-playground-") {
			list = append(list, pid+" "+strings.ReplaceAll(string(arguments), "\x00", " "))
		}
	}
	return list
}

// namespaces lists the network namespaces in which a process of this home is.
func namespaces() []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	var list []string
	for _, file := range files {
		if group, _ := os.ReadFile(file); strings.Contains(string(group), "liqo-playground-") {
			namespace, _ := os.Readlink(filepath.Join(filepath.Dir(file), "ns/net"))
			list = append(list, namespace)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func available(t *testing.T) string {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		if value, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
