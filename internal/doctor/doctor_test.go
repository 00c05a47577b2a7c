package doctor

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// certificate is one that began ten hours ago and ends at a time.
func certificate(t *testing.T, until time.Time) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotBefore: now.Add(-10 * time.Hour), NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func ready(reason string) []metav1.Condition {
	status := metav1.ConditionTrue
	if reason != "" {
		status = metav1.ConditionFalse
	}
	return []metav1.Condition{{Type: "Ready", Status: status, Reason: reason, Message: "because"}}
}

func accepted() []authv1beta1.ResourceSliceCondition {
	return []authv1beta1.ResourceSliceCondition{
		{Type: authv1beta1.ResourceSliceAuthentication, Status: authv1beta1.ResourceSliceAccepted},
		{Type: authv1beta1.ResourceSliceResources, Status: authv1beta1.ResourceSliceAccepted, Reason: "R", Message: "m"},
	}
}

// cluster is one end of a peering in which both use resources of the other, and nothing is wrong.
func cluster(t *testing.T, id, other, pods string) *Cluster {
	t.Helper()
	namespace, peer := "liqo-tenant-"+other, map[string]string{api.LabelRemoteClusterID: other}
	holder, seconds, renewed := "x", int32(40), metav1.NewMicroTime(now.Add(-5*time.Second))
	network := func(name, kind, cidr string) ipamv1alpha1.Network {
		return ipamv1alpha1.Network{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name, Labels: map[string]string{ipamv1alpha1.LabelNetworkType: kind}},
			Spec:       ipamv1alpha1.NetworkSpec{CIDR: cidr}, Status: ipamv1alpha1.NetworkStatus{CIDR: cidr, Conditions: ready("")},
		}
	}
	theirs := map[string]string{"10.1.0.0/16": "10.2.0.0/16", "10.2.0.0/16": "10.1.0.0/16"}[pods]
	c := &Cluster{
		ID: id, Version: "v1", Namespace: "liqo",
		Components: []Component{{Name: "-n liqo deployment/liqo-controller-manager", Desired: 1, Available: 1, Images: []string{"registry.liqo.io:5000/liqo/controller-manager:v1@sha256:00"}}},
		Wanted:     []string{"tenants.authentication.liqo.io"}, Defined: map[string]bool{"tenants.authentication.liqo.io": true},
		Webhooks: []admissionregistrationv1.MutatingWebhookConfiguration{{Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "pod.mutate.liqo.io", ClientConfig: admissionregistrationv1.WebhookClientConfig{
				CABundle: certificate(t, now.Add(time.Hour)), Service: &admissionregistrationv1.ServiceReference{Namespace: "liqo", Name: "hooks"},
			},
		}}}},
		Backends: map[string]int{"hooks": 1},
		Leases: []coordinationv1.Lease{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "leader"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
		}},
		Configured: map[string][]string{ipamv1alpha1.NetworkTypePod: {pods}},
		Networks:   []ipamv1alpha1.Network{network("pod-cidr", ipamv1alpha1.NetworkTypePod, pods), network("external-cidr", ipamv1alpha1.NetworkTypeExternal, "10.70.0.0/16")},
		Peers: []corev1beta1.ForeignCluster{{
			Spec: corev1beta1.ForeignClusterSpec{ClusterID: other}, Status: corev1beta1.ForeignClusterStatus{
				Role:       corev1beta1.RoleConsumerAndProvider,
				Conditions: []corev1beta1.Condition{{Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusEstablished}},
				Modules: corev1beta1.Modules{Networking: corev1beta1.Module{Enabled: true, Conditions: []corev1beta1.Condition{
					{Type: corev1beta1.NetworkConnectionStatus, Status: corev1beta1.StatusEstablished, Reason: "R", Message: "m"},
				}}},
			},
		}},
		Tenants: []authv1beta1.Tenant{{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: other, Labels: peer},
			Spec:       authv1beta1.TenantSpec{ClusterID: other}, Status: authv1beta1.TenantStatus{Conditions: ready("")},
		}},
		Identities: []authv1beta1.Identity{{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "controlplane-" + other},
			Spec:       authv1beta1.IdentitySpec{ClusterID: other, AuthParams: authv1beta1.AuthParams{SignedCRT: certificate(t, now.Add(20*time.Hour))}},
			Status:     authv1beta1.IdentityStatus{KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "k"}, Conditions: ready("")},
		}},
		Slices: []authv1beta1.ResourceSlice{
			{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "asked", Labels: peer}, Status: authv1beta1.ResourceSliceStatus{Conditions: accepted()}},
			{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "granted", Labels: map[string]string{api.LabelReplicated: api.True, api.LabelOriginID: other}},
				Status:     authv1beta1.ResourceSliceStatus{Conditions: accepted()},
			},
		},
		Configurations: []networkingv1beta1.Configuration{{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: other, Labels: peer},
			Status:     networkingv1beta1.ConfigurationStatus{Conditions: []metav1.Condition{{Type: networkingv1beta1.ConditionCIDRsConfigured, Status: metav1.ConditionTrue}}},
		}},
		Connections: []networkingv1beta1.Connection{{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gw-" + other, Labels: peer},
			Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected, MTU: 1340, Latency: &networkingv1beta1.ConnectionLatency{
				Value: "1.2ms", Timestamp: metav1.NewTime(now.Add(-10 * time.Second)),
			}},
		}},
		Keys: map[string][]byte{other: []byte("key of " + id)}, KnownKeys: map[string][]byte{other: []byte("key of " + other)},
		VirtualNodes: []offloadingv1beta1.VirtualNode{{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: other}, Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: other},
			Status: offloadingv1beta1.VirtualNodeStatus{Conditions: []offloadingv1beta1.VirtualNodeCondition{
				{Type: offloadingv1beta1.VirtualNodeNode, Status: offloadingv1beta1.VirtualNodeRunning, Reason: "R", Message: "m"},
			}},
		}},
		Nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: other}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "R", Message: "m"}, {Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Message: "m"},
		}}}},
		Offloadings: []offloadingv1beta1.NamespaceOffloading{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Status: offloadingv1beta1.NamespaceOffloadingStatus{OffloadingPhase: offloadingv1beta1.PhaseReady},
		}},
		Accesses: []Access{{Peer: other, Identity: "controlplane-" + other, Server: "https://" + other, Took: 12 * time.Millisecond}},
	}
	c.Configurations[0].Spec.Remote.CIDR = networkingv1beta1.CIDRs{Pod: []string{theirs}, External: []string{"10.70.0.0/16"}}
	return c
}

func world(t *testing.T) *Facts {
	return &Facts{Now: now, Client: "v1", Local: cluster(t, "rome", "milan", "10.1.0.0/16"), Remote: cluster(t, "milan", "rome", "10.2.0.0/16")}
}

func text(findings []Finding, worse bool) string {
	var b strings.Builder
	for _, f := range findings {
		if f.Level != OK || !worse {
			fmt.Fprintf(&b, "%s %s, %s: %s\n", f.Level, f.Cluster, f.Check, f.Evidence)
			for _, of := range f.Consequences {
				fmt.Fprintf(&b, "> %s, %s: %s\n", of.Cluster, of.Check, of.Evidence)
			}
		}
	}
	return b.String()
}

// TestHealthy: every check says in a line what it looked at.
func TestHealthy(t *testing.T) {
	got := text(Examine(world(t)), false)
	for _, id := range []string{"rome", "milan"} {
		for _, want := range []string{
			"components: 1 components, all available", "versions: everything is v1", "definitions: 1 custom resource definitions, all established",
			"webhooks: 1 webhooks, with a valid CA", "leases: 1 leases, all renewed in time", "ranges: 2 ranges, none overlaps another",
			"identities: 1 identities, the first certificate ends at 2026-11-21T08:00:00Z", "tenants: 1 admitted", "resources: 2 requests, all granted",
			"access: " + map[string]string{"rome": "milan", "milan": "rome"}[id] + " answers", "peerings: ", "connections: ", "virtual nodes: 1, all running and Ready",
			"namespaces: 1 offloaded, all ready", "agreement with ",
		} {
			if !strings.Contains(got, "ok "+id+", "+want) {
				t.Errorf("%s: no %q in\n%s", id, want, got)
			}
		}
	}
	if strings.Count(got, "\n") != 30 || strings.Contains(got, "fail") || strings.Contains(got, "warn") {
		t.Errorf("findings:\n%s", got)
	}
	if nothing := Examine(&Facts{Now: now, Client: "v1", Local: &Cluster{ID: "rome", Version: "v1"}}); Worst(nothing) != OK {
		t.Errorf("an installation without peers: %s", text(nothing, false))
	}
}

// forPeople are the beginnings of cures without a command: only a person can carry them out.
var forPeople = []string{
	"run the command as an administrator", "what the provider says of itself: ask its administrator", "leave default: true at one of them", "ask the administrator of cluster",
	"see that https://", // the network between the clusters
}

// curesNameCommands: a user copies a cure, or the command that shows what to do. Sentences alone leave the user to search.
func curesNameCommands(t *testing.T, findings []Finding) {
	t.Helper()
	for _, finding := range findings {
		command := strings.Contains(finding.Cure, "kubectl ") || strings.Contains(finding.Cure, "liqoctl ")
		if finding.Level != OK && !command && !slices.ContainsFunc(forPeople, func(begins string) bool { return strings.HasPrefix(finding.Cure, begins) }) {
			t.Errorf("no command is in the cure %q of %q", finding.Cure, finding.Evidence)
		}
		curesNameCommands(t, finding.Consequences)
	}
}

// TestSick breaks one thing after another: that is found, with its evidence and a cure, and nothing else is.
func TestSick(t *testing.T) {
	for name, row := range map[string]struct {
		do   func(c *Cluster, f *Facts)
		want string // all that is not well
		cure string // part of the cure of the first finding
	}{
		"a component": {func(c *Cluster, _ *Facts) { c.Components[0].Available, c.Components[0].Trouble = 0, "no memory" },
			"fail rome, components: -n liqo deployment/liqo-controller-manager: 0 of 1 pods are available: no memory; until it runs, nothing is reconciled and every status shown is from before\n", "kubectl describe -n liqo deployment/liqo-controller-manager"},
		"what can not be read": {func(c *Cluster, _ *Facts) { c.Unread = []string{"Tenants can not be read: forbidden"} }, "fail rome, facts: Tenants can not be read: forbidden\n", "as an administrator"},
		"liqoctl of another version": {func(_ *Cluster, f *Facts) { f.Client, f.Remote = "v2", nil },
			"warn rome, versions: liqoctl is v2, the installation v1\n", "use liqoctl v1, or upgrade the cluster"},
		"no version": {func(c *Cluster, f *Facts) { c.Version, f.Remote = "", nil }, "warn rome, versions: the Deployment of the controller manager has no label with the version\n", "liqoctl upgrade"},
		"half an upgrade": {func(c *Cluster, _ *Facts) {
			c.Components = append(c.Components, Component{Name: "-n liqo daemonset/liqo-fabric", Desired: 1, Available: 1, Images: []string{"registry.liqo.io/liqo/fabric:v0"}})
		}, "warn rome, versions: -n liqo daemonset/liqo-fabric: component of version v0, the installation is v1\n", "liqoctl upgrade"},
		"a DaemonSet that no node matches": {func(c *Cluster, _ *Facts) {
			c.Components = append(c.Components, Component{Name: "-n liqo daemonset/liqo-fabric"})
		}, "fail rome, components: -n liqo daemonset/liqo-fabric: no node matches, none of its pods runs\n", "nodeSelector"},
		"a definition less":         {func(c *Cluster, _ *Facts) { c.Defined = nil }, "fail rome, definitions: custom resource definition tenants.authentication.liqo.io is missing\n", "liqoctl upgrade"},
		"a definition not in force": {func(c *Cluster, _ *Facts) { c.Defined[c.Wanted[0]] = false }, "fail rome, definitions: custom resource definition tenants.authentication.liqo.io is not established\n", "describe crd"},
		"an older definition": {func(c *Cluster, _ *Facts) {
			c.Lacked = map[string]string{c.Wanted[0]: "field spec.x of version v1beta1"}
		},
			"fail rome, definitions: custom resource definition tenants.authentication.liqo.io lacks field spec.x of version v1beta1: the API server removes such values without an error\n",
			"liqoctl upgrade"},
		"an older definition, and a newer liqoctl": {func(c *Cluster, f *Facts) {
			c.Lacked, f.Client, f.Remote = map[string]string{c.Wanted[0]: "field spec.x of version v1beta1"}, "v2", nil
		}, "warn rome, versions: liqoctl is v2, the installation v1\n", "use liqoctl v1, or upgrade the cluster"},
		"a webhook without CA": {func(c *Cluster, _ *Facts) { c.Webhooks[0].Webhooks[0].ClientConfig.CABundle = nil },
			"fail rome, webhooks: webhook pod.mutate.liqo.io: its CA bundle can not be used: reading the certificate: it is not a PEM certificate\n", "rollout restart"},
		"a webhook whose CA ended": {func(c *Cluster, _ *Facts) {
			c.Webhooks[0].Webhooks[0].ClientConfig.CABundle = certificate(t, now.Add(-time.Hour))
		},
			"fail rome, webhooks: webhook pod.mutate.liqo.io: its CA ended at 2026-11-20T11:00:00Z\n", "rollout restart"},
		"a webhook without backend": {func(c *Cluster, _ *Facts) { c.Backends = nil }, "fail rome, webhooks: webhook pod.mutate.liqo.io: Service hooks in namespace liqo has no ready endpoint\n", "rollout restart deployment/liqo-controller-manager"},
		"a dead leader": {func(c *Cluster, _ *Facts) {
			then := metav1.NewMicroTime(now.Add(-time.Minute))
			c.Leases[0].Spec.RenewTime = &then
		},
			"fail rome, leases: Lease leader in namespace liqo: its holder x last renewed it 1m0s ago, a lease lasts 40 s\n", "takes over"},
		"a lease that was given back": {func(c *Cluster, _ *Facts) { c.Leases[0].Spec.HolderIdentity = nil }, "", ""},
		"overlapping ranges": {func(c *Cluster, _ *Facts) { c.Networks[1].Status.CIDR = "10.1.128.0/17"; c.Networks = c.Networks[:2] },
			"fail rome, ranges: Network pod-cidr in namespace liqo (10.1.0.0/16) and Network external-cidr in namespace liqo (10.1.128.0/17) overlap\n" +
				"fail milan, agreement with rome: Configuration rome in namespace liqo-tenant-rome says that the external range of rome is 10.70.0.0/16, it is 10.1.128.0/17\n", "given another"},
		"a range without a place": {func(c *Cluster, f *Facts) {
			c.Networks[1].Status = ipamv1alpha1.NetworkStatus{Conditions: ready("Full")}
			f.Remote = nil
		},
			"fail rome, ranges: Network external-cidr in namespace liqo: Full, because\n", "liqoctl upgrade --"},
		"ranges that changed": {func(c *Cluster, _ *Facts) { c.Configured[ipamv1alpha1.NetworkTypePod] = []string{"10.9.0.0/16"} },
			"fail rome, ranges: the installation is configured with the pod range 10.9.0.0/16, the Networks have 10.1.0.0/16\n", "liqoctl upgrade"},
		"a certificate that ended": {func(c *Cluster, _ *Facts) {
			c.Identities[0].Spec.AuthParams.SignedCRT = certificate(t, now.Add(-time.Hour))
		},
			"fail rome, identities: Identity controlplane-milan in namespace liqo-tenant-milan: its certificate ended at 2026-11-20T11:00:00Z\n", "liqoctl authenticate"},
		"a certificate that is not renewed": {func(c *Cluster, _ *Facts) {
			c.Identities[0].Spec.AuthParams.SignedCRT = certificate(t, now.Add(time.Hour))
		},
			"warn rome, identities: Identity controlplane-milan in namespace liqo-tenant-milan: its certificate ends at 2026-11-20T13:00:00Z and should have been renewed at 2026-11-20T09:20:00Z\n", "get renews.authentication.liqo.io"},
		"no certificate": {func(c *Cluster, _ *Facts) { c.Identities[0].Spec.AuthParams.SignedCRT = nil },
			"fail rome, identities: Identity controlplane-milan in namespace liqo-tenant-milan: its certificate can not be read", "liqoctl authenticate"},
		"an access key of AWS": {func(c *Cluster, _ *Facts) { c.Identities[0].Spec.AuthParams = onEKS("eu-west-1") }, "", ""},
		"an access key of AWS for no region": {func(c *Cluster, _ *Facts) { c.Identities[0].Spec.AuthParams = onEKS("") },
			"fail rome, identities: Identity controlplane-milan in namespace liqo-tenant-milan: its access key can not be used: authParams.awsConfig.awsRegion is \"\", want the region", "kubectl -n liqo-tenant-milan edit identities.authentication.liqo.io controlplane-milan"},
		"no kubeconfig": {func(c *Cluster, _ *Facts) {
			c.Identities[0].Status = authv1beta1.IdentityStatus{Conditions: ready("Invalid")}
		}, "fail rome, identities: Identity controlplane-milan in namespace liqo-tenant-milan has no kubeconfig: Invalid, because\n", "kubectl -n liqo logs deployment/liqo-controller-manager"},
		"a drained tenant": {func(c *Cluster, _ *Facts) { c.Tenants[0].Spec.TenantCondition = authv1beta1.TenantDrained },
			"warn rome, tenants: Tenant milan in namespace liqo-tenant-milan is drained: it may do nothing\n", "liqoctl activate tenant milan"},
		"a cordoned tenant": {func(c *Cluster, _ *Facts) { c.Tenants[0].Spec.TenantCondition = authv1beta1.TenantCordoned },
			"warn rome, tenants: Tenant milan in namespace liqo-tenant-milan is cordoned: it is granted nothing further\n", "liqoctl uncordon tenant milan"},
		"a refused tenant": {func(c *Cluster, _ *Facts) { c.Tenants[0].Status.Conditions = ready("BadSignature") },
			"fail rome, tenants: Tenant milan in namespace liqo-tenant-milan is not admitted: BadSignature, because\n", "liqoctl authenticate"},
		"refused resources": {func(c *Cluster, _ *Facts) { c.Slices[0].Status.Conditions[1].Status = authv1beta1.ResourceSliceDenied },
			"fail rome, resources: ResourceSlice asked in namespace liqo-tenant-milan: Resources is Denied, R: m\n", "ask for less"},
		"no answer of a provider": {func(c *Cluster, f *Facts) {
			c.Slices[0].Status.Conditions, c.Slices[0].CreationTimestamp, f.Remote = accepted()[:1], metav1.NewTime(now.Add(-time.Hour)), nil
		}, "fail rome, resources: ResourceSlice asked in namespace liqo-tenant-milan (class \"\"): the provider has not answered Resources since 2026-11-20T11:00:00Z\n", "class of the request"},
		"no answer": {func(c *Cluster, _ *Facts) { c.Slices[1].Status.Conditions = accepted()[:1] },
			"fail rome, resources: ResourceSlice granted in namespace liqo-tenant-milan (class \"\"): this cluster has not answered Resources\n", "class of the request"},
		"a cordoned request": {func(c *Cluster, _ *Facts) {
			c.Slices[1].Annotations = map[string]string{authv1beta1.AnnotationCordon: "true"}
		},
			"warn rome, resources: ResourceSlice granted in namespace liqo-tenant-milan is cordoned\n", "liqoctl uncordon resourceslice granted --remote-cluster-id milan"},
		"rights taken away": {func(c *Cluster, _ *Facts) { c.Accesses[0].Denied = []string{"create renews in namespace x"} },
			"fail rome, access: controlplane-milan may not do in cluster milan: create renews in namespace x (asked from here)\n", "liqoctl activate tenant rome"},
		"nobody reaches the peer": {func(c *Cluster, _ *Facts) {
			c.Accesses[0].Failure, c.Peers[0].Status.Conditions[0] = "no route", corev1beta1.Condition{Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusError, Reason: "R", Message: "no route"}
		}, "fail rome, access: the API server of milan does not answer as controlplane-milan at https://milan, asked from here: no route\n> rome, peerings: milan: APIServerStatus is Error, R: no route\n", "can be reached"},
		"only from here the identity is refused": {func(c *Cluster, _ *Facts) { c.Accesses[0].Failure, c.Accesses[0].Refused = "403 Forbidden", true },
			"warn rome, access: rome reaches milan at https://milan, as it says itself; asked from here, controlplane-milan is refused: 403 Forbidden\n", "what responds at https://milan"},
		"only the cluster reaches the peer": {func(c *Cluster, _ *Facts) { c.Accesses[0].Failure = "no route" }, "", ""},
		"only the tunnel leads there":       {func(c *Cluster, _ *Facts) { c.Accesses[0].Proxy = "http://10.0.0.1:8118" }, "", ""},
		"a condition": {func(c *Cluster, _ *Facts) {
			c.Peers[0].Status.Modules.Networking.Conditions[0].Status = corev1beta1.StatusNotReady
		},
			"fail rome, peerings: milan: NetworkConnectionStatus is NotReady, R: m\n", "liqoctl info peer milan"},
		"a peering that is asked for in vain": {func(c *Cluster, _ *Facts) {
			c.Peers[0].Status.Conditions = append(c.Peers[0].Status.Conditions, corev1beta1.Condition{
				Type: corev1beta1.OutgoingPeering, Status: corev1beta1.StatusError, Reason: "TokenMissing", Message: "m",
			})
		}, "fail rome, peerings: milan: OutgoingPeering is Error, TokenMissing: m\n", "liqoctl info peer milan"},
		"a peering that nobody asks for": {func(c *Cluster, _ *Facts) {
			c.Peers[0].Status.Conditions = append(c.Peers[0].Status.Conditions, corev1beta1.Condition{
				Type: corev1beta1.OutgoingPeering, Status: corev1beta1.StatusNone, Reason: "NotPeered", Message: "m",
			})
		}, "", ""},
		"a first peering that is asked for in vain": {func(c *Cluster, _ *Facts) {
			c.Peers = append(c.Peers, corev1beta1.ForeignCluster{
				Spec: corev1beta1.ForeignClusterSpec{ClusterID: "turin", OutgoingPeeringEnabled: corev1beta1.PeeringYes},
				Status: corev1beta1.ForeignClusterStatus{Role: corev1beta1.RoleUnknown, ObservedGeneration: 1, Conditions: []corev1beta1.Condition{
					{Type: corev1beta1.OutgoingPeering, Status: corev1beta1.StatusError, Reason: "AddressMissing", Message: "m"},
				}},
			})
		}, "fail rome, peerings: turin: OutgoingPeering is Error, AddressMissing: m\n", "liqoctl info peer turin"},
		"a tunnel that is down": {func(c *Cluster, _ *Facts) {
			c.Connections[0].Status = networkingv1beta1.ConnectionStatus{Value: "Error", Conditions: ready("Silent")}
		},
			"fail rome, connections: Connection gw-milan in namespace liqo-tenant-milan is \"Error\": Silent, because\n", "liqoctl network connect"},
		"a gateway that is silent": {func(c *Cluster, _ *Facts) {
			c.Connections[0].Status.Latency.Timestamp = metav1.NewTime(now.Add(-time.Hour))
		},
			"fail rome, connections: Connection gw-milan in namespace liqo-tenant-milan: nothing was measured for 1h0m0s\n", "-c gateway"},
		"ranges without a place": {func(c *Cluster, _ *Facts) { c.Configurations[0].Status.Conditions = nil },
			"fail rome, connections: Configuration milan in namespace liqo-tenant-milan: the peer's ranges are not mapped in this cluster yet\n", "kubectl get networks"},
		"a node that is not Ready": {func(c *Cluster, _ *Facts) { c.Nodes[0].Status.Conditions[0].Status = corev1.ConditionFalse },
			"fail rome, virtual nodes: Node milan is not Ready: R, m\n", "cluster milan"},
		"a node under pressure": {func(c *Cluster, _ *Facts) { c.Nodes[0].Status.Conditions[1].Status = corev1.ConditionTrue }, "warn rome, virtual nodes: Node milan: MemoryPressure, m\n", "administrator"},
		"a cordoned node":       {func(c *Cluster, _ *Facts) { c.Nodes[0].Spec.Unschedulable = true }, "warn rome, virtual nodes: Node milan takes no pods: it is cordoned\n", "kubectl uncordon milan"},
		"no node":               {func(c *Cluster, _ *Facts) { c.Nodes = nil }, "fail rome, virtual nodes: VirtualNode milan in namespace liqo-tenant-milan has no Node\n", "logs deployment/vk-milan"},
		"no node wanted": {func(c *Cluster, _ *Facts) {
			no := false
			c.Nodes, c.VirtualNodes[0].Spec.CreateNode, c.VirtualNodes[0].Status.Conditions[0].Status = nil, &no, offloadingv1beta1.VirtualNodeNone
		}, "", ""},
		"a virtual kubelet that does not run": {func(c *Cluster, _ *Facts) {
			c.VirtualNodes[0].Status.Conditions[0].Status = offloadingv1beta1.VirtualNodeCreating
		},
			"fail rome, virtual nodes: VirtualNode milan in namespace liqo-tenant-milan: Node is Creating, R: m\n", "deployment/vk-milan"},
		"no cluster selected": {func(c *Cluster, _ *Facts) {
			c.Offloadings[0].Status.OffloadingPhase = offloadingv1beta1.PhaseNoClusterSelected
		},
			"warn rome, namespaces: namespace shop is offloaded, and no cluster is selected\n", "liqoctl offload namespace shop"},
		"a remote namespace that can not be made": {func(c *Cluster, _ *Facts) {
			c.Offloadings[0].Status = offloadingv1beta1.NamespaceOffloadingStatus{OffloadingPhase: "SomeFailed", RemoteNamespacesConditions: map[string][]offloadingv1beta1.RemoteNamespaceCondition{
				"milan": {{Type: offloadingv1beta1.RemoteNamespaceReady, Status: corev1.ConditionFalse, Reason: "Taken", Message: "m"}},
			}}
		}, "fail rome, namespaces: namespace shop: SomeFailed (cluster milan: Taken: m)\n", "describe namespaceoffloading"},
		"two namespaces of one name": {func(c *Cluster, _ *Facts) {
			first, second := c.Offloadings[0], c.Offloadings[0]
			first.Spec.NamespaceMappingStrategy = offloadingv1beta1.EnforceSameName
			second.Namespace, second.Spec.NamespaceMappingStrategy, second.Spec.RemoteNamespaceName = "other", offloadingv1beta1.SelectedName, "shop"
			c.Offloadings = []offloadingv1beta1.NamespaceOffloading{first, second}
		}, "fail rome, namespaces: namespaces shop and other both want to be shop in cluster milan\n", "liqoctl unoffload namespace other (deletes its remote namespaces), then offload it with another name"},
		"two versions": {func(_ *Cluster, f *Facts) { f.Remote.Version, f.Remote.Components = "v2", nil },
			"warn milan, versions: liqoctl is v1, the installation v2\nwarn rome, agreement with milan: cluster rome runs v1, cluster milan runs v2\n" +
				"warn milan, agreement with rome: cluster milan runs v2, cluster rome runs v1\n", "liqoctl v2"},
		"a peer that forgot": {func(_ *Cluster, f *Facts) { f.Remote.Peers = nil }, "fail rome, agreement with milan: cluster rome knows milan, which does not know it\n", "liqoctl force unpeer milan"},
		"a peer whose ranges changed": {func(_ *Cluster, f *Facts) {
			f.Remote.Configured, f.Remote.Networks[0].Spec.CIDR, f.Remote.Networks[0].Status.CIDR = nil, "10.8.0.0/16", "10.8.0.0/16"
		}, "fail rome, agreement with milan: Configuration milan in namespace liqo-tenant-milan says that the pod range of milan is 10.2.0.0/16, it is 10.8.0.0/16\n", "liqoctl network connect"},
		"another key":     {func(c *Cluster, _ *Facts) { c.KnownKeys["milan"] = []byte("old") }, "fail rome, agreement with milan: cluster rome stores another key than the gateway of milan has\n", "liqoctl network connect"},
		"no key was told": {func(c *Cluster, _ *Facts) { c.KnownKeys = nil }, "fail rome, agreement with milan: cluster rome does not have the key of the gateway of milan\n", "liqoctl network connect"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := world(t)
			row.do(facts.Local, facts)
			findings := Examine(facts)
			got := text(findings, true)
			if !strings.HasPrefix(got, row.want) || strings.HasSuffix(row.want, "\n") && got != row.want || row.want == "" && got != "" {
				t.Errorf("found\n%swant\n%s", got, row.want)
			}
			curesNameCommands(t, findings)
			worst := OK
			for _, finding := range findings {
				if finding.Level == OK {
					continue
				}
				if worst == OK && !strings.Contains(finding.Cure, row.cure) {
					t.Errorf("the cure is %q, want %q in it", finding.Cure, row.cure)
				}
				if finding.Cure == "" {
					t.Errorf("%s has no cure", finding.Evidence)
				}
				if worst != Fail {
					worst = finding.Level
				}
			}
			if Worst(findings) != worst {
				t.Errorf("the worst is %s, want %s", Worst(findings), worst)
			}
		})
	}
}

// onEKS returns AuthParams with an access key of AWS.
func onEKS(region string) authv1beta1.AuthParams {
	return authv1beta1.AuthParams{AwsConfig: &authv1beta1.AwsConfig{
		AwsAccessKeyID: "AKIAIOSFODNN7EXAMPLE", AwsSecretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", AwsRegion: region,
		AwsClusterName: "milan-eks", AwsUserArn: "arn:aws:iam::111122223333:user/rome",
	}}
}
