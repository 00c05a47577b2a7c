package inspect

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
)

// NetworkConfigMap holds the configured address ranges of the cluster.
const NetworkConfigMap = "liqo-network-configmap"

// networkInfo holds the address ranges of the cluster. A range is empty if it is unknown or not in use. Without Liqo's network nothing is
// remapped, so the external and internal ranges exist only if they were configured. The JSON keys are always present.
type networkInfo struct {
	PodCIDRs     []string `json:"podCIDRs"`
	ServiceCIDR  string   `json:"serviceCIDR"`
	ExternalCIDR string   `json:"externalCIDR"`
	InternalCIDR string   `json:"internalCIDR"`
	// trouble maps the title of a range to its problem. The JSON output omits it: the conditions of the Networks contain it.
	trouble map[string]string
}

func gatherNetwork(ctx context.Context, c *session.Cluster) (networkInfo, error) {
	var configured corev1.ConfigMap
	// Earlier versions have no such ConfigMap.
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: NetworkConfigMap}, &configured); client.IgnoreNotFound(err) != nil {
		return networkInfo{PodCIDRs: []string{}}, fmt.Errorf("reading ConfigMap %s in namespace %s: %w", NetworkConfigMap, c.Namespace, err)
	}
	info := networkInfo{
		PodCIDRs: []string{}, ServiceCIDR: configured.Data["SERVICE_CIDR"], ExternalCIDR: configured.Data["EXTERNAL_CIDR"], InternalCIDR: configured.Data["INTERNAL_CIDR"],
	}
	if pods := configured.Data["POD_CIDRS"]; pods != "" {
		info.PodCIDRs = strings.Split(pods, ",")
	}
	return info, givenRanges(ctx, c, &info)
}

// givenRanges replaces the external and the internal range by the allocated ones, if Networks exist for them.
func givenRanges(ctx context.Context, c *session.Cluster, info *networkInfo) error {
	info.trouble = map[string]string{}
	for _, of := range []struct {
		name, title string
		cidr        *string
	}{
		{ipamv1alpha1.NetworkExternal, titleExternal, &info.ExternalCIDR},
		{ipamv1alpha1.NetworkInternal, titleInternal, &info.InternalCIDR},
	} {
		var network ipamv1alpha1.Network
		err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: of.name}, &network)
		if kube.Absent(err) { // Liqo's network is disabled, or the installation is of an earlier version
			continue
		}
		if err != nil {
			return fmt.Errorf("reading Network %s in namespace %s: %w", of.name, c.Namespace, err)
		}
		*of.cidr = network.Status.CIDR
		if ready := meta.FindStatusCondition(network.Status.Conditions, kube.ConditionReady); ready != nil {
			info.trouble[of.title] = ready.Message // empty if the Network is ready
		} else if network.Status.CIDR == "" {
			info.trouble[of.title] = fmt.Sprintf("no controller has reconciled Network %s yet", of.name)
		}
	}
	return nil
}

const (
	titleExternal = "External CIDR"
	titleInternal = "Internal CIDR"
)

func (n *networkInfo) box() *console.Box {
	box := &console.Box{Title: "Network"}
	n.lines(box, 0)
	return box
}

// lines adds the ranges to a box, at the given depth.
func (n *networkInfo) lines(box *console.Box, depth int) {
	box.Line(depth, "Pod CIDRs", cmp.Or(strings.Join(n.PodCIDRs, ", "), "unknown"))
	box.Line(depth, "Service CIDR", cmp.Or(n.ServiceCIDR, "unknown"))
	for _, line := range []struct{ title, cidr string }{{titleExternal, n.ExternalCIDR}, {titleInternal, n.InternalCIDR}} {
		value := cmp.Or(line.cidr, "not in use")
		switch trouble := n.trouble[line.title]; {
		case trouble == "":
		case line.cidr == "":
			value = "none: " + trouble
		default:
			value = fmt.Sprintf("%s (%s)", line.cidr, trouble)
		}
		box.Line(depth, line.title, value)
	}
}
