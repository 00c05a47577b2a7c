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

// Implementation names an implementation of WireGuard.
type Implementation string

const (
	// Kernel is WireGuard in the kernel. A kernel without WireGuard falls back to UserSpace.
	Kernel Implementation = "kernel"
	// UserSpace is WireGuard in this process, on a TUN device.
	UserSpace Implementation = "userspace"
)

const (
	// lingerSilence is a time without an announcement of the agent. After it, a tunnel that shuts down considers the agent gone. lingerMost limits the wait
	// for the agent.
	lingerSilence = time.Second
	lingerMost    = 12 * time.Second
)

// implementationFile is a file in Directory. It contains the WireGuard implementation in use: kernel or userspace.
const implementationFile = "implementation"

// TunnelOptions are the options of RunTunnel.
type TunnelOptions struct {
	// Implementation is the wanted implementation.
	Implementation Implementation
	// MTU is the initial MTU of the link; the agent sets later values.
	MTU int
	Log *slog.Logger
}

// RunTunnel creates the link of the tunnel, unless it exists, and answers pings and probes until ctx ends. It gives the link
// neither address nor key: the agent does that. In both implementations the link outlives the process, with its addresses and
// routes. A user-space tunnel loses only its WireGuard configuration, and the agent writes that again.
func RunTunnel(ctx context.Context, opts TunnelOptions) error {
	if opts.Implementation != Kernel && opts.Implementation != UserSpace {
		return fmt.Errorf("running the tunnel: implementation is %q, want %s or %s", opts.Implementation, Kernel, UserSpace)
	}
	used, err := makeLink(opts.Implementation, opts.MTU)
	if err != nil {
		return err
	}
	opts.Log.Info("Opened the tunnel link", "link", dataplane.TunnelLink, "implementation", used, "wanted", opts.Implementation)
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
	group.Go(func() error { return responder.serveProbes(ctx, fmt.Sprintf(":%d", network.ProbePort)) })
	return group.Wait()
}

// linger returns a context that outlives ctx for as long as the agent keeps announcing its replica. The agent does so while it
// hands the tunnel over to another replica, and traffic needs the tunnel until then. The extra time is at most lingerMost.
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
			_, at, err := PublishedStatus(directory)
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

// makeLink creates a WireGuard link of the kernel if that is wanted and possible. It returns the implementation to use. A TUN
// device of a previous process is used again, because replacing it would lose its addresses and routes.
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
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODEV): // this kernel has no WireGuard
		return UserSpace, nil
	default:
		return "", fmt.Errorf("adding WireGuard link %s: %w", dataplane.TunnelLink, err)
	}
}

// memoryLimit limits the memory of WireGuard in user space under full load, in bytes. The environment variable GOMEMLIMIT overrides it. With half of
// this limit, the throughput is half as high. Without a limit, the process uses twice as much memory, and the throughput is no higher.
const memoryLimit = 128 << 20

// tunDevice is the device with which WireGuard in user space creates its link.
const tunDevice = "/dev/net/tun"

// openTUN returns why the process cannot open tunDevice; nil if it can.
func openTUN() error {
	file, err := os.OpenFile(tunDevice, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return file.Close()
}

// tunError explains why the link of WireGuard in user space could not be created. opened is the result of openTUN.
func tunError(err, opened error) error {
	const cure = "load the kernel module wireguard on the node (modprobe wireguard), since the tunnel then needs no such device, or keep gateways off the node: " +
		"value networking.gatewayTemplates.pod.nodeSelector"
	switch {
	case errors.Is(opened, unix.EPERM), errors.Is(opened, unix.EACCES):
		return fmt.Errorf("creating link %s: WireGuard in user space needs device %s, and the container runtime of this node permits no access to it, for example crun (runc does): %s: %w",
			dataplane.TunnelLink, tunDevice, cure, opened)
	case errors.Is(opened, unix.ENOENT), errors.Is(opened, unix.ENODEV), errors.Is(opened, unix.ENXIO):
		return fmt.Errorf("creating link %s: WireGuard in user space needs device %s, which the kernel of this node does not provide: %s, or load the kernel module tun: %w",
			dataplane.TunnelLink, tunDevice, cure, opened)
	default:
		return fmt.Errorf("creating link %s with device %s: %w", dataplane.TunnelLink, tunDevice, err)
	}
}

// openUserSpace creates the TUN device and its configuration socket. The returned function serves both until its context ends.
func openUserSpace(mtu int, log *slog.Logger) (func(context.Context) error, error) {
	if link, err := netlink.LinkByName(dataplane.TunnelLink); err == nil {
		mtu = link.Attrs().MTU // keep the MTU that the agent has set
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	if err := batch(); err != nil { // the tunnel works without it
		log.Warn("Failed to set scheduling policy SCHED_BATCH: the tunnel has a lower throughput", "error", err)
	}
	// Open the socket first, so that it exists when the agent detects the link.
	socket, err := ipc.UAPIOpen(dataplane.TunnelLink)
	if err != nil {
		return nil, fmt.Errorf("opening the configuration socket of %s: %w", dataplane.TunnelLink, err)
	}
	dev, err := tun.CreateTUN(dataplane.TunnelLink, mtu)
	if err != nil {
		return nil, tunError(err, openTUN())
	}
	if err := persist(dev.File()); err != nil {
		return nil, errors.Join(fmt.Errorf("making TUN device %s outlive its process: %w", dataplane.TunnelLink, err), dev.Close())
	}
	listener, err := ipc.UAPIListen(dataplane.TunnelLink, socket)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listening on the configuration socket of %s: %w", dataplane.TunnelLink, err), dev.Close())
	}
	wg := device.NewDevice(dev, conn.NewDefaultBind(), &device.Logger{
		Verbosef: device.DiscardLogf,
		Errorf: func(format string, args ...any) {
			// A server waits for its client to connect, and WireGuard logs that every five seconds: this is expected.
			if text := fmt.Sprintf(format, args...); !strings.HasSuffix(text, "no known endpoint for peer") {
				log.Error("WireGuard reported an error", "error", text)
			}
		},
	})
	return func(ctx context.Context) error {
		failed := make(chan error, 2)
		go func() {
			failed <- watch(ctx, checkInterval, checkTimeout, func() { _, _ = wg.IpcGet() }) // takes the same locks as all other operations
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
		case err := <-failed: // the process ends; closing a device that hangs could block
			return err
		case <-wg.Wait():
			return fmt.Errorf("serving TUN device %s: the device was closed", dataplane.TunnelLink)
		}
	}, nil
}

// persist makes a TUN device outlive its process (TUNSETPERSIST): meanwhile packets wait or are lost, but addresses and routes stay.
func persist(file *os.File) error {
	raw, err := file.SyscallConn() // file.Fd would make the file blocking
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.IoctlSetInt(int(fd), unix.TUNSETPERSIST, 1) })
	return errors.Join(err, failed)
}
