package datapath

import (
	"crypto/ecdh"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"testing"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/ipc"
	"golang.zx2c4.com/wireguard/tun"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/vishvananda/netns"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/network"
)

// tunnel is wireguard-go in a gateway's namespace. All devices have the same name in their namespaces, but their sockets are in the file system and need unique
// names.
type tunnel struct {
	socket string
	key    dataplane.PrivateKey
	port   uint16
	peers  []network.TunnelPeer
}

func newTunnel(t *testing.T, h *host) *tunnel {
	t.Helper()
	w := &tunnel{socket: fmt.Sprintf("dpath-%d-%s", os.Getpid(), h.name)}
	if _, err := rand.Read(w.key[:]); err != nil {
		t.Fatal(err)
	}
	var dev *device.Device
	h.must(t, func() error {
		link, err := tun.CreateTUN(dataplane.TunnelLink, 1340)
		if err != nil {
			return err
		}
		dev = device.NewDevice(link, conn.NewDefaultBind(), device.NewLogger(device.LogLevelSilent, ""))
		return dev.Up() // before the link is up, since this opens sockets in the namespace of its thread
	})
	file, err := ipc.UAPIOpen(w.socket)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := ipc.UAPIListen(w.socket, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = listener.Close()
		_ = file.Close()
		dev.Close()
	})
	go func() {
		_ = inThread(func() error {
			if err := netns.Set(h.ns); err != nil { // a new port needs new sockets in the namespace
				return err
			}
			for {
				client, err := listener.Accept()
				if err != nil {
					return err
				}
				dev.IpcHandle(client)
			}
		})
	}()
	return w
}

func (w *tunnel) public() dataplane.PublicKey {
	key, err := ecdh.X25519().NewPrivateKey(w.key[:])
	if err != nil {
		panic(err) // can't fail: the key has 32 bytes
	}
	return dataplane.PublicKey(key.PublicKey().Bytes())
}

// Device reads the device behind the name that it has in its namespace.
func (w *tunnel) Device(string) (*wgtypes.Device, error) {
	client, err := wgctrl.New()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.Device(w.socket)
}

// ConfigureDevice changes the configuration of the device.
func (w *tunnel) ConfigureDevice(_ string, config wgtypes.Config) error {
	client, err := wgctrl.New()
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ConfigureDevice(w.socket, config)
}

// unbind makes the far end accept all destinations for its tunnel.
func (w *tunnel) unbind(t *testing.T) {
	t.Helper()
	everything := net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	config := wgtypes.Config{Peers: []wgtypes.PeerConfig{{PublicKey: wgtypes.Key(w.peers[0].Key), UpdateOnly: true, AllowedIPs: []net.IPNet{everything}}}}
	if err := w.ConfigureDevice(dataplane.TunnelLink, config); err != nil {
		t.Fatal(err)
	}
}
