package fake

import (
	"net/netip"
	"slices"
	"syscall"
	"time"

	"liqo.io/liqo/internal/dataplane"
)

// Handshake simulates a handshake with a peer: it sets the peer's endpoint and the time of its last handshake. It returns an error if the
// device or the peer is missing.
func (k *Kernel) Handshake(link string, key dataplane.PublicKey, endpoint netip.AddrPort, at time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	d, found := k.devices[link]
	if !found {
		return syscall.ENODEV
	}
	i := slices.IndexFunc(d.Peers, func(p dataplane.Peer) bool { return p.PublicKey == key })
	if i < 0 {
		return syscall.ENOENT
	}
	d.Peers[i].Endpoint, d.Peers[i].Handshake = endpoint, at
	return nil
}

func cloneDevice(d dataplane.WireGuard) dataplane.WireGuard {
	d.Peers = slices.Clone(d.Peers)
	for i := range d.Peers {
		d.Peers[i].AllowedIPs = slices.Clone(d.Peers[i].AllowedIPs)
	}
	return d
}

func (k *Kernel) setDevice(d dataplane.Device) error {
	device, found := k.devices[d.Link]
	if !found {
		return syscall.ENODEV
	}
	device.PrivateKey = d.PrivateKey
	if d.ListenPort != 0 {
		device.ListenPort = d.ListenPort
	}
	return nil
}

// setPeer removes the allowed prefixes from all other peers, as WireGuard does, and keeps the session of the peer.
func (k *Kernel) setPeer(c dataplane.DevicePeer) error {
	d, found := k.devices[c.Link]
	if !found {
		return syscall.ENODEV
	}
	peer := c.Peer
	peer.AllowedIPs = slices.Clone(peer.AllowedIPs)
	peer.Handshake, peer.Received, peer.Sent = time.Time{}, 0, 0
	for i := range d.Peers {
		other := &d.Peers[i]
		if other.PublicKey != peer.PublicKey {
			other.AllowedIPs = slices.DeleteFunc(other.AllowedIPs, func(p netip.Prefix) bool { return slices.Contains(peer.AllowedIPs, p) })
			continue
		}
		peer.Handshake, peer.Received, peer.Sent = other.Handshake, other.Received, other.Sent
		if !peer.Endpoint.IsValid() {
			peer.Endpoint = other.Endpoint
		}
	}
	d.Peers = slices.DeleteFunc(d.Peers, func(p dataplane.Peer) bool { return p.PublicKey == peer.PublicKey })
	d.Peers = append(d.Peers, peer)
	return nil
}

func (k *Kernel) deletePeer(c dataplane.DevicePeer) error {
	d, found := k.devices[c.Link]
	if !found {
		return nil
	}
	d.Peers = slices.DeleteFunc(d.Peers, func(p dataplane.Peer) bool { return p.PublicKey == c.Peer.PublicKey })
	return nil
}
