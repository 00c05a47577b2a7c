package reflection

import (
	"cmp"
	"context"
	"os"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips,verbs=get;list;watch

// defaultAPIServerPort is the port of Service kubernetes if it is not set otherwise.
const defaultAPIServerPort = "443"

// OriginServerOptions holds the inputs of an OriginServer.
type OriginServerOptions struct {
	// On is false if no pod gets tokens.
	On bool
	// Host and Port are set by flags; both may be empty.
	Host, Port string
	// Network reports whether a network of Liqo connects this cluster to the provider.
	Network func() bool
	// Changed is called when APIServer may return something else.
	Changed func()
}

// OriginServer determines how offloaded pods reach the API server of this cluster, the origin cluster. The address comes from the options, or else
// from the IP object that exposes the API server to peers.
type OriginServer struct {
	opts OriginServerOptions
	// own is the address by which this process reaches the API server.
	own string
	ips *View
}

// NewOriginServer returns an OriginServer. It reads IP objects only after Run is called.
func NewOriginServer(opts OriginServerOptions) *OriginServer {
	opts.Port = cmp.Or(opts.Port, os.Getenv("KUBERNETES_SERVICE_PORT"), defaultAPIServerPort)
	h := &OriginServer{opts: opts, own: os.Getenv("KUBERNETES_SERVICE_HOST")}
	h.ips = NewView(Resource{Object: &ipamv1alpha1.IP{}, Labels: ipamv1alpha1.LabelIPType + "=" + ipamv1alpha1.IPTypeAPIServer}, opts.Changed)
	return h
}

// Run keeps the IP objects up to date until ctx ends.
func (h *OriginServer) Run(ctx context.Context, local client.WithWatch) error {
	return h.ips.Run(ctx, local, "")
}

// APIServer returns how pods reach the API server now. Any user may create an IP object with the label of the API server's. So only an IP object for
// the API server's own address counts.
func (h *OriginServer) APIServer() podrules.APIServer {
	switch {
	case !h.opts.On:
		return podrules.APIServer{}
	case h.opts.Host != "":
		return podrules.APIServer{Host: h.opts.Host, Port: h.opts.Port}
	case h.own == "" || !h.opts.Network():
		return podrules.APIServer{}
	case !h.ips.Synced():
		return podrules.APIServer{Waiting: "the IP object of the API server was not read yet"}
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
		return podrules.APIServer{Waiting: "pods that use the API server wait until peers reach it: " + err.Error()}
	case address == "":
		return podrules.APIServer{Waiting: "the IP object of the API server has no address yet"}
	}
	return podrules.APIServer{Host: kinds.OriginAPIServer, Port: h.opts.Port, Address: address}
}
