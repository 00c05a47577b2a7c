// Package fake is a network namespace in memory. It stores, rejects and implicitly deletes objects like the real kernel. Tests can inject a
// fault into every call. The conformance suite checks that it behaves like the real driver.
package fake

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"liqo.io/liqo/internal/dataplane"
)

// Kernel is a network namespace in memory. Several goroutines may use it at once.
type Kernel struct {
	mu      sync.Mutex
	local   []netip.Addr
	links   []dataplane.Link
	inet    []dataplane.Address // in order of creation: the first address of a network is the primary one
	hops    map[hop]dataplane.MAC
	fdb     map[forwarding]netip.Addr
	routes  []dataplane.Route
	rules   []dataplane.Rule
	tables  map[string]dataplane.Table
	devices map[string]*dataplane.WireGuard

	calls    int
	fault    func(call int, what string) error
	watchers []*watcher
}

type hop struct {
	link string
	ip   netip.Addr
}

type forwarding struct {
	link string
	mac  dataplane.MAC
}

var _ dataplane.Kernel = (*Kernel)(nil)

// New returns an empty namespace of a host with the given addresses.
func New(local ...netip.Addr) *Kernel {
	return &Kernel{
		local:   local,
		hops:    map[hop]dataplane.MAC{},
		fdb:     map[forwarding]netip.Addr{},
		tables:  map[string]dataplane.Table{},
		devices: map[string]*dataplane.WireGuard{},
	}
}

// Fault sets a function that is called before every call of the kernel: a Read, or one change. Its call counts from 1, and its what is
// "read" or the text of the change. If the function returns an error, the call fails with this error and changes nothing. Nil: no faults.
func (k *Kernel) Fault(fault func(call int, what string) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fault = fault
}

// Calls returns the number of calls so far: Reads and single changes.
func (k *Kernel) Calls() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls
}

func (k *Kernel) call(what func() string) error {
	k.calls++
	if k.fault == nil {
		return nil
	}
	return k.fault(k.calls, what())
}

// Watch calls changed once at the start and after every change to an object that own lists, until ctx is done.
func (k *Kernel) Watch(ctx context.Context, own dataplane.Ownership, changed func()) error {
	w := &watcher{own: own, notified: make(chan struct{}, 1)}
	w.notified <- struct{}{}
	k.mu.Lock()
	k.watchers = append(k.watchers, w)
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.watchers = slices.DeleteFunc(k.watchers, func(o *watcher) bool { return o == w })
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.notified:
			changed()
		}
	}
}

type watcher struct {
	own      dataplane.Ownership
	notified chan struct{}
}

// changed notifies the watchers whose ownership includes the changed object.
func (k *Kernel) changed(c dataplane.Change) {
	for _, w := range k.watchers {
		if !touches(c, w.own) {
			continue
		}
		select {
		case w.notified <- struct{}{}:
		default: // a notification is pending already
		}
	}
}

// touches reports whether a change concerns an object that own lists. Changes to WireGuard devices are never reported.
func touches(c dataplane.Change, own dataplane.Ownership) bool {
	link := func(name string) bool { return name != "" && (name == own.Overlay || name == own.Tunnel) }
	switch {
	case c.Link != nil:
		return link(c.Link.Name)
	case c.Address != nil:
		return link(c.Address.Link)
	case c.Neighbour != nil:
		return link(c.Neighbour.Link)
	case c.Table != nil:
		return c.Table.Name == own.Table
	case c.Elements != nil:
		return c.Elements.Table == own.Table
	case c.Route != nil:
		return slices.Contains(own.Tables, c.Route.Table)
	case c.Rule != nil:
		return slices.Contains(own.Tables, c.Rule.Table)
	}
	return false
}

// Read returns the objects that own lists, in canonical form.
func (k *Kernel) Read(ctx context.Context, own dataplane.Ownership) (dataplane.State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return dataplane.State{}, err
	}
	if err := k.call(func() string { return "read" }); err != nil {
		return dataplane.State{}, fmt.Errorf("reading the network namespace: %w", err)
	}
	var s dataplane.State
	ours := func(link string) bool { return link != "" && (link == own.Overlay || link == own.Tunnel) }
	for _, l := range k.links {
		if ours(l.Name) {
			s.Links = append(s.Links, l)
		}
	}
	for _, a := range k.inet {
		if ours(a.Link) {
			s.Addresses = append(s.Addresses, a)
		}
	}
	s.Neighbours = k.neighbours(own.Overlay)
	for _, r := range k.routes {
		if slices.Contains(own.Tables, r.Table) {
			s.Routes = append(s.Routes, r)
		}
	}
	for _, r := range k.rules {
		if slices.Contains(own.Tables, r.Table) {
			s.Rules = append(s.Rules, r)
		}
	}
	if t, found := k.tables[own.Table]; found {
		t = cloneTable(t)
		s.Table = &t
	}
	if d, found := k.devices[own.Tunnel]; found && ours(own.Tunnel) {
		s.WireGuard = append(s.WireGuard, cloneDevice(*d))
	}
	return dataplane.Canonical(s), nil
}

// Apply makes the changes in order and stops at the first failure.
func (k *Kernel) Apply(ctx context.Context, changes []dataplane.Change) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	verbs := k.verbs()
	for _, c := range changes {
		err := ctx.Err()
		if err == nil {
			err = k.call(c.String)
		}
		if err == nil {
			err = verbs.Do(c)
		}
		if err != nil {
			return fmt.Errorf("applying %q: %w", c, err)
		}
		k.changed(c)
	}
	return nil
}

func (k *Kernel) verbs() *dataplane.Verbs {
	return &dataplane.Verbs{
		SetLink: k.setLink, DeleteLink: k.deleteLink, SetAddress: k.setAddress, DeleteAddress: k.deleteAddress,
		SetNeighbour: k.setNeighbour, DeleteNeighbour: k.deleteNeighbour, SetTable: k.setTable, DeleteTable: k.deleteTable, ChangeElements: k.elements,
		SetDevice: k.setDevice, SetPeer: k.setPeer, DeletePeer: k.deletePeer,
		SetRoute: k.setRoute, DeleteRoute: k.deleteRoute, SetRule: k.setRule, DeleteRule: k.deleteRule,
	}
}

func (k *Kernel) deleteTable(t dataplane.Table) error {
	delete(k.tables, t.Name)
	return nil
}

func (k *Kernel) deleteRoute(r dataplane.Route) error {
	k.routes = slices.DeleteFunc(k.routes, func(have dataplane.Route) bool { return have == r })
	return nil
}

func (k *Kernel) setRule(r dataplane.Rule) error {
	if !slices.Contains(k.rules, r) {
		k.rules = append(k.rules, r)
	}
	return nil
}

func (k *Kernel) deleteRule(r dataplane.Rule) error {
	k.rules = slices.DeleteFunc(k.rules, func(have dataplane.Rule) bool { return have == r })
	return nil
}
