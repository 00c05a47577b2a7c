package fakekubelet

import (
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// addresses assigns a unique address to each pod. It reuses a freed address as late as possible, because clients that still remember
// the previous pod must not reach another pod there.
type addresses struct {
	prefix netip.Prefix
	mutex  sync.Mutex
	last   netip.Addr // assigned last; always an address that next can return
	taken  map[netip.Addr]bool
	byPod  map[types.UID]netip.Addr
}

func newAddresses(prefix netip.Prefix) *addresses {
	prefix = prefix.Masked()
	return &addresses{prefix: prefix, last: prefix.Addr().Next(), taken: map[netip.Addr]bool{}, byPod: map[types.UID]netip.Addr{}}
}

// keep records that a pod has an address. It does nothing if the pod already has one or another pod has this address.
func (a *addresses) keep(pod types.UID, address netip.Addr) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if _, has := a.byPod[pod]; has || a.taken[address] {
		return
	}
	a.taken[address], a.byPod[pod] = true, address
}

// of returns the pod's address and assigns one if necessary. It returns false if no address is free.
func (a *addresses) of(pod types.UID) (netip.Addr, bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if address, has := a.byPod[pod]; has {
		return address, true
	}
	for candidate := a.next(a.last); ; candidate = a.next(candidate) {
		if !a.taken[candidate] {
			a.last = candidate
			a.taken[candidate], a.byPod[pod] = true, candidate
			return candidate, true
		}
		if candidate == a.last {
			return netip.Addr{}, false
		}
	}
}

// next returns the address after the given one and wraps around at the end of the prefix. It skips the network address and the
// broadcast address.
func (a *addresses) next(address netip.Addr) netip.Addr {
	address = address.Next()
	if !a.prefix.Contains(address.Next()) {
		return a.prefix.Addr().Next()
	}
	return address
}

// free releases the pod's address.
func (a *addresses) free(pod types.UID) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if address, has := a.byPod[pod]; has {
		delete(a.taken, address)
		delete(a.byPod, pod)
	}
}
