// Package doctor finds out what is wrong with an installation and its peerings: gathered facts in, findings out, each with its evidence and, where
// something is wrong, a cure.
package doctor

import (
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Level is how bad a finding is.
type Level string

// Levels.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is what one check found.
type Finding struct {
	Cluster  string `json:"cluster"`
	Check    string `json:"check"`
	Level    Level  `json:"level"`
	Evidence string `json:"evidence"`
	Cure     string `json:"cure,omitempty"`
	// Peer is the cluster whose peering it is about; empty when it is about the installation itself.
	Peer string `json:"peer,omitempty"`
	// Consequences are findings that disappear with this one.
	Consequences []Finding `json:"consequences,omitempty"`

	part   part
	module module
	// identity that it is about, where it is about one.
	identity string
	// fromManager tells that only the controller manager of the cluster could change it.
	fromManager bool
	// unanswered is a request that the other cluster has not answered, drained a tenant without access, proxied a way that leads through the tunnel.
	unanswered, drained, proxied bool
}

// Component is a workload of the installation, or of one of its peerings.
type Component struct {
	// Name is its kind, namespace and name, as kubectl takes them: -n liqo deployment/liqo-fabric.
	Name               string
	Desired, Available int32
	Images             []string
	// Trouble is what hinders its pods, empty when nothing can be seen.
	Trouble string
	// Peer that it works for; empty for a part of the installation.
	Peer string
}

// Access is what a request to a peer, as the Identity that this cluster has there, came to. It is made from where the doctor is, which is not
// always where the cluster is.
type Access struct {
	Peer, Identity, Server string
	// Proxy on the way, which only the cluster can take; no request was made then.
	Proxy string
	// Failure tells why there was no answer; empty when there was one, after Took.
	Failure string
	// Refused tells that the server responded and did not accept the identity, Unusable that no request could be made with its kubeconfig.
	Refused, Unusable bool
	Took              time.Duration
	// Denied are the rights that the identity needs and does not have.
	Denied []string
}

// Cluster is all that is known of one.
type Cluster struct {
	ID, Version, Namespace string
	Components             []Component
	// Wanted are the custom resource definitions of this version, Defined tells of each that exists whether it is established.
	Wanted  []string
	Defined map[string]bool
	// Webhooks that call a Service of the installation; Backends is how many ready endpoints that Service has.
	Webhooks []admissionv1.MutatingWebhookConfiguration
	Backends map[string]int
	Leases   []coordinationv1.Lease
	// Told are the ranges that the installation was told, by type of Network.
	Told           map[string][]string
	Networks       []ipamv1alpha1.Network
	Peers          []corev1beta1.ForeignCluster
	Tenants        []authv1beta1.Tenant
	Identities     []authv1beta1.Identity
	Slices         []authv1beta1.ResourceSlice
	Configurations []networkingv1beta1.Configuration
	Connections    []networkingv1beta1.Connection
	// Keys are the public keys of this cluster's gateways, KnownKeys those that it was told of its peers', both by peer.
	Keys, KnownKeys map[string][]byte
	VirtualNodes    []offloadingv1beta1.VirtualNode
	Nodes           []corev1.Node
	Offloadings     []offloadingv1beta1.NamespaceOffloading
	Accesses        []Access
	// Unread is what could not be read, and why.
	Unread []string
}

// Facts are what a diagnosis is made of.
type Facts struct {
	// Now is the time of the facts.
	Now time.Time
	// Client is the version of liqoctl.
	Client string
	Local  *Cluster
	// Remote is the other cluster of a peering; nil when only one can be seen.
	Remote *Cluster
}

// report collects the findings of one check in one cluster.
type report struct {
	*Cluster
	now      time.Time
	client   string
	check    string
	findings []Finding
	// What the next findings are about.
	part part
	peer string
}

// about says what the next findings are about.
func (r *report) about(of part, peer string) { r.part, r.peer = of, peer }

// add returns the finding, to be told more about.
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

// healthy is said when nothing was found wrong.
func (r *report) healthy(format string, args ...any) {
	if len(r.findings) == 0 {
		r.peer = ""
		r.add(OK, "", format, args...)
	}
}

// Examine makes the diagnosis: causes before consequences, each consequence under its cause, what is well at the end. A check that has nothing to look at
// finds nothing.
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
			{"leases", partLease, leases},
			{"ranges", partRange, ranges},
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

// Worst is the level of the worst finding.
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
