package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
)

// What follows from one fault, as the objects of a cluster show it.

// unreachableAPI: a cluster gets no response from the API server of its peer, and what depends on it.
func unreachableAPI(c *Cluster, why string) {
	c.Accesses[0].Failure = why
	c.Accesses = append(c.Accesses, Access{Peer: c.Accesses[0].Peer, Identity: "resourceslice-milan", Server: c.Accesses[0].Server, Failure: why})
	c.Peers[0].Status.Conditions = []corev1beta1.Condition{{Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusError, Reason: "APIServerNotReady", Message: why}}
	nodeNotReady(c)
}

func nodeNotReady(c *Cluster) {
	c.Nodes[0].Status.Conditions[0].Status = "Unknown"
	unhealthy(c, offloading, corev1beta1.OffloadingNodeStatus)
	c.Offloadings[0].Status.OffloadingPhase = "SomeFailed"
	c.Offloadings[0].Status.RemoteNamespacesConditions = map[string][]offloadingv1beta1.RemoteNamespaceCondition{
		c.VirtualNodes[0].Spec.ClusterID: {{Type: offloadingv1beta1.RemoteNamespaceReady, Status: "False", Reason: "Unreachable"}},
	}
}

// nodeReports: the virtual node is not ready, and the status of the peering says so.
func nodeReports(c *Cluster, why string, networkDown bool) {
	ready := &c.Nodes[0].Status.Conditions[0]
	ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", why
	ready.LastTransitionTime = metav1.NewTime(now.Add(-30 * time.Second))
	if networkDown {
		c.Nodes[0].Status.Conditions = append(c.Nodes[0].Status.Conditions, corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "R", Message: "m"})
	}
	unhealthy(c, offloading, corev1beta1.OffloadingNodeStatus)
}

func tunnelDown(c *Cluster) {
	c.Connections[0].Status = networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.ConnectionError, Conditions: ready("Silent")}
	c.Peers[0].Status.Modules.Networking.Conditions[0].Status = corev1beta1.StatusError
}

func unhealthy(c *Cluster, of module, kind corev1beta1.ConditionType) {
	modules := &c.Peers[0].Status.Modules
	to := map[module]*corev1beta1.Module{networking: &modules.Networking, authentication: &modules.Authentication, offloading: &modules.Offloading}[of]
	to.Enabled = true
	if slices.ContainsFunc(to.Conditions, func(c corev1beta1.Condition) bool { return c.Type == kind }) {
		return
	}
	to.Conditions = append(to.Conditions, corev1beta1.Condition{Type: kind, Status: corev1beta1.StatusNotReady, Reason: "R", Message: "m"})
}

// noEndpoints is what the API server of a provider without a controller manager replies to a ShadowPod.
const noEndpoints = `Internal error occurred: failed calling webhook "shadowpod.mutate.liqo.io": no endpoints available for service "liqo-controller-manager-webhook"`

// notCreated: a provider has not created a remote namespace for an hour.
func notCreated(c *Cluster) {
	c.Offloadings[0].Status.OffloadingPhase = offloadingv1beta1.PhaseInProgress
	c.Offloadings[0].Status.RemoteNamespacesConditions = map[string][]offloadingv1beta1.RemoteNamespaceCondition{"milan": {{
		Type: offloadingv1beta1.RemoteNamespaceReady, Status: corev1.ConditionFalse, Reason: offloadingv1beta1.ReasonCreating, Message: "m",
		LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
	}}}
}

func denied(c *Cluster) {
	c.Accesses[0].Denied = []string{"create renews in namespace x"}
	unhealthy(c, authentication, corev1beta1.AuthIdentityControlPlaneStatus)
	nodeNotReady(c)
}

func denyResources(c *Cluster) {
	c.Slices[0].Status.Conditions[1].Status = authv1beta1.ResourceSliceDenied
}

func workload(c *Cluster, name, peer string, desired, available int32) {
	c.Components = append(c.Components, Component{Name: name, Peer: peer, Desired: desired, Available: available, Trouble: "ImagePullBackOff"})
}

// TestCauses: whatever breaks, the first line names the cause with what cures it, and what follows from it is listed under it, not beside it.
func TestCauses(t *testing.T) {
	for name, row := range map[string]struct {
		do func(rome, milan *Cluster, f *Facts)
		// alone tells that only rome can be seen.
		alone bool
		// first is the beginning of the first line, cure a part of its cure, consequences how many findings are listed under it, others how many causes
		// there are besides.
		first, cure          string
		consequences, others int
	}{
		"the controller manager is scaled to nothing": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			rome.Components[0].Desired, rome.Components[0].Available = 0, 0
			rome.Backends = nil
			then := metav1.NewMicroTime(now.Add(-time.Hour))
			rome.Leases[0].Spec.RenewTime = &then
			rome.Slices[1].Status.Conditions = nil
			rome.Offloadings[0].Status.OffloadingPhase = ""
		}, first: "fail rome, components: -n liqo deployment/liqo-controller-manager is scaled to 0 replicas; until it runs, nothing is reconciled and every status shown is from before",
			cure: "kubectl -n liqo scale --replicas=1 deployment/liqo-controller-manager", consequences: 5},
		"the controller manager crashes": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			rome.Components[0].Available, rome.Components[0].Trouble = 0, "CrashLoopBackOff"
			rome.Backends = nil
		}, first: "fail rome, components: -n liqo deployment/liqo-controller-manager: 0 of 1 pods are available: CrashLoopBackOff", cure: "kubectl describe", consequences: 1},
		"the controller manager of the provider is down, seen from here": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			rome.Accesses[0].DryRuns = []DryRun{{"shop-rome", "ShadowPod", noEndpoints}}
			rome.Slices[0].Status.Conditions = nil
			rome.Waiting = []corev1.Pod{pending("a", noEndpoints)}
			notCreated(rome)
		}, first: "fail rome, admission: the controller manager of cluster milan does not respond: " + noEndpoints, cure: "ask the administrator of cluster milan to run liqoctl doctor there", consequences: 4},
		"the controller manager of the provider is down, and refuses pods": {do: func(rome, milan *Cluster, _ *Facts) {
			milan.Components[0].Desired, milan.Components[0].Available = 0, 0
			milan.Backends = nil
			rome.Accesses[0].DryRuns = []DryRun{{"shop-rome", "ShadowPod", noEndpoints}}
			rome.Waiting = []corev1.Pod{pending("a", noEndpoints)}
			notCreated(rome)
		}, first: "fail milan, components: -n liqo deployment/liqo-controller-manager is scaled to 0", cure: "scale --replicas=1", consequences: 4},
		"a provider that does not create a remote namespace": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			notCreated(rome)
		}, first: "fail rome, namespaces: namespace shop: InProgress (cluster milan: Creating since 2026-11-20T11:00:00Z: m)", cure: "ask the administrator of cluster milan to run liqoctl doctor there"},
		"the controller manager of the provider is down": {do: func(rome, milan *Cluster, _ *Facts) {
			milan.Components[0].Desired, milan.Components[0].Available = 0, 0
			rome.Slices[0].Status.Conditions = nil
		}, first: "fail milan, components: -n liqo deployment/liqo-controller-manager is scaled to 0", cure: "scale --replicas=1", consequences: 2},
		"partition": {do: func(rome, milan *Cluster, _ *Facts) {
			unreachableAPI(rome, "i/o timeout")
			tunnelDown(rome)
			unreachableAPI(milan, "i/o timeout")
			tunnelDown(milan)
		}, first: "fail rome, reachability: clusters rome and milan do not reach each other, though both respond to liqoctl", cure: "restore the network between the clusters", consequences: 14},
		"partition, seen from one side": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			unreachableAPI(rome, "i/o timeout")
			tunnelDown(rome)
		}, first: "fail rome, reachability: cluster milan is unreachable from rome: neither its API server nor the tunnel responds", cure: "liqoctl force unpeer milan", consequences: 7},
		"the API server of the provider alone": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			unreachableAPI(rome, "connection refused")
		}, first: "fail rome, access: the API server of milan does not answer", cure: "can be reached from the cluster", consequences: 4},
		"the tunnel alone": {alone: true, do: func(rome, _ *Cluster, _ *Facts) { tunnelDown(rome) },
			first: "fail rome, connections: Connection gw-milan", cure: "liqoctl network connect", consequences: 1},
		"the tunnel of an in-band peering": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			unreachableAPI(rome, "i/o timeout")
			rome.Accesses = []Access{{Peer: "milan", Identity: "controlplane-milan", Server: "https://milan", Proxy: "http://10.9.0.1:8118"}}
			rome.Peers[0].Status.ForeignProxyURL = "http://10.9.0.1:8118"
			tunnelDown(rome)
		}, first: "fail rome, connections: Connection gw-milan", cure: "liqoctl network connect", consequences: 5},
		"a gateway": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			workload(rome, "-n liqo-tenant-milan deployment/gw-milan", "milan", 1, 0)
			tunnelDown(rome)
		}, first: "fail rome, components: -n liqo-tenant-milan deployment/gw-milan: 0 of 1 pods", cure: "kubectl describe -n liqo-tenant-milan deployment/gw-milan", consequences: 2},
		"a gateway that is scaled to nothing": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			workload(rome, "-n liqo-tenant-milan deployment/gw-milan", "milan", 0, 0)
			tunnelDown(rome)
		}, first: "fail rome, components: -n liqo-tenant-milan deployment/gw-milan is scaled to 0 replicas", cure: "kubectl -n liqo-tenant-milan scale --replicas=1", consequences: 2},
		"the gateway of the provider": {do: func(rome, milan *Cluster, _ *Facts) {
			workload(milan, "-n liqo-tenant-rome deployment/gw-rome", "rome", 1, 0)
			tunnelDown(rome)
			tunnelDown(milan)
		}, first: "fail milan, components: -n liqo-tenant-rome deployment/gw-rome", cure: "kubectl describe", consequences: 4},
		"a virtual kubelet": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			workload(rome, "-n liqo-tenant-milan deployment/vk-milan", "milan", 1, 0)
			rome.Nodes[0].Status.Conditions[0].Status = "Unknown"
			unhealthy(rome, offloading, corev1beta1.OffloadingNodeStatus)
			lease := *rome.Leases[0].DeepCopy()
			then := metav1.NewMicroTime(now.Add(-time.Hour))
			lease.Namespace, lease.Name, lease.Spec.RenewTime = "kube-node-lease", "milan", &then
			rome.Leases = append(rome.Leases, lease)
		}, first: "fail rome, components: -n liqo-tenant-milan deployment/vk-milan", cure: "kubectl describe", consequences: 3},
		"the provider drained us": {do: func(rome, milan *Cluster, _ *Facts) {
			milan.Tenants[0].Spec.TenantCondition = authv1beta1.TenantDrained
			denyResources(rome)
			denied(rome)
			unhealthy(milan, authentication, corev1beta1.AuthTenantStatus)
		}, first: "fail milan, tenants: Tenant rome in namespace liqo-tenant-rome is drained", cure: "liqoctl activate tenant rome", consequences: 7},
		"the provider drained us, seen from here": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			denyResources(rome)
			denied(rome)
		}, first: "fail rome, access: controlplane-milan may not do in cluster milan", cure: "in cluster milan: liqoctl activate tenant rome", consequences: 5},
		"the provider rejects our identity, and our ResourceSlice says so": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			rome.Accesses[0].Failure, rome.Accesses[0].Refused = "Unauthorized", true
			for i := range rome.Slices[0].Status.Conditions {
				c := &rome.Slices[0].Status.Conditions[i]
				c.Status, c.Reason = authv1beta1.ResourceSliceDenied, "AccessRevoked"
			}
			unhealthy(rome, authentication, corev1beta1.AuthIdentityControlPlaneStatus)
		}, first: "fail rome, access: the API server of milan refuses controlplane-milan", cure: "liqoctl authenticate", consequences: 3},
		"the provider rejects our identity, seen from here only": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			rome.Accesses[0].Failure, rome.Accesses[0].Refused = "403 Forbidden", true
			nodeNotReady(rome)
		}, first: "fail rome, virtual nodes: Node milan is not Ready", cure: "cluster milan", consequences: 2, others: 1},
		"we drained a consumer": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			rome.Tenants[0].Spec.TenantCondition = authv1beta1.TenantDrained
			unhealthy(rome, authentication, corev1beta1.AuthTenantStatus)
		}, first: "fail rome, tenants: Tenant milan in namespace liqo-tenant-milan is drained", cure: "liqoctl activate tenant milan", consequences: 1},
		"a cordoned consumer": {do: func(rome, milan *Cluster, _ *Facts) {
			milan.Tenants[0].Spec.TenantCondition = authv1beta1.TenantCordoned
			denyResources(rome)
			milan.Slices[1].Status.Conditions[1].Status = authv1beta1.ResourceSliceDenied
		}, first: "fail milan, tenants: Tenant rome in namespace liqo-tenant-rome is cordoned", cure: "liqoctl uncordon tenant rome", consequences: 2},
		"an expired certificate": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			rome.Identities[0].Spec.AuthParams.SignedCRT = certificate(t, now.Add(-time.Hour))
			rome.Accesses[0].Failure, rome.Accesses[0].Refused = "Unauthorized", true
			unhealthy(rome, authentication, corev1beta1.AuthIdentityControlPlaneStatus)
			nodeNotReady(rome)
		}, first: "fail rome, identities: Identity controlplane-milan in namespace liqo-tenant-milan: its certificate ended", cure: "liqoctl authenticate", consequences: 5},
		"a certificate that is not renewed because the provider does not respond": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			rome.Identities[0].Spec.AuthParams.SignedCRT = certificate(t, now.Add(time.Hour))
			unreachableAPI(rome, "connection refused")
		}, first: "fail rome, access: the API server of milan does not answer", cure: "can be reached", consequences: 5},
		"resources that are refused": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			denyResources(rome)
			unhealthy(rome, offloading, corev1beta1.OffloadingVirtualNodeStatus)
		}, first: "fail rome, resources: ResourceSlice asked", cure: "ask for less", consequences: 1},
		"a provider that has not answered": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			rome.Slices[0].Status.Conditions = nil
			unhealthy(rome, offloading, corev1beta1.OffloadingVirtualNodeStatus)
		}, first: "fail rome, resources: ResourceSlice asked", cure: "controller managers of both clusters", others: 1, consequences: 1},
		"half an unpeering": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			then := metav1.NewTime(now.Add(-10 * time.Minute))
			rome.VirtualNodes[0].DeletionTimestamp, rome.VirtualNodes[0].Finalizers = &then, []string{"liqo.io/drain"}
			unreachableAPI(rome, "i/o timeout")
			tunnelDown(rome)
		}, first: "fail rome, unpeering: an unpeer of cluster milan is half done: VirtualNode milan in namespace liqo-tenant-milan",
			cure: "liqoctl force unpeer milan", consequences: 8},
		"the other cluster was installed again": {do: func(_, milan *Cluster, f *Facts) {
			*milan = Cluster{ID: "milan", Version: "v1", Namespace: "liqo"}
		}, first: "fail rome, agreement with milan: cluster rome knows milan, which does not know it", cure: "liqoctl force unpeer milan"},
		"the other cluster undid the peering": {do: func(_, milan *Cluster, _ *Facts) {
			*milan = Cluster{ID: "milan", Version: "v1", Namespace: "liqo", Peers: formerly(milan.Peers)}
		}, first: "fail rome, agreement with milan: cluster rome knows milan, which does not know it", cure: "liqoctl unpeer"},
		"another key, and so no tunnel": {do: func(rome, milan *Cluster, _ *Facts) {
			rome.KnownKeys["milan"] = []byte("old")
			tunnelDown(rome)
			tunnelDown(milan)
		}, first: "fail rome, agreement with milan: cluster rome stores another key", cure: "liqoctl network connect", consequences: 4},
		"no place for the peer's ranges": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			rome.Configurations[0].Status.Conditions = nil
			unhealthy(rome, networking, corev1beta1.NetworkConfigurationStatus)
		}, first: "fail rome, connections: Configuration milan in namespace liqo-tenant-milan", cure: "kubectl get networks.ipam.liqo.io", consequences: 1},
		"a policy of the provider refuses every claim": {do: func(rome, milan *Cluster, _ *Facts) {
			milan.DryRuns = []DryRun{{"shop-rome", "PersistentVolumeClaim", unconfigured("liqo-copies-claim")}}
			rome.Accesses[0].DryRuns = milan.DryRuns
			rome.Waiting = []corev1.Pod{pending("a", unconfigured("liqo-copies-claim"))}
		}, first: "fail milan, admission: in a dry run, policy liqo-copies-claim refuses", cure: "liqoctl upgrade", consequences: 2},
		"a policy of the provider refuses every claim, seen from here": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			rome.Accesses[0].DryRuns = []DryRun{{"shop-rome", "PersistentVolumeClaim", unconfigured("liqo-copies-claim")}}
			rome.Waiting = []corev1.Pod{pending("a", unconfigured("liqo-copies-claim"))}
		}, first: "fail rome, admission: in a dry run as controlplane-milan in cluster milan", cure: "ask the administrator of cluster milan", consequences: 1},
		"a policy of the provider, and pods that wait for something else": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			rome.Accesses[0].DryRuns = []DryRun{{"shop-rome", "PersistentVolumeClaim", unconfigured("liqo-copies-claim")}}
			rome.Waiting = []corev1.Pod{pending("a", "hostPath is refused by the provider"), pending("b", "liqo-copies-claim: "+offload.QuotaCure)}
		}, first: "fail rome, admission: in a dry run as controlplane-milan in cluster milan", cure: "ask the administrator of cluster milan", others: 2},
		"a webhook whose CA has ended": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			rome.Webhooks[0].Webhooks[0].ClientConfig.CABundle = certificate(t, now.Add(-time.Hour))
			rome.DryRuns = []DryRun{{"shop-milan", "Service", `failed calling webhook "ingress.validate.liqo.io": x509: certificate has expired`}}
		}, first: "fail rome, webhooks: webhook pod.mutate.liqo.io: its CA ended", cure: "rollout restart", consequences: 1},
		"the tunnel, which the virtual node reports too": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			tunnelDown(rome)
			nodeReports(rome, "the network to the remote cluster does not work", true)
		}, first: "fail rome, connections: Connection gw-milan", cure: "liqoctl network connect", consequences: 4},
		"the tunnel, which both clusters report": {do: func(rome, milan *Cluster, _ *Facts) {
			tunnelDown(rome)
			tunnelDown(milan)
			nodeReports(rome, "the network to the remote cluster does not work", true)
		}, first: "fail rome, connections: Connection gw-milan", cure: "liqoctl network connect", consequences: 6},
		"the first seconds of a partition: only the virtual kubelet has noticed that the API server is silent": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			tunnelDown(rome)
			rome.Accesses[0].Failure = "i/o timeout"
			nodeReports(rome, "the remote cluster does not answer: i/o timeout", true)
			rome.Waiting = []corev1.Pod{pending("a", "the provider does not answer")}
		}, first: "fail rome, reachability: cluster milan is unreachable from rome: neither its API server nor the tunnel responds", cure: "liqoctl force unpeer milan", consequences: 6},
		"the first seconds of a partition, of both clusters": {do: func(rome, milan *Cluster, _ *Facts) {
			rome.Accesses[0].Failure = "i/o timeout"
			tunnelDown(rome)
			tunnelDown(milan)
			nodeReports(rome, "the remote cluster does not answer: i/o timeout", false)
		}, first: "fail rome, reachability: clusters rome and milan do not reach each other", cure: "restore the network between the clusters", consequences: 6},
		"the first seconds of a partition: only the API server is known to be silent": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			unreachableAPI(rome, "i/o timeout")
			nodeReports(rome, "the remote cluster does not answer: i/o timeout", false)
		}, first: "fail rome, access: the API server of milan does not answer", cure: "can be reached from the cluster", consequences: 4},
		"a NetworkPolicy in the tenant namespace, where the cluster reaches the API server": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			tunnelDown(rome)
			rome.Accesses[0].Failure = "i/o timeout"
			rome.Peers[0].Status.Conditions = []corev1beta1.Condition{{Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusEstablished}}
			nodeReports(rome, "the remote cluster does not answer: i/o timeout", false)
			rome.Nodes[0].Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-10 * time.Minute))
		}, first: "fail rome, connections: Connection gw-milan", cure: "liqoctl network connect", consequences: 1, others: 1},
		"a NetworkPolicy in the tenant namespace, where liqoctl reaches the API server": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			tunnelDown(rome)
			nodeReports(rome, "the remote cluster does not answer: i/o timeout", false)
		}, first: "fail rome, connections: Connection gw-milan", cure: "liqoctl network connect", consequences: 1, others: 1},
		"an API server with another certificate, and no tunnel": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			tunnelDown(rome)
			rome.Accesses = nil
			nodeReports(rome, "the remote cluster does not answer: tls: failed to verify certificate: x509: certificate signed by unknown authority", false)
		}, first: "fail rome, connections: Connection gw-milan", cure: "liqoctl network connect", consequences: 1, others: 1},
		"an API server that fails, and no tunnel": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			tunnelDown(rome)
			rome.Accesses = nil
			nodeReports(rome, "the remote cluster does not answer: requesting https://milan/livez: 503 Service Unavailable", false)
		}, first: "fail rome, connections: Connection gw-milan", cure: "liqoctl network connect", consequences: 1, others: 1},
		"the tunnel of an in-band peering, which the virtual kubelet has noticed first": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			rome.Accesses = []Access{{Peer: "milan", Identity: "controlplane-milan", Server: "https://milan", Proxy: "http://10.9.0.1:8118"}}
			rome.Peers[0].Status.ForeignProxyURL = "http://10.9.0.1:8118"
			tunnelDown(rome)
			nodeReports(rome, "the remote cluster does not answer: i/o timeout", false)
		}, first: "fail rome, connections: Connection gw-milan", cure: "liqoctl network connect", consequences: 3},
		"two faults that have nothing to do with each other": {alone: true, do: func(rome, _ *Cluster, _ *Facts) {
			rome.Defined = nil
			tunnelDown(rome)
		}, first: "fail rome, definitions: custom resource definition", cure: "liqoctl upgrade", others: 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := world(t)
			row.do(f.Local, f.Remote, f)
			if row.alone {
				f.Remote = nil
			}
			findings := slices.DeleteFunc(Examine(f), func(f Finding) bool { return f.Level == OK })
			curesNameCommands(t, findings)
			got := text(findings, true)
			if len(findings) == 0 || !strings.HasPrefix(got, row.first) {
				t.Fatalf("found\n%swant first\n%s", got, row.first)
			}
			if first := findings[0]; !strings.Contains(first.Cure, row.cure) || len(first.Consequences) != row.consequences || len(findings) != row.others+1 {
				t.Errorf("found %d causes, the first with %d consequences and the cure %q, want %d, %d and %q:\n%s", len(findings), len(first.Consequences), first.Cure,
					row.others+1, row.consequences, row.cure, got)
			}
			if reached := f.Remote != nil || f.Local.answers("milan"); reached && findings[0].Check == "reachability" && strings.Contains(findings[0].Cure, "force unpeer") {
				t.Errorf("liqoctl reaches the cluster, and the cure is %q", findings[0].Cure)
			}
			if again := text(slices.DeleteFunc(Examine(f), func(f Finding) bool { return f.Level == OK }), true); again != got {
				t.Errorf("the same facts, another diagnosis:\n%s\n%s", got, again)
			}
		})
	}
}

// formerly is what unpeer leaves of ForeignClusters.
func formerly(peers []corev1beta1.ForeignCluster) []corev1beta1.ForeignCluster {
	out := slices.Clone(peers)
	for i := range out {
		out[i].Status = corev1beta1.ForeignClusterStatus{Role: corev1beta1.RoleUnknown, ObservedGeneration: 1}
		out[i].Status.TenantNamespace.Local = "liqo-tenant-" + out[i].Spec.ClusterID
	}
	return out
}

// TestFormerPeer: after unpeer a cluster is listed as a former peer, and not as one that is well.
func TestFormerPeer(t *testing.T) {
	f := world(t)
	f.Local = &Cluster{ID: "rome", Version: "v1", Namespace: "liqo", Peers: formerly(f.Local.Peers)}
	f.Remote = &Cluster{ID: "milan", Version: "v1", Namespace: "liqo", Peers: formerly(f.Remote.Peers)}
	got := text(Examine(f), false)
	want := "ok rome, former peer milan: the peering was undone; what is left is its ForeignCluster and the tenant namespace liqo-tenant-milan\n"
	if !strings.Contains(got, want) || strings.Contains(got, "peerings") || strings.Contains(got, "agreement") || strings.Contains(got, "fail") {
		t.Errorf("found\n%s", got)
	}
	if young := (&corev1beta1.ForeignCluster{Status: corev1beta1.ForeignClusterStatus{Role: corev1beta1.RoleUnknown}}); Former(young) {
		t.Error("a ForeignCluster without status is taken for a former peer")
	}
}

// TestEveryConsequenceHasACause: no finding is lost or listed twice, and a cause is never a consequence too, whatever fails together.
func TestEveryConsequenceHasACause(t *testing.T) {
	faults := []func(rome, milan *Cluster){
		func(rome, _ *Cluster) { rome.Components[0].Available = 0 },
		func(rome, _ *Cluster) { unreachableAPI(rome, "i/o timeout") },
		func(rome, _ *Cluster) { tunnelDown(rome) },
		func(rome, _ *Cluster) { denied(rome) },
		func(rome, _ *Cluster) { denyResources(rome) },
		func(_, milan *Cluster) { milan.Tenants[0].Spec.TenantCondition = authv1beta1.TenantDrained },
		func(_, milan *Cluster) { tunnelDown(milan) },
		func(_, milan *Cluster) { workload(milan, "-n liqo-tenant-rome deployment/gw-rome", "rome", 1, 0) },
	}
	for set := range 1 << len(faults) {
		f := world(t)
		for i, fault := range faults {
			if set&(1<<i) != 0 {
				fault(f.Local, f.Remote)
			}
		}
		seen := map[string]int{}
		findings := Examine(f)
		curesNameCommands(t, findings)
		for _, finding := range findings {
			if finding.Level == OK {
				continue
			}
			seen[finding.Cluster+finding.Evidence]++
			for _, of := range finding.Consequences {
				seen[of.Cluster+of.Evidence]++
				if len(of.Consequences) > 0 || !slices.Contains([]Level{Warn, Fail}, of.Level) {
					t.Errorf("%b: %+v", set, of)
				}
			}
		}
		for what, times := range seen {
			if times != 1 {
				t.Errorf("%b: %d times %s", set, times, what)
			}
		}
		if set == 0 && len(seen) > 0 || set != 0 && len(seen) == 0 || set != 0 && findings[0].Level == OK {
			t.Errorf("%b: %s", set, text(findings, true))
		}
	}
}
