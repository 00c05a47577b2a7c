// Package address checks addresses that other clusters name.
package address

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// metadata are the addresses at which clouds serve the credentials of a machine, outside of the link-local range.
var metadata = []netip.Addr{
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"), netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd20:ce::254"),
}

var thisNetwork = netip.MustParsePrefix("0.0.0.0/8")

// Check returns an error if no other cluster can have an address, because it belongs to this machine, to the metadata service of a cloud, or
// to the ranges in own, which this cluster uses itself.
func Check(address netip.Addr, own []netip.Prefix) error {
	plain := address.Unmap()
	switch {
	case !address.IsValid():
		return errors.New("there is no address")
	case address.Zone() != "":
		return fmt.Errorf("%s has a zone", address)
	case plain.IsLoopback(), plain.IsUnspecified(), thisNetwork.Contains(plain):
		return fmt.Errorf("%s is an address that every machine has", address)
	case plain.IsLinkLocalUnicast():
		return fmt.Errorf("%s is a link-local address, as metadata services have", address)
	case plain.IsMulticast(), plain.Is4() && plain.As4()[0] >= 240:
		return fmt.Errorf("%s is no address of a single machine", address)
	case slices.Contains(metadata, plain):
		return fmt.Errorf("%s is the address of a metadata service", address)
	}
	for _, prefix := range own {
		if prefix.Contains(plain) {
			return fmt.Errorf("%s is in %s, a range of this cluster", address, prefix)
		}
	}
	return nil
}
