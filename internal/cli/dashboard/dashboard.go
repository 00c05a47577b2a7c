// Package dashboard has the command that serves a page of the state of several clusters.
package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/explain"
	"liqo.io/liqo/internal/cli/inspect"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/workload"
	"liqo.io/liqo/internal/dashboard"
	dashboardpage "liqo.io/liqo/internal/dashboard/page"
	dashboardserver "liqo.io/liqo/internal/dashboard/server"
	"liqo.io/liqo/internal/dashboard/watch"
	"liqo.io/liqo/internal/doctor"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/internal/version"
)

const (
	// diagnosisTimeout is the timeout of one diagnosis of all clusters.
	diagnosisTimeout = time.Minute
)

// Command returns the command.
func Command(a *session.Session) *cobra.Command {
	var remotes []string
	var port uint16
	command := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve a live page of the clusters, their peerings and pods",
		Long: "Serve a page for a browser on this machine. It shows the topology with the state, round-trip time and traffic of each tunnel, the\n" +
			"granted, requested, used and free resources of virtual nodes, offloaded namespaces and where their pods and volumes are, events, the findings of\n" +
			"doctor, and the path between two pods as network explain prints it. The page is updated until the command is interrupted. It changes\n" +
			"nothing in the clusters.\n\n" +
			"The page shows the clusters of the given kubeconfigs, and what they report about their peers. It is served on 127.0.0.1 only. The\n" +
			"printed address has a token that opens the page in one browser, once. Traffic needs an installation with --enable-metrics.",
		Example: cmdline.Example(`
			%[1]s dashboard
			# With the kubeconfigs of peers it also shows what those have free, and paths to their pods
			%[1]s dashboard --remote-kubeconfig milan.yaml --remote-kubeconfig naples.yaml
			# At a port that is forwarded from another machine: ssh -L 8088:127.0.0.1:8088
			%[1]s dashboard --port 8088`),
		Args: cobra.NoArgs,
	}
	flags := command.Flags()
	flags.StringArrayVar(&remotes, "remote-kubeconfig", nil, "Path to the kubeconfig of another cluster; repeat the flag for each cluster")
	flags.Uint16Var(&port, "port", 0, "Port of the page on this machine (0: any free one)")
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		return run(cmd.Context(), a, remotes, port)
	}
	return command
}

// run serves the page until the context ends.
func run(ctx context.Context, a *session.Session, remotes []string, port uint16) error {
	all, err := session.LocalAndRemotes(ctx, a, remotes, func(err error) bool {
		if inspect.Unreachable(err) {
			a.Console().Warn("%v: the page shows what the other clusters report about it", err)
		}
		return inspect.Unreachable(err)
	})
	if err != nil {
		return err
	}
	feed := dashboardserver.NewFeed()
	options := watch.Options{Publish: feed.Publish}
	probes := make([]func(context.Context) error, len(all))
	for i, c := range all {
		watched, err := watchedCluster(c, i > 0)
		if err != nil {
			return c.Err(err)
		}
		options.Clusters = append(options.Clusters, *watched)
		probes[i] = watched.Probe
	}
	options.Diagnose = func(ctx context.Context) []doctor.Finding { return diagnoseAll(ctx, a, all, probes) }
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("listening for browsers: %w: --port chooses another port", err)
	}
	defer listener.Close() //nolint:errcheck // the server has closed it already, or the command fails
	pages, err := dashboardserver.New(dashboardserver.Options{
		Address: listener.Addr().String(), Page: dashboardpage.Files(), Feed: feed,
		Explain: func(ctx context.Context, from, to string) (any, error) { return explain.Live(ctx, all, from, to) },
	})
	if err != nil {
		return err
	}
	names := session.NamesOf(all, func(c *session.Cluster) string { return c.ID })
	a.Console().Info("The dashboard of %s runs until it is interrupted (Ctrl-C). This address opens it in one browser, once:", strings.Join(names, ", "))
	if _, err := fmt.Fprintln(a.Console().Out(), pages.URL()); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return pages.Run(ctx, listener) })
	group.Go(func() error { return watch.Run(ctx, options) })
	return group.Wait()
}

// watchedCluster returns the cluster in the form that the watcher of the dashboard uses. foreign means that it is not the local cluster, so that
// another administrator may control its objects, which must not fill the memory of this machine.
func watchedCluster(c *session.Cluster, foreign bool) (*watch.Cluster, error) {
	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", c.Config.Host, err)
	}
	var limits *remote.Limits
	if foreign {
		limits = &remote.Limits{Objects: 100_000, Bytes: 256 << 20}
	}
	informers, err := watch.NewInformers(c.Config, c.Scheme(), c.RESTMapper(), limits)
	if err != nil {
		return nil, err
	}
	return &watch.Cluster{
		ID: c.ID, Version: c.Version, Server: c.Config.Host, Namespace: c.Namespace, Informers: informers,
		Probe: func(ctx context.Context) error {
			return clients.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
		},
		Metrics: func(ctx context.Context, namespace, pod string, port int32) ([]byte, error) {
			return workload.ReadAll(ctx, clients.CoreV1().Pods(namespace).ProxyGet("http", pod, strconv.Itoa(int(port)), "/metrics", nil), maxMetrics)
		},
		Usage: func(ctx context.Context) (map[string]corev1.ResourceList, error) {
			data, err := workload.ReadAll(ctx, clients.Discovery().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/nodes").
				Param("labelSelector", api.LabelType+"="+api.TypeVirtualNode), maxMetrics)
			if err != nil {
				return nil, err
			}
			return usageOf(data)
		},
	}, nil
}

// usageOf returns the usage of each node from a NodeMetricsList of metrics.k8s.io/v1beta1.
func usageOf(data []byte) (map[string]corev1.ResourceList, error) {
	var list struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Usage corev1.ResourceList `json:"usage"`
		} `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("reading the metrics of nodes: %w", err)
	}
	out := map[string]corev1.ResourceList{}
	for _, node := range list.Items {
		out[node.Metadata.Name] = node.Usage
	}
	return out, nil
}

// maxMetrics limits the metrics that liqoctl reads of a gateway, or of the nodes of a cluster, in bytes. A gateway has a few hundred lines of metrics for each peer.
const maxMetrics = 8 << 20

// diagnoseAll returns the findings about each cluster that responds, and those of a comparison between the first cluster and each other one. A
// cluster that does not respond adds one finding.
func diagnoseAll(ctx context.Context, a *session.Session, all []*session.Cluster, probes []func(context.Context) error) []doctor.Finding {
	ctx, cancel := context.WithTimeout(ctx, diagnosisTimeout)
	defer cancel()
	facts, silent := make([]*doctor.Cluster, len(all)), make([]error, len(all))
	var group sync.WaitGroup
	for i, c := range all {
		group.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, inspect.AccessTimeout)
			defer cancel()
			if silent[i] = probes[i](bounded); silent[i] == nil {
				facts[i] = inspect.DoctorFacts(ctx, c, inspect.AskPeers)
				inspect.LookUpHosts(ctx, a, facts[i].Names)
			}
		})
	}
	group.Wait()
	var runs [][]doctor.Finding
	var readable []*doctor.Cluster
	for i, c := range all {
		if facts[i] != nil {
			readable = append(readable, facts[i])
			continue
		}
		runs = append(runs, []doctor.Finding{{
			Cluster: c.ID, Check: "facts", Level: doctor.Fail,
			Evidence: fmt.Sprintf("its API server %s does not respond to liqoctl: %v", c.Config.Host, silent[i]),
			Cure:     "see whether the cluster runs, and whether this machine reaches it",
		}})
	}
	for i := range readable {
		of := &doctor.Facts{Client: version.Version, Now: time.Now(), Local: readable[0]}
		if i > 0 {
			of.Remote = readable[i]
		}
		if i > 0 || len(readable) == 1 {
			runs = append(runs, doctor.Examine(of))
		}
	}
	return dashboard.MergeFindings(runs...)
}
