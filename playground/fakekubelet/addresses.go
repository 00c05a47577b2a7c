package fakekubelet

import (
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// addresses gives each pod an address of its own. An address that was given back is used again as late as possible, as
// whoever still remembers its last owner must not meet another pod there.
type addresses struct {
	prefix netip.Prefix
	mutex  sync.Mutex
	last   netip.Addr // given last, always one that next returns
	taken  map[netip.Addr]bool
	byPod  map[types.UID]netip.Addr
}

func newAddresses(prefix netip.Prefix) *addresses {
	prefix = prefix.Masked()
	return &addresses{prefix: prefix, last: prefix.Addr().Next(), taken: map[netip.Addr]bool{}, byPod: map[types.UID]netip.Addr{}}
}

// keep notes that a pod has an address, unless another pod has it.
func (a *addresses) keep(pod types.UID, address netip.Addr) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if _, has := a.byPod[pod]; has || a.taken[address] {
		return
	}
	a.taken[address], a.byPod[pod] = true, address
}

// of returns the pod's address, a new one if it has none. It is false if all are taken.
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

// next goes round the prefix, leaving out the first address as the network's own and the last as its broadcast address.
func (a *addresses) next(address netip.Addr) netip.Addr {
	address = address.Next()
	if !a.prefix.Contains(address.Next()) {
		return a.prefix.Addr().Next()
	}
	return address
}

// free gives the pod's address back.
func (a *addresses) free(pod types.UID) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if address, has := a.byPod[pod]; has {
		delete(a.taken, address)
		delete(a.byPod, pod)
	}
}
