package node

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
)

// wire configures the node's network: addresses, routes, sysctls and the nftables ruleset. eth0, the node's end of its cable, already exists.
func wire(spec Spec) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("setting lo up: %w", err)
	}
	cable, err := netlink.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("finding eth0: %w", err)
	}
	address := &net.IPNet{IP: spec.Link.Addr().AsSlice(), Mask: net.CIDRMask(spec.Link.Bits(), 32)}
	if err := netlink.AddrAdd(cable, &netlink.Addr{IPNet: address}); err != nil {
		return fmt.Errorf("adding address %v: %w", address, err)
	}
	if err := netlink.LinkSetUp(cable); err != nil {
		return fmt.Errorf("setting eth0 up: %w", err)
	}
	if err := route(cable, netip.PrefixFrom(netip.IPv4Unspecified(), 0), spec.Gateway); err != nil {
		return err
	}
	for _, r := range spec.Routes {
		if err := route(cable, r.To, r.Via); err != nil {
			return err
		}
	}
	if err := forwarding(); err != nil {
		return err
	}
	if spec.Ruleset == "" {
		return nil
	}
	return load(spec.Ruleset)
}

func route(link netlink.Link, to netip.Prefix, via netip.Addr) error {
	r := &netlink.Route{
		LinkIndex: link.Attrs().Index,
		Dst:       &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), 32)},
		Gw:        via.AsSlice(),
	}
	if err := netlink.RouteAdd(r); err != nil {
		return fmt.Errorf("adding route to %v via %v: %w", to, via, err)
	}
	return nil
}

func forwarding() error {
	for name, value := range map[string]string{
		"net.ipv4.ip_forward":             "1",
		"net.ipv4.conf.all.rp_filter":     "0",
		"net.ipv4.conf.default.rp_filter": "0",
		// Services between pods of one node need this setting with the bridge plugin. Without it, frames between ports of the CNI bridge
		// bypass netfilter, so replies are not translated back (reverse NAT).
		"net.bridge.bridge-nf-call-iptables": "1",
	} {
		file := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
		err := os.WriteFile(file, []byte(value), 0o644)
		if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(name, "net.bridge") {
			continue // the kernel has no bridge netfilter, so bridged frames need no setting
		}
		if err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}
