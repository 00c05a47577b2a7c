// Package fakekubelet simulates the kubelets of any number of fake nodes, for scale tests. Pods scheduled to a fake node become Running and
// Ready at once, with the status that a kubelet would report, but no container runs.
//
// A pod causes one write when it starts and one when it is deleted. A node causes one lease renewal every 20 s.
// All state is in the API server, so the process may be restarted at any time, even with a different number of nodes.
package fakekubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// NodeLabel is a label of every fake node. Its value is the name prefix.
	NodeLabel = "playground.local/fakekubelet"
	// CompleteAfter is a pod annotation that makes the pod succeed after a duration since its start, such as "2s". It has no effect on a pod
	// with restart policy Always, because a kubelet would restart its containers.
	CompleteAfter = "playground.local/complete-after"
)

// Config configures Run. Nodes, and either Kubeconfig or RestConfig, are required.
type Config struct {
	// Kubeconfig is the path of a kubeconfig file with cluster administrator rights.
	Kubeconfig string
	// RestConfig is used instead of Kubeconfig if it is set.
	RestConfig *rest.Config
	// Nodes is the number of fake nodes. Run deletes surplus nodes with the same NamePrefix, left by an earlier run with more nodes.
	Nodes int
	// NamePrefix is the prefix of the node names: NamePrefix-0, NamePrefix-1 and so on. Empty means "fake".
	NamePrefix string
	// PodCIDR contains the pod addresses. If it is not set, it is 10.192.0.0/12. These addresses are not reachable.
	PodCIDR netip.Prefix
	// CPU, Memory and Pods are the allocatable resources of each node. Their defaults are 32, 256Gi and 110.
	CPU, Memory resource.Quantity
	Pods        int
	// Labels and Taints are set on nodes when they are created. Without a taint, the scheduler may place any pod there.
	Labels map[string]string
	Taints []corev1.Taint
	// QPS limits the requests per second; zero means no limit.
	QPS float32
	// Logger receives the log. Nil means slog.Default().
	Logger *slog.Logger
}

// Run creates the nodes and simulates their kubelets until ctx ends, and then returns nil. The nodes remain and become NotReady, as after a
// power failure. Run waits for an API server that does not respond. It fails only if the configuration is invalid or the informers cannot
// be set up.
func Run(ctx context.Context, config Config) error {
	config, client, err := prepare(config)
	if err != nil {
		return err
	}
	var version string
	err = wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(context.Context) (bool, error) {
		info, err := client.Discovery().ServerVersion()
		if err == nil {
			version = info.GitVersion
		}
		return err == nil, nil
	})
	if err != nil {
		return nil // ctx ended before the server answered
	}

	nodes := newNodes(client, config, version)
	pods := newPods(client, config, nodes)
	var group sync.WaitGroup
	failed := make(chan error, 2)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, part := range []func(context.Context) error{nodes.run, pods.run} {
		group.Go(func() {
			if err := part(ctx); err != nil {
				failed <- err
				cancel()
			}
		})
	}
	group.Wait()
	close(failed)
	return <-failed
}

// prepare validates the configuration, sets defaults and creates the client.
func prepare(config Config) (Config, kubernetes.Interface, error) {
	config.NamePrefix = cmp.Or(config.NamePrefix, "fake")
	config.Pods = cmp.Or(config.Pods, 110)
	if config.CPU.IsZero() {
		config.CPU = resource.MustParse("32")
	}
	if config.Memory.IsZero() {
		config.Memory = resource.MustParse("256Gi")
	}
	if !config.PodCIDR.IsValid() {
		config.PodCIDR = netip.MustParsePrefix("10.192.0.0/12")
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.Nodes < 0 || config.Nodes > maxNodes {
		return config, nil, fmt.Errorf("starting fake kubelets: %d nodes are not between 0 and %d", config.Nodes, maxNodes)
	}
	if !config.PodCIDR.Addr().Is4() || config.PodCIDR.Bits() > 30 {
		return config, nil, fmt.Errorf("starting fake kubelets: pod addresses %s are not an IPv4 prefix with room", config.PodCIDR)
	}
	if config.RestConfig == nil {
		if config.Kubeconfig == "" {
			return config, nil, errors.New("starting fake kubelets: no kubeconfig")
		}
		loaded, err := clientcmd.BuildConfigFromFlags("", config.Kubeconfig)
		if err != nil {
			return config, nil, fmt.Errorf("loading kubeconfig %s: %w", config.Kubeconfig, err)
		}
		config.RestConfig = loaded
	}
	settings := rest.CopyConfig(config.RestConfig)
	settings.UserAgent = "playground-fakekubelet"
	// The API server needs about half as much CPU time for Protobuf as for JSON.
	settings.ContentType = "application/vnd.kubernetes.protobuf"
	settings.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	settings.QPS, settings.Burst = -1, 0
	if config.QPS > 0 {
		settings.QPS, settings.Burst = config.QPS, max(1, int(config.QPS))
	}
	client, err := kubernetes.NewForConfig(settings)
	if err != nil {
		return config, nil, fmt.Errorf("creating a client for fake kubelets: %w", err)
	}
	return config, client, nil
}
