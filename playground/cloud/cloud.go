// Package cloud is the cloud provider of a playground cluster. It assigns addresses to Services of type LoadBalancer and provisions
// volumes for PersistentVolumeClaims.
//
// It runs once per cluster, in the network namespace of the control plane node, without leader election. It has no state of its own:
// it reads everything from the Services, the PersistentVolumes, the addresses of one interface and the folders below one directory.
// So it may be killed and restarted at any time.
package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// Config configures Run. ClusterName, and either Kubeconfig or RestConfig are required.
type Config struct {
	// Kubeconfig is the path of a kubeconfig file with cluster administrator rights.
	Kubeconfig string
	// RestConfig is used instead of Kubeconfig if it is set.
	RestConfig *rest.Config
	// ClusterName is added to every log line.
	ClusterName string
	// AddressPool contains the addresses for Services. If it is empty, Run ignores load balancers. Nothing else may use these addresses, especially
	// no node. Run removes an address of the pool from Interface if no Service has it. The first and last address of an IPv4 prefix shorter than /31
	// are never assigned.
	AddressPool []netip.Prefix
	// Interface is the network interface that gets the addresses. Empty means "eth0".
	Interface string
	// VolumeRoot is the directory that contains one folder per volume. Empty means "/var/lib/playground/volumes".
	//
	// Every node of the cluster must see the same directory there, as a bind mount of one host directory. Creating and removing a volume are
	// then local file operations, even if the pod runs on another node. The node affinity of the volume still ties the pod to its node,
	// as with a local disk.
	VolumeRoot string
	// Logger receives one line per change. Nil means slog.Default().
	Logger *slog.Logger
}

// Run serves load balancers and volumes until ctx ends, and then returns nil. It creates the StorageClasses "standard", the default, and "shared" if
// they are missing.
func Run(ctx context.Context, config Config) error {
	config.Interface = cmp.Or(config.Interface, "eth0")
	config.VolumeRoot = cmp.Or(config.VolumeRoot, "/var/lib/playground/volumes")
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	config.Logger = config.Logger.With("cluster", config.ClusterName)
	if config.ClusterName == "" {
		return errors.New("starting the cloud: no cluster name")
	}
	if slices.ContainsFunc(config.AddressPool, func(p netip.Prefix) bool { return !p.IsValid() }) {
		return fmt.Errorf("starting the cloud: address pool %v is not a list of prefixes", config.AddressPool)
	}
	if config.RestConfig == nil {
		loaded, err := clientcmd.BuildConfigFromFlags("", config.Kubeconfig)
		if err != nil {
			return fmt.Errorf("loading kubeconfig %s: %w", config.Kubeconfig, err)
		}
		config.RestConfig = loaded
	}
	limits := rest.CopyConfig(config.RestConfig)
	limits.QPS, limits.Burst = 50, 100
	limits.UserAgent = "playground-cloud"
	client, err := kubernetes.NewForConfig(limits)
	if err != nil {
		return fmt.Errorf("creating a client for cluster %s: %w", config.ClusterName, err)
	}

	// The provisioner library logs through klog.
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.FromSlogHandler(config.Logger.Handler())))
	defer cancel()
	parts := []func(context.Context, kubernetes.Interface, Config) error{serveVolumes}
	if len(config.AddressPool) > 0 {
		parts = append(parts, serveAddresses)
	}
	failed := make(chan error, len(parts))
	for _, serve := range parts {
		go func() { failed <- serve(ctx, client, config) }()
	}
	var all error
	for range parts { // when one part ends, end the others
		all = errors.Join(all, <-failed)
		cancel()
	}
	return all
}
