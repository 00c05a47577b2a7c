package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
)

// component is a workload of the installation or of a tenant namespace.
type component struct {
	Kind      string   `json:"kind"`
	Name      string   `json:"name"`
	Desired   int32    `json:"desired"`
	Available int32    `json:"available"`
	Images    []string `json:"images"`
	// selector selects its pods.
	selector map[string]string
}

// statusInfo is the output of status: the output of info, and the components of the installation.
type statusInfo struct {
	Namespace       string      `json:"namespace"`
	Components      []component `json:"components"`
	ReservedSubnets []string    `json:"reservedSubnets,omitempty"`
	// AuthenticationURL is the URL that generate peer-command passes to consumers. It is empty if the authentication service is not
	// reachable.
	AuthenticationURL string `json:"authenticationURL,omitempty"`
	*localInfo
}

// StatusCommand returns the command status.
func StatusCommand(a *session.Session) *cobra.Command {
	var output cmdline.Output
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the health of the installation",
		Long: "Show whether each component of the installation runs, and what the cluster reports to its peers: its identity, address ranges and\n" +
			"endpoints. With --verbose, also show the images.\n\n" +
			"Related commands: info describes the cluster and its peerings. doctor diagnoses problems and prints their cures. kubectl get\n" +
			"foreignclusters lists the peerings, and kubectl wait can wait for them.",
		Example: cmdline.Example(`
			%[1]s status
			# The peering with milan
			%[1]s status peer milan`),
		Args: cobra.NoArgs,
		RunE: a.OnInstalled(nil, output.Validate, func(ctx context.Context, c *session.Cluster, _ []string) error {
			status, err := gatherStatus(ctx, c)
			if err != nil {
				return err
			}
			if output.Format != "" {
				return cmdline.Write(c.Out(), status, output.Format)
			}
			return status.write(c.Console, a.Verbose)
		}),
	}
	output.Add(command.Flags(), "Print everything for programs")
	command.AddCommand(statusPeerCommand(a))
	return command
}

func gatherStatus(ctx context.Context, c *session.Cluster) (*statusInfo, error) {
	local, err := GatherLocal(ctx, c)
	if err != nil {
		return nil, err
	}
	out := &statusInfo{Namespace: c.Namespace, localInfo: local}
	if out.Components, err = listComponents(ctx, c, c.Namespace); err != nil {
		return nil, err
	}
	if url, err := session.EnrollmentURL(ctx, c, true); err == nil {
		out.AuthenticationURL = url
	}
	reserved, err := tunnel.OwnNetworks(ctx, c, ipamv1alpha1.NetworkTypeReserved)
	for i := range reserved {
		out.ReservedSubnets = append(out.ReservedSubnets, cmp.Or(reserved[i].Status.CIDR, reserved[i].Spec.CIDR))
	}
	return out, err
}

// listComponents returns the Deployments and DaemonSets of a namespace.
func listComponents(ctx context.Context, c *session.Cluster, namespace string) ([]component, error) {
	images := func(pod corev1.PodSpec) []string {
		return session.NamesOf(pod.Containers, func(container corev1.Container) string { return container.Image })
	}
	var deployments appsv1.DeploymentList
	if err := c.List(ctx, &deployments, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Deployments in namespace %s: %w", namespace, err)
	}
	var sets appsv1.DaemonSetList
	if err := c.List(ctx, &sets, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing DaemonSets in namespace %s: %w", namespace, err)
	}
	out := []component{}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		desired := int32(1)
		if d.Spec.Replicas != nil {
			desired = *d.Spec.Replicas
		}
		out = append(out, component{"Deployment", d.Name, desired, d.Status.AvailableReplicas, images(d.Spec.Template.Spec), d.Spec.Selector.MatchLabels})
	}
	for i := range sets.Items {
		d := &sets.Items[i]
		out = append(out, component{"DaemonSet", d.Name, d.Status.DesiredNumberScheduled, d.Status.NumberAvailable, images(d.Spec.Template.Spec), d.Spec.Selector.MatchLabels})
	}
	return out, nil
}

func (s *statusInfo) write(c *console.Console, verbose bool) error {
	namespace := console.Box{Title: "Namespace existence check"}
	namespace.Line(0, fmt.Sprintf("✔ control plane namespace %s exists", s.Namespace), "")
	parts := console.Box{Title: "Control plane check"}
	for _, part := range s.Components {
		mark := "✔"
		count := fmt.Sprintf("desired %d, available %d", part.Desired, part.Available)
		if part.Available < part.Desired || part.Desired == 0 {
			mark = "✖"
		}
		if part.Desired == 0 && part.Kind == "DaemonSet" {
			count = "no node matches"
		}
		parts.Line(0, fmt.Sprintf("%s %s %s", mark, part.Kind, part.Name), count)
		if verbose {
			parts.Line(1, "Images", strings.Join(part.Images, ", "))
		}
	}
	for _, pod := range slices.Sorted(maps.Keys(s.Health.UnhealthyPods)) {
		parts.Line(0, "✖ Pod "+pod, s.Health.UnhealthyPods[pod])
	}
	problems(&parts, 0, s.Health.Problems)
	for _, peer := range s.Peerings.Peers {
		problems(&parts, 0, peer.Problems)
	}
	local := console.Box{Title: "Local cluster information"}
	local.Line(0, "Cluster identity", "")
	local.Line(1, "Cluster ID", s.Local.ClusterID)
	for _, key := range slices.Sorted(maps.Keys(s.Local.Labels)) {
		local.Line(1, "Label "+key, s.Local.Labels[key])
	}
	local.Line(0, "Configuration", "")
	local.Line(1, "Version", s.Local.Version)
	local.Line(0, "Network", "")
	s.Network.lines(&local, 1)
	if len(s.ReservedSubnets) > 0 {
		local.Line(1, "Reserved subnets", strings.Join(s.ReservedSubnets, ", "))
	}
	local.Line(0, "Endpoints", "")
	if s.AuthenticationURL != "" {
		local.Line(1, "Authentication", s.AuthenticationURL)
	}
	local.Line(1, "Kubernetes API server", s.Local.APIServerAddr)
	for _, box := range []*console.Box{&namespace, &parts, &local} {
		if err := box.Write(c.Out()); err != nil {
			return err
		}
	}
	return nil
}
