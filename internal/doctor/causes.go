package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/offload"
)

// part is the subject of a finding. The constants are in order of dependency: the cause of a finding always has an earlier part. Findings
// are listed in this order.
type part int

const (
	partUnread part = iota
	partDefinition
	partManager
	partComponent
	partWebhook
	partAdmission // the cluster refuses the objects of its consumers
	partSilence   // the controller manager of a provider does not respond
	partRefusal   // a provider refuses the objects of the cluster
	partUnpeering
	partTenant
	partCertificate
	partDenied
	partPartition
	partGateway
	partKubelet
	partRange
	partExposed
	partName
	partAgreement
	partConfiguration
	partAPIServer
	partTunnel
	partServerCondition // condition of a ForeignCluster about the API server of the peer
	partRenewal
	partIdentity
	partSlice
	partVirtualNode
	partNode
	partOffloading
	partWaiting
	partRetained
	partMove
	partClass
	partLease
	partCondition // condition of a ForeignCluster, which only repeats other findings
	partVersion
)

// diagnose groups the findings by cause. It lists each consequence under its root cause, and orders the root causes by level and part.
func diagnose(f *Facts, findings []Finding) []Finding {
	findings = append(findings, partitions(f, findings)...)
	order(findings)
	cause := make([]int, len(findings))
	for i := range findings {
		cause[i] = -1
		for j := range findings {
			if precedes(findings, j, i) && explains(&findings[j], &findings[i]) && (cause[i] < 0 || findings[j].part < findings[cause[i]].part) {
				cause[i] = j
			}
		}
	}
	// root returns the index of the first cause in the chain of causes of a finding.
	root := func(i int) int {
		for cause[i] >= 0 {
			i = cause[i]
		}
		return i
	}
	var out []Finding
	at := map[int]int{}
	for i := range findings {
		if cause[i] < 0 {
			at[i] = len(out)
			out = append(out, findings[i])
		}
	}
	for i := range findings {
		if of := root(i); of != i {
			to := &out[at[of]]
			to.Consequences = append(to.Consequences, findings[i])
			if rank(findings[i].Level) < rank(to.Level) { // a cause is as bad as its worst consequence
				to.Level = findings[i].Level
			}
		}
	}
	order(out)
	return out
}

// precedes reports whether finding j may be the cause of finding i: it has an earlier part. Of two findings about the two ends of a tunnel, the first one stands for both.
func precedes(findings []Finding, j, i int) bool {
	return findings[j].part < findings[i].part || findings[j].part == partTunnel && findings[i].part == partTunnel && j < i
}

// order sorts the worst level first. Within a level, it puts a finding before those that may depend on it.
func order(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		if of := rank(a.Level) - rank(b.Level); of != 0 || a.Level == OK {
			return of // OK findings keep the order of their checks
		}
		return int(a.part - b.part)
	})
}

// rank orders levels, the worst first.
func rank(level Level) int { return slices.Index([]Level{Fail, Warn, OK}, level) }

// explains reports whether one finding is the cause of another. Warnings are no causes, with two exceptions: a tenant that its administrator drained
// or cordoned, and a peering that is being removed. Both are intended in one cluster and cause failures in the other.
func explains(cause, of *Finding) bool {
	if cause.Level == OK || of.Level == OK || cause.Level == Warn && cause.part != partTenant && cause.part != partUnpeering {
		return false
	}
	same := cause.Cluster == of.Cluster && cause.Peer != "" && cause.Peer == of.Peer
	opposite := cause.Cluster == of.Peer && cause.Peer == of.Cluster
	is := func(parts ...part) bool { return slices.Contains(parts, of.part) }
	condition := func(modules ...module) bool { return of.part == partCondition && slices.Contains(modules, of.module) }
	// resources: the findings about resources that the provider grants, and about the consumer's objects that depend on them.
	resources := is(partRenewal, partIdentity, partVirtualNode, partNode, partOffloading, partWaiting, partRetained) || of.part == partSlice && of.unanswered ||
		of.part == partLease && of.module == offloading || condition(authentication, offloading)
	// refused: the policy or webhook refuses these pods, says their message. Other pods wait for another reason, with a cure of its own.
	refused := cause.refuser != "" && strings.Contains(of.Evidence, cause.refuser) && !strings.Contains(of.Evidence, offload.QuotaCure)
	switch cause.part {
	case partManager: // only a controller manager writes these: objects of its own cluster, and its replies to the requests of the other cluster
		return cause.Cluster == of.Cluster && of.fromManager || cause.Cluster == of.Peer && (of.unanswered || is(partRenewal, partSilence))
	case partWebhook:
		return cause.Cluster == of.Cluster && is(partAdmission) && of.fromManager || cause.Cluster == of.Peer && is(partSilence)
	case partSilence:
		return same && (of.unanswered || is(partRenewal, partWaiting) || condition(offloading))
	case partAdmission:
		return cause.Cluster == of.Peer && (is(partRefusal) || is(partWaiting) && refused)
	case partRefusal:
		return same && is(partWaiting) && refused
	case partUnpeering:
		return same || opposite
	case partTenant:
		return same && (is(partSlice) || condition(authentication)) || opposite && (is(partSlice) || cause.drained && (is(partDenied, partServerCondition) || resources))
	case partCertificate, partDenied:
		if cause.identity != "" && of.identity != "" && cause.identity != of.identity {
			// The controller manager authenticates with the control-plane identity when it requests certificates for the other identities.
			return same && is(partRenewal, partIdentity) && strings.HasPrefix(cause.identity, authv1beta1.IdentityControlPlanePrefix)
		}
		return same && (is(partDenied, partServerCondition, partSlice) || resources)
	case partPartition:
		return (same || opposite) && (is(partAPIServer, partTunnel, partServerCondition) || resources || condition(networking) || of.part == partLease)
	case partGateway:
		return (same || opposite) && (is(partTunnel) || condition(networking) || of.part == partLease && of.module == networking || of.proxied)
	case partKubelet:
		return same && (is(partVirtualNode, partNode, partWaiting) || of.part == partLease && of.module == offloading || condition(offloading))
	case partName, partAgreement, partConfiguration:
		return (same || opposite) && (is(partTunnel) || condition(networking))
	case partRange:
		return cause.Cluster == of.Cluster && is(partConfiguration)
	case partTunnel:
		return same && (condition(networking) || of.untunneled || cause.proxied && (of.proxied || resources)) || opposite && is(partTunnel)
	case partAPIServer, partServerCondition:
		return same && (is(partServerCondition) || resources)
	case partIdentity, partSlice:
		return same && (is(partVirtualNode, partNode, partOffloading, partWaiting) || condition(authentication, offloading))
	case partVirtualNode, partNode:
		return same && (is(partNode, partOffloading, partWaiting) || of.part == partLease && of.module == offloading || condition(offloading))
	case partOffloading:
		return same && is(partWaiting)
	case partUnread, partDefinition, partComponent, partExposed, partRenewal, partWaiting, partRetained, partMove, partClass, partLease, partCondition, partVersion:
	}
	return false
}

// partitions returns one finding for each peer whose API server and tunnel are both unreachable. It is the single cause of many other
// findings.
func partitions(f *Facts, findings []Finding) (out []Finding) {
	type pairOf struct{ a, b string }
	reported := map[pairOf]bool{}
	for _, c := range []*Cluster{f.Local, f.Remote} {
		if c == nil {
			continue
		}
		for i := range c.Peers {
			peer := c.Peers[i].Spec.ClusterID
			server, tunnel, api := "", "", ""
			for _, finding := range findings {
				here, there := finding.Cluster == c.ID && finding.Peer == peer, finding.Cluster == peer && finding.Peer == c.ID
				switch {
				case finding.Level != Fail:
				case finding.part == partTunnel && (here || there):
					tunnel = finding.Evidence
				case !here:
				case finding.part == partAPIServer:
					server = finding.Evidence
				case (finding.part == partServerCondition && !finding.proxied || finding.silent) && server == "":
					server = finding.Evidence
				}
			}
			// A provider has no access to the API server of its consumer, so the consumer reports the partition.
			if server == "" || tunnel == "" || reported[pairOf{peer, c.ID}] || gatewayDown(findings, c.ID, peer) {
				continue
			}
			for _, access := range c.Accesses {
				if access.Peer == peer {
					api = access.Server
				}
			}
			reported[pairOf{c.ID, peer}] = true
			finding := Finding{
				Cluster: c.ID, Peer: peer, Check: "reachability", Level: Fail, part: partPartition,
				Evidence: fmt.Sprintf("cluster %s is unreachable from %s: neither its API server nor the tunnel responds (%s)", peer, c.ID, server),
				Cure: fmt.Sprintf("see whether cluster %s runs, and restore the network between the clusters (firewall, routes, DNS): %s and the UDP port of the gateway (liqoctl info peer %s). "+
					"What is listed below recovers by itself", peer, cmp.Or(api, "its API server"), peer),
			}
			if f.Remote == nil && !c.answers(peer) {
				finding.Cure += ". If the cluster is gone for good: liqoctl force unpeer " + peer
			}
			if f.Remote != nil {
				finding.Evidence = fmt.Sprintf("clusters %s and %s do not reach each other, though both respond to liqoctl: neither the API server nor the tunnel responds (%s)", c.ID, peer, server)
				finding.Cure = strings.Replace(finding.Cure, "see whether cluster "+peer+" runs, and restore", "restore", 1)
			}
			out = append(out, finding)
		}
	}
	return out
}

// gatewayDown reports whether a gateway between two clusters is down in either of them. The tunnel cannot be up then.
func gatewayDown(findings []Finding, a, b string) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool {
		return f.part == partGateway && f.Level == Fail && (f.Cluster == a && f.Peer == b || f.Cluster == b && f.Peer == a)
	})
}

// module is the module of a ForeignCluster that a condition belongs to.
type module int

const (
	authentication module = iota
	networking
	offloading
)

// Installation returns the findings about the installation itself. It omits findings about a peer and findings of level OK.
func Installation(findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Peer != "" || f.Level == OK })
}

// OfPeer returns the findings about one peer, without those of level OK.
func OfPeer(findings []Finding, peer string) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Peer != peer || f.Level == OK })
}

// OfOthers returns the findings about clusters that are not listed as peers, without those of level OK. An example is a Tenant of a cluster that
// never peered.
func OfOthers(findings []Finding, listed func(peer string) bool) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Peer == "" || listed(f.Peer) || f.Level == OK })
}

// Manager returns the failures of the controller manager of a cluster. They explain why nothing in that cluster is reconciled.
func Manager(findings []Finding, cluster string) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.part != partManager || f.Cluster != cluster || f.Level != Fail })
}

// Former reports whether a ForeignCluster is left over from a peering that was removed: it has no role and no enabled module.
func Former(peer *corev1beta1.ForeignCluster) bool {
	modules := peer.Status.Modules
	return peer.Status.ObservedGeneration != 0 && (peer.Status.Role == corev1beta1.RoleUnknown || peer.Status.Role == "") &&
		!modules.Networking.Enabled && !modules.Authentication.Enabled && !modules.Offloading.Enabled
}

// Minor reports whether a finding is irrelevant for the health of the installation and its peerings: a difference of versions, or a fact that the
// user may not read.
func (f *Finding) Minor() bool { return f.part == partVersion || f.part == partUnread }
