package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/ipc"
	"golang.zx2c4.com/wireguard/tun"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/network"
)

// Implementation of WireGuard.
type Implementation string

const (
	// Kernel is WireGuard in the kernel, where it has it; else UserSpace.
	Kernel Implementation = "kernel"
	// UserSpace is WireGuard in this process, on a TUN device.
	UserSpace Implementation = "userspace"
)

const (
	// lingerSilence is how long the agent may be silent before it counts as gone when all is to end, lingerMost how long it is waited for.
	lingerSilence = time.Second
	lingerMost    = 12 * time.Second
)

// implementationFile, in Directory, says which implementation is at work.
const implementationFile = "implementation"

// TunnelOptions of RunTunnel.
type TunnelOptions struct {
	// Implementation wanted.
	Implementation Implementation
	// MTU of the link when it is made; later ones belong to the agent.
	MTU int
	Log *slog.Logger
}

// RunTunnel makes the link of the tunnel, unless it is there, and answers pings and probes until ctx ends. The link is left without
// address and key: these are the agent's. It outlives the process in both implementations, with its addresses and routes; what a
// user-space tunnel forgets is the configuration of WireGuard, which the agent gives it again.
func RunTunnel(ctx context.Context, opts TunnelOptions) error {
	if opts.Implementation != Kernel && opts.Implementation != UserSpace {
		return fmt.Errorf("running the tunnel: implementation is %q, want %s or %s", opts.Implementation, Kernel, UserSpace)
	}
	used, err := makeLink(opts.Implementation, opts.MTU)
	if err != nil {
		return err
	}
	opts.Log.Info("Tunnel is there", "link", dataplane.TunnelLink, "implementation", used, "wanted", opts.Implementation)
	if err := replaceFile(Directory, implementationFile, []byte(used)); err != nil {
		return err
	}
	ctx, stop := linger(ctx, Directory)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	if used == UserSpace {
		run, err := openUserSpace(opts.MTU, opts.Log)
		if err != nil {
			return err
		}
		group.Go(func() error { return run(ctx) })
	}
	responder := newResponder(Directory)
	group.Go(func() error {
		return responder.servePings(ctx, fmt.Sprintf(":%d", network.PingPort), dataplane.TunnelLink)
	})
	group.Go(func() error { return responder.serveProbes(ctx, fmt.Sprintf(":%d", network.AskPort)) })
	return group.Wait()
}

// linger returns a context that outlives ctx for as long as the agent goes on telling of its replica: then it is leaving the tunnel to
// another one, and traffic needs the tunnel until it has.
func linger(ctx context.Context, directory string) (context.Context, context.CancelFunc) {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-work.Done():
			return
		case <-ctx.Done():
		}
		defer stop()
		tick := time.NewTicker(rest)
		defer tick.Stop()
		for end := time.Now().Add(lingerMost); time.Now().Before(end); {
			_, at, err := Announced(directory)
			if err != nil || time.Since(at) >= lingerSilence {
				return
			}
			select {
			case <-work.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return work, stop
}

// makeLink makes a link of the kernel's WireGuard if it is wanted and possible, and tells what is to be used. A TUN device of a process
// before this one is used again: replacing it would cost its addresses and routes.
func makeLink(wanted Implementation, mtu int) (Implementation, error) {
	link, err := netlink.LinkByName(dataplane.TunnelLink)
	var missing netlink.LinkNotFoundError
	switch {
	case err == nil && link.Type() == "wireguard":
		return Kernel, nil
	case err == nil:
		return UserSpace, nil
	case !errors.As(err, &missing):
		return "", fmt.Errorf("looking for link %s: %w", dataplane.TunnelLink, err)
	case wanted == UserSpace:
		return UserSpace, nil
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = dataplane.TunnelLink, mtu
	err = netlink.LinkAdd(&netlink.Wireguard{LinkAttrs: attributes})
	switch {
	case err == nil:
		return Kernel, nil
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODEV): // this kernel has none
		return UserSpace, nil
	default:
		return "", fmt.Errorf("adding WireGuard link %s: %w", dataplane.TunnelLink, err)
	}
}

// memoryLimit bounds what WireGuard in user space holds under full load, in bytes; GOMEMLIMIT sets another bound. With half of it throughput
// halves, without any it takes twice as much, and no more goes through.
const memoryLimit = 128 << 20

// openUserSpace makes the TUN device and listens for its configuration; the function returned serves both until its context ends.
func openUserSpace(mtu int, log *slog.Logger) (func(context.Context) error, error) {
	if link, err := netlink.LinkByName(dataplane.TunnelLink); err == nil {
		mtu = link.Attrs().MTU // what the agent has set stays
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	if err := batch(); err != nil { // it works without
		log.Warn("The tunnel is slower than it could be", "error", err)
	}
	// First, so that it is there when the agent hears that the link came up.
	socket, err := ipc.UAPIOpen(dataplane.TunnelLink)
	if err != nil {
		return nil, fmt.Errorf("opening the configuration socket of %s: %w", dataplane.TunnelLink, err)
	}
	dev, err := tun.CreateTUN(dataplane.TunnelLink, mtu)
	if err != nil {
		return nil, fmt.Errorf("making TUN device %s (is /dev/net/tun there?): %w", dataplane.TunnelLink, err)
	}
	if err := keep(dev.File()); err != nil {
		return nil, errors.Join(fmt.Errorf("making TUN device %s outlive its process: %w", dataplane.TunnelLink, err), dev.Close())
	}
	listener, err := ipc.UAPIListen(dataplane.TunnelLink, socket)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listening on the configuration socket of %s: %w", dataplane.TunnelLink, err), dev.Close())
	}
	wg := device.NewDevice(dev, conn.NewDefaultBind(), &device.Logger{
		Verbosef: device.DiscardLogf,
		Errorf: func(format string, args ...any) {
			// A server waits for its client to call, and says so every five seconds: that is how it is meant.
			if text := fmt.Sprintf(format, args...); !strings.HasSuffix(text, "no known endpoint for peer") {
				log.Error("WireGuard: " + text)
			}
		},
	})
	return func(ctx context.Context) error {
		failed := make(chan error, 2)
		go func() {
			failed <- watch(ctx, askInterval, askPatience, func() { _, _ = wg.IpcGet() }) // takes the locks that everything else does
		}()
		go func() {
			for {
				c, err := listener.Accept()
				if err != nil {
					failed <- fmt.Errorf("listening on the configuration socket of %s: %w", dataplane.TunnelLink, err)
					return
				}
				go wg.IpcHandle(c)
			}
		}()
		defer listener.Close() //nolint:errcheck // the process ends
		select {
		case <-ctx.Done():
			wg.Close()
			return nil
		case err := <-failed: // the process ends; one that hangs could not be closed
			return err
		case <-wg.Wait():
			return fmt.Errorf("serving TUN device %s: it was closed", dataplane.TunnelLink)
		}
	}, nil
}

// keep lets a TUN device stay when the process that holds it ends: a packet then waits or is lost, but no address and no route is.
func keep(file *os.File) error {
	raw, err := file.SyscallConn() // file.Fd would make it block
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.IoctlSetInt(int(fd), unix.TUNSETPERSIST, 1) })
	return errors.Join(err, failed)
}
