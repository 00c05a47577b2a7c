package gateway

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"

	"liqo.io/liqo/internal/dataplane"
)

// Device is the state of the WireGuard device. The zero value means that there is no device.
type Device struct {
	Port  uint16
	Peers []DevicePeer
}

// DevicePeer is a WireGuard peer in a Device: one key of the peer's gateway.
type DevicePeer struct {
	Key      dataplane.PublicKey
	Endpoint netip.AddrPort
	// Carries reports whether WireGuard has allowed IPs for this key, and so accepts its traffic.
	Carries        bool
	Handshake      time.Time
	Received, Sent int64 // bytes
}

// ReadDevice reads the state of WireGuard, in the kernel or in user space. A missing device is no error: the result is then the
// zero Device.
func ReadDevice() (Device, error) {
	client, err := wgctrl.New() // a new client for every call: the kernel's module may be loaded at any time
	if err != nil {
		return Device{}, fmt.Errorf("opening WireGuard: %w", err)
	}
	defer client.Close() //nolint:errcheck // it was only read from
	read, err := client.Device(dataplane.TunnelLink)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) { // the process that holds the device is not running (yet)
		return Device{}, nil
	}
	if err != nil {
		return Device{}, fmt.Errorf("reading the state of WireGuard on %s: %w", dataplane.TunnelLink, err)
	}
	device := Device{Port: uint16(read.ListenPort)}
	for _, p := range read.Peers {
		peer := DevicePeer{
			Key: dataplane.PublicKey(p.PublicKey), Carries: len(p.AllowedIPs) > 0, Handshake: p.LastHandshakeTime,
			Received: p.ReceiveBytes, Sent: p.TransmitBytes,
		}
		if p.LastHandshakeTime.Unix() <= 0 {
			peer.Handshake = time.Time{}
		}
		if p.Endpoint != nil {
			endpoint := p.Endpoint.AddrPort()
			peer.Endpoint = netip.AddrPortFrom(endpoint.Addr().Unmap(), endpoint.Port())
		}
		device.Peers = append(device.Peers, peer)
	}
	return device, nil
}

// carrying returns the peer entry that carries the traffic, if there is one.
func (d *Device) carrying() (DevicePeer, bool) {
	i := slices.IndexFunc(d.Peers, func(p DevicePeer) bool { return p.Carries })
	if i < 0 {
		return DevicePeer{}, false
	}
	return d.Peers[i], true
}

// Traffic returns the bytes that went through the tunnel in each direction.
func (d *Device) Traffic() (received, sent int64) {
	for _, p := range d.Peers {
		received, sent = received+p.Received, sent+p.Sent
	}
	return received, sent
}

// InUse returns the implementation of WireGuard that the other container uses; empty while unknown.
func InUse(directory string) Implementation {
	text, err := os.ReadFile(filepath.Join(directory, implementationFile))
	if err != nil {
		return ""
	}
	return Implementation(text)
}
