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

// machineLock is the name of the lock that guards shared resources and the allocation of indexes and ports.
const machineLock = ".machine"

// Delete removes a cluster and all its resources. Deleting a missing cluster is not an error. Deleting the last cluster also
// removes the resources that all clusters share.
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

// forget heals all partitions that involve the cluster, because a later cluster may reuse the names of its cables.
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

// removeAll removes a folder and retries for up to 5 s. A node's mounts may outlive its last process for a moment.
func removeAll(dir string) error {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := os.RemoveAll(dir)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// unshare removes the shared resources. The caller makes sure that no cluster is left.
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
