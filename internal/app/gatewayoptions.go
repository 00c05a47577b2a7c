package app

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"strings"
	"time"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/network"
)

// gatewayOptions are the flags of the agent of a gateway.
type gatewayOptions struct {
	name, namespace, clusterID, remoteClusterID string
	liqoNamespace, secretName, nodeName         string
	podName                                     string
	podIP                                       netip.Addr
	overlayPort                                 int
	role                                        network.Role
	clampMSS                                    bool
	pingInterval, updateStatusInterval          time.Duration
	pingLossThreshold                           int
	healthAddress, metricsAddress               string
}

// parseGateway parses and validates the flags.
func parseGateway(args []string) (*gatewayOptions, error) {
	o := &gatewayOptions{}
	var podIP, mode string
	fs := flag.NewFlagSet("gateway agent", flag.ContinueOnError)
	fs.StringVar(&o.name, "name", "", "name of the GatewayServer or GatewayClient")
	fs.StringVar(&o.namespace, "namespace", "", "namespace of the gateway")
	fs.StringVar(&o.clusterID, "cluster-id", "", "ID of this cluster")
	fs.StringVar(&o.remoteClusterID, "remote-cluster-id", "", "ID of the peer")
	fs.StringVar(&o.liqoNamespace, "liqo-namespace", "liqo", "namespace of the installation")
	fs.StringVar(&o.secretName, "secret-name", "", "name of the Secret with the keys of the gateway (default: the name of the gateway)")
	fs.StringVar(&o.nodeName, "node-name", "", "name of the Node of this pod")
	fs.StringVar(&o.podName, "pod-name", "", "name of this pod")
	fs.StringVar(&podIP, "pod-ip", "", "IPv4 address of this pod")
	fs.IntVar(&o.overlayPort, "overlay-port", network.DefaultOverlayPort, "UDP port of the overlay")
	fs.StringVar(&mode, "mode", "", "server (waits for the peer's connection) or client (connects to the peer)")
	fs.BoolVar(&o.clampMSS, "mss-clamp", true, "limit the segment size of TCP connections to the MTU of the tunnel")
	fs.DurationVar(&o.pingInterval, "ping-interval", 100*time.Millisecond, "time between two pings through the tunnel")
	fs.IntVar(&o.pingLossThreshold, "ping-loss-threshold", 5, "number of consecutive pings without an answer after which the tunnel counts as lost")
	fs.DurationVar(&o.updateStatusInterval, "ping-update-status-interval", 10*time.Second, "time between two updates of the latency in the Connection")
	fs.StringVar(&o.healthAddress, "health-address", ":8083", "address of /healthz and /readyz; off when empty")
	fs.StringVar(&o.metricsAddress, "metrics-address", "", "address of /metrics; off when empty")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if o.secretName == "" {
		o.secretName = networkingv1beta1.GatewayChild(o.name)
	}
	var problems []error
	if fs.NArg() > 0 {
		problems = append(problems, fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	problems = append(problems,
		required("name", o.name), required("namespace", o.namespace), required("cluster-id", o.clusterID),
		required("remote-cluster-id", o.remoteClusterID), required("liqo-namespace", o.liqoNamespace),
		required("node-name", o.nodeName), required("pod-name", o.podName), port("overlay-port", o.overlayPort))
	var err error
	if o.podIP, err = netip.ParseAddr(podIP); err != nil || !o.podIP.Is4() {
		problems = append(problems, fmt.Errorf("flag --pod-ip is %q, want an IPv4 address", podIP))
	}
	switch {
	case strings.EqualFold(mode, string(network.Server)):
		o.role = network.Server
	case strings.EqualFold(mode, string(network.Client)):
		o.role = network.Client
	default:
		problems = append(problems, fmt.Errorf("flag --mode is %q, want server or client", mode))
	}
	if o.pingInterval < 10*time.Millisecond {
		problems = append(problems, fmt.Errorf("flag --ping-interval is %s, want 10ms or more", o.pingInterval))
	}
	if o.pingLossThreshold < 1 {
		problems = append(problems, fmt.Errorf("flag --ping-loss-threshold is %d, want 1 or more", o.pingLossThreshold))
	}
	if o.updateStatusInterval < time.Second {
		problems = append(problems, fmt.Errorf("flag --ping-update-status-interval is %s, want 1s or more", o.updateStatusInterval))
	}
	return o, errors.Join(problems...)
}

// options returns the network options that the flags define.
func (o *gatewayOptions) options() network.Options {
	return network.Options{OverlayPort: uint16(o.overlayPort), ClampMSS: o.clampMSS}
}

// defaultTunnelMTU is the MTU of the link of the tunnel until the agent has determined the MTU of the path.
const defaultTunnelMTU = 1340

// parseTunnel parses and validates the flags of the container that owns the tunnel.
func parseTunnel(args []string) (gateway.TunnelOptions, error) {
	var o gateway.TunnelOptions
	fs := flag.NewFlagSet("gateway tunnel", flag.ContinueOnError)
	implementation := fs.String("implementation", string(gateway.Kernel), "kernel (falls back to userspace if the kernel has no WireGuard) or userspace")
	fs.IntVar(&o.MTU, "mtu", defaultTunnelMTU, "initial MTU of the link; 0 for the default")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	var problems []error
	if fs.NArg() > 0 {
		problems = append(problems, fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	o.Implementation = gateway.Implementation(*implementation)
	if o.Implementation != gateway.Kernel && o.Implementation != gateway.UserSpace {
		problems = append(problems, fmt.Errorf("flag --implementation is %q, want %s or %s", *implementation, gateway.Kernel, gateway.UserSpace))
	}
	if o.MTU == 0 {
		o.MTU = defaultTunnelMTU
	}
	if o.MTU < 576 || o.MTU > 65535 {
		problems = append(problems, fmt.Errorf("flag --mtu is %d, want 576 to 65535, or 0 for the default", o.MTU))
	}
	return o, errors.Join(problems...)
}
