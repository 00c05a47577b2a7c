package tunnel

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
)

// rangeGoal waits until a Network has a CIDR in its status.
func rangeGoal(network *ipamv1alpha1.Network) *session.Goal {
	return &session.Goal{
		Object: network, Doing: "Waiting for the range of Network " + network.Name,
		Met: func() session.Verdict {
			if network.Status.CIDR == "" {
				return session.NotYet("it has no range in status.cidr yet%s", session.Unmet(network.Status.Conditions))
			}
			return session.Yes()
		},
		Answer: func() { network.Status.CIDR = cmp.Or(network.Spec.CIDR, "192.0.2.0/24") },
	}
}

// Configuration returns the Configuration with the address ranges of a peer.
func Configuration(namespace, name, peer string, remote networkingv1beta1.CIDRs) *networkingv1beta1.Configuration {
	out := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	kube.AddLabels(out, map[string]string{api.LabelRemoteClusterID: peer})
	out.Spec.Remote.CIDR = remote
	return out
}

// MappedGoal waits until a cluster has mapped the ranges of the remote cluster.
func MappedGoal(object *networkingv1beta1.Configuration) *session.Goal {
	return &session.Goal{
		Object: object, Doing: fmt.Sprintf("Waiting until the ranges of cluster %s are mapped", object.Labels[api.LabelRemoteClusterID]),
		Done: "Network configuration is applied",
		Met: func() session.Verdict {
			condition := meta.FindStatusCondition(object.Status.Conditions, networkingv1beta1.ConditionCIDRsConfigured)
			switch {
			case condition == nil || condition.ObservedGeneration < object.Generation:
				return session.NotYet("the controller manager has not reconciled it yet")
			case condition.Status != metav1.ConditionTrue || object.Status.Remote == nil:
				return session.NotYet("its ranges are not mapped yet%s", session.Unmet(object.Status.Conditions))
			}
			return session.Yes()
		},
		Answer: func() { object.Status.Remote = object.Spec.Remote.DeepCopy() },
	}
}

// differences describes how two sets of ranges differ. It is empty if they are equal.
func differences(have, want networkingv1beta1.CIDRs) string {
	var out []string
	for _, part := range []struct {
		name       string
		have, want []string
	}{{"pod CIDR", have.Pod, want.Pod}, {"external CIDR", have.External, want.External}} {
		if !equality.Semantic.DeepEqual(part.have, part.want) {
			out = append(out, fmt.Sprintf("%s %s, not %s", part.name, cmp.Or(strings.Join(part.want, ", "), "none"), cmp.Or(strings.Join(part.have, ", "), "none")))
		}
	}
	return strings.Join(out, " and ")
}

// OwnNetworks returns the Networks of one type that describe this cluster itself, sorted by name.
func OwnNetworks(ctx context.Context, c *session.Cluster, of ipamv1alpha1.NetworkType) ([]ipamv1alpha1.Network, error) {
	var list ipamv1alpha1.NetworkList
	err := c.List(ctx, &list, client.InNamespace(c.Namespace), client.MatchingLabels{ipamv1alpha1.LabelNetworkType: of})
	if err != nil && !kube.Absent(err) {
		return nil, c.Err(fmt.Errorf("reading Networks of type %s in namespace %s: %w", of, c.Namespace, err))
	}
	slices.SortFunc(list.Items, func(a, b ipamv1alpha1.Network) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// OwnCIDRs returns the pod and external CIDRs of this cluster for its peers. It waits until each is allocated.
func OwnCIDRs(ctx context.Context, c *session.Cluster) (networkingv1beta1.CIDRs, error) {
	var out networkingv1beta1.CIDRs
	for _, part := range []struct {
		of ipamv1alpha1.NetworkType
		to *[]string
	}{{ipamv1alpha1.NetworkTypePod, &out.Pod}, {ipamv1alpha1.NetworkTypeExternal, &out.External}} {
		networks, err := OwnNetworks(ctx, c, part.of)
		if err != nil {
			return out, err
		}
		if len(networks) == 0 {
			return out, c.Err(fmt.Errorf("namespace %s has no Network labelled %s=%s: install again with networking.enabled=true, networking.internal=true and the address ranges of the cluster",
				c.Namespace, ipamv1alpha1.LabelNetworkType, part.of))
		}
		for i := range networks {
			if err := c.Reach(ctx, rangeGoal(&networks[i])); err != nil {
				return out, err
			}
			*part.to = append(*part.to, networks[i].Status.CIDR)
		}
	}
	return out, nil
}

// Configuration returns the Configuration that Liqo uses for the peer, or nil if there is none. If all Configurations of the peer are being
// deleted, it returns one of them.
func (e *End) Configuration(ctx context.Context) (*networkingv1beta1.Configuration, error) {
	var list networkingv1beta1.ConfigurationList
	if err := session.ListOfPeer(ctx, e.Cluster, &list, e.TenantNamespace, e.Peer); err != nil {
		return nil, err
	}
	inUse := network.ConfigurationInUse(list.Items, e.Peer)
	if inUse == nil && len(list.Items) > 0 {
		return &list.Items[0], nil
	}
	return inUse, nil
}

func (e *End) ensureConfiguration(ctx context.Context, ranges networkingv1beta1.CIDRs) (*networkingv1beta1.Configuration, error) {
	object, err := e.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	if object == nil {
		// The peer reports its own ranges, so they are checked like those of a NetworkRequest: here, and by the controllers wherever the annotation is set.
		if err := network.CheckFacts(&networkingv1beta1.NetworkFacts{CIDR: ranges}); err != nil {
			return nil, e.Err(fmt.Errorf("reading the ranges of cluster %s: %w", e.Peer, err))
		}
		object = Configuration(e.TenantNamespace, e.Peer, e.Peer, ranges)
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, networkingv1beta1.AnnotationReportedByPeer, api.True)
		if _, err := e.Ensure(ctx, object, func() error { return nil }); err != nil {
			return nil, err
		}
		e.Did("Configuration %s correctly ensured", object.Name)
		return object, nil
	}
	if object.DeletionTimestamp != nil {
		return nil, e.Err(e.Leaving(object))
	}
	if differs := differences(object.Spec.Remote.CIDR, ranges); differs != "" {
		e.Warn("Cluster %s has %s in %s, which is not changed: run liqoctl network reset, then connect, to use the new ranges",
			e.Peer, differs, e.Name(object))
	} else {
		e.Verbose("Configuration %s is there already", object.Name)
	}
	return object, nil
}
