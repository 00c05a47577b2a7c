package doctor

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// exposures checks that peers can use each IP object, and that each exposed address in a range of Services belongs to a Service.
func exposures(r *report) {
	ranges := r.serviceRanges()
	for i := range r.IPs {
		ip := &r.IPs[i]
		if ip.DeletionTimestamp != nil {
			continue
		}
		name := fmt.Sprintf("IP %s in namespace %s", ip.Name, ip.Namespace)
		remove := fmt.Sprintf("kubectl -n %s delete ips.ipam.liqo.io %s", ip.Namespace, ip.Name)
		if ready := meta.FindStatusCondition(ip.Status.Conditions, "Ready"); ready != nil && ready.Status != metav1.ConditionTrue {
			r.warn(remove+" removes it; create it again as the message says", "%s: %s, %s", name, ready.Reason, ready.Message).fromManager = true
			continue
		}
		address, err := netip.ParseAddr(ip.Spec.IP)
		if err != nil || r.ClusterIPs == nil || r.ClusterIPs[ip.Spec.IP] != "" {
			continue
		}
		if at := slices.IndexFunc(ranges, func(p netip.Prefix) bool { return p.Contains(address) }); at >= 0 {
			r.warn(remove+" removes it; create it again with the address of a Service that exists",
				"%s exposes %s, an address of Services (%s), and no Service has it", name, address, ranges[at])
		}
	}
	if len(r.IPs) > 0 {
		r.healthy("%d, each exposes an existing address", len(r.IPs))
	}
}

// serviceRanges returns the ranges of the addresses of Services of this cluster.
func (c *Cluster) serviceRanges() (out []netip.Prefix) {
	for i := range c.Networks {
		n := &c.Networks[i]
		if n.Labels[ipamv1alpha1.LabelNetworkType] != ipamv1alpha1.NetworkTypeService || n.Namespace != c.Namespace {
			continue
		}
		if prefix, err := netip.ParsePrefix(n.Spec.CIDR); err == nil {
			out = append(out, prefix)
		}
	}
	return out
}

// ExposesService reports whether an IP object of this cluster exposes an address in a range of Services. Only then the checks need ClusterIPs.
func (c *Cluster) ExposesService() bool {
	ranges := c.serviceRanges()
	return slices.ContainsFunc(c.IPs, func(ip ipamv1alpha1.IP) bool {
		address, err := netip.ParseAddr(ip.Spec.IP)
		return err == nil && slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(address) })
	})
}

// names checks the host names at which gateways dial peers. The machine that runs the doctor may use another DNS than the gateways, so names reports
// a name without an address only while the tunnel is not connected.
func names(r *report) {
	for _, n := range r.Names {
		connected := slices.ContainsFunc(r.Connections, func(c networkingv1beta1.Connection) bool {
			return c.Labels[api.LabelRemoteClusterID] == n.Peer && c.Status.Value == networkingv1beta1.Connected
		})
		if n.Failure == "" || connected {
			continue
		}
		r.about(partName, n.Peer)
		r.fail("give "+n.Host+" an address in DNS, or dial another address: liqoctl network connect --gw-client-address ADDRESS "+
			"--remote-kubeconfig FILE, with the kubeconfig of cluster "+n.Peer, "%s dials %s, which has no address here: %s", n.Object, n.Host, n.Failure)
	}
	if len(r.Names) > 0 {
		r.healthy("%d, each has an address or its tunnel is connected", len(r.Names))
	}
}
