// Package cloud stands in for the cloud provider of a playground cluster: it gives addresses to Services of type
// LoadBalancer and disks to PersistentVolumeClaims.
//
// It runs once per cluster, in the network namespace of the control-plane node, and keeps nothing of its own: everything it
// knows is in the Services, the PersistentVolumes, the addresses of one interface and the folders below one directory. So it
// may be killed and started at any moment, and no leader is elected.
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

// Config says what Run serves. ClusterName, AddressPool and one of Kubeconfig and RestConfig are needed.
type Config struct {
	// Kubeconfig is the path of a kubeconfig file with administrator's rights.
	Kubeconfig string
	// RestConfig is used instead of Kubeconfig if it is set.
	RestConfig *rest.Config
	// ClusterName appears in the log.
	ClusterName string
	// AddressPool holds the addresses for Services. No one else may use them, least of all a node: an address of the pool
	// found on Interface is taken for one of a Service that is gone. The first and last address of an IPv4 prefix shorter
	// than /31 are not given away.
	AddressPool []netip.Prefix
	// Interface is where the addresses go; "eth0" if empty.
	Interface string
	// VolumeRoot is the directory that holds one folder per volume; "/var/lib/playground/volumes" if empty.
	//
	// Every node of the cluster must see the same directory there, by a bind mount of one directory of the host. Then making
	// and removing a volume are local file operations although the pod runs on another node, while the node affinity of
	// the volume still ties the pod to its node as a local disk would.
	VolumeRoot string
	// Logger takes one line per change; slog.Default() if nil.
	Logger *slog.Logger
}

// Run serves until ctx ends, and then returns nil. It makes the default StorageClass "standard" if there is none of that name.
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
	if len(config.AddressPool) == 0 || slices.ContainsFunc(config.AddressPool, func(p netip.Prefix) bool { return !p.IsValid() }) {
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
		return fmt.Errorf("making a client for cluster %s: %w", config.ClusterName, err)
	}

	// The provisioner's library logs through klog.
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.FromSlogHandler(config.Logger.Handler())))
	defer cancel()
	failed := make(chan error, 2)
	go func() { failed <- serveVolumes(ctx, client, config) }()
	go func() { failed <- serveAddresses(ctx, client, config) }()
	first := <-failed
	cancel()
	return errors.Join(first, <-failed)
}
