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
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/workload"
	"liqo.io/liqo/internal/doctor"
	"liqo.io/liqo/internal/peering"
)

// localInfo is the output of info about the local cluster. Its JSON keys are a stable interface: scripts read them.
type localInfo struct {
	Local struct {
		ClusterID     string            `json:"clusterID"`
		Version       string            `json:"version"`
		Labels        map[string]string `json:"labels,omitempty"`
		APIServerAddr string            // without a tag, because the specified output has this key
	} `json:"local"`
	Health struct {
		Healthy       bool              `json:"healthy"`
		UnhealthyPods map[string]string `json:"unhealthyPods,omitempty"`
		// Problems are the doctor's findings about the installation.
		Problems []doctor.Finding `json:"problems,omitempty"`
	} `json:"health"`
	Network  networkInfo `json:"network"`
	Peerings struct {
		Peers []peerSummary `json:"peers"`
	} `json:"peerings"`
}

type peerSummary struct {
	ClusterID            string           `json:"clusterID"`
	Role                 corev1beta1.Role `json:"role"`
	NetworkingStatus     ModuleStatus     `json:"networkingStatus"`
	AuthenticationStatus ModuleStatus     `json:"authenticationStatus"`
	OffloadingStatus     ModuleStatus     `json:"offloadingStatus"`
	// Former means that the peering was removed.
	Former bool `json:"former,omitempty"`
	// Problems are the doctor's findings about the peering.
	Problems []doctor.Finding `json:"problems,omitempty"`
}

// ModuleStatus is the summary of one module of a peering.
type ModuleStatus string

// The states of a module.
const (
	ModuleHealthy   ModuleStatus = "Healthy"
	ModuleUnhealthy ModuleStatus = "Unhealthy"
	ModuleDisabled  ModuleStatus = "Disabled"
)

// outdated replaces Healthy by Unhealthy. Callers use it while the controller manager is down, because the conditions are then outdated.
func (s *ModuleStatus) outdated() {
	if *s == ModuleHealthy {
		*s = ModuleUnhealthy
	}
}

// StatusOf summarizes the conditions of a module, and returns the problems.
func StatusOf(module corev1beta1.Module) (ModuleStatus, []string) {
	if !module.Enabled {
		return ModuleDisabled, nil
	}
	status, alerts := ModuleHealthy, []string(nil)
	for _, condition := range module.Conditions {
		if condition.Status != corev1beta1.StatusReady && condition.Status != corev1beta1.StatusEstablished {
			status = ModuleUnhealthy
			alerts = append(alerts, strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", condition.Type, condition.Status, condition.Message), ": "))
		}
	}
	return status, alerts
}

// AuthenticationOf is StatusOf for the authentication module. It also counts failed probes of the remote API server, because identities
// cannot be used without it.
func AuthenticationOf(foreign *corev1beta1.ForeignCluster) (ModuleStatus, []string) {
	status, alerts := StatusOf(foreign.Status.Modules.Authentication)
	for _, condition := range foreign.Status.Conditions {
		if condition.Status == corev1beta1.StatusError {
			status = ModuleUnhealthy
			alerts = append(alerts, fmt.Sprintf("%s is %s: %s", condition.Type, condition.Status, condition.Message))
		}
	}
	return status, alerts
}

// InfoCommand returns the command info.
func InfoCommand(a *session.Session) *cobra.Command {
	var o infoOptions
	command := &cobra.Command{
		Use:   "info",
		Short: "Show the local cluster and its peerings",
		Long: "Show the local cluster: health, identity, address ranges and peerings, for people and for scripts.\n\n" +
			"Related commands: status shows whether the components run. doctor diagnoses problems and prints their cures. kubectl get\n" +
			"foreignclusters lists the peerings, and kubectl wait can wait for them.",
		Example: cmdline.Example(`
			%[1]s info
			# For programs
			%[1]s info -o json
			# A single value
			%[1]s info -g local.clusterID`),
		Args: cobra.NoArgs,
		RunE: a.OnInstalled(nil, o.validate, func(ctx context.Context, c *session.Cluster, _ []string) error {
			info, err := GatherLocal(ctx, c)
			if err != nil {
				return err
			}
			return o.print(c, info, func() error { return info.write(c.Console) })
		}),
	}
	o.add(command)
	command.AddCommand(infoPeerCommand(a))
	return command
}

// infoOptions holds the flags for the output format of info.
type infoOptions struct {
	output cmdline.Output
	query  string
}

func (o *infoOptions) add(command *cobra.Command) {
	o.output.Add(command.Flags(), "Print everything for programs")
	command.Flags().StringVarP(&o.query, "get", "g", "", "Print only the value at this path, for example local.clusterID (or just clusterid)")
}

func (o *infoOptions) validate() error {
	if o.query != "" && o.output.Format != "" {
		return fmt.Errorf("--get prints one value, --output prints all of them: use one of the two flags")
	}
	return o.output.Validate()
}

func (o *infoOptions) print(c *session.Cluster, info any, boxes func() error) error {
	switch {
	case o.query != "":
		return printQuery(c, info, o.query)
	case o.output.Format != "":
		return cmdline.Write(c.Out(), info, o.output.Format)
	default:
		return boxes()
	}
}

// warnUnread warns that a part of the output is missing because it could not be read. The rest of the output is still valid.
func warnUnread(c *session.Cluster, what string, err error) {
	if err != nil {
		c.Warn("Missing or incomplete: %s: %v", what, err)
	}
}

// GatherLocal reads what info shows about the local cluster.
func GatherLocal(ctx context.Context, c *session.Cluster) (*localInfo, error) {
	info := &localInfo{}
	info.Local.ClusterID = c.ID
	var deployment appsv1.Deployment
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: session.ControllerManager}, &deployment); err != nil {
		return nil, fmt.Errorf("reading Deployment %s in namespace %s: %w", session.ControllerManager, c.Namespace, err)
	}
	info.Local.Version = deployment.Labels["app.kubernetes.io/version"]
	args := controllerManagerArgs(&deployment)
	info.Local.Labels = pairs(args["cluster-labels"])
	if info.Local.APIServerAddr = args["api-server-address"]; info.Local.APIServerAddr == "" {
		address, err := publishedAddress(ctx, c)
		warnUnread(c, "the address of the API server", err)
		info.Local.APIServerAddr = cmp.Or(address, c.Config.Host)
	}

	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(c.Namespace)); err != nil {
		warnUnread(c, "the state of the pods", fmt.Errorf("listing pods in namespace %s: %w", c.Namespace, err))
	}
	info.Health.Healthy = workload.DeploymentAvailable(&deployment).Done
	for i := range pods.Items {
		if why := workload.Unhealthy(&pods.Items[i]); why != "" {
			info.Health.Healthy = false
			if info.Health.UnhealthyPods == nil {
				info.Health.UnhealthyPods = map[string]string{}
			}
			info.Health.UnhealthyPods[pods.Items[i].Name] = why
		}
	}
	findings := Diagnosis(ctx, c)
	down := len(doctor.Manager(findings, c.ID)) > 0
	var err error
	info.Network, err = gatherNetwork(ctx, c)
	warnUnread(c, "the address ranges", err)
	var foreign corev1beta1.ForeignClusterList
	if err := c.List(ctx, &foreign); err != nil {
		return nil, fmt.Errorf("listing ForeignClusters: %w", err)
	}
	info.Peerings.Peers = []peerSummary{}
	for _, peer := range foreign.Items {
		if doctor.Former(&peer) && peer.Labels[corev1beta1.LabelDiscoveryType] != "" {
			continue // discovered, but not peered
		}
		summary := peerSummary{ClusterID: peer.Spec.ClusterID, Role: peer.Status.Role}
		summary.NetworkingStatus, _ = StatusOf(peer.Status.Modules.Networking)
		summary.AuthenticationStatus, _ = AuthenticationOf(&peer)
		summary.OffloadingStatus, _ = StatusOf(peer.Status.Modules.Offloading)
		summary.Former = doctor.Former(&peer)
		summary.Problems = doctor.OfPeer(findings, peer.Spec.ClusterID)
		if down {
			for _, status := range []*ModuleStatus{&summary.NetworkingStatus, &summary.AuthenticationStatus, &summary.OffloadingStatus} {
				status.outdated()
			}
		}
		info.Peerings.Peers = append(info.Peerings.Peers, summary)
	}
	listed := func(id string) bool {
		return slices.ContainsFunc(info.Peerings.Peers, func(p peerSummary) bool { return p.ClusterID == id })
	}
	// Each finding is shown once: below its peer, or here.
	info.Health.Problems = append(doctor.Installation(findings), doctor.OfOthers(findings, listed)...)
	for i := range info.Health.Problems {
		info.Health.Healthy = info.Health.Healthy && info.Health.Problems[i].Level != doctor.Fail
	}
	return info, nil
}

// controllerManagerArgs returns the flags of the controller manager, which contain the configuration of the installation.
func controllerManagerArgs(deployment *appsv1.Deployment) map[string]string {
	out := map[string]string{}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for _, arg := range container.Args {
			if name, value, found := strings.Cut(strings.TrimPrefix(arg, "--"), "="); found {
				out[name] = value
			}
		}
	}
	return out
}

// pairs parses k=v,k=v.
func pairs(text string) map[string]string {
	out := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if key, value, found := strings.Cut(pair, "="); found {
			out[key] = value
		}
	}
	return out
}

func (i *localInfo) write(c *console.Console) error {
	health := console.Box{Title: "Local installation health"}
	if i.Health.Healthy {
		health.Line(0, "✔ Liqo is healthy", "")
	} else {
		health.Line(0, "✖ Liqo is not healthy", "")
		for _, pod := range slices.Sorted(maps.Keys(i.Health.UnhealthyPods)) {
			health.Line(1, pod, i.Health.UnhealthyPods[pod])
		}
	}
	problems(&health, 1, i.Health.Problems)
	identity := console.Box{Title: "Local cluster information"}
	identity.Line(0, "Cluster ID", i.Local.ClusterID)
	identity.Line(0, "Version", i.Local.Version)
	identity.Line(0, "API server", i.Local.APIServerAddr)
	if len(i.Local.Labels) > 0 {
		identity.Line(0, "Cluster labels", "")
		for _, key := range slices.Sorted(maps.Keys(i.Local.Labels)) {
			identity.Line(1, key, i.Local.Labels[key])
		}
	}
	peers := console.Box{Title: "Active peerings"}
	former := []string{}
	for _, peer := range i.Peerings.Peers {
		if peer.Former {
			former = append(former, peer.ClusterID)
			continue
		}
		peers.Line(0, peer.ClusterID, "")
		peers.Line(1, "Role", string(peer.Role))
		peers.Line(1, "Networking status", string(peer.NetworkingStatus))
		peers.Line(1, "Authentication status", string(peer.AuthenticationStatus))
		peers.Line(1, "Offloading status", string(peer.OffloadingStatus))
		problems(&peers, 1, peer.Problems)
	}
	if len(former) == len(i.Peerings.Peers) {
		peers.Line(0, "None", "")
	}
	if len(former) > 0 {
		peers.Line(0, "Former peers", strings.Join(former, ", "))
	}
	for _, box := range []*console.Box{&health, &identity, i.Network.box(), &peers} {
		if err := box.Write(c.Out()); err != nil {
			return err
		}
	}
	return nil
}

// publishedAddress returns the API server address that peers receive if none is configured.
func publishedAddress(ctx context.Context, c *session.Cluster) (string, error) {
	var slices discoveryv1.EndpointSliceList
	err := c.List(ctx, &slices, client.InNamespace("default"), client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"})
	if err != nil {
		return "", fmt.Errorf("reading the EndpointSlices of Service default/kubernetes: %w", err)
	}
	return peering.PublishedAddress(slices.Items), nil
}
