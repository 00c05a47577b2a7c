package monitoring

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// detourPort is the port of rome's node at which the gateway of rome reaches that of milan.
const detourPort = 51899

// readBuffer is the size of the buffer for packets that arrive while the test gets no CPU time.
const readBuffer = 4 << 20

// delayed forwards the tunnel's packets between rome and milan, and can delay each packet, so that the test knows the round trip time. The kernel's netem would
// do the same, but not every kernel has it.
type delayed struct {
	milan *playground.Cluster
	from  playground.Inside
	local net.PacketConn
	// delay in each direction, a time.Duration
	delay atomic.Int64
	// gateway is the address of rome's gateway, a net.Addr.
	gateway atomic.Value
}

// packet is a packet that waits until it is forwarded.
type packet struct {
	due  time.Time
	data []byte
}

// detour starts the forwarding, and configures rome to reach milan through it.
func detour(t *testing.T, w *story.World) *delayed {
	t.Helper()
	d := &delayed{milan: w.Milan}
	var node corev1.Node
	err := w.Rome.Get(t.Context(), client.ObjectKey{Name: w.Rome.Node()}, &node)
	if err == nil {
		d.from, err = playground.InNode(w.Rome.Node())
	}
	var address string
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			address = a.Address
		}
	}
	if err == nil {
		d.local, err = d.from.ListenPacket(t.Context(), "udp4", net.JoinHostPort(address, strconv.Itoa(detourPort)))
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = d.local.(*net.UDPConn).SetReadBuffer(readBuffer)
	t.Cleanup(func() { _ = d.local.Close() })
	go d.run(t.Context())
	w.Plan.Peer = map[string][]string{"milan": {"--gw-client-address", address, "--gw-client-port", strconv.Itoa(detourPort)}}
	return d
}

// run forwards packets in both directions, starting with the first packet from rome.
func (d *delayed) run(ctx context.Context) {
	forth, back := make(chan packet, 4096), make(chan packet, 4096)
	var remote net.Conn
	for buffer := make([]byte, 1<<16); ; {
		n, from, err := d.local.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an error that an earlier packet has caused
		}
		d.gateway.Store(from)
		if remote == nil {
			if remote, err = d.dial(ctx); err != nil {
				continue // milan's gateway has no address yet
			}
			_ = remote.(*net.UDPConn).SetReadBuffer(readBuffer)
			go d.pass(forth, func(data []byte) { _, _ = remote.Write(data) })
			go d.pass(back, func(data []byte) { _, _ = d.local.WriteTo(data, d.gateway.Load().(net.Addr)) })
			go d.receive(ctx, remote, back)
		}
		d.hold(forth, buffer[:n])
	}
}

func (d *delayed) receive(ctx context.Context, remote net.Conn, into chan<- packet) {
	for buffer := make([]byte, 1<<16); ctx.Err() == nil; {
		n, err := remote.Read(buffer)
		if err == nil {
			d.hold(into, buffer[:n])
		}
	}
}

func (d *delayed) hold(in chan<- packet, data []byte) {
	in <- packet{time.Now().Add(time.Duration(d.delay.Load())), append([]byte(nil), data...)}
}

func (d *delayed) pass(from <-chan packet, send func([]byte)) {
	for p := range from {
		time.Sleep(time.Until(p.due))
		send(p.data)
	}
}

// dial connects to the load balancer's address of milan's gateway.
func (d *delayed) dial(ctx context.Context) (net.Conn, error) {
	var services corev1.ServiceList
	if err := d.milan.List(ctx, &services, client.InNamespace(api.TenantNamespace("rome"))); err != nil {
		return nil, err
	}
	for _, service := range services.Items {
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			return d.from.Dial(ctx, "udp4", net.JoinHostPort(ingress.IP, strconv.Itoa(int(service.Spec.Ports[0].Port))))
		}
	}
	return nil, fmt.Errorf("milan has no gateway that can be reached yet")
}
