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
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/sharing"
	"liqo.io/liqo/internal/remote"
)

// ControllerManagerOptions are the flags of the controller manager.
type ControllerManagerOptions struct {
	// ClusterID is the ID of this cluster. LiqoNamespace is the namespace of the installation.
	ClusterID, LiqoNamespace string
	// ClusterLabels describe this cluster to its consumers.
	ClusterLabels map[string]string
	// APIServerAddress and APIServerCA (PEM) define how consumers reach the API server; empty values are determined automatically. With TrustedCA, consumers
	// get no CA, because the API server has a publicly trusted certificate.
	APIServerAddress string
	APIServerCA      []byte
	TrustedCA        bool
	// Identity is the type of credential that this cluster issues to consumers: IdentityCertificate or IdentityToken. TokenLifetime is the lifetime
	// of a token.
	Identity      string
	TokenLifetime time.Duration
	// Sharing defines the share of this cluster that ResourceSlices of the default class get.
	Sharing sharing.Policy
	// IngressClasses and LoadBalancerClasses are offered to consumers.
	IngressClasses      []authv1beta1.IngressType
	LoadBalancerClasses []authv1beta1.LoadBalancerType
	// DefaultLimitsEnforcement is written into new Quotas.
	DefaultLimitsEnforcement offloadingv1beta1.LimitsEnforcement
	// ReplaceLostPods makes the controller manager delete the pods of consumers that are being evicted from failed nodes, so that new pods replace them.
	ReplaceLostPods bool
	// PodMetadata defines the annotations and labels that pods of consumers may have in this cluster.
	PodMetadata offload.PodMetadata
	// ProtectedNamespaces are name patterns of namespaces of this cluster that are never offloaded.
	ProtectedNamespaces []string
	// ChosenNamespaces are patterns of names that consumers may choose for their namespaces in this cluster.
	ChosenNamespaces []string
	// RefusedNamespaces are patterns of names that no namespace of a consumer may have.
	RefusedNamespaces []string
	// NamespaceLimit is the maximum number of namespaces of each consumer; 0: no limit.
	NamespaceLimit int
	// NamespaceQuota holds the hard limits of the ResourceQuota in each namespace of a consumer.
	NamespaceQuota corev1.ResourceList
	// NamespaceTotal limits the PersistentVolumeClaims in all namespaces of one consumer together.
	NamespaceTotal corev1.ResourceList
	// DefaultLimits are the limits for containers of consumers that declare none.
	DefaultLimits corev1.ResourceList
	// RuntimeClass is the RuntimeClass by which pods request a virtual node.
	RuntimeClass string
	// EnforceResources makes this cluster reject pods of consumers that exceed their Quotas.
	EnforceResources bool
	// DefaultClassEnabled makes the controller manager answer ResourceSlices of the default class.
	DefaultClassEnabled bool
	// TLSCompatibilityMode makes new keys RSA keys instead of Ed25519 keys.
	TLSCompatibilityMode bool
	// EnableAuthentication, EnableNetworking and EnableOffloading enable the modules.
	EnableAuthentication, EnableNetworking, EnableOffloading bool
	// EnableStorage enables the provisioner of Liqo's StorageClass. StorageNamespace is the namespace of the backing claims. RealStorageClass is
	// their class; if it is empty, they get the default class of the cluster.
	EnableStorage                      bool
	StorageNamespace, RealStorageClass string
	// AcceptedStorageClasses are the classes that consumers may use, in addition to RealStorageClass.
	AcceptedStorageClasses []string
	// IPAMPools are the pools from which IPAM takes another range for a peer's range that is already in use in this cluster. If empty, these are the private
	// ranges of RFC 1918.
	IPAMPools []netip.Prefix
	// OwnCIDRs are the ranges of this cluster, including its reserved ranges. No endpoint address of a consumer may be inside them. Without the networking
	// module, no Network lists these ranges, so this option is the only source.
	OwnCIDRs []netip.Prefix
	// WatchGatewayTemplates makes the controller manager update gateways as soon as their template changes.
	WatchGatewayTemplates bool
	// ConnectionUpdateInterval is the time between two updates of the latency in a Connection. It must be the same as in the gateways
	// (--ping-update-status-interval).
	ConnectionUpdateInterval time.Duration
	// Exposure holds the rules by which peers reach gateways at node ports. Its timeout is the time that a load balancer may take to get an address;
	// afterwards peers dial the node port. Its addresses are those at which peers reach node ports.
	Exposure network.ExposureRules
	// TunnelMTU is the upper bound, in bytes, of the MTU of tunnels that are created for NetworkRequests; 0: none.
	TunnelMTU int
	// PeerCheck defines how the API servers of peers are checked.
	PeerCheck remote.HealthOptions
	// Replicas is the number of replicas of this program. With more than one, they elect a leader.
	Replicas int
	// AuthAddress is the listening address of the authentication service. If empty, there is no such service.
	AuthAddress string
	// AuthPlain makes the authentication service serve HTTP without TLS.
	AuthPlain bool
	// AutoJoin are patterns of the IDs of discovered clusters that this cluster peers with automatically, if it has a token for them.
	AutoJoin []string
	// WebhookPort is the listening port of the webhooks. WebhookService is the Service in front of it.
	WebhookPort    int
	WebhookService string
	// HealthAddress and MetricsAddress are listening addresses. With an empty MetricsAddress, there are no metrics.
	HealthAddress, MetricsAddress string
	// Metrics is the registry of the components' metrics; nil disables the metrics. No flag sets it.
	Metrics prometheus.Registerer
	// GlobalLabels and GlobalAnnotations are put on all created objects.
	GlobalLabels, GlobalAnnotations map[string]string
}

// Credentials of consumers.
const (
	IdentityCertificate = "certificate"
	IdentityToken       = "token"
)

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
	flags.BoolVar(&o.TrustedCA, "trusted-ca", false, "send no CA to consumers, because the API server has a publicly trusted certificate")
	flags.StringVar(&o.Identity, "identity", IdentityCertificate, "credential of consumers: certificate (signed by signer kubernetes.io/kube-apiserver-client) or token (of a ServiceAccount)")
	flags.DurationVar(&o.TokenLifetime, "token-lifetime", peering.CertificateLife, "lifetime of the tokens of consumers, which are renewed after two thirds of it; the API server may issue shorter ones")
	flags.IntVar(&o.Sharing.Percentage, "resource-sharing-percentage", 90, "percentage of this cluster's free resources that all consumers together get; more than 100 overcommits them")
	flags.IntVar(&o.Sharing.Threshold, "offer-update-threshold-percentage", 5, "change of a consumer's share, in percent, below which its ResourceSlice keeps the old amount")
	flags.IntVar(&o.Sharing.SliceLimit, "resource-slice-limit", 32, "maximum number of ResourceSlices of each consumer; 0 for no limit")
	flags.Func("default-node-resources", "amounts for resources that a ResourceSlice does not name: cpu=4,memory=8Gi,...; without one, it gets its whole share of cpu, memory, ephemeral storage and pods",
		amounts(&o.Sharing.Defaults))
	flags.Func("autoscaled-resources", "size to which an autoscaler can grow this cluster, which is shared as if the nodes existed: cpu=200,nvidia.com/gpu=8,...", amounts(&o.Sharing.Ceiling))
	flags.Func("ingress-classes", "classes of Ingresses that consumers may use here: a,b:default", classes(func(name string, standard bool) {
		o.IngressClasses = append(o.IngressClasses, authv1beta1.IngressType{IngressClassName: name, Default: standard})
	}))
	flags.Func("load-balancer-classes", "classes of load balancers that consumers may use here: a,b:default", classes(func(name string, standard bool) {
		o.LoadBalancerClasses = append(o.LoadBalancerClasses, authv1beta1.LoadBalancerType{LoadBalancerClassName: name, Default: standard})
	}))
	o.DefaultLimitsEnforcement = offloadingv1beta1.EnforcementNone
	flags.Func("default-limits-enforcement", "enforcement of new Quotas: None, Soft or Hard", o.setEnforcement)
	flags.BoolVar(&o.ReplaceLostPods, "enable-node-failure-controller", false, "delete pods of consumers that are being evicted from failed nodes, so that other pods replace them")
	o.ChosenNamespaces = []string{"*"}
	flags.Func("chosen-namespaces", "names that consumers may give to their namespaces in this cluster, * stands for anything: peer-*,...; names that end in the consumer's cluster ID are always allowed",
		patterns(&o.ChosenNamespaces))
	flags.Func("refused-namespaces", "names that no consumer may give to a namespace in this cluster, * stands for anything: *-system,...", patterns(&o.RefusedNamespaces))
	flags.Func("protected-namespaces", "names of namespaces of this cluster that are never offloaded, * stands for anything: vault,*-secrets,...", patterns(&o.ProtectedNamespaces))
	flags.Func("accepted-pod-annotations", "keys of annotations that pods of consumers keep in this cluster, in addition to those with the same meaning in every cluster; a trailing * matches the rest: prometheus.io/*,...", patterns(&o.PodMetadata.Annotations))
	flags.Func("accepted-pod-labels", "keys of labels that pods of consumers keep in this cluster although controllers act on them; a trailing * matches the rest: istio.io/rev,...", patterns(&o.PodMetadata.Labels))
	flags.Func("refused-pod-labels", "keys of labels that are removed from pods of consumers, in addition to those on which known controllers act; a trailing * matches the rest: example.org/*,...", patterns(&o.PodMetadata.RefusedLabels))
	flags.IntVar(&o.NamespaceLimit, "namespace-limit", 0, "maximum number of namespaces of each consumer; 0 for no limit")
	flags.Func("namespace-quota", "hard limits of the ResourceQuota in each namespace of a consumer: count/configmaps=500,services.loadbalancers=2,...", amounts(&o.NamespaceQuota))
	flags.Func("namespace-total", "limits of the claims in all namespaces of a consumer together: requests.storage=1Ti,persistentvolumeclaims=1000", amounts(&o.NamespaceTotal))
	flags.Func("namespace-default-limits", "limits for containers of consumers that declare none: ephemeral-storage=20Gi,memory=4Gi,...", amounts(&o.DefaultLimits))
	flags.StringVar(&o.RuntimeClass, "runtime-class", "liqo", "RuntimeClass that asks for a virtual node")
	flags.BoolVar(&o.EnforceResources, "enable-resource-enforcement", true, "refuse pods of consumers that exceed their Quotas")
	flags.BoolVar(&o.DefaultClassEnabled, "default-resource-slice-class-enabled", true, "answer ResourceSlices of the default class")
	flags.BoolVar(&o.TLSCompatibilityMode, "tls-compatibility-mode", false, "create RSA keys, for control planes that do not support Ed25519")
	flags.BoolVar(&o.EnableAuthentication, "enable-authentication", true, "run the authentication module")
	flags.BoolVar(&o.EnableNetworking, "enable-networking", true, "run the networking module")
	flags.Func("ipam-pools", "address ranges into which the ranges of peers are remapped when they are already in use: 10.0.0.0/8,...", ranges(&o.IPAMPools))
	flags.Func("own-cidrs", "address ranges of this cluster (pods, Services, reserved ones) that peers must not claim: 10.96.0.0/12,...", ranges(&o.OwnCIDRs))
	flags.BoolVar(&o.WatchGatewayTemplates, "watch-gateway-templates", true, "update gateways as soon as their template changes")
	flags.DurationVar(&o.ConnectionUpdateInterval, "connection-update-interval", 10*time.Second, "interval of the gateways' status reports; a tunnel without a report for nine intervals counts as lost")
	flags.DurationVar(&o.Exposure.Timeout, "load-balancer-timeout", 2*time.Minute, "time that the load balancer of a gateway may take to get an address; afterwards peers connect to its node port")
	flags.IntVar(&o.TunnelMTU, "tunnel-mtu", 0, "upper bound of the MTU of the tunnels that NetworkRequests connect; 0: none")
	flags.Func("node-port-addresses", "addresses at which peers reach node ports of gateways, in place of those of the nodes: 10.99.0.11,vpn.example.org,...", func(text string) error {
		o.Exposure.Addresses = strings.Split(text, ",")
		return o.Exposure.Check()
	})
	flags.BoolVar(&o.EnableOffloading, "enable-offloading", true, "run the offloading module")
	flags.BoolVar(&o.EnableStorage, "enable-storage", true, "provision the claims of Liqo's StorageClass")
	flags.StringVar(&o.StorageNamespace, "storage-namespace", api.StorageNamespace, "namespace of the backing claims, which hold the data of claims of Liqo's StorageClass")
	flags.StringVar(&o.RealStorageClass, "real-storage-class", "", "StorageClass of the backing claims; the default class of the cluster when empty")
	flags.Func("accepted-storage-classes", "further StorageClasses that consumers may name here: fast,...", patterns(&o.AcceptedStorageClasses))
	o.PeerCheck.AddFlags(flags)
	flags.IntVar(&o.Replicas, "replicas", 1, "number of replicas of this program; several replicas elect a leader")
	flags.BoolVar(&o.AuthPlain, "auth-plain", false, "serve the authentication service without TLS, for a proxy in front of it that terminates TLS")
	flags.StringVar(&o.AuthAddress, "auth-address", ":5000", "address of the authentication service, for peers that share no kubeconfig; off when empty")
	flags.Func("auto-join", "IDs of discovered clusters with which this cluster peers automatically if it has a token of theirs, * stands for anything: lab-*,...; none when empty", patterns(&o.AutoJoin))
	flags.IntVar(&o.WebhookPort, "webhook-port", 9443, "port of the webhooks")
	flags.StringVar(&o.WebhookService, "webhook-service", "liqo-controller-manager-webhook", "Service in front of the webhooks")
	flags.StringVar(&o.HealthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	flags.StringVar(&o.MetricsAddress, "metrics-address", "", "address of /metrics; off when empty")
	flags.Func("global-labels", "labels of all objects that this program creates: key=value,...", pairs(&o.GlobalLabels))
	flags.Func("global-annotations", "annotations of all objects that this program creates: key=value,...", pairs(&o.GlobalAnnotations))
}

// Validate returns an error that names all missing and invalid values.
func (o *ControllerManagerOptions) Validate() error {
	problems := []error{o.PeerCheck.Validate()}
	if o.ClusterID == "" {
		problems = append(problems, errors.New("--cluster-id is empty"))
	}
	if o.LiqoNamespace == "" {
		problems = append(problems, errors.New("--liqo-namespace is empty"))
	}
	if o.EnableStorage && o.StorageNamespace == "" {
		problems = append(problems, errors.New("--storage-namespace is empty: name the namespace of the backing claims, or set --enable-storage=false"))
	}
	if o.APIServerAddress != "" && !strings.HasPrefix(o.APIServerAddress, "https://") {
		problems = append(problems, fmt.Errorf("--api-server-address is %q, want https://host[:port]", o.APIServerAddress))
	}
	if o.Identity != IdentityCertificate && o.Identity != IdentityToken {
		problems = append(problems, fmt.Errorf("--identity is %q, want %s or %s", o.Identity, IdentityCertificate, IdentityToken))
	}
	if o.TokenLifetime < time.Second {
		problems = append(problems, fmt.Errorf("--token-lifetime is %s, want 1s or more", o.TokenLifetime))
	}
	if err := network.CheckMTU("--tunnel-mtu", o.TunnelMTU); err != nil {
		problems = append(problems, err)
	}
	if o.Exposure.Timeout < 0 {
		problems = append(problems, fmt.Errorf("--load-balancer-timeout is %s, want 0s or more", o.Exposure.Timeout))
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

// joins reports whether this cluster peers automatically with a discovered cluster.
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
				continue // an empty list, or a superfluous comma
			}
			if _, err := path.Match(pattern, ""); err != nil {
				return fmt.Errorf("reading pattern %q: %w", pattern, err)
			}
			*into = append(*into, pattern)
		}
		return nil
	}
}
