// Package explain has the command network explain: it reads the objects of several clusters, or their manifests, and explains the path between two pods.
package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/network/gatewaypod"
)

// Command returns the command explain. timeout is a flag of its parent.
func Command(a *session.Session, timeout *time.Duration) *cobra.Command {
	var remotes []string
	var directory string
	var output cmdline.Output
	command := &cobra.Command{
		Use:   "explain SOURCE TARGET",
		Short: "Show every hop and address translation between two pods, and where the path is broken",
		Long: "Compute the path of a packet from one pod to another, and of its answer, from the network plans of the nodes and gateways on the\n" +
			"path: under which address each pod sees the other, and which host translates which address. If the path is broken, print the object\n" +
			"that breaks it and the cure, and exit with code 1. The command sends no packet and changes nothing.\n\n" +
			"SOURCE and TARGET are [cluster/]namespace/pod or [cluster/]address. The default cluster is the local one, and an address as TARGET is\n" +
			"the address that SOURCE connects to. The command needs the objects of all clusters on the path: from --remote-kubeconfig, once for\n" +
			"each cluster, or from manifests in a directory. The directory has a folder for each cluster, named by its ID, and the first folder is\n" +
			"the local cluster:\n\n" +
			"  kubectl get nodes,pods,daemonsets,networks.ipam,ips,configurations,gatewayservers,gatewayclients,connections,publickeies,namespacemaps \\\n" +
			"      -A -o yaml > dump/rome/objects.yaml",
		Example: cmdline.Example(`
			# From a pod of this cluster to one that was offloaded to milan
			%[1]s network explain demo/home demo/hello --remote-kubeconfig milan.yaml
			# From a pod in milan to one in naples, through this cluster
			%[1]s network explain milan/demo-rome/a naples/demo-rome/b --remote-kubeconfig milan.yaml --remote-kubeconfig naples.yaml
			# What happens to a packet to an address, from manifests only
			%[1]s network explain rome/demo/home 10.71.0.7 -f dump -o yaml`),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("want two arguments, SOURCE and TARGET, each [cluster/]namespace/pod or [cluster/]address, got %d", len(args))
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringArrayVar(&remotes, "remote-kubeconfig", nil, "Path to the kubeconfig of another cluster; repeat the flag for each cluster")
	flags.StringVarP(&directory, "directory", "f", "", "Read the objects from the manifests in this directory instead of from clusters")
	output.Add(flags, "Print the explanation in this format")
	command.RunE = session.WithTimeout(timeout, func(ctx context.Context, args []string) error {
		if err := output.Validate(); err != nil {
			return err
		}
		if directory != "" && len(remotes) > 0 {
			return errors.New("the clusters are given by --directory and by --remote-kubeconfig: use one of them")
		}
		clusters, err := clustersToExplain(ctx, a, directory, remotes)
		if err != nil {
			return err
		}
		return explain(a.Console(), clusters, args[0], args[1], output.Format)
	})
	return command
}

// cluster holds the facts about one cluster for an explanation.
type cluster struct {
	network.Cluster
	objects network.Objects
	maps    []offloadingv1beta1.NamespaceMap
}

// clustersToExplain reads the facts about all clusters, the local one first.
func clustersToExplain(ctx context.Context, a *session.Session, directory string, remotes []string) ([]cluster, error) {
	if directory != "" {
		return dumpedClusters(directory, *a.Kubeconfig.Namespace)
	}
	all, err := session.LocalAndRemotes(ctx, a, remotes, func(error) bool { return false })
	if err != nil {
		return nil, err
	}
	return clustersOf(ctx, all)
}

// clustersOf reads the facts about clusters.
func clustersOf(ctx context.Context, all []*session.Cluster) (clusters []cluster, err error) {
	clusters = make([]cluster, len(all))
	for i, c := range all {
		clusters[i], err = readExplained(c.ID, c.Namespace, func(list client.ObjectList) error { return kube.ListPages(ctx, c, list) })
		if err != nil {
			return nil, c.Err(err)
		}
	}
	return clusters, nil
}

// readExplained lists the objects of one cluster and derives the facts for an explanation from them. An empty namespace means the one in which
// the installation is found.
func readExplained(id, liqoNamespace string, read func(client.ObjectList) error) (cluster, error) {
	c := cluster{}
	var (
		nodes          corev1.NodeList
		pods           corev1.PodList
		agents         appsv1.DaemonSetList
		networks       ipamv1alpha1.NetworkList
		ips            ipamv1alpha1.IPList
		configurations networkingv1beta1.ConfigurationList
		servers        networkingv1beta1.GatewayServerList
		clients        networkingv1beta1.GatewayClientList
		connections    networkingv1beta1.ConnectionList
		keys           networkingv1beta1.PublicKeyList
		maps           offloadingv1beta1.NamespaceMapList
	)
	for _, list := range []client.ObjectList{&nodes, &pods, &agents, &networks, &ips, &configurations, &servers, &clients, &connections, &keys, &maps} {
		if err := read(list); err != nil {
			return c, fmt.Errorf("listing %s: %w", kube.KindsOf(list), err)
		}
	}
	c.maps = maps.Items
	o := &c.objects
	o.LiqoNamespace = cmp.Or(liqoNamespace, installationOf(networks.Items))
	o.Pods = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.HostNetwork })
	o.Nodes, o.Networks, o.IPs, o.Configurations = nodes.Items, networks.Items, ips.Items, configurations.Items
	o.GatewayServers, o.GatewayClients, o.Connections, o.PublicKeys = servers.Items, clients.Items, connections.Items, keys.Items
	o.Options = agentOptions(agents.Items, o.LiqoNamespace)
	c.ID = id
	c.Facts, c.Problems = network.Gather(o)
	c.Active = activeGateways(o.Pods, o.Connections)
	return c, nil
}

// installationOf returns the namespace of the installation: that of the Networks with the cluster's own ranges.
func installationOf(networks []ipamv1alpha1.Network) string {
	for i := range networks {
		if networks[i].Labels[ipamv1alpha1.LabelNetworkType] != "" {
			return networks[i].Namespace
		}
	}
	return api.Namespace
}

// agentOptions reads the options of the network agents from the arguments of their DaemonSets.
func agentOptions(agents []appsv1.DaemonSet, namespace string) (options network.Options) {
	for _, agent := range agents {
		if agent.Namespace != namespace {
			continue
		}
		for _, container := range agent.Spec.Template.Spec.Containers {
			for _, arg := range slices.Concat(container.Command, container.Args) {
				name, value, given := strings.Cut(arg, "=")
				switch name {
				case "--full-masquerade":
					options.FullMasquerade = !given || value == "true"
				case "--overlay-port":
					if port, err := strconv.ParseUint(value, 10, 16); err == nil {
						options.OverlayPort = uint16(port)
					}
				}
			}
		}
	}
	return options
}

// activeGateways returns the addresses of the gateway pods that are labelled as active, keyed by the ID of the peer.
func activeGateways(pods []corev1.Pod, connections []networkingv1beta1.Connection) map[string]netip.Addr {
	active := map[string]netip.Addr{}
	for i := range pods {
		pod := &pods[i]
		address, err := netip.ParseAddr(pod.Status.PodIP)
		if err != nil || pod.Labels[networkingv1beta1.LabelActive] != api.True || pod.DeletionTimestamp != nil {
			continue
		}
		if peer := gatewaypod.PeerOfGateway(pod, connections); peer != "" {
			active[peer] = address
		}
	}
	return active
}
