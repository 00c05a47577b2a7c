// Package fakekubelet plays the kubelets of any number of nodes that do not exist, for tests of scale: pods scheduled there
// become Running and Ready at once, with the status a kubelet would report, and nothing runs.
//
// A pod costs one write when it starts and one when it is deleted; a node costs one lease renewal every 20 s.
// All state is in the API server, so the process may be restarted at any time, also with another number of nodes.
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
	// NodeLabel is on every fake node; its value is the name prefix.
	NodeLabel = "playground.local/fakekubelet"
	// CompleteAfter is the annotation that makes a pod succeed: a duration since its start, such as "2s". It has no effect on
	// a pod with restart policy Always, which a kubelet would start again.
	CompleteAfter = "playground.local/complete-after"
)

// Config says which nodes Run plays. Nodes and one of Kubeconfig and RestConfig are needed.
type Config struct {
	// Kubeconfig is the path of a kubeconfig file with administrator's rights.
	Kubeconfig string
	// RestConfig is used instead of Kubeconfig if it is set.
	RestConfig *rest.Config
	// Nodes is their number. Nodes with the same NamePrefix from an earlier, larger run are deleted.
	Nodes int
	// NamePrefix gives the names: NamePrefix-0, NamePrefix-1 and so on; "fake" if empty.
	NamePrefix string
	// PodCIDR is where pod addresses come from; 10.192.0.0/12 if it is not set. No route leads there.
	PodCIDR netip.Prefix
	// CPU, Memory and Pods are what each node can allocate; 32, 256Gi and 110 if they are zero.
	CPU, Memory resource.Quantity
	Pods        int
	// Labels and Taints are put on nodes when they are made. Without a taint any pod may come.
	Labels map[string]string
	Taints []corev1.Taint
	// QPS limits requests per second; zero means no limit.
	QPS float32
	// Logger is slog.Default() if nil.
	Logger *slog.Logger
}

// Run makes the nodes and plays their kubelets until ctx ends, and then returns nil. The nodes stay, and become NotReady
// as if their power was cut. Errors are those of the configuration; an API server that does not answer is waited for.
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

// prepare checks the configuration, fills in defaults and makes the client.
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
	// Protobuf costs the API server about half of what JSON does.
	settings.ContentType = "application/vnd.kubernetes.protobuf"
	settings.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	settings.QPS, settings.Burst = -1, 0
	if config.QPS > 0 {
		settings.QPS, settings.Burst = config.QPS, max(1, int(config.QPS))
	}
	client, err := kubernetes.NewForConfig(settings)
	if err != nil {
		return config, nil, fmt.Errorf("making a client for fake kubelets: %w", err)
	}
	return config, client, nil
}
