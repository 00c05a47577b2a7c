package app

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	offv1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// virtualKubeletOptions are the flags of a virtual kubelet.
type virtualKubeletOptions struct {
	virtualNode, tenantNamespace, clusterID, foreignClusterID string
	nodeName, remoteKubeconfig, nodeIP, listen                string
	healthAddress, metricsAddress                             string
	createNode, disableNetworkCheck, leaderElection           bool
	reflectIPs, translateIPs                                  bool
	apiServerSupport                                          bool
	homeAPIServerHost, homeAPIServerPort                      string
	runtimeClass, virtualStorageClass, clusterDomain          string
	reflection                                                map[string]*reflection
	labelsNotReflected, annotationsNotReflected               []string
	labelsReflected, annotationsReflected                     []string
	nodeExtraLabels, nodeExtraAnnotations                     map[string]string
}

// reflection defines how the objects of one kind are reflected.
type reflection struct {
	// workers is how many objects are processed in parallel. With 0, the kind is not reflected.
	workers int
	// only is the reflection type, for kinds that have a choice.
	only offv1.ReflectionType
}

// addReflectionFlags defines the flags of all kinds, with their defaults.
func addReflectionFlags(fs *flag.FlagSet) map[string]*reflection {
	all := map[string]*reflection{}
	for _, kind := range []struct {
		name, what string
		workers    int
		choice     bool
	}{
		{"pod", "pods", 10, false},
		{"service", "Services", 3, true},
		{"endpointslice", "EndpointSlices, which follow their Services,", 10, false},
		{"ingress", "Ingresses", 3, true},
		{"configmap", "ConfigMaps", 3, true},
		{"secret", "Secrets", 3, true},
		{"serviceaccount", "tokens of service accounts", 3, false},
		{"persistentvolumeclaim", "PersistentVolumeClaims", 3, false},
		{"event", "Events, which come back,", 3, true},
		{"networkpolicy", "NetworkPolicies", 0, true},
		{"poddisruptionbudget", "PodDisruptionBudgets", 3, true},
	} {
		r := &reflection{only: offv1.DenyList}
		all[kind.name] = r
		fs.IntVar(&r.workers, kind.name+"-reflection-workers", kind.workers, kind.what+" handled at a time; 0 reflects none")
		if kind.choice {
			fs.Func(kind.name+"-reflection-type", "which "+kind.what+" are reflected: DenyList (all but those annotated "+kinds.AnnotationSkip+") or AllowList (those annotated "+
				kinds.AnnotationAllow+")", reflectionType(&r.only))
		}
	}
	return all
}

// parseVirtualKubelet parses and validates the flags.
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
	fs.StringVar(&o.healthAddress, "health-address", fmt.Sprintf(":%d", offload.KubeletHealthPort), "address of /healthz and /readyz; off when empty")
	fs.StringVar(&o.metricsAddress, "metrics-address", "", "address on which metrics are served; none if empty")
	fs.BoolVar(&o.createNode, "create-node", true, "make a Node")
	fs.BoolVar(&o.disableNetworkCheck, "disable-network-check", false, "keep the Node ready while the network to the provider does not work")
	fs.BoolVar(&o.leaderElection, "leader-election", false, "wait to be elected: for more than one replica, of which one works")
	fs.BoolVar(&o.reflectIPs, "reflect-ips", true, "show the addresses of offloaded pods here, and those of endpoints there")
	fs.BoolVar(&o.translateIPs, "translate-ips", true, "translate addresses as the Configuration of the provider says; without one they stay as they are")
	fs.StringVar(&o.homeAPIServerHost, "home-api-server-host", "", "host by which offloaded pods reach the API server of this cluster; through the network between the clusters if empty")
	fs.StringVar(&o.homeAPIServerPort, "home-api-server-port", "", "port of that; that of Service default/kubernetes if empty")
	fs.BoolVar(&o.apiServerSupport, "enable-apiserver-support", true, "let offloaded pods speak to the API server of this cluster, with tokens of their service accounts")
	fs.StringVar(&o.runtimeClass, "runtime-class", kinds.DefaultRuntimeClass, "RuntimeClass that asks for a virtual node, and means nothing in the provider")
	fs.StringVar(&o.virtualStorageClass, "virtual-storage-class", kinds.StorageClass, "StorageClass of Liqo in this cluster, which means nothing in the provider")
	fs.StringVar(&o.clusterDomain, "cluster-domain", "", "domain of this cluster's DNS names; as this pod searches it if empty")
	o.reflection = addReflectionFlags(fs)
	fs.Func("labels-not-reflected", "keys of labels that stay here, separated by commas; a trailing * matches the rest", commaList(&o.labelsNotReflected))
	fs.Func("annotations-not-reflected", "the same for annotations", commaList(&o.annotationsNotReflected))
	fs.Func("labels-reflected", "keys of labels of Services, Ingresses, NetworkPolicies, ConfigMaps and Secrets that are copied beside those that mean the same in every cluster, "+
		"separated by commas; a trailing * matches the rest; the provider must accept them", commaList(&o.labelsReflected))
	fs.Func("annotations-reflected", "the same for annotations", commaList(&o.annotationsReflected))
	fs.Func("node-extra-labels", "labels for the Node, key=value separated by commas", pairs(&o.nodeExtraLabels))
	fs.Func("node-extra-annotations", "annotations for the Node, key=value separated by commas", pairs(&o.nodeExtraAnnotations))
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if o.nodeName == "" {
		o.nodeName = o.virtualNode
	}
	if o.clusterDomain == "" {
		o.clusterDomain = clusterDomain()
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
	for _, kind := range slices.Sorted(maps.Keys(o.reflection)) {
		if n := o.reflection[kind].workers; n < 0 {
			missing = append(missing, fmt.Errorf("flag --%s-reflection-workers is %d, want 0 or more", kind, n))
		}
	}
	if !o.reflectIPs {
		o.reflection["endpointslice"].workers = 0
	}
	return o, errors.Join(missing...)
}

// workers returns how many objects of a kind are processed in parallel.
func (o *virtualKubeletOptions) workers(kind string) int { return o.reflection[kind].workers }

// commaList returns a parser for a list separated by commas.
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
