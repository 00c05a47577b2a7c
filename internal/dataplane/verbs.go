package dataplane

import "errors"

// Verbs are the operations of a Kernel, one per type of object. All of them must be set.
type Verbs struct {
	SetLink, DeleteLink           func(Link) error
	SetAddress, DeleteAddress     func(Address) error
	SetNeighbour, DeleteNeighbour func(Neighbour) error
	SetTable, DeleteTable         func(Table) error
	ChangeElements                func(Elements) error
	SetDevice                     func(Device) error
	SetPeer, DeletePeer           func(DevicePeer) error
	SetRoute, DeleteRoute         func(Route) error
	SetRule, DeleteRule           func(Rule) error
}

// Do makes one change by calling the matching function.
func (v *Verbs) Do(c Change) error {
	switch {
	case c.Link != nil:
		return pick(c.Operation, v.SetLink, v.DeleteLink)(*c.Link)
	case c.Address != nil:
		return pick(c.Operation, v.SetAddress, v.DeleteAddress)(*c.Address)
	case c.Neighbour != nil:
		return pick(c.Operation, v.SetNeighbour, v.DeleteNeighbour)(*c.Neighbour)
	case c.Table != nil:
		return pick(c.Operation, v.SetTable, v.DeleteTable)(*c.Table)
	case c.Elements != nil:
		return v.ChangeElements(*c.Elements)
	case c.Device != nil:
		return v.SetDevice(*c.Device)
	case c.Peer != nil:
		return pick(c.Operation, v.SetPeer, v.DeletePeer)(*c.Peer)
	case c.Route != nil:
		return pick(c.Operation, v.SetRoute, v.DeleteRoute)(*c.Route)
	case c.Rule != nil:
		return pick(c.Operation, v.SetRule, v.DeleteRule)(*c.Rule)
	}
	return errors.New("the change has no object")
}

func pick[T any](o Operation, set, remove func(T) error) func(T) error {
	if o == Delete {
		return remove
	}
	return set
}
