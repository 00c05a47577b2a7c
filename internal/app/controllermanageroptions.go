package app

import (
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/peering"
)

// ControllerManagerOptions are the flags of the controller manager.
type ControllerManagerOptions struct {
	// ClusterID is the ID of this cluster. LiqoNamespace is the namespace of the installation.
	ClusterID, LiqoNamespace string
	// ClusterLabels describe this cluster to its consumers.
	ClusterLabels map[string]string
	// APIServerAddress, APIServerCA (PEM) and TrustedCA define how consumers reach the API server. Empty values are determined
	// automatically.
	APIServerAddress string
	APIServerCA      []byte
	TrustedCA        bool
	// Sharing defines the share of this cluster that ResourceSlices of the default class get.
	Sharing peering.SharingPolicy
	// IngressClasses and LoadBalancerClasses are offered to consumers.
	IngressClasses      []authv1beta1.IngressType
	LoadBalancerClasses []authv1beta1.LoadBalancerType
	// DefaultLimitsEnforcement is written into new Quotas.
	DefaultLimitsEnforcement offloadingv1beta1.LimitsEnforcement
	// ReplaceLostPods enables the removal of pods of consumers that were evicted from failed nodes, so that new pods replace them.
	ReplaceLostPods bool
	// PodMetadata defines the annotations and labels that pods of consumers may have in this cluster.
	PodMetadata offload.PodMetadata
	// ProtectedNamespaces are name patterns of namespaces of this cluster that are never offloaded.
	ProtectedNamespaces []string
	// ChosenNamespaces are name patterns of namespaces that consumers may choose in this cluster, RefusedNamespaces of those that no
	// consumer may have. NamespaceLimit is the maximum number of namespaces of each consumer. NamespaceQuota is the quota of each of these
	// namespaces, DefaultLimits are the limits of containers there that declare none.
	ChosenNamespaces, RefusedNamespaces []string
	NamespaceLimit                      int
	NamespaceQuota, DefaultLimits       corev1.ResourceList
	// RuntimeClass is the RuntimeClass by which pods request a virtual node.
	RuntimeClass string
	// EnforceResources enables the rejection of pods of consumers that exceed their Quotas.
	EnforceResources bool
	// DefaultClassEnabled is whether ResourceSlices of the default class are answered.
	DefaultClassEnabled bool
	// TLSCompatibilityMode is whether new keys are RSA keys instead of Ed25519 keys.
	TLSCompatibilityMode bool
	// EnableAuthentication, EnableNetworking and EnableOffloading enable the modules.
	EnableAuthentication, EnableNetworking, EnableOffloading bool
	// EnableStorage enables the provisioner of Liqo's StorageClass. StorageNamespace is the namespace of the claims that hold the data,
	// RealStorageClass their class; if it is empty, they get the default class of the cluster.
	EnableStorage                      bool
	StorageNamespace, RealStorageClass string
	// AcceptedStorageClasses are the classes that consumers may name, besides that class.
	AcceptedStorageClasses []string
	// IPAMPools are the pools for the ranges of peers that are already in use in this cluster. If empty, these are the private
	// ranges of RFC 1918.
	IPAMPools []netip.Prefix
	// OwnCIDRs are the ranges of this cluster, including its reserved ranges. No endpoint address of a consumer may be inside
	// them. They are also needed without the networking module, when no Network lists them.
	OwnCIDRs []netip.Prefix
	// WatchGatewayTemplates is whether gateways are updated at once when their template changes.
	WatchGatewayTemplates bool
	// ConnectionUpdateInterval is the time between two updates of the latency in a Connection. It must be the same as in the gateways
	// (--ping-update-status-interval).
	ConnectionUpdateInterval time.Duration
	// LoadBalancerTimeout is how long the load balancer of a gateway may take to get an address, before peers dial the node port instead.
	LoadBalancerTimeout time.Duration
	// Replicas is the number of replicas of this program. With more than one, they elect a leader.
	Replicas int
	// AuthAddress is the listening address of the authentication service. If empty, there is no such service.
	AuthAddress string
	// AuthPlain makes the authentication service serve HTTP without TLS.
	AuthPlain bool
	// AutoJoin are name patterns of the discovered clusters that this cluster peers with by itself, if it has a token for them.
	AutoJoin []string
	// WebhookPort is the listening port of the webhooks, WebhookService the Service in front of it.
	WebhookPort    int
	WebhookService string
	// HealthAddress and MetricsAddress are listening addresses. With an empty MetricsAddress, there are no metrics.
	HealthAddress, MetricsAddress string
	// Metrics is where the components register their metrics; nil: they have none. No flag sets it.
	Metrics prometheus.Registerer
	// GlobalLabels and GlobalAnnotations are put on all created objects.
	GlobalLabels, GlobalAnnotations map[string]string
}

// AddFlags defines the flags with their defaults.
func (o *ControllerManagerOptions) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.ClusterID, "cluster-id", "", "ID of this cluster: a DNS label, unique among its peers")
	flags.StringVar(&o.LiqoNamespace, "liqo-namespace", "liqo", "namespace of the installation")
	flags.Func("cluster-labels", "labels that describe this cluster to consumers: key=value,...", pairs(&o.ClusterLabels))
	flags.StringVar(&o.APIServerAddress, "api-server-address", "", "URL of the API server for consumers; the endpoint of Service default/kubernetes when empty")
	flags.Func("api-server-ca", "base64 of the API server's CA bundle for consumers; ConfigMap kube-root-ca.crt when empty", func(value string) (err error) {
		o.APIServerCA, err = base64.StdEncoding.DecodeString(value)
		return err
	})
	flags.BoolVar(&o.TrustedCA, "trusted-ca", false, "the API server has a publicly trusted certificate: send no CA")
	flags.IntVar(&o.Sharing.Percentage, "resource-sharing-percentage", 90, "percentage of what is free here that consumers get together; more than 100 promises more than there is")
	flags.IntVar(&o.Sharing.Threshold, "offer-update-threshold-percentage", 5, "a share of CPU, memory, storage or pods that moves by no more than this many percent stays as it is")
	flags.IntVar(&o.Sharing.SliceLimit, "resource-slice-limit", 32, "how many ResourceSlices each consumer gets here; 0 for any number")
	flags.Func("default-node-resources", "what a ResourceSlice asks for where it does not say: cpu=4,memory=8Gi,...; of what every pod needs as much as there is when not named",
		amounts(&o.Sharing.Defaults))
	flags.Func("autoscaled-resources", "what an autoscaler makes of this cluster, to be shared as if it were here already: cpu=200,nvidia.com/gpu=8,...", amounts(&o.Sharing.Ceiling))
	flags.Func("ingress-classes", "classes of Ingresses that consumers may use here: a,b:default", classes(func(name string, standard bool) {
		o.IngressClasses = append(o.IngressClasses, authv1beta1.IngressType{IngressClassName: name, Default: standard})
	}))
	flags.Func("load-balancer-classes", "classes of load balancers that consumers may use here: a,b:default", classes(func(name string, standard bool) {
		o.LoadBalancerClasses = append(o.LoadBalancerClasses, authv1beta1.LoadBalancerType{LoadBalancerClassName: name, Default: standard})
	}))
	o.DefaultLimitsEnforcement = offloadingv1beta1.EnforcementNone
	flags.Func("default-limits-enforcement", "what new Quotas say about how strictly they count: None, Soft or Hard", o.setEnforcement)
	flags.BoolVar(&o.ReplaceLostPods, "enable-node-failure-controller", false, "remove pods of consumers that were evicted from nodes that have failed, so that others take their place")
	o.ChosenNamespaces = []string{"*"}
	flags.Func("chosen-namespaces", "names of namespaces that consumers may choose here, * stands for anything: peer-*,...; those that end in their cluster ID need not be named",
		patterns(&o.ChosenNamespaces))
	flags.Func("refused-namespaces", "names of namespaces that no consumer gets here, * stands for anything: *-system,...", patterns(&o.RefusedNamespaces))
	flags.Func("protected-namespaces", "names of namespaces here that are never offloaded, * stands for anything: vault,*-secrets,...", patterns(&o.ProtectedNamespaces))
	flags.Func("accepted-pod-annotations", "keys of annotations that pods of consumers may have here beside those that mean the same in every cluster, a trailing * matches the rest: prometheus.io/*,...", patterns(&o.PodMetadata.Annotations))
	flags.Func("accepted-pod-labels", "keys of labels that pods of consumers may have here although controllers obey them, a trailing * matches the rest: istio.io/rev,...", patterns(&o.PodMetadata.Labels))
	flags.Func("refused-pod-labels", "keys of labels that pods of consumers have not here, beside those that known controllers obey, a trailing * matches the rest: example.org/*,...", patterns(&o.PodMetadata.RefusedLabels))
	flags.IntVar(&o.NamespaceLimit, "namespace-limit", 0, "how many namespaces each consumer gets here; 0 for any number")
	flags.Func("namespace-quota", "what may be in each namespace of a consumer here, as a ResourceQuota says it: count/configmaps=500,services.loadbalancers=2,...", amounts(&o.NamespaceQuota))
	flags.Func("namespace-default-limits", "limits of containers of consumers here that declare none: ephemeral-storage=20Gi,memory=4Gi,...", amounts(&o.DefaultLimits))
	flags.StringVar(&o.RuntimeClass, "runtime-class", "liqo", "RuntimeClass that asks for a virtual node")
	flags.BoolVar(&o.EnforceResources, "enable-resource-enforcement", true, "refuse pods of consumers that exceed their Quotas")
	flags.BoolVar(&o.DefaultClassEnabled, "default-resource-slice-class-enabled", true, "answer ResourceSlices of the default class")
	flags.BoolVar(&o.TLSCompatibilityMode, "tls-compatibility-mode", false, "make RSA keys, for control planes that refuse Ed25519")
	flags.BoolVar(&o.EnableAuthentication, "enable-authentication", true, "run the authentication module")
	flags.BoolVar(&o.EnableNetworking, "enable-networking", true, "run the networking module")
	flags.Func("ipam-pools", "ranges in which those of peers are put that are in use here: 10.0.0.0/8,...", ranges(&o.IPAMPools))
	flags.Func("own-cidrs", "ranges of this cluster (pods, services, reserved ones), which consumers must not name: 10.96.0.0/12,...", ranges(&o.OwnCIDRs))
	flags.BoolVar(&o.WatchGatewayTemplates, "watch-gateway-templates", true, "let gateways follow a changed template at once")
	flags.DurationVar(&o.ConnectionUpdateInterval, "connection-update-interval", 10*time.Second, "how often gateways look whether they have news of their tunnel; silent for nine times that, it counts as lost")
	flags.DurationVar(&o.LoadBalancerTimeout, "load-balancer-timeout", 2*time.Minute, "how long the load balancer of a gateway may take to get an address; then peers dial its node port instead")
	flags.BoolVar(&o.EnableOffloading, "enable-offloading", true, "run the offloading module")
	flags.BoolVar(&o.EnableStorage, "enable-storage", true, "provision the claims of Liqo's StorageClass")
	flags.StringVar(&o.StorageNamespace, "storage-namespace", api.StorageNamespace, "namespace of the claims that hold the data of those claims")
	flags.StringVar(&o.RealStorageClass, "real-storage-class", "", "StorageClass of the claims that hold the data; the default class of the cluster when empty")
	flags.Func("accepted-storage-classes", "further StorageClasses that consumers may name here: fast,...", patterns(&o.AcceptedStorageClasses))
	flags.IntVar(&o.Replicas, "replicas", 1, "number of replicas of this program; more than one elect a leader")
	flags.BoolVar(&o.AuthPlain, "auth-plain", false, "serve HTTP without TLS at the authentication service, for a proxy in front of it that ends TLS")
	flags.StringVar(&o.AuthAddress, "auth-address", ":5000", "address of the authentication service, for peers that share no kubeconfig; off when empty")
	flags.Func("auto-join", "IDs of discovered clusters to peer with by itself where there is a token for them, * stands for anything: lab-*,...; none when empty", patterns(&o.AutoJoin))
	flags.IntVar(&o.WebhookPort, "webhook-port", 9443, "port of the webhooks")
	flags.StringVar(&o.WebhookService, "webhook-service", "liqo-controller-manager-webhook", "Service in front of the webhooks")
	flags.StringVar(&o.HealthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	flags.StringVar(&o.MetricsAddress, "metrics-address", "", "address of /metrics; off when empty")
	flags.Func("global-labels", "labels of everything that is made: key=value,...", pairs(&o.GlobalLabels))
	flags.Func("global-annotations", "annotations of everything that is made: key=value,...", pairs(&o.GlobalAnnotations))
}

// Validate returns an error that names all missing and invalid values.
func (o *ControllerManagerOptions) Validate() error {
	var problems []error
	if o.ClusterID == "" {
		problems = append(problems, errors.New("--cluster-id is empty"))
	}
	if o.LiqoNamespace == "" {
		problems = append(problems, errors.New("--liqo-namespace is empty"))
	}
	if o.EnableStorage && o.StorageNamespace == "" {
		problems = append(problems, errors.New("--storage-namespace is empty: name the namespace of the claims that hold the data, or set --enable-storage=false"))
	}
	if o.APIServerAddress != "" && !strings.HasPrefix(o.APIServerAddress, "https://") {
		problems = append(problems, fmt.Errorf("--api-server-address is %q, want https://host[:port]", o.APIServerAddress))
	}
	if o.LoadBalancerTimeout < 0 {
		problems = append(problems, fmt.Errorf("--load-balancer-timeout is %s, want 0s or more", o.LoadBalancerTimeout))
	}
	if o.ConnectionUpdateInterval <= 0 {
		problems = append(problems, fmt.Errorf("--connection-update-interval is %s, want more than 0", o.ConnectionUpdateInterval))
	}
	for _, flag := range []struct {
		name          string
		value, atMost int
	}{
		{"--resource-sharing-percentage", o.Sharing.Percentage, 10000}, {"--offer-update-threshold-percentage", o.Sharing.Threshold, 100},
		{"--resource-slice-limit", o.Sharing.SliceLimit, math.MaxInt32},
	} {
		if flag.value < 0 || flag.value > flag.atMost {
			problems = append(problems, fmt.Errorf("%s is %d, want 0 to %d", flag.name, flag.value, flag.atMost))
		}
	}
	return errors.Join(problems...)
}

func (o *ControllerManagerOptions) algorithm() peering.Algorithm {
	if o.TLSCompatibilityMode {
		return peering.RSA2048
	}
	return peering.Ed25519
}

// joins reports whether a discovered cluster is one of those that this cluster peers with by itself.
func (o *ControllerManagerOptions) joins(clusterID string) bool {
	return slices.ContainsFunc(o.AutoJoin, func(pattern string) bool {
		matches, err := path.Match(pattern, clusterID)
		return err == nil && matches
	})
}

// amounts returns a parser for amounts of resources.
func amounts(into *corev1.ResourceList) func(string) error {
	return func(value string) error {
		var given map[string]string
		if err := pairs(&given)(value); err != nil {
			return err
		}
		*into = make(corev1.ResourceList, len(given))
		for name, text := range given {
			quantity, err := resource.ParseQuantity(text)
			switch {
			case err != nil:
				return fmt.Errorf("reading %s: %w", name, err)
			case quantity.Sign() < 0:
				return fmt.Errorf("%s is %s, want 0 or more", name, text)
			}
			(*into)[corev1.ResourceName(name)] = quantity
		}
		return nil
	}
}

// ranges returns a parser for address ranges.
func ranges(into *[]netip.Prefix) func(string) error {
	return func(value string) error {
		*into = nil
		for text := range strings.SplitSeq(value, ",") {
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return fmt.Errorf("reading a range: %w", err)
			}
			*into = append(*into, prefix)
		}
		return nil
	}
}

// classes returns a parser for class names, at most one of which is the default.
func classes(add func(name string, standard bool)) func(string) error {
	found := ""
	return func(value string) error {
		for text := range strings.SplitSeq(value, ",") {
			name, standard := strings.CutSuffix(strings.TrimSpace(text), ":default")
			switch {
			case name == "":
				return fmt.Errorf("%q names no class, want a,b:default", value)
			case standard && found != "":
				return fmt.Errorf("classes %s and %s are both the default, want one", found, name)
			case standard:
				found = name
			}
			add(name, standard)
		}
		return nil
	}
}

func (o *ControllerManagerOptions) setEnforcement(value string) error {
	for _, known := range []offloadingv1beta1.LimitsEnforcement{
		offloadingv1beta1.EnforcementNone, offloadingv1beta1.EnforcementSoft, offloadingv1beta1.EnforcementHard,
	} {
		if strings.EqualFold(value, string(known)) {
			o.DefaultLimitsEnforcement = known
			return nil
		}
	}
	return errors.New("want None, Soft or Hard")
}

// pairs returns a parser for key=value,... into a map.
func pairs(into *map[string]string) func(string) error {
	return func(value string) error {
		read := map[string]string{}
		for item := range strings.SplitSeq(value, ",") {
			pair := strings.TrimSpace(item)
			if pair == "" {
				continue
			}
			key, v, ok := strings.Cut(pair, "=")
			if !ok || key == "" {
				return fmt.Errorf("%q is not key=value", pair)
			}
			read[key] = v
		}
		*into = read
		return nil
	}
}

// patterns returns a parser for name patterns, in which * matches anything.
func patterns(into *[]string) func(string) error {
	return func(value string) error {
		*into = nil
		for item := range strings.SplitSeq(value, ",") {
			pattern := strings.TrimSpace(item)
			if pattern == "" {
				continue // an empty list, or a comma too many
			}
			if _, err := path.Match(pattern, ""); err != nil {
				return fmt.Errorf("reading pattern %q: %w", pattern, err)
			}
			*into = append(*into, pattern)
		}
		return nil
	}
}
