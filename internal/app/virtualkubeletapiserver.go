package app

import (
	"context"
	"os"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/reflect"
)

// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips,verbs=get;list;watch

// defaultAPIServerPort is the port of Service kubernetes if it is not set otherwise.
const defaultAPIServerPort = "443"

// originServer determines how offloaded pods reach the API server of this cluster, the origin cluster. That is what the flags say,
// or else the IP object that exposes the API server to peers.
type originServer struct {
	// on is false if no pod gets tokens.
	on bool
	// host and port are set by flags; host may be empty.
	host, port string
	// own and ownPort are the address and port by which this process reaches the API server.
	own, ownPort string
	// network reports whether a network of Liqo connects this cluster to the provider.
	network func() bool
	ips     *reflect.View
}

func newOriginServer(o *virtualKubeletOptions, network func() bool, changed func()) *originServer {
	h := &originServer{
		on: o.apiServerSupport && o.workers("serviceaccount") > 0, host: o.homeAPIServerHost, port: o.homeAPIServerPort,
		own: os.Getenv("KUBERNETES_SERVICE_HOST"), ownPort: os.Getenv("KUBERNETES_SERVICE_PORT"), network: network,
	}
	if h.ownPort == "" {
		h.ownPort = defaultAPIServerPort
	}
	if h.port == "" {
		h.port = h.ownPort
	}
	h.ips = reflect.NewView(reflect.Resource{Object: &ipamv1alpha1.IP{}, Labels: ipamv1alpha1.LabelIPType + "=" + ipamv1alpha1.IPTypeAPIServer}, changed)
	return h
}

func (h *originServer) run(ctx context.Context, local client.WithWatch) error {
	return h.ips.Run(ctx, local, "")
}

// apiServer returns how pods reach the API server now. Any user may create an IP object with that label, so only an IP with the
// API server's own address counts.
func (h *originServer) apiServer() kinds.APIServer {
	switch {
	case !h.on:
		return kinds.APIServer{}
	case h.host != "":
		return kinds.APIServer{Host: h.host, Port: h.port}
	case h.own == "" || !h.network():
		return kinds.APIServer{}
	case !h.ips.Synced():
		return kinds.APIServer{Waiting: "the IP object of the API server was not read yet"}
	}
	var ips []*ipamv1alpha1.IP
	for _, obj := range h.ips.List() {
		if ip, ok := obj.(*ipamv1alpha1.IP); ok {
			ips = append(ips, ip)
		}
	}
	slices.SortFunc(ips, func(a, b *ipamv1alpha1.IP) int { return api.CompareAge(a, b) })
	address, err := offload.ExposedAddress(h.own, "", ips)
	switch {
	case err != nil:
		return kinds.APIServer{Waiting: "pods that use the API server wait until peers reach it: " + err.Error()}
	case address == "":
		return kinds.APIServer{Waiting: "the IP object of the API server has no address yet"}
	}
	return kinds.APIServer{Host: kinds.OriginAPIServer, Port: h.port, Address: address}
}
