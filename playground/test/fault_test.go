package test

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const spread = `
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: pair}}
spec: {nodeName: rome-1, terminationGracePeriodSeconds: 0, containers: [{name: c, image: "registry.local/shell:1", command: [testserver]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: two, labels: {app: pair}}
spec: {nodeName: rome-2, terminationGracePeriodSeconds: 0, containers: [{name: c, image: "registry.local/shell:1", command: [testserver]}]}
`

const listener = `
apiVersion: v1
kind: Pod
metadata: {name: listener}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "registry.local/shell:1", command: [sh, -c, "sleep infinity | nc -l -p 9000"]}]
`

// Nodes and clusters are cut off, killed and stopped, and come back.
func TestFaults(t *testing.T) {
	rome := create(t, "rome", "--nodes=2")
	milan := create(t, "milan")
	rome.apply(t, spread)
	milan.apply(t, listener)
	rome.kubectl(t, "wait", "--for=condition=Ready", "pod/one", "pod/two", "--timeout=60s")
	milan.kubectl(t, "wait", "--for=condition=Ready", "pod/listener", "--timeout=60s")
	address := rome.kubectl(t, "get", "pod", "two", "-o=jsonpath={.status.podIP}")
	api := milan.kubectl(t, "get", "endpointslice", "kubernetes", "-o=jsonpath={.endpoints[0].addresses[0]}")
	across := []string{"exec", "one", "--", "testserver", "get", "-timeout=1s", "http://" + address + ":8080/"}

	t.Run("across nodes", func(t *testing.T) {
		rome.eventually(t, 30*time.Second, "remote: 10.244.0.", across...) // a pod keeps its address towards other nodes
		playground(t, "partition", "rome-1", "rome-2")
		if out, err := rome.try(t.Context(), across...); err == nil {
			t.Errorf("the partition let through: %s", out)
		}
		playground(t, "heal", "rome-1", "rome-2")
		rome.eventually(t, 30*time.Second, "pod: two", across...)
	})
	t.Run("across clusters", func(t *testing.T) { established(t, rome, milan, api) })
	t.Run("program", func(t *testing.T) {
		playground(t, "kill", "component", "kube-apiserver", "--node=rome-1")
		rome.eventually(t, 30*time.Second, "ok", "get", "--raw=/readyz")
		playground(t, "stop", "component", "kubelet", "--node=rome-2")
		if got := program(t, "rome-2", "kubelet"); got.State != "stopped" {
			t.Errorf("the kubelet is %+v", got)
		}
		playground(t, "start", "component", "kubelet", "--node=rome-2")
		for end := time.Now().Add(20 * time.Second); program(t, "rome-2", "kubelet").State != "running"; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the kubelet does not come back")
			}
		}
		if _, err := try(t.Context(), "stop", "component", "etcd", "--node=rome-2"); err == nil || !strings.Contains(err.Error(), "only containerd") {
			t.Errorf("stopping what a worker does not have: %v", err)
		}
	})
	t.Run("node", func(t *testing.T) {
		playground(t, "kill", "node", "rome-2")
		playground(t, "start", "node", "rome-2")
		rome.reaches(t, "one", "two")
		playground(t, "stop", "node", "rome-1")
		playground(t, "start", "node", "rome-1")
		rome.reaches(t, "two", "one")
	})
}

// reaches waits until one pod reaches the other at the address that it has then.
func (c cluster) reaches(t *testing.T, from, to string) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		ip, err := c.try(t.Context(), "get", "pod", to, "-o=jsonpath={.status.podIP}")
		var out string
		if err == nil {
			out, err = c.try(t.Context(), "exec", from, "--", "testserver", "get", "-timeout=1s", "http://"+ip+":8080/")
		}
		if err == nil && strings.Contains(out, "pod: "+to) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("pod %s does not reach %s: %v %s", from, to, err, out)
		}
	}
}

// established holds a connection from a pod of one cluster to a node of another over a partition.
func established(t *testing.T, from, to cluster, address string) {
	heard := to.command(t.Context(), "logs", "-f", "listener")
	lines, err := heard.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	sender := from.command(t.Context(), "exec", "-i", "one", "--", "nc", address, "9000")
	speak, err := sender.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{heard, sender} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
	}
	words := make(chan string)
	go func() {
		for scanner := bufio.NewScanner(lines); scanner.Scan(); {
			words <- scanner.Text()
		}
	}()
	say := func(word string) {
		if _, err := speak.Write([]byte(word + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(patience time.Duration) string {
		select {
		case word := <-words:
			return word
		case <-time.After(patience):
			return ""
		}
	}
	say("before")
	if got := hear(20 * time.Second); got != "before" {
		t.Fatalf("before the partition: %q", got)
	}
	playground(t, "partition", "rome", "milan")
	var cuts [][2]string
	if err := json.Unmarshal([]byte(playground(t, "get", "partitions", "-o=json")), &cuts); err != nil || len(cuts) != 2 {
		t.Errorf("partitions %v: %v", cuts, err)
	}
	say("during")
	if got := hear(2 * time.Second); got != "" {
		t.Errorf("through the partition: %q", got)
	}
	playground(t, "heal", "--all")
	if got := hear(20 * time.Second); got != "during" {
		t.Errorf("after the partition: %q", got)
	}
	if got := playground(t, "get", "partitions"); got != "" {
		t.Errorf("partitions after healing: %s", got)
	}
}

type state struct {
	Name, State string
}

func program(t *testing.T, node, name string) state {
	t.Helper()
	var nodes []struct {
		Name     string
		Programs []state
	}
	if err := json.Unmarshal([]byte(playground(t, "get", "nodes", "-o=json")), &nodes); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		for _, p := range n.Programs {
			if n.Name == node && p.Name == name {
				return p
			}
		}
	}
	return state{}
}

// TestInterruptedCreation: a killed creation is resumed, and an interrupted one cleans up.
func TestInterruptedCreation(t *testing.T) {
	before := snapshot(t)
	t.Cleanup(func() { remove(t, "turin") })
	cut := func(signal syscall.Signal) {
		t.Helper()
		cmd := exec.Command(tool.program, "create", "cluster", "--name=turin", "--control-plane-only")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); !strings.Contains(playground(t, "get", "nodes"), "running"); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("no node comes up")
			}
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("it ended well although it was cut short")
		}
	}
	cut(syscall.SIGINT)
	if got := playground(t, "get", "nodes"); strings.Contains(got, "turin") {
		t.Errorf("the interrupted creation left %s", got)
	}
	cut(syscall.SIGKILL)
	if got := playground(t, "get", "clusters"); !strings.Contains(got, "incomplete") {
		t.Errorf("the killed creation left %s", got)
	}
	turin := create(t, "turin", "--control-plane-only")
	turin.kubectl(t, "get", "namespaces")
	playground(t, "delete", "cluster", "--name=turin")
	after := snapshot(t)
	if len(after["processes"]) > 0 || len(after["mounts"]) > 0 || len(after["groups"]) > len(before["groups"]) {
		t.Errorf("left behind: %v", after)
	}
}
