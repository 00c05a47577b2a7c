package app

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	offv1 "liqo.io/liqo/api/offloading/v1beta1"
)

// virtualKubeletOptions are the flags of a virtual kubelet.
type virtualKubeletOptions struct {
	virtualNode, tenantNamespace, clusterID, foreignClusterID string
	nodeName, remoteKubeconfig, nodeIP, listen                string
	metricsAddress                                            string
	createNode, disableNetworkCheck, leaderElection           bool
	reflectIPs, translateIPs                                  bool
	podWorkers, serviceWorkers, endpointSliceWorkers          int
	serviceType                                               offv1.ReflectionType
	labelsNotReflected, annotationsNotReflected               []string
	nodeExtraLabels, nodeExtraAnnotations                     map[string]string
}

// parseVirtualKubelet reads and checks the flags.
func parseVirtualKubelet(args []string) (*virtualKubeletOptions, error) {
	o := &virtualKubeletOptions{}
	fs := flag.NewFlagSet("virtual-kubelet", flag.ContinueOnError)
	fs.StringVar(&o.virtualNode, "virtual-node", "", "name of the VirtualNode to serve")
	fs.StringVar(&o.tenantNamespace, "tenant-namespace", "", "namespace of the VirtualNode and of the NamespaceMap")
	fs.StringVar(&o.clusterID, "cluster-id", "", "ID of this cluster")
	fs.StringVar(&o.foreignClusterID, "foreign-cluster-id", "", "ID of the provider")
	fs.StringVar(&o.nodeName, "node-name", "", "name of the Node; that of the VirtualNode if empty")
	fs.StringVar(&o.remoteKubeconfig, "remote-kubeconfig", "", "file with the identity to use in the provider")
	fs.StringVar(&o.nodeIP, "node-ip", "", "address at which the kubelet API is reached")
	fs.StringVar(&o.listen, "listen", ":10250", "address on which the kubelet API listens")
	fs.StringVar(&o.metricsAddress, "metrics-address", "", "address on which metrics are served; none if empty")
	fs.BoolVar(&o.createNode, "create-node", true, "make a Node")
	fs.BoolVar(&o.disableNetworkCheck, "disable-network-check", false, "keep the Node ready while the network to the provider does not work")
	fs.BoolVar(&o.leaderElection, "leader-election", false, "wait to be elected: for more than one replica, of which one works")
	fs.BoolVar(&o.reflectIPs, "reflect-ips", true, "show the addresses of offloaded pods here, and those of endpoints there")
	fs.BoolVar(&o.translateIPs, "translate-ips", true, "translate addresses as the Configuration of the provider says; without one they stay as they are")
	fs.IntVar(&o.podWorkers, "pod-reflection-workers", 10, "pods handled at a time; 0 offloads none")
	fs.IntVar(&o.serviceWorkers, "service-reflection-workers", 3, "Services handled at a time; 0 reflects none")
	fs.IntVar(&o.endpointSliceWorkers, "endpointslice-reflection-workers", 10, "EndpointSlices handled at a time; 0 reflects none")
	o.serviceType = offv1.DenyList
	for _, later := range []string{"ingress", "configmap", "secret", "serviceaccount", "persistentvolumeclaim", "event"} {
		fs.Uint(later+"-reflection-workers", 0, "accepted and without effect: objects of this kind are not reflected by this release")
	}
	fs.Func("service-reflection-type", "which Services are reflected: DenyList or AllowList", reflectionType(&o.serviceType))
	fs.Func("labels-not-reflected", "keys of labels that stay here, separated by commas; a trailing * matches the rest", commaList(&o.labelsNotReflected))
	fs.Func("annotations-not-reflected", "the same for annotations", commaList(&o.annotationsNotReflected))
	fs.Func("node-extra-labels", "labels for the Node, key=value separated by commas", pairs(&o.nodeExtraLabels))
	fs.Func("node-extra-annotations", "annotations for the Node, key=value separated by commas", pairs(&o.nodeExtraAnnotations))
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if o.nodeName == "" {
		o.nodeName = o.virtualNode
	}
	var missing []error
	for _, required := range []struct{ flag, value string }{
		{"virtual-node", o.virtualNode}, {"tenant-namespace", o.tenantNamespace}, {"cluster-id", o.clusterID},
		{"foreign-cluster-id", o.foreignClusterID}, {"remote-kubeconfig", o.remoteKubeconfig},
	} {
		if required.value == "" {
			missing = append(missing, fmt.Errorf("flag --%s is required", required.flag))
		}
	}
	if o.createNode && o.nodeIP == "" {
		missing = append(missing, errors.New("flag --node-ip is required to make a Node"))
	}
	for _, workers := range []struct {
		kind string
		n    int
	}{{"pod", o.podWorkers}, {"service", o.serviceWorkers}, {"endpointslice", o.endpointSliceWorkers}} {
		if workers.n < 0 {
			missing = append(missing, fmt.Errorf("flag --%s-reflection-workers is %d, want 0 or more", workers.kind, workers.n))
		}
	}
	return o, errors.Join(missing...)
}

// commaList parses a list separated by commas.
func commaList(into *[]string) func(string) error {
	return func(s string) error {
		for item := range strings.SplitSeq(s, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*into = append(*into, item)
			}
		}
		return nil
	}
}
