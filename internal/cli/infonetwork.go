package cli

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/cli/console"
)

// networkConfigMap holds what the installation was told of the cluster's address ranges.
const networkConfigMap = "liqo-network-configmap"

// networkInfo are the address ranges of the cluster, each empty where it is not known or not in use: without a network between clusters
// nothing is remapped, so there is an external and an internal one only if the installation was given it. The keys are always there.
type networkInfo struct {
	PodCIDRs     []string `json:"podCIDRs"`
	ServiceCIDR  string   `json:"serviceCIDR"`
	ExternalCIDR string   `json:"externalCIDR"`
	InternalCIDR string   `json:"internalCIDR"`
}

func (c *cluster) networkInfo(ctx context.Context) (networkInfo, error) {
	var told corev1.ConfigMap
	// An installation of an earlier version has none.
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: networkConfigMap}, &told); client.IgnoreNotFound(err) != nil {
		return networkInfo{}, fmt.Errorf("reading ConfigMap %s in namespace %s: %w", networkConfigMap, c.namespace, err)
	}
	info := networkInfo{
		PodCIDRs: []string{}, ServiceCIDR: told.Data["SERVICE_CIDR"], ExternalCIDR: told.Data["EXTERNAL_CIDR"], InternalCIDR: told.Data["INTERNAL_CIDR"],
	}
	if pods := told.Data["POD_CIDRS"]; pods != "" {
		info.PodCIDRs = strings.Split(pods, ",")
	}
	return info, nil
}

func (n *networkInfo) box() *console.Box {
	box := &console.Box{Title: "Network"}
	box.Line(0, "Pod CIDRs", orDefault(strings.Join(n.PodCIDRs, ", "), "unknown"))
	box.Line(0, "Service CIDR", orDefault(n.ServiceCIDR, "unknown"))
	box.Line(0, "External CIDR", orDefault(n.ExternalCIDR, "not in use"))
	box.Line(0, "Internal CIDR", orDefault(n.InternalCIDR, "not in use"))
	return box
}
