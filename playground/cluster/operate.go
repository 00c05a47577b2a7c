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

// Kubeconfig returns a kubeconfig of an administrator: one that works from this machine, or, if internal, from the
// nodes and pods of any cluster.
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

// NodeStatus is a node and what it does.
type NodeStatus struct {
	component.Node
	Cluster string `json:"cluster"`
	Running bool   `json:"running"`
	// Dir is the node's folder on this machine; its logs are in the folder "log" there.
	Dir      string        `json:"dir"`
	Programs []node.Status `json:"programs,omitempty"`
}

// Nodes returns the nodes of a cluster, or of all clusters if the name is empty.
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
				// A node that is just coming up or going down does not answer; it runs all the same.
				status.Running = true
				status.Programs, _ = node.Control(status.Dir, node.StatusOf, "")
			}
			list = append(list, status)
		}
	}
	return list, nil
}

// NodeDir returns the folder of a node: of the named one, or, if that is empty, of the cluster's control plane.
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

// StartNode starts a node that was stopped, with the disk it had.
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

// StopNode ends a node: in good order, or, without grace, as if the plug were pulled. Its disk stays.
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

// Component stops, kills or starts a program of a node.
func (m Machine) Component(verb node.Verb, program, nodeName string) error {
	state, n, err := m.FindNode(nodeName)
	if err != nil {
		return err
	}
	_, err = node.Control(m.node(state.Name, n), verb, program)
	return err
}

// Partition cuts, or with heal lets pass again, all traffic between two clusters or nodes.
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

// HealAll ends all partitions.
func (m Machine) HealAll() error {
	cuts, err := m.internet().Cuts()
	if err != nil {
		return err
	}
	return m.internet().Heal(cuts)
}

// cables returns the cables of a cluster or of a node.
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

// Partitions returns the pairs of nodes that are cut off from each other, by name.
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
