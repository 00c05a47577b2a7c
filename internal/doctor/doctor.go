// Package doctor diagnoses an installation and its peerings. It turns gathered facts into findings. Each finding has its evidence and, if
// something is wrong, a cure.
package doctor

import (
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Level is the severity of a finding.
type Level string

// The levels of findings.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is one result of a check.
type Finding struct {
	Cluster  string `json:"cluster"`
	Check    string `json:"check"`
	Level    Level  `json:"level"`
	Evidence string `json:"evidence"`
	Cure     string `json:"cure,omitempty"`
	// Peer is the ID of the peer that the finding is about. It is empty for a finding about the installation itself.
	Peer string `json:"peer,omitempty"`
	// Consequences are findings that disappear once this one is resolved.
	Consequences []Finding `json:"consequences,omitempty"`

	part   part
	module module
	// identity is the name of the Identity that the finding is about, if any.
	identity string
	// refuser is the name of the policy or webhook that the finding is about, if any.
	refuser string
	// fromManager means that only the controller manager of the cluster can change the reported state.
	fromManager bool
	// unanswered means that the other cluster has not answered this request. drained means that the tenant is drained and has no access. proxied means that the
	// reported connection runs through the tunnel. silent and untunneled are reports of a virtual node: the API server of the peer does not respond, or the
	// network to the peer does not work.
	unanswered, drained, proxied, silent, untunneled bool
}

// Component is a workload of the installation or of one of its peerings.
type Component struct {
	// Name holds the namespace, kind and name as kubectl arguments: -n liqo deployment/liqo-fabric.
	Name               string
	Desired, Available int32
	Images             []string
	// Trouble is the reason why the pods are not running; empty if the pods show no reason.
	Trouble string
	// Peer is the cluster that the component serves. It is empty for a component of the installation.
	Peer string
}

// Access is the result of a request to the API server of a peer, made with an Identity of this cluster. The machine that runs the doctor
// makes the request; that machine may be outside the cluster.
type Access struct {
	Peer, Identity, Server string
	// Proxy is the proxy that the request needs and that only the cluster can reach. If it is set, no request was made.
	Proxy string
	// Failure is the reason why the request got no response. It is empty if the server responded; Took is then the duration of the request.
	Failure string
	// Refused means that the server responded but rejected the identity. Unusable means that no request is possible with the kubeconfig.
	Refused, Unusable bool
	Took              time.Duration
	// Denied lists the permissions that the identity needs and lacks.
	Denied []string
	// DryRuns are the replies to dry runs in a remote namespace of this cluster.
	DryRuns []DryRun
}

// DryRun is the reply of an API server to the dry run of a creation in a remote namespace. The object is a plain one, which the policies and webhooks of
// Liqo admit.
type DryRun struct {
	Namespace, Kind string
	// Refusal is the reason why the object was refused. It is empty if the object was admitted.
	Refusal string
}

// Name is a host name of a GatewayClient.
type Name struct {
	// Peer is the cluster that is dialed. Object holds the kind, name and namespace of the GatewayClient.
	Peer, Object, Host string
	// Failure is the reason why the machine that runs the doctor finds no address of the host. It is empty if there is an address, or if the name was
	// not looked up.
	Failure string
}

// Cluster holds all facts gathered about one cluster.
type Cluster struct {
	ID, Version, Namespace string
	Components             []Component
	// Wanted are the names of the custom resource definitions of this version. Defined maps each existing definition to whether it is
	// established. Lacked maps each existing definition that lacks a version or a field of this version to the first of them.
	Wanted  []string
	Defined map[string]bool
	Lacked  map[string]string
	// Webhooks are the configurations that call a Service of the installation. Backends maps the name of each such Service to its number of
	// ready endpoints.
	Webhooks []admissionregistrationv1.MutatingWebhookConfiguration
	Backends map[string]int
	Leases   []coordinationv1.Lease
	// Configured holds the address ranges in the configuration of the installation, by type of Network.
	Configured     map[string][]string
	Networks       []ipamv1alpha1.Network
	Peers          []corev1beta1.ForeignCluster
	Tenants        []authv1beta1.Tenant
	Identities     []authv1beta1.Identity
	Slices         []authv1beta1.ResourceSlice
	Configurations []networkingv1beta1.Configuration
	Connections    []networkingv1beta1.Connection
	// NetworkRequests are those of this cluster and those of its consumers.
	NetworkRequests []networkingv1beta1.NetworkRequest
	// Tunnels means that the installation can create tunnels to its peers: it has the network of Liqo, and templates of gateways.
	Tunnels bool
	// Keys are the public keys of the gateways of this cluster. KnownKeys are the public keys that this cluster has for the gateways of its
	// peers. Both are keyed by peer.
	Keys, KnownKeys map[string][]byte
	VirtualNodes    []offloadingv1beta1.VirtualNode
	Nodes           []corev1.Node
	Offloadings     []offloadingv1beta1.NamespaceOffloading
	// Retained are the volumes of deleted claims whose data is in a remote namespace.
	Retained []corev1.PersistentVolume
	// Moves are the volumes with the data of unfinished moves. Claims has those of their claims that exist.
	Moves  []corev1.PersistentVolume
	Claims map[types.NamespacedName]bool
	// Waiting are the pods of offloaded namespaces that are Pending.
	Waiting []corev1.Pod
	// StorageClasses are all storage classes of the cluster.
	StorageClasses []storagev1.StorageClass
	// IPs are the addresses that are exposed to peers. ClusterIPs maps the addresses of Services to namespace/name. It is nil if no IP needs it.
	IPs        []ipamv1alpha1.IP
	ClusterIPs map[string]string
	// Names are the host names at which the gateways of this cluster dial those of its peers.
	Names    []Name
	Accesses []Access
	// DryRuns are the replies of the own API server to dry runs in the remote namespaces of consumers.
	DryRuns []DryRun
	// Unchecked lists the dry runs that got no reply or were not made, with the reason.
	Unchecked []string
	// Unread lists each fact that could not be read, with the reason.
	Unread []string
}

// Facts are the input of a diagnosis.
type Facts struct {
	// Now is the time at which the facts were gathered.
	Now time.Time
	// Client is the version of liqoctl.
	Client string
	Local  *Cluster
	// Remote is the other cluster of a peering. It is nil if only one cluster can be read.
	Remote *Cluster
}

// report collects the findings of one check in one cluster.
type report struct {
	*Cluster
	now      time.Time
	client   string
	check    string
	findings []Finding
	// part and peer are the subject of the next findings.
	part part
	peer string
}

// about sets the subject of the next findings.
func (r *report) about(of part, peer string) { r.part, r.peer = of, peer }

// add records a finding and returns it, so that the caller can set more fields.
func (r *report) add(level Level, cure, format string, args ...any) *Finding {
	r.findings = append(r.findings, Finding{
		Cluster: r.ID, Check: r.check, Level: level, Evidence: fmt.Sprintf(format, args...), Cure: cure, Peer: r.peer, part: r.part,
	})
	return &r.findings[len(r.findings)-1]
}

func (r *report) fail(cure, format string, args ...any) *Finding {
	return r.add(Fail, cure, format, args...)
}
func (r *report) warn(cure, format string, args ...any) *Finding {
	return r.add(Warn, cure, format, args...)
}

// healthy records an OK finding, unless the check has found a problem.
func (r *report) healthy(format string, args ...any) {
	if len(r.findings) == 0 {
		r.peer = ""
		r.add(OK, "", format, args...)
	}
}

// Examine runs all checks and returns the diagnosis. Causes come before consequences, each consequence is listed under its cause, and OK
// findings come last. A check without any object to examine reports nothing.
func Examine(f *Facts) []Finding {
	var out []Finding
	for _, cluster := range []*Cluster{f.Local, f.Remote} {
		if cluster == nil {
			continue
		}
		for _, check := range []struct {
			name string
			part part
			run  func(*report)
		}{
			{"facts", partUnread, facts},
			{"components", partComponent, components},
			{"versions", partVersion, versions},
			{"definitions", partDefinition, definitions},
			{"webhooks", partWebhook, webhooks},
			{"admission", partAdmission, admissions},
			{"leases", partLease, leases},
			{"ranges", partRange, ranges},
			{"exposed addresses", partExposed, exposures},
			{"host names", partName, names},
			{"unpeering", partUnpeering, unpeerings},
			{"identities", partIdentity, identities},
			{"tenants", partTenant, tenants},
			{"resources", partSlice, resources},
			{"access", partAPIServer, accesses},
			{"peerings", partCondition, peerings},
			{"former peers", partCondition, formerPeers},
			{"connections", partTunnel, connections},
			{"virtual nodes", partVirtualNode, virtualNodes},
			{"namespaces", partOffloading, namespaces},
			{"retained volumes", partRetained, retained},
			{"moving volumes", partMove, moves},
			{"waiting pods", partWaiting, waiting},
			{"default classes", partClass, classes},
		} {
			r := &report{Cluster: cluster, now: f.Now, client: f.Client, check: check.name, part: check.part}
			check.run(r)
			out = append(out, r.findings...)
		}
	}
	if f.Remote != nil {
		out = append(out, between(f.Local, f.Remote)...)
		out = append(out, between(f.Remote, f.Local)...)
	}
	return diagnose(f, out)
}

// Worst returns the level of the worst finding.
func Worst(findings []Finding) Level {
	worst := OK
	for _, finding := range findings {
		if finding.Level == Fail {
			return Fail
		}
		if finding.Level == Warn {
			worst = Warn
		}
	}
	return worst
}

func facts(r *report) {
	for _, unread := range r.Unread {
		r.fail("run the command as an administrator of the cluster, and when its API server answers", "%s", unread)
	}
}
