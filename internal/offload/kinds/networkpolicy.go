package kinds

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
)

// NetworkPolicyOptions holds the facts that the rules for NetworkPolicies depend on.
type NetworkPolicyOptions struct {
	CopyOptions
	// RemoteNamespace returns the remote namespace of a local namespace, false if it has none in this provider.
	RemoteNamespace func(namespace string) (string, bool)
	// Ours returns a range of this cluster that overlaps block and has other addresses in the provider, false if there is none. If Ours is nil, all
	// addresses are the same in the provider.
	Ours func(block netip.Prefix) (netip.Prefix, bool)
}

// NetworkPolicy returns the copy of local, or why it has none, and a problem that lists peers left out, for the user.
//
// Peers that can't be expressed in the provider are left out, so that the copy never allows more than the policy. A rule that has lost all its peers
// is left out as well, since a rule without peers allows everybody. Pod selectors are copied, and select the pods that run in the provider. Peers
// that name a label which pods do not have there are left out too. If spec.podSelector itself names such a label, the policy is copied nevertheless,
// and the problem reports the label.
func NetworkPolicy(local *networkingv1.NetworkPolicy, namespace string, o NetworkPolicyOptions) (out *networkingv1.NetworkPolicy, why string, problem error) {
	if why := Kept(local.Annotations, o.CopyOptions); why != "" {
		return nil, why, nil
	}
	in := local.Spec.DeepCopy()
	out = &networkingv1.NetworkPolicy{ObjectMeta: copyMetadata(resourceNetworkPolicies, local, namespace, o.CopyOptions)}
	out.Spec.PodSelector, out.Spec.PolicyTypes = in.PodSelector, in.PolicyTypes
	var problems []string
	for i := range in.Ingress {
		if peers, ok := o.peers(fmt.Sprintf("spec.ingress[%d].from", i), in.Ingress[i].From, &problems); ok {
			out.Spec.Ingress = append(out.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{Ports: in.Ingress[i].Ports, From: peers})
		}
	}
	for i := range in.Egress {
		if peers, ok := o.peers(fmt.Sprintf("spec.egress[%d].to", i), in.Egress[i].To, &problems); ok {
			out.Spec.Egress = append(out.Spec.Egress, networkingv1.NetworkPolicyEgressRule{Ports: in.Egress[i].Ports, To: peers})
		}
	}
	var messages []string
	if key := o.missing(&in.PodSelector); key != "" {
		messages = append(messages, "spec.podSelector names label "+key+", which pods do not have in cluster "+o.Destination+": select them by another label")
	}
	if len(problems) > 0 {
		messages = append(messages, "left out in cluster "+o.Destination+", where the policy therefore permits less traffic: "+strings.Join(problems, "; "))
	}
	if len(messages) > 0 {
		problem = errors.New(strings.Join(messages, ". Besides, "))
	}
	return out, "", problem
}

// missing returns the first label that a selector of pods names and that pods do not have in the provider; empty if there is none.
func (o *NetworkPolicyOptions) missing(selector *metav1.LabelSelector) string {
	if selector == nil {
		return ""
	}
	keys := slices.Collect(maps.Keys(selector.MatchLabels))
	for _, e := range selector.MatchExpressions {
		keys = append(keys, e.Key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		label := map[string]string{key: ""}
		Drop(label, o.LabelsNotReflected)
		RefusePodLabels(label, nil, nil)
		if len(label) == 0 {
			return key
		}
	}
	return ""
}

// MergeNetworkPolicy returns the object have with the metadata and spec of want, and the change that this needs.
func MergeNetworkPolicy(have, want *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, Change) {
	out := have.DeepCopy()
	mergeMetadata(&out.ObjectMeta, &want.ObjectMeta)
	out.Spec = *want.Spec.DeepCopy()
	return merged(have, out)
}

// peers translates the peers of a rule; false means that the rule has lost all its peers.
func (o *NetworkPolicyOptions) peers(where string, in []networkingv1.NetworkPolicyPeer, problems *[]string) ([]networkingv1.NetworkPolicyPeer, bool) {
	var out []networkingv1.NetworkPolicyPeer
	for i := range in {
		p, keep, problem := in[i], true, error(nil)
		switch {
		case p.IPBlock != nil:
			problem = o.block(p.IPBlock)
			keep = problem == nil
		case p.NamespaceSelector != nil:
			p.NamespaceSelector, problem = o.namespaces(p.NamespaceSelector)
			keep = p.NamespaceSelector != nil
		}
		if key := o.missing(p.PodSelector); keep && key != "" {
			keep, problem = false, errors.New("podSelector names label "+key+", which pods do not have there")
		}
		if problem != nil {
			*problems = append(*problems, fmt.Sprintf("%s[%d]: %v", where, i, problem))
		}
		if keep {
			out = append(out, p)
		}
	}
	return out, len(out) > 0 || len(in) == 0
}

// block returns an error if a block contains addresses that differ in the provider.
func (o *NetworkPolicyOptions) block(b *networkingv1.IPBlock) error {
	if o.Ours == nil {
		return nil
	}
	for i, text := range append([]string{b.CIDR}, b.Except...) {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("reading block %s: %w", text, err)
		}
		if everybody := i == 0 && prefix.Bits() == 0; everybody {
			continue
		}
		if ours, is := o.Ours(prefix.Masked()); is {
			return fmt.Errorf("block %s overlaps range %s, which has other addresses there", text, ours)
		}
	}
	return nil
}

// namespaces translates a selector of local namespaces into a selector of their remote namespaces; nil if it selects none. Labels of namespaces are
// not copied. So a selector can only select all namespaces, or some by name. The name kube-system is kept: it exists in every cluster, and pods use
// the DNS server of the cluster that they run in.
func (o *NetworkPolicyOptions) namespaces(in *metav1.LabelSelector) (*metav1.LabelSelector, error) {
	var names []string
	all := true
	narrow := func(to []string) {
		if all {
			names, all = slices.Clone(to), false
			return
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(to, name) })
	}
	cant := errors.New("namespaces can be selected there by label " + corev1.LabelMetadataName + ", and by no other")
	for key, value := range in.MatchLabels {
		if key != corev1.LabelMetadataName {
			return nil, cant
		}
		narrow([]string{value})
	}
	for _, e := range in.MatchExpressions {
		switch {
		case e.Key != corev1.LabelMetadataName:
			return nil, cant
		case e.Operator == metav1.LabelSelectorOpIn:
			narrow(e.Values)
		case e.Operator != metav1.LabelSelectorOpExists: // every namespace has a name
			return nil, cant
		}
	}
	if all { // all namespaces of this cluster
		return &metav1.LabelSelector{
			MatchLabels:      map[string]string{api.LabelRemoteClusterID: o.Origin},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: api.LabelTenantNamespace, Operator: metav1.LabelSelectorOpDoesNotExist}},
		}, nil
	}
	var remotes, without []string
	for _, name := range names {
		if remote, ok := o.RemoteNamespace(name); ok {
			remotes = append(remotes, remote)
		} else if name == metav1.NamespaceSystem {
			remotes = append(remotes, name)
		} else {
			without = append(without, name)
		}
	}
	var problem error
	if len(without) > 0 {
		problem = errors.New("namespace " + strings.Join(without, ", ") + " is not offloaded to that cluster")
	}
	if len(remotes) == 0 {
		return nil, problem
	}
	slices.Sort(remotes)
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: slices.Compact(remotes),
	}}}, problem
}
