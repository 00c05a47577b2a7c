package datapath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is the timeout for an answer. silence is how long a test waits to be sure that there is no answer.
const (
	patience = 10 * time.Second
	silence  = 300 * time.Millisecond
)

// serve answers on a port of a host, over TCP and UDP, with the caller's address as the host sees it. It answers UDP datagrams longer than an address with
// their length.
func (h *host) serve(t *testing.T, port uint16) {
	t.Helper()
	var tcp *net.TCPListener
	var udp *net.UDPConn
	h.must(t, func() (err error) {
		if tcp, err = net.ListenTCP("tcp4", &net.TCPAddr{Port: int(port)}); err != nil {
			return err
		}
		udp, err = net.ListenUDP("udp4", &net.UDPAddr{Port: int(port)})
		return err
	})
	t.Cleanup(func() { _ = errors.Join(tcp.Close(), udp.Close()) })
	go func() {
		for {
			c, err := tcp.AcceptTCP()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				n, _ := io.Copy(io.Discard, c)
				fmt.Fprintf(c, "%s %d", c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr(), n)
			}()
		}
	}()
	go func() {
		buffer := make([]byte, 65536)
		for {
			n, from, err := udp.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = udp.WriteToUDPAddrPort(fmt.Appendf(nil, "%s %d", from.Addr(), n), from)
		}
	}()
}

// tcp sends size bytes, and returns the caller's address as the server saw it, and the number of received bytes.
func (h *host) tcp(to netip.AddrPort, size int) (seen netip.Addr, got int, err error) {
	err = h.in(func() error {
		c, err := net.DialTimeout("tcp4", to.String(), patience)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := io.Copy(c, bytes.NewReader(make([]byte, size))); err != nil {
			return err
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			return err
		}
		answer, err := io.ReadAll(c)
		if err != nil {
			return err
		}
		seen, got, err = answered(answer)
		return err
	})
	return seen, got, err
}

// udp sends a datagram, and returns the caller's address as the server saw it.
func (h *host) udp(to netip.AddrPort, size int, wait time.Duration) (seen netip.Addr, got int, err error) {
	err = h.in(func() error {
		c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(to))
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(wait))
		if _, err := c.Write(make([]byte, size)); err != nil {
			return err
		}
		buffer := make([]byte, 100)
		n, err := c.Read(buffer)
		if err != nil {
			return err
		}
		seen, got, err = answered(buffer[:n])
		return err
	})
	return seen, got, err
}

func answered(answer []byte) (seen netip.Addr, got int, err error) {
	var text string
	if _, err := fmt.Sscan(string(answer), &text, &got); err != nil {
		return seen, got, fmt.Errorf("reading answer %q: %w", answer, err)
	}
	seen, err = netip.ParseAddr(text)
	return seen, got, err
}

// ping sends an echo request and waits for its answer.
func (h *host) ping(to netip.Addr, id uint16) error {
	return h.in(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		wait := unix.NsecToTimeval(patience.Nanoseconds())
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
			return err
		}
		echo := make([]byte, 16)
		echo[0] = 8
		binary.BigEndian.PutUint16(echo[4:], id)
		binary.BigEndian.PutUint16(echo[2:], checksum(echo))
		if err := unix.Sendto(fd, echo, 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
			return err
		}
		for buffer := make([]byte, 1500); ; {
			n, _, err := unix.Recvfrom(fd, buffer, 0)
			if err != nil {
				return fmt.Errorf("no answer from %s: %w", to, err)
			}
			if p, ok := parse(buffer[:n]); ok && p.source == to && p.sourcePort == 0 && p.port == id {
				return nil
			}
		}
	})
}

// inject sends an unmodified packet through a link, to a neighbour if one is given.
func (h *host) inject(t *testing.T, link string, neighbour netip.Addr, packet []byte) {
	t.Helper()
	h.injector(t, link, neighbour)(packet)
}

// injector returns a function that injects packets through a link.
func (h *host) injector(t *testing.T, link string, neighbour netip.Addr) func(packet []byte) {
	t.Helper()
	index := h.link(t, link).Attrs().Index
	to := &unix.SockaddrLinklayer{Protocol: uint16(unix.ETH_P_IP>>8 | unix.ETH_P_IP<<8&0xff00), Ifindex: index, Halen: 6}
	neighbours, err := h.kernel.NeighList(index, unix.AF_INET)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range neighbours {
		if n.IP.Equal(neighbour.AsSlice()) {
			copy(to.Addr[:], n.HardwareAddr)
		}
	}
	if to.Addr == [8]byte{} && neighbour.IsValid() {
		t.Fatalf("%s: no neighbour %s on %s", h.name, neighbour, link)
	}
	fd := -1
	h.must(t, func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	t.Cleanup(func() { _ = unix.Close(fd) })
	return func(packet []byte) {
		if err := unix.Sendto(fd, packet, 0, to); err != nil {
			t.Errorf("%s: injecting by %s: %v", h.name, link, err)
		}
	}
}

// datagram returns a UDP packet from port 40000.
func datagram(source, destination netip.Addr, port uint16, payload []byte) []byte {
	b := make([]byte, 8, 8+len(payload))
	binary.BigEndian.PutUint16(b, 40000)
	binary.BigEndian.PutUint16(b[2:], port)
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(payload))) // no checksum, which is allowed
	return ipPacket(source, destination, unix.IPPROTO_UDP, append(b, payload...))
}

func icmpPacket(source, destination netip.Addr, message []byte) []byte {
	return ipPacket(source, destination, unix.IPPROTO_ICMP, message)
}

func ipPacket(source, destination netip.Addr, protocol byte, payload []byte) []byte {
	b := make([]byte, 20, 20+len(payload))
	b[0], b[8], b[9] = 0x45, 64, protocol
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
	copy(b[12:], source.AsSlice())
	copy(b[16:], destination.AsSlice())
	binary.BigEndian.PutUint16(b[10:], checksum(b))
	return append(b, payload...)
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func timedOut(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT)
}
