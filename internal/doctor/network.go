package doctor

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
)

// ranges checks the address ranges of the cluster: each is allocated, none overlaps another, and the ranges of the installation's
// configuration still exist as Networks.
func ranges(r *report) {
	type placed struct {
		name   string
		prefix netip.Prefix
	}
	var all []placed
	have := map[string][]string{}
	for i := range r.Networks {
		network := &r.Networks[i]
		name := fmt.Sprintf("Network %s in namespace %s", network.Name, network.Namespace)
		if ready := meta.FindStatusCondition(network.Status.Conditions, "Ready"); ready != nil && ready.Status != metav1.ConditionTrue {
			r.fail(r.cureOfNetwork(network), "%s: %s, %s", name, ready.Reason, ready.Message).fromManager = true
		}
		if network.Status.CIDR == "" {
			continue
		}
		if of := network.Labels[ipamv1alpha1.LabelNetworkType]; of != "" && network.Namespace == r.Namespace {
			have[of] = append(have[of], network.Spec.CIDR)
		}
		prefix, err := netip.ParsePrefix(network.Status.CIDR)
		if err != nil {
			r.fail(fmt.Sprintf("kubectl patch networks.ipam.liqo.io -n %s %s --subresource=status --type=merge -p '{\"status\":null}': it is given a range again", network.Namespace, network.Name), "%s: %q is no range", name, network.Status.CIDR)
			continue
		}
		for _, other := range all {
			if other.prefix.Overlaps(prefix) {
				r.fail("disconnect the peer that has the range (liqoctl network reset --remote-kubeconfig FILE: its traffic stops) and connect it again: it is given another range", "%s (%s) and %s (%s) overlap", other.name, other.prefix, name, prefix)
			}
		}
		all = append(all, placed{name, prefix})
	}
	if len(all) == 0 {
		return
	}
	for _, of := range slices.Sorted(maps.Keys(r.Configured)) {
		for _, cidr := range r.Configured[of] {
			if len(have[of]) > 0 && !slices.Contains(have[of], cidr) {
				r.fail(fmt.Sprintf("liqoctl upgrade --%s %s", of, strings.Join(have[of], ",")),
					"the installation is configured with the %s range %s, the Networks have %s", short(of), cidr, strings.Join(have[of], ", "))
			}
		}
	}
	r.healthy("%d ranges, none overlaps another", len(all))
}

// changesOfRanges are the arguments of liqoctl upgrade that change the Networks of the installation, by their type.
var changesOfRanges = map[string]string{
	ipamv1alpha1.NetworkTypePod: "--pod-cidr RANGE", ipamv1alpha1.NetworkTypeService: "--service-cidr RANGE",
	ipamv1alpha1.NetworkTypeExternal: "--set ipam.externalCIDR=RANGE", ipamv1alpha1.NetworkTypeInternal: "--set ipam.internalCIDR=RANGE",
	ipamv1alpha1.NetworkTypeReserved: "--reserved-subnets RANGE",
}

// cureOfNetwork returns the cure for a Network that gets no range. For Networks of the installation, the cure changes its values, because the next
// upgrade would revert a change made with kubectl.
func (r *report) cureOfNetwork(network *ipamv1alpha1.Network) string {
	const list = "kubectl get networks.ipam.liqo.io -A shows the Network that has the range: free it there, or "
	if change := changesOfRanges[network.Labels[ipamv1alpha1.LabelNetworkType]]; change != "" && network.Namespace == r.Namespace {
		return list + "give the installation another range: liqoctl upgrade " + change
	}
	return list + "delete this Network and create it again with another spec.cidr"
}

// short returns the kind of range of a type of Network: pod for pod-cidr.
func short(of string) string { return strings.TrimSuffix(of, "-cidr") }

// silence is the maximum age of a latency measurement of a tunnel. The gateway measures each tunnel every few seconds.
const silence = 2 * time.Minute

func connections(r *report) {
	var fine []string
	for i := range r.Configurations {
		configuration := &r.Configurations[i]
		r.about(partConfiguration, configuration.Labels[api.LabelRemoteClusterID])
		if condition := meta.FindStatusCondition(configuration.Status.Conditions,
			networkingv1beta1.ConditionCIDRsConfigured); condition == nil || condition.Status != metav1.ConditionTrue {
			r.fail("see Networks of the namespace: kubectl get networks.ipam.liqo.io -n "+configuration.Namespace,
				"Configuration %s in namespace %s: the peer's ranges are not mapped in this cluster yet%s",
				configuration.Name, configuration.Namespace, because(configuration.Status.Conditions)).fromManager = true
		}
	}
	r.withoutNetwork()
	for i := range r.Connections {
		connection := &r.Connections[i]
		peer := connection.Labels[api.LabelRemoteClusterID]
		r.about(partTunnel, peer)
		name := fmt.Sprintf("Connection %s in namespace %s", connection.Name, connection.Namespace)
		latency := connection.Status.Latency
		switch {
		case connection.Status.Value != networkingv1beta1.Connected:
			r.fail("liqoctl network explain shows where the path is broken and changes nothing; liqoctl network connect --remote-kubeconfig FILE repairs what is missing", "%s is %q%s", name, connection.Status.Value, because(connection.Status.Conditions)).
				proxied = r.inBand(peer)
		case latency != nil && r.now.Sub(latency.Timestamp.Time) > silence:
			r.fail(fmt.Sprintf("first read the log, which a restart deletes: kubectl -n %s logs -l %s=%s -c gateway --tail=-1; then restart the gateway, "+
				"which interrupts the traffic with %s for some seconds: %s", connection.Namespace, networkingv1beta1.LabelComponent, networkingv1beta1.ComponentGateway,
				peer, restartGateway(connection.Namespace)), "%s: nothing was measured for %s", name, r.now.Sub(latency.Timestamp.Time).Round(time.Second)).
				proxied = r.inBand(peer)
		default:
			text := "connected"
			if latency != nil {
				text += ", " + latency.Value
			}
			if connection.Status.MTU != 0 {
				text += fmt.Sprintf(", MTU %d", connection.Status.MTU)
			}
			fine = append(fine, peer+": "+text)
		}
	}
	if len(r.Connections) > 0 {
		r.healthy("%s", strings.Join(fine, "; "))
	}
}

// withoutNetwork reports the providers to which there is no tunnel, although a NetworkRequest asks for one or pods may be offloaded there. Pods run there
// without a tunnel, so no condition shows that it is missing.
func (r *report) withoutNetwork() {
	of := func(labels map[string]string, peer string) bool { return labels[api.LabelRemoteClusterID] == peer }
	for i := range r.Peers {
		id := r.Peers[i].Spec.ClusterID
		if !r.Tunnels || r.Peers[i].Status.Modules.Networking.Enabled ||
			!slices.ContainsFunc(r.VirtualNodes, func(v offloadingv1beta1.VirtualNode) bool { return v.Spec.ClusterID == id }) ||
			slices.ContainsFunc(r.Configurations, func(c networkingv1beta1.Configuration) bool { return of(c.Labels, id) }) ||
			slices.ContainsFunc(r.Connections, func(c networkingv1beta1.Connection) bool { return of(c.Labels, id) }) {
			continue
		}
		r.about(partTunnel, id)
		if at := slices.IndexFunc(r.NetworkRequests, func(q networkingv1beta1.NetworkRequest) bool { return q.Labels[api.LabelRemoteID] == id }); at >= 0 {
			request := &r.NetworkRequests[at]
			r.fail("see kubectl -n "+request.Namespace+" describe networkrequests.networking.liqo.io "+request.Name+", and run liqoctl doctor in cluster "+id,
				"cluster %s has no network with this cluster, which NetworkRequest %s in namespace %s requests%s%s", id, request.Name, request.Namespace,
				since(request.CreationTimestamp), because(request.Status.Conditions))
			continue
		}
		if !r.offloadsPodsTo(id) {
			continue
		}
		r.warn("liqoctl network connect --remote-kubeconfig FILE, with the kubeconfig of cluster "+id+", connects them. Nothing is to be done if another network does, or if no pod needs it",
			"cluster %s has no network with this cluster: there is no Configuration and no Connection, so offloaded pods and the pods here do not reach each other", id)
	}
}

// offloadsPodsTo reports whether pods of a namespace may run in a provider.
func (r *report) offloadsPodsTo(provider string) bool {
	nodes := r.labeledVirtualNodes()
	return slices.ContainsFunc(r.Offloadings, func(o offloadingv1beta1.NamespaceOffloading) bool {
		return o.Spec.PodOffloadingStrategy != offloadingv1beta1.PodsLocal && slices.Contains(offload.Selected(o.Spec.ClusterSelector, nodes), provider)
	})
}

// inBand reports whether this cluster reaches the API server of a peer through the tunnel.
func (r *report) inBand(peer string) bool {
	for i := range r.Peers {
		if r.Peers[i].Spec.ClusterID == peer && r.Peers[i].Status.ForeignProxyURL != "" {
			return true
		}
	}
	return slices.ContainsFunc(r.Accesses, func(a Access) bool { return a.Peer == peer && a.Proxy != "" })
}

// between compares what cluster c has recorded about the other cluster with the actual state of that cluster.
func between(c, other *Cluster) []Finding {
	r := &report{Cluster: c, check: "agreement with " + other.ID, part: partVersion, peer: other.ID}
	const connect = "liqoctl network connect --remote-kubeconfig FILE stores the current key"
	if c.Version != other.Version {
		r.warn("upgrade one of them: liqoctl upgrade", "cluster %s runs %s, cluster %s runs %s", c.ID, c.Version, other.ID, other.Version)
	}
	r.part = partAgreement
	known := slices.ContainsFunc(c.Peers, func(p peer) bool { return p.Spec.ClusterID == other.ID && !Former(&p) })
	if back := slices.ContainsFunc(other.Peers, func(p peer) bool { return p.Spec.ClusterID == c.ID && !Former(&p) }); known && !back {
		r.fail("peer again, or end what is left of it: liqoctl unpeer, or liqoctl force unpeer "+other.ID, "cluster %s knows %s, which does not know it",
			c.ID, other.ID)
	}
	if !known {
		return r.findings
	}
	own := map[string][]string{}
	for i := range other.Networks {
		network := &other.Networks[i]
		if of := network.Labels[ipamv1alpha1.LabelNetworkType]; of != "" && network.Namespace == other.Namespace {
			own[of] = append(own[of], network.Status.CIDR)
		}
	}
	for i := range c.Configurations {
		configuration := &c.Configurations[i]
		if configuration.Labels[api.LabelRemoteClusterID] != other.ID {
			continue
		}
		for _, part := range []struct {
			of     string
			stored []string
		}{{ipamv1alpha1.NetworkTypePod, configuration.Spec.Remote.CIDR.Pod}, {ipamv1alpha1.NetworkTypeExternal, configuration.Spec.Remote.CIDR.External}} {
			is := slices.Clone(own[part.of])
			slices.Sort(is)
			stored := slices.Clone(part.stored)
			slices.Sort(stored)
			if len(is) > 0 && !slices.Equal(is, stored) {
				r.fail("liqoctl network reset --remote-kubeconfig FILE (its traffic stops), then liqoctl network connect --remote-kubeconfig FILE takes the new ranges",
					"Configuration %s in namespace %s says that the %s range of %s is %s, it is %s", configuration.Name, configuration.Namespace, short(part.of), other.ID,
					strings.Join(stored, ", "), strings.Join(is, ", "))
			}
		}
	}
	switch key, stored := other.Keys[c.ID], c.KnownKeys[other.ID]; {
	case len(key) == 0:
	case len(stored) == 0:
		r.fail(connect, "cluster %s does not have the key of the gateway of %s", c.ID, other.ID)
	case !bytes.Equal(key, stored):
		r.fail(connect, "cluster %s stores another key than the gateway of %s has", c.ID, other.ID)
	}
	r.healthy("both are %s and know each other: each has the ranges and the key of the other", c.Version)
	return r.findings
}
