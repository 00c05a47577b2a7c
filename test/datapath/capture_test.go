package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
)

// sighting is a packet on a link.
type sighting struct {
	at       time.Time
	host     string
	link     string
	outgoing bool
	packet   packet
}

func (s sighting) String() string {
	return fmt.Sprintf("%-24s %-11s %-3s %s", s.host, s.link, map[bool]string{true: "out", false: "in"}[s.outgoing], s.packet)
}

// packet holds the parsed fields of an IPv4 packet.
type packet struct {
	source, destination netip.Addr
	protocol            byte
	sourcePort, port    uint16 // for ICMP: type and identifier
	about               *packet
}

func (p packet) String() string {
	text := fmt.Sprintf("%s > %s %s", p.source, p.destination, map[byte]string{1: "icmp", 6: "tcp", 17: "udp"}[p.protocol])
	if p.protocol == unix.IPPROTO_ICMP {
		text = fmt.Sprintf("%s > %s %s", p.source, p.destination, map[uint16]string{0: "echo reply", 8: "echo", 3: "unreachable", 11: "time exceeded"}[p.sourcePort])
	}
	if p.about != nil {
		text += fmt.Sprintf(" (about %s)", p.about)
	}
	return text
}

// parse parses a packet. It returns false if b is no IPv4 packet, or a fragment other than the first.
func parse(b []byte) (packet, bool) {
	if len(b) < 24 || b[0]>>4 != 4 || binary.BigEndian.Uint16(b[6:])&0x1fff != 0 {
		return packet{}, false
	}
	length := int(b[0]&15) * 4
	p := packet{protocol: b[9]}
	p.source, _ = netip.AddrFromSlice(b[12:16])
	p.destination, _ = netip.AddrFromSlice(b[16:20])
	if len(b) < length+8 {
		return packet{}, false
	}
	transport := b[length:]
	switch p.protocol {
	case unix.IPPROTO_ICMP:
		p.sourcePort, p.port = uint16(transport[0]), binary.BigEndian.Uint16(transport[4:])
		if kind := transport[0]; kind == 3 || kind == 11 || kind == 12 {
			if about, ok := parse(transport[8:]); ok {
				p.about = &about
			}
		}
	default:
		p.sourcePort, p.port = binary.BigEndian.Uint16(transport), binary.BigEndian.Uint16(transport[2:])
	}
	return p, true
}

// capture captures packets on links of many hosts. The kernel buffers them until stop, so no packet that arrived before is lost.
type capture struct {
	sockets []tap
}

type tap struct {
	fd         int
	host, link string
}

// listen captures all IPv4 packets on Liqo's links of nodes and gateways, and on the links of pods.
func listen(t *testing.T, clusters ...*cluster) *capture {
	t.Helper()
	c := &capture{}
	for _, cluster := range clusters {
		for _, n := range cluster.nodes {
			c.on(t, n, dataplane.OverlayLink)
		}
		for _, p := range append(slices.Clone(cluster.pods), cluster.outside) {
			c.on(t, p, "eth0")
		}
		for _, gw := range cluster.gateways {
			c.on(t, gw, dataplane.OverlayLink)
			c.on(t, gw, dataplane.TunnelLink)
		}
	}
	return c
}

func (c *capture) on(t *testing.T, h *host, link string) {
	t.Helper()
	index := h.link(t, link).Attrs().Index
	h.must(t, func() error {
		all := uint16(unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		c.sockets = append(c.sockets, tap{fd, h.name, link})
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20); err != nil { // a large buffer, because it is read only at the end
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index})
	})
}

// stop ends the capture and returns the packets that match, in the order of their timestamps.
func (c *capture) stop(t *testing.T, match func(packet) bool) []sighting {
	t.Helper()
	var all []sighting
	buffer, control := make([]byte, 65536), make([]byte, 256)
	for _, s := range c.sockets {
		for {
			n, oob, _, from, err := unix.Recvmsg(s.fd, buffer, control, 0)
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			if err != nil {
				t.Fatalf("capturing on %s of %s: %v", s.link, s.host, err)
			}
			p, ok := parse(buffer[:n])
			ll, isLL := from.(*unix.SockaddrLinklayer)
			if ok && isLL && (match(p) || p.about != nil && match(*p.about)) {
				all = append(all, sighting{at: stamp(control[:oob]), host: s.host, link: s.link, outgoing: ll.Pkttype == unix.PACKET_OUTGOING, packet: p})
			}
		}
		_ = unix.Close(s.fd)
	}
	slices.SortStableFunc(all, func(a, b sighting) int { return a.at.Compare(b.at) })
	return all
}

// stamp returns the kernel's timestamp of a packet.
func stamp(control []byte) time.Time {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Time{}
	}
	for _, m := range messages {
		if m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			return time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		}
	}
	return time.Time{}
}

func text(trace []sighting) string {
	var b strings.Builder
	for _, s := range trace {
		fmt.Fprintln(&b, strings.TrimSpace(s.String()))
	}
	return b.String()
}
