package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// listen opens a UDP socket over IPv4. An address like ":port" means all local addresses. With a link, the socket receives and
// sends through that link only.
func listen(ctx context.Context, address, link string) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		if link == "" {
			return nil
		}
		var failed error
		err := raw.Control(func(fd uintptr) { failed = unix.BindToDevice(int(fd), link) })
		if err := errors.Join(err, failed); err != nil {
			return fmt.Errorf("binding to link %s: %w", link, err)
		}
		return nil
	}}
	socket, err := config.ListenPacket(ctx, "udp4", address)
	if err != nil {
		return nil, err
	}
	udp, ok := socket.(*net.UDPConn)
	if !ok {
		return nil, fmt.Errorf("listening on %s: got a %T", address, socket)
	}
	return udp, nil
}

// closeWith closes a socket when ctx ends, which unblocks its reader. Call the returned function to close the socket earlier.
func closeWith(ctx context.Context, socket *net.UDPConn) func() {
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	return func() {
		stop()
		_ = socket.Close()
	}
}

// replaceFile writes a small file atomically: a reader sees either the old or the new text.
func replaceFile(directory, name string, text []byte) error {
	path := filepath.Join(directory, name)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("placing %s: %w", path, err)
	}
	return nil
}
