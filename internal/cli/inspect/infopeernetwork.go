package inspect

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
)

// peerNetworkInfo is the output of info peer about the network with a peer. Its JSON keys are a stable interface: scripts read them.
type peerNetworkInfo struct {
	moduleInfo
	// CIDRs are the ranges in the peer, and the ranges that this cluster maps them to. It is nil without a Configuration.
	CIDRs *struct {
		Remote   networkingv1beta1.CIDRs `json:"remote"`
		Remapped networkingv1beta1.CIDRs `json:"remapped"`
	} `json:"CIDRs,omitempty"`
	// Gateway is this cluster's end of the tunnel. It is nil if there is none.
	Gateway *peerGatewayInfo `json:"gateway,omitempty"`
}

type peerGatewayInfo struct {
	// Role is Server or Client.
	Role networkingv1beta1.ConnectionType `json:"role"`
	// Address and Port are the endpoint of the server, whichever role this cluster has.
	Address string `json:"address"`
	Port    int32  `json:"port"`
	// Connection is the status of the tunnel that the gateway reports. Latency is the last round-trip time. MTU is the largest packet that
	// fits the tunnel, in bytes.
	Connection string `json:"connection,omitempty"`
	Latency    string `json:"latency,omitempty"`
	MTU        int    `json:"mtu,omitempty"`
}

// describeNetwork fills in the information from the objects in the tenant namespace of a peer.
func describeNetwork(ctx context.Context, c *session.Cluster, peer string, info *peerNetworkInfo) error {
	namespace, err := session.FindTenantNamespace(ctx, c, peer)
	if err != nil || namespace == "" {
		return err
	}
	e := &tunnel.End{Cluster: c, Peer: peer, TenantNamespace: namespace}
	configuration, err := e.Configuration(ctx)
	if err != nil {
		return err
	}
	if configuration != nil {
		info.CIDRs = &struct {
			Remote   networkingv1beta1.CIDRs `json:"remote"`
			Remapped networkingv1beta1.CIDRs `json:"remapped"`
		}{Remote: configuration.Spec.Remote.CIDR}
		if configuration.Status.Remote != nil {
			info.CIDRs.Remapped = configuration.Status.Remote.CIDR
		}
	}
	servers, clients, err := tunnel.ListGateways(ctx, c, namespace, peer)
	if err != nil {
		return err
	}
	var endpoint *networkingv1beta1.Endpoint
	gateway := &peerGatewayInfo{}
	e.Gateways.Server, e.Gateways.Client = network.GatewayInUse(servers, clients, namespace, peer)
	switch server, client := e.Gateways.Server, e.Gateways.Client; {
	case server != nil:
		gateway.Role, endpoint = networkingv1beta1.ConnectionServer, server.Status.Endpoint
	case client != nil:
		gateway.Role, endpoint = networkingv1beta1.ConnectionClient, &client.Spec.Endpoint
	default:
		return nil
	}
	if endpoint != nil {
		gateway.Address, gateway.Port = strings.Join(endpoint.Addresses, ", "), endpoint.Port
		if gateway.Port == 0 && len(endpoint.Ports) > 0 {
			gateway.Port = endpoint.Ports[0]
		}
	}
	connection := e.Connection()
	switch err := c.Get(ctx, client.ObjectKeyFromObject(connection), connection); {
	case err == nil:
		gateway.Connection, gateway.MTU = connection.Status.Value, connection.Status.MTU
		if latency := connection.Status.Latency; latency != nil {
			gateway.Latency = latency.Value
		}
	case !kube.Absent(err):
		return fmt.Errorf("reading %s: %w", c.Name(connection), err)
	}
	info.Gateway = gateway
	return nil
}

// lines adds the network to a box, below the line with its status.
func (n *peerNetworkInfo) lines(box *console.Box) {
	if n.CIDRs != nil {
		box.Line(1, "Pod CIDR", remapped(n.CIDRs.Remote.Pod, n.CIDRs.Remapped.Pod))
		box.Line(1, "External CIDR", remapped(n.CIDRs.Remote.External, n.CIDRs.Remapped.External))
	}
	if n.Gateway == nil {
		return
	}
	box.Line(1, "Gateway", string(n.Gateway.Role))
	if n.Gateway.Address != "" {
		box.Line(2, "Address of the server", fmt.Sprintf("%s, port %d", n.Gateway.Address, n.Gateway.Port))
	}
	if n.Gateway.Connection != "" {
		box.Line(2, "Connection", n.Gateway.Connection)
	}
	if n.Gateway.Latency != "" {
		box.Line(2, "Latency", n.Gateway.Latency)
	}
	if n.Gateway.MTU != 0 {
		box.Line(2, "MTU", fmt.Sprint(n.Gateway.MTU))
	}
}

// remapped formats ranges, and the ranges that they are mapped to if those differ.
func remapped(real, view []string) string {
	there, here := strings.Join(real, ", "), strings.Join(view, ", ")
	switch {
	case here == "":
		return there + " (not mapped here yet)"
	case here != there:
		return there + ", seen here as " + here
	}
	return there
}
