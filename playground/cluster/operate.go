package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"liqo.io/playground/component"
	"liqo.io/playground/network"
	"liqo.io/playground/node"
)

// Kubeconfig returns an administrator's kubeconfig. If internal is false, it works on this machine, outside all nodes. If internal
// is true, it works on the nodes and in the pods of every cluster.
func (m Machine) Kubeconfig(name string, internal bool) ([]byte, error) {
	state, err := m.Get(name)
	if err != nil {
		return nil, err
	}
	file := "external.kubeconfig"
	if internal {
		file = "admin.kubeconfig"
	}
	data, err := os.ReadFile(filepath.Join(m.pki(state.Name), file))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", name, err)
	}
	return data, nil
}

// NodeStatus is a node together with its current state.
type NodeStatus struct {
	component.Node
	Cluster string `json:"cluster"`
	Running bool   `json:"running"`
	// Dir is the node's folder on this machine. Its subfolder "log" has the node's logs.
	Dir      string        `json:"dir"`
	Programs []node.Status `json:"programs,omitempty"`
}

// Nodes returns the status of all nodes of a cluster, or of all clusters if the name is empty.
func (m Machine) Nodes(name string) ([]NodeStatus, error) {
	states, err := m.List()
	if err != nil {
		return nil, err
	}
	if name != "" {
		state, err := m.Get(name)
		if err != nil {
			return nil, err
		}
		states = []State{state}
	}
	var list []NodeStatus
	for _, state := range states {
		for _, n := range state.List() {
			status := NodeStatus{Node: n, Cluster: state.Name, Dir: m.node(state.Name, n)}
			if id, err := node.Process(status.Dir); err == nil && id.Alive() {
				// A node that is starting or stopping does not respond to Control, but its PID 1 is running.
				status.Running = true
				status.Programs, _ = node.Control(status.Dir, node.StatusOf, "")
			}
			list = append(list, status)
		}
	}
	return list, nil
}

// NodeDir returns the folder of a node. If clusterName is empty, it searches all clusters for nodeName. If only nodeName is empty,
// it returns the folder of the cluster's control plane node.
func (m Machine) NodeDir(clusterName, nodeName string) (string, error) {
	if clusterName == "" {
		state, n, err := m.FindNode(nodeName)
		return m.node(state.Name, n), err
	}
	state, err := m.Get(clusterName)
	if err != nil {
		return "", err
	}
	if nodeName == "" {
		return m.node(state.Name, state.ControlPlane()), nil
	}
	for _, n := range state.List() {
		if n.Name == nodeName {
			return m.node(state.Name, n), nil
		}
	}
	return "", fmt.Errorf("node %q of cluster %q: %w", nodeName, clusterName, ErrNotFound)
}

// StartNode starts a stopped node with its existing disk.
func (m Machine) StartNode(ctx context.Context, name string) error {
	state, n, err := m.FindNode(name)
	if err != nil {
		return err
	}
	unlock, err := m.lock(ctx, state.Name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := m.shareLocked(ctx); err != nil {
		return err
	}
	if err := m.startNode(state, n); err != nil {
		return err
	}
	return m.forward(state)
}

// StopNode stops a node and keeps its disk. With grace, the node's programs can shut down first; otherwise it is like a power failure.
func (m Machine) StopNode(ctx context.Context, name string, grace bool) error {
	state, n, err := m.FindNode(name)
	if err != nil {
		return err
	}
	unlock, err := m.lock(ctx, state.Name)
	if err != nil {
		return err
	}
	defer unlock()
	return node.Stop(m.node(state.Name, n), grace, m.internet())
}

// Component applies a verb (stop, kill or start) to one program of a node.
func (m Machine) Component(verb node.Verb, program, nodeName string) error {
	state, n, err := m.FindNode(nodeName)
	if err != nil {
		return err
	}
	_, err = node.Control(m.node(state.Name, n), verb, program)
	return err
}

// Partition blocks all traffic between a and b, each the name of a cluster or a node. If heal is true, it unblocks that traffic instead.
func (m Machine) Partition(a, b string, heal bool) error {
	left, err := m.cables(a)
	if err != nil {
		return err
	}
	right, err := m.cables(b)
	if err != nil {
		return err
	}
	var pairs []network.Pair
	for _, x := range left {
		for _, y := range right {
			if x != y {
				pairs = append(pairs, network.Pair{A: x, B: y})
			}
		}
	}
	if len(pairs) == 0 {
		return fmt.Errorf("parting %s from %s: they are the same node", a, b)
	}
	if heal {
		return m.internet().Heal(pairs)
	}
	return m.internet().Cut(pairs)
}

// HealAll removes all partitions.
func (m Machine) HealAll() error {
	cuts, err := m.internet().Cuts()
	if err != nil {
		return err
	}
	return m.internet().Heal(cuts)
}

// cables returns the names of a node's cable or of all cables of a cluster. A cable is the veth pair of one node.
func (m Machine) cables(name string) ([]string, error) {
	state, err := m.Get(name)
	if errors.Is(err, ErrNotFound) {
		_, n, err := m.FindNode(name)
		return []string{n.Cable}, err
	}
	var cables []string
	for _, n := range state.List() {
		cables = append(cables, n.Cable)
	}
	return cables, err
}

// Partitions returns the sorted pairs of names of nodes that are partitioned from each other.
func (m Machine) Partitions() ([][2]string, error) {
	cuts, err := m.internet().Cuts()
	if err != nil {
		return nil, err
	}
	states, err := m.List()
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, state := range states {
		for _, n := range state.List() {
			names[n.Cable] = n.Name
		}
	}
	var pairs [][2]string
	for _, cut := range cuts {
		pair := []string{names[cut.A], names[cut.B]}
		slices.Sort(pair)
		pairs = append(pairs, [2]string(pair))
	}
	slices.SortFunc(pairs, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	return pairs, nil
}
