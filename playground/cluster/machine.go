// Package cluster creates, operates and deletes whole clusters. Create and Delete show the steps from top to bottom.
package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"liqo.io/playground/cgroup"
	"liqo.io/playground/component"
	"liqo.io/playground/network"
	"liqo.io/playground/process"
)

// defaultHome is the folder of all clusters unless the environment variable PLAYGROUND_HOME is set.
const defaultHome = "/var/lib/liqo-playground"

// Machine is this machine together with the clusters in one home folder.
type Machine struct {
	// Home is the folder with all data of the clusters: disks, keys and logs.
	Home string
	// Hierarchies are the cgroup hierarchies of this machine.
	Hierarchies []cgroup.Hierarchy
	// Report prints a progress message for the user.
	Report func(format string, args ...any)
}

// Home returns the folder to use as Machine.Home: PLAYGROUND_HOME as an absolute path, or /var/lib/liqo-playground.
func Home() (string, error) {
	if dir := os.Getenv("PLAYGROUND_HOME"); dir != "" {
		return filepath.Abs(dir)
	}
	return defaultHome, nil
}

// State is the saved state of a cluster: its configuration and the progress of its creation.
type State struct {
	component.Cluster
	// Set is the folder with the programs that the cluster runs.
	Set     string    `json:"set"`
	Created time.Time `json:"created"`
	// Complete is true once the creation has succeeded.
	Complete bool `json:"complete"`
}

// ErrNotFound is wrapped by errors about a cluster or node that does not exist.
var ErrNotFound = errors.New("not found")

func (m Machine) clusters() string       { return filepath.Join(m.Home, "clusters") }
func (m Machine) dir(name string) string { return filepath.Join(m.clusters(), name) }
func (m Machine) pki(name string) string { return filepath.Join(m.dir(name), "pki") }
func (m Machine) record() string         { return filepath.Join(m.Home, "settings.json") }
func (m Machine) internet() network.Internet {
	return network.Internet{Path: filepath.Join(m.Home, "internet")}
}
func (m Machine) node(name string, n component.Node) string {
	return filepath.Join(m.dir(name), "nodes", n.Name)
}

// group returns the control group of the given name. The parent group depends on the home folder, so that equal names in different
// homes do not conflict.
func (m Machine) group(name string) cgroup.Group {
	parent := "liqo-playground"
	if m.Home != defaultHome {
		sum := sha256.Sum256([]byte(m.Home))
		parent += "-" + hex.EncodeToString(sum[:4])
	}
	return cgroup.Group{Hierarchies: m.Hierarchies, Name: filepath.Join(parent, name)}
}

// List returns the saved state of all clusters, sorted by name.
func (m Machine) List() ([]State, error) {
	entries, err := os.ReadDir(m.clusters())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	var states []State
	for _, e := range entries {
		state, err := m.Get(e.Name())
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	return states, nil
}

// Get returns the saved state of one cluster. The error wraps ErrNotFound if the cluster does not exist.
func (m Machine) Get(name string) (State, error) {
	var state State
	if component.CheckName(name) != nil {
		return state, fmt.Errorf("cluster %q: %w", name, ErrNotFound)
	}
	data, err := os.ReadFile(filepath.Join(m.dir(name), "cluster.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return state, fmt.Errorf("cluster %q: %w", name, ErrNotFound)
	}
	if err != nil {
		return state, fmt.Errorf("reading cluster %s: %w", name, err)
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return state, fmt.Errorf("reading cluster %s: %w", name, err)
	}
	return state, nil
}

func (m Machine) save(state State) error {
	if err := os.MkdirAll(m.dir(state.Name), 0o755); err != nil {
		return fmt.Errorf("creating folder of cluster %s: %w", state.Name, err)
	}
	data, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding cluster %s: %w", state.Name, err)
	}
	name := filepath.Join(m.dir(state.Name), "cluster.json")
	if err := os.WriteFile(name+".new", data, 0o644); err != nil {
		return fmt.Errorf("saving cluster %s: %w", state.Name, err)
	}
	return os.Rename(name+".new", name)
}

// FindNode returns the node of the given name and its cluster. The error wraps ErrNotFound if no cluster has that node.
func (m Machine) FindNode(name string) (State, component.Node, error) {
	states, err := m.List()
	if err != nil {
		return State{}, component.Node{}, err
	}
	var names []string
	for _, s := range states {
		for _, n := range s.List() {
			if n.Name == name {
				return s, n, nil
			}
			names = append(names, n.Name)
		}
	}
	return State{}, component.Node{}, fmt.Errorf("node %q: %w, there are: %s", name, ErrNotFound, strings.Join(names, ", "))
}

// lock takes the lock of the given name and waits while another caller holds it. The name is machineLock or that of a cluster.
func (m Machine) lock(ctx context.Context, name string) (unlock func(), err error) {
	dir := filepath.Join(m.Home, "locks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating folder of locks: %w", err)
	}
	var waiting func(holder string)
	if name != machineLock { // no message for machineLock, which is never held for long
		waiting = func(holder string) { m.Report("waiting for %s, which works on %s ...", holder, name) }
	}
	return process.Lock(ctx, filepath.Join(dir, name), waiting)
}

// allocate chooses the index and the forward port of a new cluster, and saves its state.
func (m Machine) allocate(want component.Cluster, set string) (State, error) {
	states, err := m.List()
	if err != nil {
		return State{}, err
	}
	for want.Index = 1; slices.ContainsFunc(states, func(s State) bool { return s.Index == want.Index }); want.Index++ {
	}
	if want.Index > component.MaxIndex {
		return State{}, fmt.Errorf("allocating addresses: there are %d clusters already", len(states))
	}
	taken := func(port int) bool {
		if slices.ContainsFunc(states, func(s State) bool { return s.ForwardPort == port }) {
			return true
		}
		listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return true
		}
		_ = listener.Close()
		return false
	}
	const first, step, last = 16000, 256, 32000 // below the kernel's ephemeral port range
	for want.ForwardPort = first + want.Index; taken(want.ForwardPort); want.ForwardPort += step {
		if want.ForwardPort > last {
			return State{}, errors.New("allocating a port on 127.0.0.1: all are taken")
		}
	}
	if err := want.Validate(); err != nil {
		return State{}, fmt.Errorf("cluster %s: %w", want.Name, err)
	}
	state := State{Cluster: want, Set: set, Created: time.Now()}
	return state, m.save(state)
}

// Names returns the names of all clusters, including those whose creation or deletion was interrupted.
func (m Machine) Names() ([]string, error) {
	entries, err := os.ReadDir(m.clusters())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	var names []string
	for _, e := range entries {
		if component.CheckName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
