package ipam

import (
	"encoding/binary"
	"net/netip"
)

// Remap is how one range of another cluster appears here: Real is the range as that cluster knows it, View as this one does. Both have the
// same length, and an address keeps its host bits.
type Remap struct {
	Real, View netip.Prefix
}

// ToView translates an address of Real; false for any other address.
func (r Remap) ToView(real netip.Addr) (netip.Addr, bool) { return move(real, r.Real, r.View) }

// ToReal translates an address of View; false for any other address.
func (r Remap) ToReal(view netip.Addr) (netip.Addr, bool) { return move(view, r.View, r.Real) }

// Identity tells whether nothing has to be rewritten.
func (r Remap) Identity() bool { return r.Real.Masked() == r.View.Masked() }

// Valid tells whether both ranges are IPv4 and of one length.
func (r Remap) Valid() bool {
	return r.Real.IsValid() && r.View.IsValid() && r.Real.Addr().Is4() && r.View.Addr().Is4() && r.Real.Bits() == r.View.Bits()
}

// move takes an address of one range to the same place in another one of the same length.
func move(addr netip.Addr, from, to netip.Prefix) (netip.Addr, bool) {
	if !(Remap{from, to}).Valid() || !from.Contains(addr) {
		return netip.Addr{}, false
	}
	host := ^uint32(0) >> to.Bits() // shifting by all 32 bits leaves none
	return fromNumber(number(to.Addr())&^host | number(addr)&host), true
}

// number is an IPv4 address as a number, in the order of addresses.
func number(addr netip.Addr) uint32 {
	bytes := addr.As4()
	return binary.BigEndian.Uint32(bytes[:])
}

func fromNumber(n uint32) netip.Addr {
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], n)
	return netip.AddrFrom4(bytes)
}
