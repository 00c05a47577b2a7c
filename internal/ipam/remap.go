package ipam

import (
	"encoding/binary"
	"net/netip"
)

// Remap describes how one range of another cluster appears in this cluster. Real is the range in the other cluster, View the
// range in this one. Both have the same length, and an address keeps its host bits.
type Remap struct {
	Real, View netip.Prefix
}

// ToView translates an address of Real; false for any other address.
func (r Remap) ToView(real netip.Addr) (netip.Addr, bool) { return move(real, r.Real, r.View) }

// ToReal translates an address of View; false for any other address.
func (r Remap) ToReal(view netip.Addr) (netip.Addr, bool) { return move(view, r.View, r.Real) }

// Identity reports whether both ranges are the same, so that no address needs translation.
func (r Remap) Identity() bool { return r.Real.Masked() == r.View.Masked() }

// Valid reports whether both ranges are IPv4 and have the same length.
func (r Remap) Valid() bool {
	return r.Real.IsValid() && r.View.IsValid() && r.Real.Addr().Is4() && r.View.Addr().Is4() && r.Real.Bits() == r.View.Bits()
}

// move translates an address of one range to the same place in another range of the same length.
func move(addr netip.Addr, from, to netip.Prefix) (netip.Addr, bool) {
	if !(Remap{from, to}).Valid() || !from.Contains(addr) {
		return netip.Addr{}, false
	}
	host := ^uint32(0) >> to.Bits() // a shift by all 32 bits results in 0
	return fromNumber(number(to.Addr())&^host | number(addr)&host), true
}

// number returns an IPv4 address as a number; the order of addresses is kept.
func number(addr netip.Addr) uint32 {
	bytes := addr.As4()
	return binary.BigEndian.Uint32(bytes[:])
}

func fromNumber(n uint32) netip.Addr {
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], n)
	return netip.AddrFrom4(bytes)
}
