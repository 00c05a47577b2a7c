package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"liqo.io/liqo/internal/dataplane"
)

// controlled opens a client for every call, because the kernel module may be loaded, and the socket of wireguard-go created, at any time.
type controlled struct{ namespace int }

// client opens a client in the namespace. A netlink socket belongs to the namespace of the thread that opens it.
func (c *controlled) client() (*wgctrl.Client, error) {
	if c.namespace < 0 {
		return wgctrl.New()
	}
	runtime.LockOSThread()
	before, err := netns.Get()
	if err != nil {
		return nil, err
	}
	defer func() { _ = before.Close() }()
	if err := netns.Set(netns.NsHandle(c.namespace)); err != nil {
		return nil, err
	}
	client, err := wgctrl.New()
	if back := netns.Set(before); back != nil {
		return nil, back // the thread stays locked, so the runtime ends it with its goroutine
	}
	runtime.UnlockOSThread()
	return client, err
}

// Device returns the state of a device.
func (c *controlled) Device(name string) (*wgtypes.Device, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	return client.Device(name)
}

// ConfigureDevice changes the configuration of a device.
func (c *controlled) ConfigureDevice(name string, config wgtypes.Config) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	return client.ConfigureDevice(name, config)
}

// absent reports whether an error means that there is no device: it was never created, or its process died and left the socket behind.
func absent(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}

func (k *Kernel) readDevice(s *dataplane.State, own dataplane.Ownership) error {
	link, err := k.find(own.Tunnel)
	if err != nil || link == nil {
		return err
	}
	device, err := k.devices.Device(own.Tunnel)
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	w := dataplane.WireGuard{Link: own.Tunnel, PrivateKey: dataplane.PrivateKey(device.PrivateKey), ListenPort: uint16(device.ListenPort)}
	for _, p := range device.Peers {
		peer := dataplane.Peer{PublicKey: dataplane.PublicKey(p.PublicKey), Keepalive: p.PersistentKeepaliveInterval,
			Received: uint64(p.ReceiveBytes), Sent: uint64(p.TransmitBytes)}
		if !p.LastHandshakeTime.IsZero() && p.LastHandshakeTime.Unix() != 0 {
			peer.Handshake = p.LastHandshakeTime
		}
		if p.Endpoint != nil {
			peer.Endpoint = netip.AddrPortFrom(address(p.Endpoint.IP), uint16(p.Endpoint.Port))
		}
		for _, a := range p.AllowedIPs {
			peer.AllowedIPs = append(peer.AllowedIPs, prefix(&a))
		}
		w.Peers = append(w.Peers, peer)
	}
	s.WireGuard = append(s.WireGuard, w)
	return nil
}

func (k *Kernel) configure(link string, config wgtypes.Config) error {
	err := k.devices.ConfigureDevice(link, config)
	if absent(err) {
		return fmt.Errorf("the tunnel process has not created the device: %w", err)
	}
	return err
}

func (k *Kernel) setDevice(d dataplane.Device) error {
	key := wgtypes.Key(d.PrivateKey)
	config := wgtypes.Config{PrivateKey: &key}
	if d.ListenPort != 0 {
		port := int(d.ListenPort)
		config.ListenPort = &port
	}
	return k.configure(d.Link, config)
}

func (k *Kernel) setPeer(p dataplane.DevicePeer) error {
	keepalive := p.Peer.Keepalive.Truncate(time.Second)
	config := wgtypes.PeerConfig{PublicKey: wgtypes.Key(p.Peer.PublicKey), PersistentKeepaliveInterval: &keepalive, ReplaceAllowedIPs: true}
	if p.Peer.Endpoint.IsValid() {
		config.Endpoint = net.UDPAddrFromAddrPort(p.Peer.Endpoint)
	}
	for _, a := range p.Peer.AllowedIPs {
		config.AllowedIPs = append(config.AllowedIPs, *network(a))
	}
	return k.configure(p.Link, wgtypes.Config{Peers: []wgtypes.PeerConfig{config}})
}

func (k *Kernel) deletePeer(p dataplane.DevicePeer) error {
	err := k.configure(p.Link, wgtypes.Config{Peers: []wgtypes.PeerConfig{{PublicKey: wgtypes.Key(p.Peer.PublicKey), Remove: true}}})
	if absent(err) {
		return nil
	}
	return err
}
