package app

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/internal/offload/kubelet"
	"liqo.io/liqo/internal/offload/node"
	"liqo.io/liqo/internal/offload/provider"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/internal/volumes"
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
	reflection                                                map[string]*reflectedKind
	labelsNotReflected, annotationsNotReflected               []string
	labelsReflected, annotationsReflected                     []string
	nodeExtraLabels, nodeExtraAnnotations                     map[string]string
	peerCheck                                                 remote.HealthOptions

	// usageAge is the maximum age of the usage of pods that the kubelet API serves. No flag sets it.
	usageAge time.Duration
}

// reflectedKind defines how the objects of one kind are reflected.
type reflectedKind struct {
	// workers is how many objects are processed in parallel. With 0, the kind is not reflected.
	workers int
	// reflectionType is the reflection type, for kinds that have a choice.
	reflectionType offloadingv1beta1.ReflectionType
}

// addReflectionFlags defines the flags of all kinds, with their defaults.
func addReflectionFlags(fs *flag.FlagSet) map[string]*reflectedKind {
	all := map[string]*reflectedKind{}
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
		{volumes.ClaimKind, "PersistentVolumeClaims", 3, false},
		{"event", "Events (copied from the provider)", 3, true},
		{"networkpolicy", "NetworkPolicies", 0, true},
		{"poddisruptionbudget", "PodDisruptionBudgets", 3, true},
	} {
		r := &reflectedKind{reflectionType: offloadingv1beta1.DenyList}
		all[kind.name] = r
		fs.IntVar(&r.workers, kind.name+"-reflection-workers", kind.workers, kind.what+" reconciled at the same time; 0 disables their reflection")
		if kind.choice {
			fs.Func(kind.name+"-reflection-type", "which "+kind.what+" are reflected: DenyList (all but those annotated "+kinds.AnnotationSkip+") or AllowList (those annotated "+
				kinds.AnnotationAllow+")", reflectionType(&r.reflectionType))
		}
	}
	return all
}

// parseVirtualKubelet parses and validates the flags.
func parseVirtualKubelet(args []string) (*virtualKubeletOptions, error) {
	o := &virtualKubeletOptions{usageAge: node.StatsAge}
	fs := flag.NewFlagSet("virtual-kubelet", flag.ContinueOnError)
	fs.StringVar(&o.virtualNode, "virtual-node", "", "name of the VirtualNode to serve")
	fs.StringVar(&o.tenantNamespace, "tenant-namespace", "", "namespace of the VirtualNode and of the NamespaceMap")
	fs.StringVar(&o.clusterID, "cluster-id", "", "ID of this cluster")
	fs.StringVar(&o.foreignClusterID, "foreign-cluster-id", "", "ID of the provider")
	fs.StringVar(&o.nodeName, "node-name", "", "name of the Node; the name of the VirtualNode if empty")
	fs.StringVar(&o.remoteKubeconfig, "remote-kubeconfig", "", "kubeconfig file for the API server of the provider")
	fs.StringVar(&o.nodeIP, "node-ip", "", "address of the kubelet API in the status of the Node")
	fs.StringVar(&o.listen, "listen", ":10250", "address on which the kubelet API listens")
	fs.StringVar(&o.healthAddress, "health-address", fmt.Sprintf(":%d", kubelet.HealthPort), "address of /healthz and /readyz; off when empty")
	fs.StringVar(&o.metricsAddress, "metrics-address", "", "address of /metrics; off when empty")
	fs.BoolVar(&o.createNode, "create-node", true, "create the Node")
	fs.BoolVar(&o.disableNetworkCheck, "disable-network-check", false, "keep the Node ready while the network to the provider does not work")
	fs.BoolVar(&o.leaderElection, "leader-election", false, "elect a leader among several replicas; only the leader is active")
	fs.BoolVar(&o.reflectIPs, "reflect-ips", true, "write the addresses of offloaded pods to their status in this cluster, and the addresses of endpoints to the provider")
	fs.BoolVar(&o.translateIPs, "translate-ips", true, "translate addresses by the Configuration of the provider; without a Configuration they are not translated")
	fs.StringVar(&o.homeAPIServerHost, "home-api-server-host", "", "host name or address of this cluster's API server for offloaded pods; empty: the network between the clusters")
	fs.StringVar(&o.homeAPIServerPort, "home-api-server-port", "", "port of this cluster's API server for offloaded pods; the port of Service default/kubernetes if empty")
	fs.BoolVar(&o.apiServerSupport, "enable-apiserver-support", true, "give offloaded pods tokens of their ServiceAccounts for the API server of this cluster")
	fs.StringVar(&o.runtimeClass, "runtime-class", podrules.DefaultRuntimeClass, "RuntimeClass that selects virtual nodes; it is not copied to the provider")
	fs.StringVar(&o.virtualStorageClass, "virtual-storage-class", podrules.StorageClass, "StorageClass of Liqo in this cluster; it is not copied to the provider")
	fs.StringVar(&o.clusterDomain, "cluster-domain", "", "DNS domain of this cluster; taken from the search list of this pod if empty")
	o.peerCheck.AddFlags(fs)
	o.reflection = addReflectionFlags(fs)
	fs.Func("labels-not-reflected", "keys of labels that are not copied to the provider, separated by commas; a trailing * matches the rest", commaList(&o.labelsNotReflected))
	fs.Func("annotations-not-reflected", "keys of annotations that are not copied to the provider, separated by commas; a trailing * matches the rest", commaList(&o.annotationsNotReflected))
	fs.Func("labels-reflected", "keys of labels of Services, Ingresses, NetworkPolicies, ConfigMaps and Secrets that are copied in addition to those with the same meaning in every cluster, "+
		"separated by commas; a trailing * matches the rest; the provider must accept them", commaList(&o.labelsReflected))
	fs.Func("annotations-reflected", "keys of annotations that are copied in addition, as --labels-reflected does for labels", commaList(&o.annotationsReflected))
	fs.Func("node-extra-labels", "labels for the Node, key=value separated by commas", pairs(&o.nodeExtraLabels))
	fs.Func("node-extra-annotations", "annotations for the Node, key=value separated by commas", pairs(&o.nodeExtraAnnotations))
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	o.nodeName = cmp.Or(o.nodeName, o.virtualNode)
	if o.clusterDomain == "" {
		o.clusterDomain = provider.ClusterDomain()
	}
	problems := o.validate()
	if !o.reflectIPs { // EndpointSlices without addresses are useless
		o.reflection["endpointslice"].workers = 0
	}
	return o, problems
}

// validate returns an error that names all missing and invalid flags.
func (o *virtualKubeletOptions) validate() error {
	missing := []error{o.peerCheck.Validate()}
	for _, required := range []struct{ flag, value string }{
		{"virtual-node", o.virtualNode}, {"tenant-namespace", o.tenantNamespace}, {"cluster-id", o.clusterID},
		{"foreign-cluster-id", o.foreignClusterID}, {"remote-kubeconfig", o.remoteKubeconfig},
	} {
		if required.value == "" {
			missing = append(missing, fmt.Errorf("flag --%s is required", required.flag))
		}
	}
	if o.createNode && o.nodeIP == "" {
		missing = append(missing, errors.New("flag --node-ip is required to create a Node"))
	}
	for _, kind := range slices.Sorted(maps.Keys(o.reflection)) {
		if n := o.reflection[kind].workers; n < 0 {
			missing = append(missing, fmt.Errorf("flag --%s-reflection-workers is %d, want 0 or more", kind, n))
		}
	}
	return errors.Join(missing...)
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

// reflectionType returns a parser for the reflection type of a kind.
func reflectionType(into *offloadingv1beta1.ReflectionType) func(string) error {
	return func(value string) error {
		for _, known := range []offloadingv1beta1.ReflectionType{offloadingv1beta1.DenyList, offloadingv1beta1.AllowList} {
			if strings.EqualFold(value, string(known)) {
				*into = known
				return nil
			}
		}
		return fmt.Errorf("%q is neither %s nor %s", value, offloadingv1beta1.DenyList, offloadingv1beta1.AllowList)
	}
}
