package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"liqo.io/playground/component"
	"liqo.io/playground/host"
	"liqo.io/playground/network"
	"liqo.io/playground/node"
	"liqo.io/playground/process"
)

// machineLock guards what clusters share and who has which address.
const machineLock = ".machine"

// Delete removes a cluster with everything it has; one that is not there is fine. With the last cluster goes
// what they shared.
func (m Machine) Delete(ctx context.Context, name string) error {
	if err := component.CheckName(name); err != nil {
		return fmt.Errorf("deleting a cluster: %w", err)
	}
	unlock, err := m.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	return m.remove(ctx, name)
}

func (m Machine) remove(ctx context.Context, name string) error {
	if err := m.stopForward(name); err != nil {
		return err
	}
	dirs, err := filepath.Glob(filepath.Join(m.dir(name), "nodes", "*"))
	if err != nil {
		return err
	}
	var group errgroup.Group
	for _, dir := range dirs {
		group.Go(func() error { return node.Stop(dir, false, m.internet()) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("deleting cluster %s: %w", name, err)
	}
	unlock, err := m.lock(ctx, machineLock)
	if err != nil {
		return err
	}
	defer unlock()
	if err := m.forget(name); err != nil {
		return err
	}
	if err := removeAll(m.dir(name)); err != nil {
		return fmt.Errorf("deleting cluster %s: %w", name, err)
	}
	left, err := m.List()
	if err != nil || len(left) > 0 {
		return err
	}
	return m.unshare()
}

// forget ends the partitions the cluster is part of: its cables' names may be another's tomorrow.
func (m Machine) forget(name string) error {
	state, err := m.Get(name)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var cables []string
	for _, n := range state.List() {
		cables = append(cables, n.Cable)
	}
	cuts, err := m.internet().Cuts()
	if err != nil {
		return err
	}
	return m.internet().Heal(slices.DeleteFunc(cuts, func(p network.Pair) bool {
		return !slices.Contains(cables, p.A) && !slices.Contains(cables, p.B)
	}))
}

// removeAll tries for a while: a node's mounts may take a moment to go after its last process.
func removeAll(dir string) error {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := os.RemoveAll(dir)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// unshare removes what clusters share, when there are none.
func (m Machine) unshare() error {
	if err := m.internet().Remove(); err != nil {
		return err
	}
	if err := m.group("").Remove(); err != nil {
		return err
	}
	restored, err := host.Restore(m.record())
	if err != nil {
		return err
	}
	for _, setting := range restored {
		m.Report("put back %s", setting)
	}
	return nil
}

func (m Machine) stopForward(name string) error {
	file := filepath.Join(m.dir(name), "forward.pid")
	id, err := process.Load(file)
	if err != nil {
		return err
	}
	if err := id.End(10 * time.Second); err != nil {
		return fmt.Errorf("stopping the forwarder of %s: %w", name, err)
	}
	return nil
}
