package metrics

import "github.com/prometheus/client_golang/prometheus"

// Labels that many metrics have.
const (
	labelCluster = "cluster_id"
	labelNode    = "node_name"
	labelDriver  = "driver"
)

// BuildInfo is the metric of every program.
var BuildInfo = &Definition{
	Name: "liqo_build_info", Type: Gauge, Labels: []string{"program", "version", "go_version"},
	Help:     "Always 1. The labels are the program, its version and the version of Go that compiled it.",
	Programs: []string{ControllerManager, VirtualKubelet, Gateway, Fabric, Proxy}, Series: "1 per pod",
}

// Metrics of the tunnel to a peer. Each replica of a gateway reports its own.
var (
	PeerReceivedBytes = &Definition{
		Name: "liqo_peer_receive_bytes_total", Type: Counter, Labels: []string{labelDriver, labelCluster},
		Help:     "Bytes received from the peer through the tunnel.",
		Programs: []string{Gateway}, Series: perReplica, Fixed: true,
	}
	PeerTransmittedBytes = &Definition{
		Name: "liqo_peer_transmit_bytes_total", Type: Counter, Labels: []string{labelDriver, labelCluster},
		Help:     "Bytes sent to the peer through the tunnel.",
		Programs: []string{Gateway}, Series: perReplica, Fixed: true,
	}
	PeerLatency = &Definition{
		Name: "liqo_peer_latency_us", Type: Gauge, Labels: []string{labelDriver, labelCluster},
		Help:     "Last round-trip time through the tunnel, in microseconds.",
		Programs: []string{Gateway}, Series: perReplica, Fixed: true,
	}
	PeerLatencyHistogram = &Definition{
		Name: "liqo_peer_latency_histogram_us", Type: Histogram, Labels: []string{labelDriver, labelCluster},
		Buckets:  prometheus.ExponentialBuckets(125, 2, 14), // up to one second
		Help:     "Round-trip times through the tunnel, in microseconds.",
		Programs: []string{Gateway}, Series: "17 per gateway replica", Fixed: true,
	}
	PeerConnected = &Definition{
		Name: "liqo_peer_is_connected", Type: Gauge, Labels: []string{labelDriver, labelCluster},
		Help:     "1 while the peer answers this replica through the tunnel, else 0. It is 0 on standby replicas.",
		Programs: []string{Gateway}, Series: perReplica, Fixed: true,
	}
	WireGuardImplementation = &Definition{
		Name: "liqo_wireguard_implementation", Type: Gauge, Labels: []string{labelDriver, "implementation"},
		Help:     "Always 1. Label implementation is the WireGuard in use: kernel or userspace.",
		Programs: []string{Gateway}, Series: perReplica, Fixed: true,
	}
	PeerPings = &Definition{
		Name: "liqo_peer_pings_total", Type: Counter, Labels: []string{labelCluster},
		Help:     "Pings sent to the peer through the tunnel. Standby replicas send pings too, and get no answers.",
		Programs: []string{Gateway}, Series: perReplica,
	}
	PeerPingAnswers = &Definition{
		Name: "liqo_peer_ping_answers_total", Type: Counter, Labels: []string{labelCluster},
		Help:     "Pings that the peer answered. The difference to liqo_peer_pings_total is the loss.",
		Programs: []string{Gateway}, Series: perReplica,
	}
	PeerHandshakeAge = &Definition{
		Name: "liqo_peer_handshake_age_seconds", Type: Gauge, Labels: []string{labelCluster},
		Help:     "Time since the last WireGuard handshake with the peer. Missing before the first handshake.",
		Programs: []string{Gateway}, Series: perReplica,
	}
	GatewayActive = &Definition{
		Name: "liqo_gateway_active", Type: Gauge, Labels: []string{labelCluster},
		Help:     "1 if this replica of the gateway is the active one, 0 if it is on standby.",
		Programs: []string{Gateway}, Series: perReplica,
	}
	GatewayTakeovers = &Definition{
		Name: "liqo_gateway_takeovers_total", Type: Counter, Labels: []string{labelCluster},
		Help:     "Number of times that this replica of the gateway became the active one.",
		Programs: []string{Gateway}, Series: perReplica,
	}
)

const perReplica = "1 per gateway replica"

// Metrics of the network configuration of a node or of a gateway's pod.
var (
	DataplaneApplies = &Definition{
		Name: "liqo_dataplane_applies_total", Type: Counter, Labels: []string{"result"},
		Help:     "Batches of changes to the network configuration, by result: success or error.",
		Programs: []string{Gateway, Fabric}, Series: "2 per node and gateway replica",
	}
	DataplaneDrift = &Definition{
		Name: "liqo_dataplane_drift_total", Type: Counter,
		Help:     "Changes by others to the network configuration of Liqo that were undone.",
		Programs: []string{Gateway, Fabric}, Series: "1 per node and gateway replica",
	}
	DataplaneDuration = &Definition{
		Name: "liqo_dataplane_pass_duration_seconds", Type: Histogram, Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		Help:     "Duration of comparing the actual network configuration with the wanted one and applying the difference.",
		Programs: []string{Gateway, Fabric}, Series: "15 per node and gateway replica",
	}
)

// Metrics of reflection to one provider, reported by its virtual kubelets.
var (
	ReflectedTotal = &Definition{
		Name: "liqo_virtual_kubelet_reflection_item_counter", Type: Counter, Labels: reflectionLabels(),
		Help:     "Resources that this virtual kubelet created or changed in the other cluster.",
		Programs: []string{VirtualKubelet}, Series: perKind, Fixed: true,
	}
	ReflectionErrors = &Definition{
		Name: "liqo_virtual_kubelet_reflection_error_counter", Type: Counter, Labels: reflectionLabels(),
		Help:     "Failed writes to the other cluster, which are retried.",
		Programs: []string{VirtualKubelet}, Series: perKind, Fixed: true,
	}
	ReflectedItems = &Definition{
		Name: "liqo_virtual_kubelet_reflected_items", Type: Gauge, Labels: reflectionLabels(),
		Help:     "Reflected resources that exist in the provider now, whichever virtual kubelet reflects them.",
		Programs: []string{VirtualKubelet}, Series: perKind,
	}
	ReflectionDuration = &Definition{
		Name: "liqo_virtual_kubelet_reflection_duration_seconds", Type: Histogram,
		Labels: []string{"reflector_resource", "direction", labelCluster, labelNode}, Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 60},
		Help: "Time from an observed change to the write that reflects it, failed attempts included. " +
			"Label direction is outgoing for writes in the provider, and incoming for writes in this cluster.",
		Programs: []string{VirtualKubelet}, Series: "up to 260 per virtual node, 26 for each reflected kind",
	}
	VirtualNodePods = &Definition{
		Name: "liqo_virtual_node_pods", Type: Gauge, Labels: []string{labelCluster, labelNode, "phase"},
		Help:     "Pods of this cluster on the virtual node, by phase.",
		Programs: []string{VirtualKubelet}, Series: "5 per virtual node",
	}
)

func reflectionLabels() []string {
	return []string{"namespace", "reflector_resource", labelCluster, labelNode}
}

const perKind = "up to 11 per offloaded namespace and virtual node, one for each reflected kind"

// ProxyConnections is the metric of the proxy to the API server.
var ProxyConnections = &Definition{
	Name: "liqo_proxy_connections", Type: Gauge,
	Help:     "Open connections of peers to the API server of this cluster through the proxy.",
	Programs: []string{Proxy}, Series: "1 per pod",
}

// Metrics about peers.
var (
	PeerCondition = &Definition{
		Name: "liqo_peer_condition", Type: Gauge, Labels: []string{labelCluster, "condition", "status"},
		Help:     "Always 1. The labels are a condition of the ForeignCluster of a peer and its present status.",
		Programs: []string{ControllerManager}, Series: "up to 11 per peer",
	}
	PeerAPIServerReachable = &Definition{
		Name: "liqo_peer_api_server_reachable", Type: Gauge, Labels: []string{labelCluster},
		Help:     "1 while the API server of the provider responds, else 0. Missing until that is known.",
		Programs: []string{ControllerManager, VirtualKubelet}, Series: "1 per provider, and 1 per virtual node",
	}
	PeerAPIServerRequests = &Definition{
		Name: "liqo_peer_api_server_request_duration_seconds", Type: Histogram, Labels: []string{labelCluster, "method"}, Buckets: prometheus.DefBuckets,
		Help:     "Time from a request to the API server of the provider until its response began, by HTTP method.",
		Programs: []string{ControllerManager, VirtualKubelet}, Series: "up to 70 per provider, and up to 70 per virtual node",
	}
	CertificateExpiry = &Definition{
		Name: "liqo_certificate_expiry_seconds", Type: Gauge, Labels: certificateLabels(),
		Help: "Seconds until a certificate, or the token in place of one, expires, negative afterwards. The labels name its object: an Identity with a provider, " +
			"the Node that a virtual kubelet serves, or the Secret of the webhooks. An access key of AWS does not expire and has no series.",
		Programs: []string{ControllerManager, VirtualKubelet}, Series: perCertificate,
	}
	CertificateLifetime = &Definition{
		Name: "liqo_certificate_lifetime_seconds", Type: Gauge, Labels: certificateLabels(),
		Help:     "Seconds for which the certificate or token was issued. Its renewal is due after two thirds of them, and overdue after three quarters.",
		Programs: []string{ControllerManager, VirtualKubelet}, Series: perCertificate,
	}
	VirtualNodeReady = &Definition{
		Name: "liqo_virtual_node_ready", Type: Gauge, Labels: []string{labelCluster, labelNode},
		Help:     "1 while the virtual node is Ready, else 0.",
		Programs: []string{ControllerManager}, Series: "1 per virtual node",
	}
	GatewayReplicas = &Definition{
		Name: "liqo_gateway_replicas", Type: Gauge, Labels: []string{labelCluster, "gateway"},
		Help:     "Desired replicas of a gateway.",
		Programs: []string{ControllerManager}, Series: "1 per peer",
	}
	GatewayAvailableReplicas = &Definition{
		Name: "liqo_gateway_available_replicas", Type: Gauge, Labels: []string{labelCluster, "gateway"},
		Help:     "Available replicas of a gateway.",
		Programs: []string{ControllerManager}, Series: "1 per peer",
	}
	QuotaGranted = &Definition{
		Name: "liqo_quota_granted", Type: Gauge, Labels: []string{labelCluster, "quota", "resource"},
		Help:     "Amount of a resource that a consumer may use in this cluster, in cores, bytes or a count.",
		Programs: []string{ControllerManager}, Series: perQuota,
	}
	QuotaUsed = &Definition{
		Name: "liqo_quota_used", Type: Gauge, Labels: []string{labelCluster, "quota", "resource"},
		Help:     "Amount of a resource that the pods of a consumer use in this cluster, in cores, bytes or a count. Missing while quotas are not enforced.",
		Programs: []string{ControllerManager}, Series: perQuota,
	}
)

func certificateLabels() []string {
	return []string{labelCluster, "kind", "object_namespace", "object_name"}
}

const perCertificate = "1 per provider, ResourceSlice and virtual node, and 1 for the webhooks"

const perQuota = "1 per resource of each ResourceSlice of a consumer, usually 4"

// All returns all definitions, in the order of the reference page.
func All() []*Definition {
	return []*Definition{
		PeerReceivedBytes, PeerTransmittedBytes, PeerConnected, PeerLatency, PeerLatencyHistogram, PeerPings, PeerPingAnswers, PeerHandshakeAge,
		GatewayActive, GatewayTakeovers, WireGuardImplementation, GatewayReplicas, GatewayAvailableReplicas,
		PeerCondition, PeerAPIServerReachable, PeerAPIServerRequests, CertificateExpiry, CertificateLifetime,
		QuotaGranted, QuotaUsed, VirtualNodeReady, VirtualNodePods, ReflectedItems, ReflectedTotal, ReflectionErrors,
		ReflectionDuration,
		DataplaneApplies, DataplaneDrift, DataplaneDuration, ProxyConnections, BuildInfo,
	}
}
