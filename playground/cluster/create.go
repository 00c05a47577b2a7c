package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"liqo.io/playground/component"
	"liqo.io/playground/host"
	"liqo.io/playground/network"
	"liqo.io/playground/node"
	"liqo.io/playground/pki"
)

// ErrExists is wrapped by the error that Create returns if a complete cluster with the same name and options exists.
var ErrExists = errors.New("exists already")

// Create creates the cluster that want describes and returns once it is ready for workloads. Create itself chooses Index and ForwardPort.
// set is the folder with the cluster's programs. An interrupted creation of the same cluster is resumed with its original options.
// If the creation fails or takes longer than patience, Create removes the whole cluster. It does not touch a complete cluster of that name or
// one with other options, and returns an error; for a complete cluster with the same options, the error wraps ErrExists.
func (m Machine) Create(ctx context.Context, want component.Cluster, set string, patience time.Duration) (err error) {
	if err := component.CheckName(want.Name); err != nil {
		return fmt.Errorf("creating a cluster: %w", err)
	}
	unlock, err := m.lock(ctx, want.Name)
	if err != nil {
		return err
	}
	defer unlock()

	state, err := m.begin(ctx, want, set)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		if cleaning := m.remove(context.WithoutCancel(ctx), want.Name); cleaning != nil {
			err = errors.Join(err, fmt.Errorf("removing what was made: %w", cleaning))
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not ready after %v", patience))
	defer cancel()

	if err := pki.Write(m.pki(state.Name), state.Certificates(), state.Kubeconfigs()); err != nil {
		return err
	}
	if err := m.startNodes(state); err != nil {
		return err
	}
	if err := m.forward(state); err != nil {
		return err
	}
	client, err := m.client(state)
	if err != nil {
		return err
	}
	if err := m.wait(ctx, state, "the API server", client.ready, nil); err != nil {
		return err
	}
	m.Report("the API server answers at %s", state.ForwardServer())
	if err := apply(ctx, client, state); err != nil {
		return err
	}
	settled := func(ctx context.Context) error { return client.settled(ctx, state) }
	if err := m.wait(ctx, state, "nodes and services", settled, func(ctx context.Context) string { return client.unsettled(ctx, state) }); err != nil {
		return err
	}
	state.Complete = true
	return m.save(state)
}

// begin loads the saved state of the cluster or allocates a new one, and then sets up what all clusters share.
func (m Machine) begin(ctx context.Context, want component.Cluster, set string) (State, error) {
	unlock, err := m.lock(ctx, machineLock)
	if err != nil {
		return State{}, err
	}
	defer unlock()
	state, err := m.Get(want.Name)
	fresh := errors.Is(err, ErrNotFound)
	switch {
	case err == nil && len(state.Lacks(want)) > 0:
		return state, fmt.Errorf("cluster %q exists with other options: it has %s; playground delete cluster --name %s deletes it, or give the new one another --name",
			want.Name, strings.Join(state.Lacks(want), ", "), want.Name)
	case err == nil && state.Complete:
		return state, fmt.Errorf("cluster %q %w: --if-not-exists uses it, playground delete cluster --name %s deletes it", want.Name, ErrExists, want.Name)
	case err == nil:
		m.Report("carrying on with the creation of %s that was begun at %s", want.Name, state.Created.Format(time.TimeOnly))
		state.Set = set
	case !fresh:
		return state, err
	default:
		if state, err = m.allocate(want, set); err != nil {
			return state, err
		}
	}
	if err := m.share(); err != nil {
		if fresh { // keep the folder of a resumed cluster: node.Stop needs it to find nodes that may be running
			err = errors.Join(err, os.RemoveAll(m.dir(want.Name)))
		}
		return state, err
	}
	return state, nil
}

// share creates what all clusters of the machine share: the raised host settings and the "internet" namespace.
func (m Machine) share() error {
	if err := host.Raise(m.record()); err != nil {
		return err
	}
	return m.internet().Ensure()
}

// shareLocked calls share under the machine lock. An existing cluster needs it because a reboot of the machine undoes what share did.
func (m Machine) shareLocked(ctx context.Context) error {
	unlock, err := m.lock(ctx, machineLock)
	if err != nil {
		return err
	}
	defer unlock()
	return m.share()
}

func (m Machine) startNodes(state State) error {
	var group errgroup.Group
	for _, n := range state.List() {
		group.Go(func() error { return m.startNode(state, n) })
	}
	return group.Wait()
}

func (m Machine) startNode(state State, n component.Node) error {
	defer m.overdue("node " + n.Name + " to start")()
	spec := node.Spec{
		Plan:        state.Plan(n.Name),
		Dir:         m.node(state.Name, n),
		Set:         state.Set,
		Volumes:     filepath.Join(m.dir(state.Name), "volumes"),
		Group:       m.group(n.Name).Name,
		Hierarchies: m.Hierarchies,
	}
	return node.Start(spec, m.pki(state.Name), m.internet())
}

// apply applies the cluster's first objects. Node objects come first because the kubelets wait for them.
func apply(ctx context.Context, client *client, state State) error {
	nodes, err := state.NodeObjects()
	if err != nil {
		return err
	}
	others, err := state.Objects()
	if err != nil {
		return err
	}
	for _, o := range append(nodes, others...) {
		if err := client.apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// slow is the time after which a step of a creation is reported as not done, and the interval of further reports. On an idle machine with two
// cores, a whole cluster takes half of that time.
const slow = 30 * time.Second

// overdue reports every 30 s that a step is not done yet, until done is called.
func (m Machine) overdue(what string) (done func()) {
	began, tick, ended := time.Now(), time.NewTicker(slow), make(chan struct{})
	go func() {
		for {
			select {
			case <-tick.C:
				m.Report("still waiting for %s after %.0f s", what, time.Since(began).Seconds())
			case <-ended:
				return
			}
		}
	}()
	return func() {
		tick.Stop()
		close(ended)
	}
}

// wait calls ask every 100 ms until it returns nil. It fails when the context ends or a node's PID 1 is no longer alive. Every 30 s, it
// reports the last error of ask and the result of explain, which may be nil. If the context ends, the error contains both.
func (m Machine) wait(ctx context.Context, state State, what string, ask func(context.Context) error, explain func(context.Context) string) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	reported := began
	// The context may have ended, so explain has a time of its own. A busy API server takes some seconds to answer.
	why := func(last error) error {
		if explain == nil {
			return last
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return fmt.Errorf("%w: %s", last, explain(ctx))
	}
	for {
		last := ask(ctx)
		if last == nil {
			return nil
		}
		for _, n := range state.List() {
			if id, err := node.Process(m.node(state.Name, n)); err != nil || !id.Alive() {
				return fmt.Errorf("waiting for %s of %s: node %s has ended: %s", what, state.Name, n.Name, tail(m.node(state.Name, n)))
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s of %s: %w: %w", what, state.Name, context.Cause(ctx), why(last))
		case <-tick.C:
			if time.Since(reported) >= slow {
				reported = time.Now()
				m.Report("still waiting for %s of %s after %.0f s: %v", what, state.Name, time.Since(began).Seconds(), why(last))
			}
		}
	}
}

// tail returns the last 500 bytes of a node's init log.
func tail(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, "log", "init.log"))
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-500):])
}

// Healthy returns nil if a complete cluster is ready for workloads now.
func (m Machine) Healthy(ctx context.Context, state State) error {
	client, err := m.client(state)
	if err != nil {
		return err
	}
	if err := client.ready(ctx); err != nil {
		return err
	}
	return client.settled(ctx, state)
}

// Internet returns the network that all clusters of the machine share.
func (m Machine) Internet() network.Internet { return m.internet() }
