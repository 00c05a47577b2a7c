package inspect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/doctor"
	"liqo.io/liqo/internal/peering"
)

// peerInfo is the output of info peer about one peering. Its JSON keys are a stable interface: scripts read them.
type peerInfo struct {
	ClusterID      string           `json:"clusterID"`
	Role           corev1beta1.Role `json:"role"`
	Network        peerNetworkInfo  `json:"network"`
	Authentication struct {
		moduleInfo
		APIServerAddr string `json:"APIServerAddr,omitempty"`
		// Identity describes the credential of this cluster in the provider and its expiry, if it is a token or an access key.
		Identity       string      `json:"identity,omitempty"`
		ResourceSlices []sliceInfo `json:"resourceSlices,omitempty"`
		// Consuming and Providing are the sums of the resources of accepted ResourceSlices, by direction. They are set only for several
		// ResourceSlices.
		Consuming corev1.ResourceList `json:"consuming,omitempty"`
		Providing corev1.ResourceList `json:"providing,omitempty"`
	} `json:"authentication"`
	Offloading struct {
		moduleInfo
		VirtualNodes []nodeInfo `json:"virtualNodes,omitempty"`
	} `json:"offloading"`
	// Former means that the peering was removed.
	Former bool `json:"former,omitempty"`
	// Problems are the doctor's findings about the peering, and those about the installation that affect every peering.
	Problems []doctor.Finding `json:"problems,omitempty"`
	// Fields that only the command status prints. They are not in the JSON output of info peer.
	summary  corev1beta1.Summary
	proxyURL string
}

type moduleInfo struct {
	Status ModuleStatus `json:"status"`
	Alerts []string     `json:"alerts,omitempty"`
}

type sliceInfo struct {
	Name string `json:"name"`
	// Action is the role of the local cluster: Consuming or Providing.
	Action    string              `json:"action"`
	Accepted  bool                `json:"accepted"`
	Alerts    []string            `json:"alerts,omitempty"`
	Resources corev1.ResourceList `json:"resources,omitempty"`
}

type nodeInfo struct {
	Name          string              `json:"name"`
	Status        ModuleStatus        `json:"status"`
	Secret        string              `json:"secret,omitempty"`
	ResourceSlice string              `json:"resourceSlice,omitempty"`
	Resources     corev1.ResourceList `json:"resources,omitempty"`
}

func infoPeerCommand(a *session.Session) *cobra.Command {
	var o infoOptions
	command := &cobra.Command{
		Use:   "peer [CLUSTER-ID...]",
		Short: "Show the state of peerings in detail",
		Long:  "Show the state of the peerings with the named clusters, or with all: modules, alerts, resources and virtual nodes.",
		Example: cmdline.Example(`
			%[1]s info peer
			%[1]s info peer milan
			# A single value
			%[1]s info peer milan -g authentication.status`),
		Args: cobra.ArbitraryArgs,
		RunE: a.OnInstalled(nil, o.validate, func(ctx context.Context, c *session.Cluster, args []string) error {
			peers, err := gatherPeers(ctx, c, args)
			if err != nil {
				return err
			}
			boxes := func() error {
				if len(peers) == 0 {
					c.Info("This cluster has no peers")
				}
				for _, peer := range peers {
					if err := peer.write(c.Console); err != nil {
						return err
					}
				}
				return nil
			}
			if len(args) == 1 {
				return o.print(c, peers[0], boxes)
			}
			return o.print(c, peersByID(peers), boxes)
		}),
		ValidArgsFunction: a.Complete(session.PeerIDs),
	}
	o.add(command)
	return command
}

// gatherPeers returns the information about the given peers, or about all peers.
func gatherPeers(ctx context.Context, c *session.Cluster, ids []string) ([]*peerInfo, error) {
	var foreign corev1beta1.ForeignClusterList
	if err := c.List(ctx, &foreign); err != nil {
		return nil, fmt.Errorf("listing ForeignClusters: %w", err)
	}
	known := map[string]*corev1beta1.ForeignCluster{}
	for i := range foreign.Items {
		known[foreign.Items[i].Spec.ClusterID] = &foreign.Items[i]
	}
	if ids = cmdline.Unique(ids); len(ids) == 0 {
		ids = slices.Sorted(maps.Keys(known))
	}
	var unknown []error
	for _, id := range ids {
		if known[id] == nil {
			unknown = append(unknown, cmdline.DidYouMean(fmt.Errorf("there is no peering with cluster %s (no ForeignCluster has spec.clusterID %s): liqoctl info lists the peers",
				id, id), id, slices.Sorted(maps.Keys(known))))
		}
	}
	if len(unknown) > 0 {
		return nil, errors.Join(unknown...)
	}
	out := make([]*peerInfo, 0, len(ids))
	findings := Diagnosis(ctx, c)
	for _, id := range ids {
		info := gatherPeer(ctx, c, known[id])
		info.Former = doctor.Former(known[id])
		info.Problems = doctor.OfPeer(findings, id)
		if down := doctor.Manager(findings, c.ID); len(down) > 0 {
			info.Problems = append(down, info.Problems...)
			for _, status := range []*ModuleStatus{&info.Network.Status, &info.Authentication.Status, &info.Offloading.Status} {
				status.outdated()
			}
		}
		out = append(out, info)
	}
	return out, nil
}

// gatherPeer returns the information about one peering. It warns about facts that cannot be read, and leaves them out.
func gatherPeer(ctx context.Context, c *session.Cluster, foreign *corev1beta1.ForeignCluster) *peerInfo {
	id := foreign.Spec.ClusterID
	info := &peerInfo{ClusterID: id, Role: foreign.Status.Role, summary: foreign.Status.Peering, proxyURL: foreign.Status.ForeignProxyURL}
	info.Network.Status, info.Network.Alerts = StatusOf(foreign.Status.Modules.Networking)
	info.Authentication.Status, info.Authentication.Alerts = AuthenticationOf(foreign)
	info.Offloading.Status, info.Offloading.Alerts = StatusOf(foreign.Status.Modules.Offloading)
	info.Authentication.APIServerAddr = foreign.Status.APIServerURL
	warnUnread(c, "the network with cluster "+id, describeNetwork(ctx, c, id, &info.Network))
	var identities authv1beta1.IdentityList
	if err := c.List(ctx, &identities); err != nil {
		warnUnread(c, "the identity in cluster "+id, fmt.Errorf("listing Identities: %w", err))
	}
	info.Authentication.Identity = tokenOf(identities.Items, id)
	var list authv1beta1.ResourceSliceList
	if err := c.List(ctx, &list, client.MatchingLabels{api.LabelRemoteClusterID: id}); err != nil {
		warnUnread(c, "the resources of cluster "+id, fmt.Errorf("listing ResourceSlices of cluster %s: %w", id, err))
	}
	for i := range list.Items {
		info.Authentication.ResourceSlices = append(info.Authentication.ResourceSlices, DescribeSlice(&list.Items[i]))
	}
	info.Authentication.Consuming = sumOf(info.Authentication.ResourceSlices, consuming)
	info.Authentication.Providing = sumOf(info.Authentication.ResourceSlices, providing)
	var virtual offloadingv1beta1.VirtualNodeList
	if err := c.List(ctx, &virtual, client.MatchingLabels{api.LabelRemoteClusterID: id}); err != nil {
		warnUnread(c, "the virtual nodes of cluster "+id, fmt.Errorf("listing VirtualNodes of cluster %s: %w", id, err))
	}
	for i := range virtual.Items {
		info.Offloading.VirtualNodes = append(info.Offloading.VirtualNodes, describeNode(&virtual.Items[i]))
	}
	return info
}

// tokenOf describes the credential of this cluster, and its expiry, for a provider that issues tokens or access keys. It returns "" for certificates.
func tokenOf(identities []authv1beta1.Identity, provider string) string {
	for i := range identities {
		spec := &identities[i].Spec
		credential, err := peering.CredentialOf(&spec.AuthParams)
		if err != nil || spec.ClusterID != provider || spec.Type != authv1beta1.IdentityControlPlane {
			continue
		}
		switch credential.Kind {
		case peering.KindAccessKey:
			return fmt.Sprintf("%s of %s, which is not renewed", credential.Kind, spec.AuthParams.AwsConfig.AwsUserArn)
		case peering.KindToken:
			return fmt.Sprintf("%s of a ServiceAccount, renewed before %s", credential.Kind, credential.Until.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

// consuming and providing are the directions of a ResourceSlice as info prints them: whether the local cluster uses the resources or grants them.
const consuming, providing = "Consuming", "Providing"

// sumOf is totalOf for several ResourceSlices. It returns nil for fewer than two.
func sumOf(all []sliceInfo, action string) corev1.ResourceList {
	if sum, count := totalOf(all, action); count > 1 {
		return sum
	}
	return nil
}

// totalOf returns the sum of the resources of all accepted ResourceSlices in one direction, and how many of them there are.
func totalOf(all []sliceInfo, action string) (sum corev1.ResourceList, count int) {
	sum = corev1.ResourceList{}
	for _, slice := range all {
		if slice.Action == action && slice.Accepted {
			count++
			api.AddResources(sum, slice.Resources)
		}
	}
	return sum, count
}

// DescribeSlice returns what info shows of a ResourceSlice.
func DescribeSlice(slice *authv1beta1.ResourceSlice) sliceInfo {
	out := sliceInfo{Name: slice.Name, Action: consuming, Accepted: true, Resources: slice.Status.Resources}
	if slice.Labels[api.LabelReplicated] == api.True {
		out.Action = providing
	}
	for _, of := range []authv1beta1.ResourceSliceConditionType{authv1beta1.ResourceSliceAuthentication, authv1beta1.ResourceSliceResources} {
		switch condition := session.SliceCondition(slice, of); {
		case condition == nil:
			out.Accepted = false
			out.Alerts = append(out.Alerts, fmt.Sprintf("%s: no decision yet", of))
		case condition.Status != authv1beta1.ResourceSliceAccepted:
			out.Accepted = false
			out.Alerts = append(out.Alerts, fmt.Sprintf("%s is %s, %s: %s", of, condition.Status, condition.Reason, condition.Message))
		}
	}
	return out
}

func describeNode(virtual *offloadingv1beta1.VirtualNode) nodeInfo {
	out := nodeInfo{
		Name: virtual.Name, Status: ModuleHealthy, ResourceSlice: virtual.Labels[api.LabelResourceSliceName],
		Resources: virtual.Spec.ResourceQuota.Hard,
	}
	if virtual.Spec.KubeconfigSecretRef != nil {
		out.Secret = virtual.Spec.KubeconfigSecretRef.Name
	}
	for _, condition := range virtual.Status.Conditions {
		none := condition.Status == offloadingv1beta1.VirtualNodeNone && virtual.Spec.CreateNode != nil && !*virtual.Spec.CreateNode
		if condition.Status != offloadingv1beta1.VirtualNodeRunning && !none {
			out.Status = ModuleUnhealthy
		}
	}
	return out
}

func (p *peerInfo) write(c *console.Console) error {
	box := console.Box{Title: p.ClusterID}
	if p.Former {
		box.Line(0, "Former peer: the peering was undone", "")
		return box.Write(c.Out())
	}
	problems(&box, 0, p.Problems)
	box.Line(0, "Role", string(p.Role))
	module := func(name string, info moduleInfo) {
		box.Line(0, name, string(info.Status))
		for _, alert := range info.Alerts {
			box.Line(1, "✖ "+alert, "")
		}
	}
	module("Networking", p.Network.moduleInfo)
	p.Network.lines(&box)
	module("Authentication", p.Authentication.moduleInfo)
	if p.Authentication.APIServerAddr != "" {
		box.Line(1, "API server", p.Authentication.APIServerAddr)
	}
	if p.Authentication.Identity != "" {
		box.Line(1, "Identity", p.Authentication.Identity)
	}
	for _, slice := range p.Authentication.ResourceSlices {
		verdict := "accepted"
		if !slice.Accepted {
			verdict = "not accepted"
		}
		box.Line(1, "ResourceSlice "+slice.Name, slice.Action+", "+verdict)
		for _, alert := range slice.Alerts {
			box.Line(2, "✖ "+alert, "")
		}
		Amounts(&box, slice.Resources)
	}
	for _, sum := range []struct {
		action string
		of     corev1.ResourceList
	}{{consuming, p.Authentication.Consuming}, {providing, p.Authentication.Providing}} {
		if len(sum.of) > 0 {
			box.Line(1, "All ResourceSlices together", sum.action)
			Amounts(&box, sum.of)
		}
	}
	module("Offloading", p.Offloading.moduleInfo)
	for _, node := range p.Offloading.VirtualNodes {
		box.Line(1, "VirtualNode "+node.Name, string(node.Status))
		if node.ResourceSlice != "" {
			box.Line(2, "ResourceSlice", node.ResourceSlice)
		}
		if node.Secret != "" {
			box.Line(2, "Kubeconfig", "Secret "+node.Secret)
		}
		Amounts(&box, node.Resources)
	}
	return box.Write(c.Out())
}

// Amounts adds a line to a box for each resource.
func Amounts(box *console.Box, resources corev1.ResourceList) {
	names := make([]string, 0, len(resources))
	for name := range resources {
		names = append(names, string(name))
	}
	slices.Sort(names)
	for _, name := range names {
		quantity := resources[corev1.ResourceName(name)]
		box.Line(2, name, quantity.String())
	}
}
