package offload

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
)

const shadowEndpointSliceKind = "ShadowEndpointSlice"

// EndpointFacts holds the inputs of a provider's EndpointSlice, besides its ShadowEndpointSlice.
type EndpointFacts struct {
	// Consumer is the ID of the cluster that the namespace belongs to.
	Consumer string
	// Reachable reports whether the consumer, and the network to it, are reachable.
	Reachable bool
	// Translate maps an address that the consumer reports to its address in this cluster's network. It returns an error for an address that can't
	// belong to the consumer. nil leaves addresses unchanged, for networks that Liqo does not manage.
	Translate func(netip.Addr) (netip.Addr, error)
	// Waiting, if not empty, is the reason why the mapping of the consumer's addresses is not known yet. Until it is, the EndpointSlice has no
	// endpoints: an address that was correct before may belong to another cluster by now.
	Waiting string
	// Own are the ranges and addresses of this cluster itself (pods, services and nodes), and those of other clusters than the consumer.
	Own []netip.Prefix
}

// EndpointSlice returns the EndpointSlice for a ShadowEndpointSlice. It also returns one sentence for every endpoint that is left out because the
// consumer may not use its address. Node names and target references are rewritten so that they refer to the consumer's objects.
func EndpointSlice(shadow *offloadingv1beta1.ShadowEndpointSlice, f EndpointFacts) (*discoveryv1.EndpointSlice, []string) {
	in := shadow.Spec.Template.DeepCopy()
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: shadow.Namespace, Name: shadow.Name, Labels: maps.Clone(shadow.Labels), Annotations: maps.Clone(shadow.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(shadow, offloadingv1beta1.GroupVersion.WithKind(shadowEndpointSliceKind))},
		},
		AddressType: in.AddressType, Ports: in.Ports, Endpoints: []discoveryv1.Endpoint{},
	}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	delete(out.Annotations, kinds.AnnotationLabels)
	delete(out.Annotations, kinds.AnnotationAnnotations)
	kinds.AcceptEndpointSliceMetadata(out.Labels, out.Annotations)
	out.Labels[offloadingv1beta1.LabelManagedBy] = offloadingv1beta1.ManagedByShadowEndpointSlice
	out.Labels[discoveryv1.LabelManagedBy] = offloadingv1beta1.EndpointSliceManager
	if f.Waiting != "" {
		return out, []string{"no endpoint is shown: " + f.Waiting}
	}
	var refused []string
	for _, e := range in.Endpoints {
		var addresses []string
		for _, reported := range e.Addresses {
			address, err := f.address(reported, in.AddressType)
			if err != nil {
				refused = append(refused, fmt.Sprintf("endpoint %q is left out: %v", reported, err))
				continue
			}
			addresses = append(addresses, address)
		}
		if len(addresses) == 0 {
			continue
		}
		e.Addresses, e.NodeName, e.DeprecatedTopology = addresses, &f.Consumer, nil
		if !f.Reachable {
			e.Conditions.Ready = new(false)
		}
		if e.TargetRef != nil && !strings.HasPrefix(e.TargetRef.Kind, offloadingv1beta1.RemoteKindPrefix) {
			e.TargetRef.Kind = offloadingv1beta1.RemoteKindPrefix + e.TargetRef.Kind
		}
		out.Endpoints = append(out.Endpoints, e)
	}
	return out, refused
}

// address returns the address of a consumer's endpoint in this cluster's network, or why it is refused.
func (f *EndpointFacts) address(reported string, kind discoveryv1.AddressType) (string, error) {
	if kind != discoveryv1.AddressTypeIPv4 && kind != discoveryv1.AddressTypeIPv6 {
		return "", fmt.Errorf("addressType %q is not accepted, only IPv4 and IPv6 are", kind)
	}
	address, err := netip.ParseAddr(reported)
	if err != nil || address.Zone() != "" || address.Is4() != (kind == discoveryv1.AddressTypeIPv4) {
		return "", fmt.Errorf("it is not an %s address", kind)
	}
	if why := special(address); why != "" {
		return "", fmt.Errorf("it is %s", why)
	}
	if f.Translate != nil {
		if address, err = f.Translate(address); err != nil {
			return "", err
		}
		if why := special(address); why != "" {
			return "", fmt.Errorf("it appears here as %s, which is %s", address, why)
		}
	}
	// Own may lack IPv6 ranges although this cluster has IPv6 pods and services: then Liqo was not configured with these ranges.
	if address.Is6() && !slices.ContainsFunc(f.Own, func(own netip.Prefix) bool { return own.Addr().Is6() && !own.IsSingleIP() }) {
		return "", fmt.Errorf("the provider knows no IPv6 range of its own, so %s may be one of its own addresses: set its chart values ipam.podCIDRs and ipam.serviceCIDR", address)
	}
	if i := slices.IndexFunc(f.Own, func(own netip.Prefix) bool { return own.Contains(address) }); i >= 0 {
		return "", fmt.Errorf("%s belongs to range %s, which the provider uses itself or reserves for other clusters", address, f.Own[i])
	}
	return address.String(), nil
}

// special returns a description of an address that no cluster may use for its endpoints, empty for all other addresses.
func special(a netip.Addr) string {
	plain := a.Unmap()
	switch {
	case a.Is4In6():
		return "an IPv4-mapped IPv6 address"
	case plain.IsUnspecified() || plain.Is4() && plain.As4()[0] == 0:
		return "an unspecified address"
	case plain.IsLoopback():
		return "a loopback address"
	case plain.IsLinkLocalUnicast():
		return "a link-local address"
	case plain.IsMulticast():
		return "a multicast address"
	case plain.Is4() && plain.As4()[0] >= 240:
		return "a reserved address"
	default:
		return ""
	}
}

// EndpointSliceAction is what a provider does about the EndpointSlice of a ShadowEndpointSlice.
type EndpointSliceAction int

// EndpointSlice actions.
const (
	// EndpointSliceKeep changes nothing.
	EndpointSliceKeep EndpointSliceAction = iota
	// EndpointSliceCreate creates the EndpointSlice.
	EndpointSliceCreate
	// EndpointSliceUpdate updates the EndpointSlice to the wanted one.
	EndpointSliceUpdate
	// EndpointSliceDelete deletes the EndpointSlice: either it has to be recreated, or it belongs to an earlier ShadowEndpointSlice of that name.
	EndpointSliceDelete
	// EndpointSliceForeign leaves the EndpointSlice unchanged, because a ShadowEndpointSlice does not own it.
	EndpointSliceForeign
)

// ShadowEndpoints decides what to do about have, the existing EndpointSlice (may be nil). want is the EndpointSlice that the ShadowEndpointSlice asks
// for.
func ShadowEndpoints(shadow *offloadingv1beta1.ShadowEndpointSlice, have, want *discoveryv1.EndpointSlice) EndpointSliceAction {
	switch {
	case !shadow.DeletionTimestamp.IsZero():
		return EndpointSliceKeep // the garbage collector deletes it with its owner
	case have == nil:
		return EndpointSliceCreate
	}
	owner := metav1.GetControllerOf(have)
	switch {
	case owner == nil || owner.Kind != shadowEndpointSliceKind || !strings.HasPrefix(owner.APIVersion, offloadingv1beta1.GroupVersion.Group+"/"):
		return EndpointSliceForeign
	case !have.DeletionTimestamp.IsZero():
		return EndpointSliceKeep
	case owner.UID != shadow.UID, have.AddressType != want.AddressType:
		return EndpointSliceDelete
	case !maps.Equal(have.Labels, want.Labels), !maps.Equal(have.Annotations, want.Annotations),
		!equality.Semantic.DeepEqual(have.Endpoints, want.Endpoints), !equality.Semantic.DeepEqual(have.Ports, want.Ports):
		return EndpointSliceUpdate
	default:
		return EndpointSliceKeep
	}
}

// peerGrace is how long a consumer has to be unreachable before its endpoints become not ready. A tunnel that moves from one gateway to another is
// down for a moment and must not interrupt a Service.
const peerGrace = 5 * time.Second

// PeerReachable reports whether a peer is reachable: its API server (if this cluster has an identity for it) and the network to it. If the result
// after is not zero, the caller must check again after that time. A nil peer is not reachable.
func PeerReachable(peer *corev1beta1.ForeignCluster, now time.Time) (reachable bool, after time.Duration) {
	if peer == nil {
		return false, 0
	}
	conditions := peer.Status.Conditions
	if peer.Status.Modules.Networking.Enabled {
		conditions = slices.Concat(conditions, peer.Status.Modules.Networking.Conditions)
	}
	reachable = true
	for _, c := range conditions {
		if c.Type != corev1beta1.APIServerStatus && c.Type != corev1beta1.NetworkConnectionStatus ||
			c.Status == corev1beta1.StatusEstablished || c.Type == corev1beta1.APIServerStatus && c.Status != corev1beta1.StatusError {
			continue
		}
		if rest := peerGrace - now.Sub(c.LastTransitionTime.Time); rest > 0 {
			after = max(after, min(rest, peerGrace))
			continue
		}
		reachable = false
	}
	return reachable, after
}
