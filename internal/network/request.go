package network

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/reasons"
)

// maxRanges limits the number of ranges that a peer may name, and maxAddresses the number of addresses that they contain together. Each
// range needs routes in this cluster, and all ranges take space in the pools that the peers share.
const (
	maxRanges    = 64
	maxAddresses = 1 << 21
)

// ReportedByPeer reports whether only the peer named the ranges of a Configuration: in a NetworkRequest, or to liqoctl.
func ReportedByPeer(c *networkingv1beta1.Configuration) bool {
	return networkingv1beta1.Negotiated(c) || c.Annotations[networkingv1beta1.AnnotationReportedByPeer] == api.True
}

// ChoosesViews reports whether this cluster, not the peer, chooses the views of a peer's ranges. It does if only the peer named the ranges, in a
// NetworkRequest. Ranges that liqoctl read in the peer are their own views if they overlap no range of this cluster. But if own, the Networks of this cluster,
// lacks the pod or the service range, the overlap is unknown, so this cluster chooses.
func ChoosesViews(c *networkingv1beta1.Configuration, own []ipamv1alpha1.Network) bool {
	known := map[string]bool{}
	for i := range own {
		known[own[i].Labels[ipamv1alpha1.LabelNetworkType]] = true
	}
	return networkingv1beta1.Negotiated(c) || ReportedByPeer(c) && (!known[ipamv1alpha1.NetworkTypePod] || !known[ipamv1alpha1.NetworkTypeService])
}

// AsServer reports whether this cluster runs the server side of the tunnel, which the peer dials. An existing gateway decides: server means that
// this cluster has a GatewayServer, client that it has a GatewayClient. Otherwise, the request whose consumer has the lowest cluster ID decides, so
// that both clusters get the same result even with requests in both directions. own is this cluster's ID.
func AsServer(requests []networkingv1beta1.NetworkRequest, consumerOf func(*networkingv1beta1.NetworkRequest) string, own string, server, client bool) bool {
	if server || client {
		return server
	}
	var first *networkingv1beta1.NetworkRequest
	for i := range requests {
		if first == nil || consumerOf(&requests[i]) < consumerOf(first) {
			first = &requests[i]
		}
	}
	if first == nil {
		return false
	}
	consumer := consumerOf(first) == own
	return consumer == (first.Spec.Server == networkingv1beta1.ServerAtConsumer)
}

// FromPeer reports whether q is the copy of a peer's request to this cluster.
func FromPeer(q *networkingv1beta1.NetworkRequest) bool {
	return q.Labels[api.LabelReplicated] == api.True && q.Labels[api.LabelOriginID] != ""
}

// Reported returns the facts that the peer reports in a request: in the spec of the peer's own request, or in the status of this cluster's request.
func Reported(q *networkingv1beta1.NetworkRequest) *networkingv1beta1.NetworkFacts {
	if FromPeer(q) {
		return &q.Spec.Consumer
	}
	return &q.Status.Provider
}

// Decisive returns the request from whose facts Liqo creates the network objects of a peer; nil if there is none. It prefers requests with complete
// facts, then requests that are not frozen, then older ones. An honest peer reports the same facts in all its requests. Without this choice, two
// requests with different facts would overwrite each other's objects forever.
func Decisive(requests []networkingv1beta1.NetworkRequest) *networkingv1beta1.NetworkRequest {
	var first *networkingv1beta1.NetworkRequest
	for i := range requests {
		q := &requests[i]
		facts := Reported(q)
		if len(facts.CIDR.Pod) == 0 && len(facts.PublicKey) == 0 || CheckFacts(facts) != nil {
			continue
		}
		if first == nil || cmp.Or(rank(q)-rank(first), api.CompareAge(q, first)) < 0 {
			first = q
		}
	}
	return first
}

// Dialed returns the endpoint that the gateway client of this cluster dials: the endpoint that the peer reports. Addresses and a port that an administrator of
// this cluster entered in a request replace the reported ones.
func Dialed(requests []networkingv1beta1.NetworkRequest, reported *networkingv1beta1.Endpoint) networkingv1beta1.Endpoint {
	out := *reported.DeepCopy()
	for i := range requests {
		dial := requests[i].Spec.Dial
		if dial == nil || FromPeer(&requests[i]) {
			continue
		}
		if len(dial.Addresses) > 0 {
			out.Addresses = slices.Clone(dial.Addresses)
		}
		if dial.Port != 0 {
			out.Port, out.Ports = dial.Port, nil
		}
	}
	return out
}

// rank returns the place of a request in Decisive: the lowest one comes first.
func rank(q *networkingv1beta1.NetworkRequest) (out int) {
	if facts := Reported(q); len(facts.CIDR.Pod) == 0 || len(facts.PublicKey) == 0 {
		out = 2
	}
	if frozen(q) {
		out++
	}
	return out
}

// frozen reports whether the peer no longer updates the facts in this cluster's request, because it refuses the request.
func frozen(q *networkingv1beta1.NetworkRequest) bool {
	ready := meta.FindStatusCondition(q.Status.Conditions, "Ready")
	return !FromPeer(q) && ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == reasons.Invalid
}

// Disagreement describes how the peer's facts in a request differ from its facts in the decisive request, with the fix. It is empty if the facts are
// the same, or if the request has none yet.
func Disagreement(peer string, decisive, other *networkingv1beta1.NetworkRequest) string {
	used, unused := Reported(decisive), Reported(other)
	var fields []string
	for _, field := range []struct{ name, used, unused string }{
		{"cidr.pod", strings.Join(used.CIDR.Pod, ","), strings.Join(unused.CIDR.Pod, ",")},
		{"cidr.external", strings.Join(used.CIDR.External, ","), strings.Join(unused.CIDR.External, ",")},
		{"publicKey", base64.StdEncoding.EncodeToString(used.PublicKey), base64.StdEncoding.EncodeToString(unused.PublicKey)},
	} {
		if field.unused != "" && field.used != field.unused {
			fields = append(fields, fmt.Sprintf("%s %s instead of %s", field.name, field.unused, field.used))
		}
	}
	if len(fields) == 0 {
		return ""
	}
	from := "of cluster " + peer
	if !FromPeer(other) {
		from = "of this cluster"
	}
	return fmt.Sprintf("cluster %s reports two networks: NetworkRequest %s in namespace %s counts, but NetworkRequest %s %s has %s. If that one is outdated, delete it: "+
		"kubectl -n %s delete networkrequests.networking.liqo.io %s", peer, decisive.Name, decisive.Namespace, other.Name, from, strings.Join(fields, ", "),
		other.Namespace, other.Name)
}

// FollowServiceType carries a change of spec.serviceType of this cluster's request over to the GatewayServer that was created for it. It compares
// with the type that the request had before, so that a type that an administrator chose in the GatewayServer stays until the request changes.
// requested is empty for a peer's request.
func FollowServiceType(server *networkingv1beta1.GatewayServer, requested corev1.ServiceType) {
	before, known := server.Annotations[AnnotationRequestedServiceType]
	created := server.ResourceVersion == ""
	if !created && (requested == "" || known && before == string(requested)) {
		return
	}
	if requested != "" && (created || known) {
		server.Spec.Endpoint.ServiceType = requested
	}
	metav1.SetMetaDataAnnotation(&server.ObjectMeta, AnnotationRequestedServiceType, string(requested))
}

// AnnotationRequestedServiceType is set on a GatewayServer to the spec.serviceType of the NetworkRequest when the controller manager applied it last.
const AnnotationRequestedServiceType = "networking.liqo.io/requested-service-type"

// cureOfFacts is appended to errors about network facts that only an administrator can permit. Both clusters of a request may show such an error, so the text
// says in which cluster to act.
const cureOfFacts = "if that is wanted, an administrator of the cluster that refuses it creates the Configuration there (liqoctl create configuration)"

// CheckFacts returns an error if this cluster refuses the network facts that a peer reports. No administrator of this cluster reviewed them. So all
// ranges must be private and within the limits. No address of an endpoint may be one that has another meaning on every host, such as a loopback
// address.
func CheckFacts(facts *networkingv1beta1.NetworkFacts) error {
	if n := len(facts.CIDR.Pod) + len(facts.CIDR.External); n > maxRanges {
		return fmt.Errorf("it has %d ranges, want at most %d", n, maxRanges)
	}
	size := 0
	for _, text := range append(append([]string(nil), facts.CIDR.Pod...), facts.CIDR.External...) {
		prefix, err := checkRange(text)
		if err != nil {
			return err
		}
		if size += 1 << (32 - prefix.Bits()); size > maxAddresses {
			return fmt.Errorf("its ranges hold more than %d addresses together with %s: %s", maxAddresses, prefix, cureOfFacts)
		}
	}
	if n := len(facts.PublicKey); n != 0 && n != KeyLength {
		return fmt.Errorf("its key has %d bytes, want %d", n, KeyLength)
	}
	if e := facts.Endpoint; e != nil && (len(e.Addresses) == 0 || len(e.Addresses) > maxDialed) {
		return fmt.Errorf("its gateway has %d addresses, want 1 to %d", len(e.Addresses), maxDialed)
	} else if e != nil {
		for _, text := range e.Addresses {
			if a, ok := LiteralAddress(text); ok && !dialable(a) {
				return fmt.Errorf("its gateway has address %s, which has another meaning on every host: give an address that other clusters reach", a)
			}
		}
	}
	return nil
}

// checkRange parses a range that a peer names. It returns an error if the range is not a private IPv4 range.
func checkRange(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || !prefix.Addr().Is4() || prefix != prefix.Masked() {
		return prefix, fmt.Errorf("range %q is not an IPv4 range, or has bits set after its prefix", text)
	}
	if !ipam.Private(prefix) {
		return prefix, fmt.Errorf("range %s is not private (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10), "+
			"and a peer alone may not redirect packets for other addresses to itself: %s", prefix, cureOfFacts)
	}
	return prefix, nil
}

// dialable reports whether an address leads to another host.
func dialable(a netip.Addr) bool {
	if a.Is4() {
		return ipam.Special(a) == ""
	}
	return !a.IsUnspecified() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast()
}
