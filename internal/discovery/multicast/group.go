// Package multicast exchanges messages of multicast DNS (RFC 6762) with the hosts of the local networks, over IPv4.
package multicast

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/ipv4"

	"liqo.io/liqo/internal/address"
	"liqo.io/liqo/internal/discovery"
)

const (
	// port is the port of multicast DNS.
	port = 5353
	// pause is the time between attempts to read from a network that is down.
	pause = time.Second
	// hops is the TTL of packets. Receivers use it to check that a packet is from the same network.
	hops = 255
)

// group is the address of multicast DNS.
var group = net.IPv4(224, 0, 0, 251)

// Packet is a message from a host of a local network.
type Packet struct {
	Message *discovery.Message
	// From is the sender. Its address is in the network that the packet came from.
	From netip.AddrPort
	link *link
}

// Legacy reports whether the sender is an ordinary resolver, which does not send from the port of multicast DNS.
func (p *Packet) Legacy() bool { return p.From.Port() != port }

// link is a socket in one local network.
type link struct {
	conn *ipv4.PacketConn
	// index is the index of the interface, for a socket at the port of multicast DNS. Such a socket receives the packets of all interfaces,
	// including packets to an address of this host. For a socket at another port, index is 0.
	index    int
	networks []netip.Prefix
}

// Group holds one socket in each local network of this host.
type Group struct{ links []*link }

// Join joins the multicast group of DNS in each local network of this host. It leaves out networks in the ranges of own, such as that of the
// bridge for pods.
func Join(own []netip.Prefix) (*Group, error) {
	return open(own, true, func(i *net.Interface, _ []netip.Prefix) (*net.UDPConn, error) {
		return net.ListenMulticastUDP("udp4", i, &net.UDPAddr{IP: group, Port: port})
	})
}

// Ask returns a Group that only sends queries, and receives the answers at a port of its own. It needs no privileges, and does not conflict with a
// multicast DNS resolver on the same host.
func Ask() (*Group, error) {
	return open(nil, false, func(_ *net.Interface, networks []netip.Prefix) (*net.UDPConn, error) {
		return net.ListenUDP("udp4", &net.UDPAddr{IP: networks[0].Addr().AsSlice()})
	})
}

// open opens a socket in each local network. shared means that each socket also gets the packets of the other networks.
func open(own []netip.Prefix, shared bool, listen func(*net.Interface, []netip.Prefix) (*net.UDPConn, error)) (*Group, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing the network interfaces: %w", err)
	}
	g := &Group{}
	var failed []error
	for i := range interfaces {
		networks := networksOf(&interfaces[i], own)
		if len(networks) == 0 {
			continue
		}
		conn, err := listen(&interfaces[i], networks)
		if err != nil {
			failed = append(failed, fmt.Errorf("listening on interface %s: %w", interfaces[i].Name, err))
			continue
		}
		l, err := newLink(conn, &interfaces[i], networks, shared)
		if err != nil {
			_ = conn.Close()
			failed = append(failed, fmt.Errorf("preparing interface %s: %w", interfaces[i].Name, err))
			continue
		}
		g.links = append(g.links, l)
	}
	if len(g.links) == 0 {
		return nil, errors.Join(append(failed, errors.New("there is no local network with multicast"))...)
	}
	return g, nil
}

// networksOf returns the IPv4 networks of an interface with multicast in which other clusters can be; none for other interfaces.
func networksOf(i *net.Interface, own []netip.Prefix) []netip.Prefix {
	const want, not = net.FlagUp | net.FlagMulticast, net.FlagLoopback | net.FlagPointToPoint
	if i.Flags&want != want || i.Flags&not != 0 {
		return nil
	}
	addresses, err := i.Addrs()
	if err != nil {
		return nil
	}
	var out []netip.Prefix
	for _, found := range addresses {
		prefix, err := netip.ParsePrefix(found.String())
		if err == nil && prefix.Addr().Is4() && address.Check(prefix.Addr(), own) == nil {
			out = append(out, prefix)
		}
	}
	return out
}

func newLink(conn *net.UDPConn, i *net.Interface, networks []netip.Prefix, shared bool) (*link, error) {
	packets := ipv4.NewPacketConn(conn)
	if err := errors.Join(packets.SetMulticastInterface(i), packets.SetMulticastTTL(hops), packets.SetMulticastLoopback(true)); err != nil {
		return nil, err
	}
	l := &link{conn: packets, networks: networks}
	if !shared {
		return l, nil
	}
	l.index = i.Index
	return l, packets.SetControlMessage(ipv4.FlagInterface|ipv4.FlagDst, true)
}

// Run calls handle for every message of the local networks until ctx ends. It calls handle from several goroutines.
func (g *Group) Run(ctx context.Context, handle func(*Packet)) {
	stop := context.AfterFunc(ctx, func() {
		for _, l := range g.links {
			_ = l.conn.SetReadDeadline(time.Unix(1, 0))
		}
	})
	defer stop()
	var readers sync.WaitGroup
	for _, l := range g.links {
		readers.Go(func() { l.read(ctx, handle) })
	}
	readers.Wait()
}

func (l *link) read(ctx context.Context, handle func(*Packet)) {
	buffer := make([]byte, discovery.MaxMessage+1)
	for ctx.Err() == nil {
		n, control, from, err := l.conn.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // the interface may be down for a while
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue
		}
		udp, ok := from.(*net.UDPAddr)
		if !ok || l.index != 0 && (control == nil || control.IfIndex != l.index) {
			continue
		}
		sender := udp.AddrPort()
		sender = netip.AddrPortFrom(sender.Addr().Unmap(), sender.Port())
		message, err := discovery.Parse(buffer[:n])
		if err != nil || !l.local(sender.Addr()) || message.Response && !l.trusts(sender, control) {
			continue // other programs use the same multicast group for other purposes
		}
		handle(&Packet{Message: message, From: sender, link: l})
	}
}

// trusts reports whether a response with these addresses comes from the network of the link (RFC 6762, section 11). A sender's address can be
// forged, but no router forwards packets that are sent to the group. A program that queries from a port of its own gets its responses there.
func (l *link) trusts(sender netip.AddrPort, control *ipv4.ControlMessage) bool {
	return sender.Port() == port && (l.index == 0 || control.Dst.Equal(group))
}

// local reports whether an address is in the network of the link.
func (l *link) local(address netip.Addr) bool {
	for _, network := range l.networks {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

// Send sends a message to all hosts of all local networks.
func (g *Group) Send(m *discovery.Message) error {
	data, err := m.Pack()
	if err != nil {
		return err
	}
	var failed []error
	for _, l := range g.links {
		if _, err := l.conn.WriteTo(data, nil, &net.UDPAddr{IP: group, Port: port}); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// Reply sends the response to a packet: to its sender only, or to all hosts of the network that it came from.
func (g *Group) Reply(p *Packet, m *discovery.Message, unicast bool) error {
	data, err := m.Pack()
	if err != nil {
		return err
	}
	to := &net.UDPAddr{IP: group, Port: port}
	if unicast {
		to = net.UDPAddrFromAddrPort(p.From)
	}
	_, err = p.link.conn.WriteTo(data, nil, to)
	return err
}

// Close leaves the group.
func (g *Group) Close() {
	for _, l := range g.links {
		_ = l.conn.Close()
	}
}
