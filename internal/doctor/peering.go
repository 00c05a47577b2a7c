package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/reasons"
)

// withoutKubeconfig completes a cure by liqoctl authenticate for a credential that the provider no longer accepts: how an administrator without a kubeconfig
// of the provider replaces it.
func (r *report) withoutKubeconfig(provider string) string {
	return fmt.Sprintf("; without a kubeconfig of %s: run liqoctl generate peer-command --consumer-cluster-id %s there, and here the command that it prints", provider, r.ID)
}

// identities checks the Identities of this cluster in its peers: whether their certificates or tokens are valid and renewed in time, and whether each
// has a kubeconfig.
func identities(r *report) {
	first := peering.Credential{}
	for i := range r.Identities {
		identity := &r.Identities[i]
		r.about(partCertificate, identity.Spec.ClusterID)
		name := fmt.Sprintf("Identity %s in namespace %s", identity.Name, identity.Namespace)
		credential, err := peering.CredentialOf(&identity.Spec.AuthParams)
		kind := peering.KindOf(&identity.Spec.AuthParams)
		again := "liqoctl authenticate --remote-kubeconfig FILE, with the kubeconfig of cluster " + identity.Spec.ClusterID + ", gets another " + kind
		switch {
		case err != nil && kind == peering.KindAccessKey:
			r.fail("correct spec.authParams.awsConfig: kubectl -n "+identity.Namespace+" edit identities.authentication.liqo.io "+identity.Name,
				"%s: its %s can not be used: %v", name, kind, err).
				identity = identity.Name
			continue
		case err != nil:
			r.fail(again, "%s: its %s can not be read: %v", name, kind, err).identity = identity.Name
			continue
		case !credential.Expires():
		case r.now.After(credential.Until):
			r.fail(again+r.withoutKubeconfig(identity.Spec.ClusterID), "%s: its %s ended at %s", name, credential.Kind, credential.Until.UTC().Format(time.RFC3339)).
				identity = identity.Name
		case credential.Late(r.now):
			r.about(partRenewal, identity.Spec.ClusterID)
			finding := r.warn(again+"; why it was not renewed: kubectl -n "+identity.Namespace+" get renews.authentication.liqo.io -o yaml, and whether the other API server answers", "%s: its %s ends at %s and should have been renewed at %s",
				name, credential.Kind, credential.Until.UTC().Format(time.RFC3339), credential.RenewAt().UTC().Format(time.RFC3339))
			finding.identity, finding.fromManager = identity.Name, true
		}
		r.about(partIdentity, identity.Spec.ClusterID)
		if identity.Status.KubeconfigSecretRef == nil {
			finding := r.fail("kubectl -n "+r.Namespace+" logs deployment/liqo-controller-manager says why it was not written", "%s has no kubeconfig%s",
				name, because(identity.Status.Conditions))
			finding.identity, finding.fromManager = identity.Name, true
		}
		if credential.Expires() && (!first.Expires() || credential.Until.Before(first.Until)) {
			first = credential
		}
	}
	switch {
	case len(r.Identities) > 0 && first.Expires():
		r.healthy("%d identities, the first %s ends at %s", len(r.Identities), first.Kind, first.Until.UTC().Format(time.RFC3339))
	case len(r.Identities) > 0:
		r.healthy("%d identities, with access keys of AWS that do not end by themselves", len(r.Identities))
	}
}

// because returns the reason and message of condition Ready, as a suffix for the name of an object. It is empty if the condition is true or
// absent.
func because(conditions []metav1.Condition) string {
	if ready := meta.FindStatusCondition(conditions, "Ready"); ready != nil && ready.Status != metav1.ConditionTrue {
		return fmt.Sprintf(": %s, %s", ready.Reason, ready.Message)
	}
	return ""
}

// elder returns the Tenant that takes precedence over the given one: an older Tenant of the same cluster or in the same namespace that is not being
// deleted; nil if there is none.
func (c *Cluster) elder(tenant *authv1beta1.Tenant) (out *authv1beta1.Tenant) {
	for i := range c.Tenants {
		other := &c.Tenants[i]
		same := other.Spec.ClusterID == tenant.Spec.ClusterID || other.Namespace == tenant.Namespace
		if same && other.DeletionTimestamp == nil && api.CompareAge(other, tenant) < 0 && (out == nil || api.CompareAge(other, out) < 0) {
			out = other
		}
	}
	return out
}

func tenants(r *report) {
	for i := range r.Tenants {
		tenant := &r.Tenants[i]
		r.about(partTenant, tenant.Spec.ClusterID)
		if elder := r.elder(tenant); elder != nil && tenant.DeletionTimestamp == nil {
			r.fail(fmt.Sprintf("kubectl -n %s delete tenants.authentication.liqo.io %s", tenant.Namespace, tenant.Name),
				"Tenant %s in namespace %s of cluster %s is refused: the older Tenant %s in namespace %s of cluster %s counts. "+
					"Each cluster has one Tenant, in a namespace of its own",
				tenant.Name, tenant.Namespace, tenant.Spec.ClusterID, elder.Name, elder.Namespace, elder.Spec.ClusterID)
			continue
		}
		name := fmt.Sprintf("Tenant %s in namespace %s", tenant.Name, tenant.Namespace)
		grants := peering.GrantsOf(tenant)
		why := because(tenant.Status.Conditions)
		switch {
		case !grants.Access:
			r.warn("liqoctl activate tenant "+tenant.Name+", to admit it again", "%s is drained: it may do nothing", name).drained = true
		case why != "":
			r.fail("the consumer does the handshake again with liqoctl authenticate", "%s is not admitted%s", name, why).fromManager = true
		case !grants.More:
			r.warn("liqoctl uncordon tenant "+tenant.Name+", to grant it more again", "%s is cordoned: it is granted nothing further", name)
		}
	}
	if len(r.Tenants) > 0 {
		r.healthy("%d admitted", len(r.Tenants))
	}
}

// resources checks the ResourceSlices: the requests of this cluster to its providers, and the requests of its consumers to this cluster.
func resources(r *report) {
	for i := range r.Slices {
		slice := &r.Slices[i]
		here := peering.IsCopy(slice, "")
		r.about(partSlice, slice.Labels[api.LabelRemoteClusterID])
		name, who, cure := fmt.Sprintf("ResourceSlice %s in namespace %s", slice.Name, slice.Namespace), "the provider", "ask for less (kubectl -n "+slice.Namespace+" edit resourceslices.authentication.liqo.io "+slice.Name+"), or ask the provider's administrator"
		if here {
			r.peer = slice.Labels[api.LabelOriginID]
			who, cure = "this cluster", "see what this cluster shares, and whether the tenant is cordoned: liqoctl info peer "+slice.Labels[api.LabelOriginID]
			if slice.Annotations[authv1beta1.AnnotationCordon] == api.True {
				r.warn(fmt.Sprintf("liqoctl uncordon resourceslice %s --remote-cluster-id %s, to grant it more again",
					slice.Name, slice.Labels[api.LabelOriginID]), "%s is cordoned", name)
			}
		}
		for _, of := range []authv1beta1.ResourceSliceConditionType{authv1beta1.ResourceSliceAuthentication, authv1beta1.ResourceSliceResources} {
			found := false
			for _, condition := range slice.Status.Conditions {
				if condition.Type != of {
					continue
				}
				found = true
				if condition.Status != authv1beta1.ResourceSliceAccepted {
					finding := r.fail(cure, "%s: %s is %s, %s: %s", name, of, condition.Status, condition.Reason, condition.Message)
					if condition.Reason == reasons.AccessRevoked && deniesAccess(r.Peers, slice.Labels[api.LabelRemoteClusterID]) { // this cluster has written it, not the provider
						finding.Cure, finding.unanswered = "kubectl describe foreignclusters "+slice.Labels[api.LabelRemoteClusterID], true
					}
				}
			}
			if !found {
				finding := r.fail("see whether the controller managers of both clusters run, liqoctl doctor --remote-kubeconfig FILE, and the class of the request",
					"%s (class %q): %s has not answered %s%s", name, slice.Spec.Class, who, of, since(slice.CreationTimestamp))
				finding.unanswered, finding.fromManager = !here, here
			}
		}
	}
	if len(r.Slices) > 0 {
		r.healthy("%d requests, all granted", len(r.Slices))
	}
}

// since returns a time as a suffix for what has not happened until now. It is empty for an unknown time.
func since(from metav1.Time) string {
	if from.IsZero() {
		return ""
	}
	return " since " + from.UTC().Format(time.RFC3339)
}

// reaches reports whether the cluster itself says that it reaches the API server of a peer, and that its identity is accepted there.
func (c *Cluster) reaches(peer string) (established, accepted bool) {
	for i := range c.Peers {
		established = established || c.Peers[i].Spec.ClusterID == peer && slices.ContainsFunc(c.Peers[i].Status.Conditions, func(condition corev1beta1.Condition) bool {
			return condition.Type == corev1beta1.APIServerStatus && condition.Status == corev1beta1.StatusEstablished
		})
	}
	return established, established && !deniesAccess(c.Peers, peer)
}

// answers reports whether the API server of a peer answered a request of liqoctl.
func (c *Cluster) answers(peer string) bool {
	return slices.ContainsFunc(c.Accesses, func(a Access) bool { return a.Peer == peer && a.Proxy == "" && a.Failure == "" })
}

// accesses checks the results of the requests to the API servers of the peers, made with the Identities of this cluster. The machine that runs the doctor made
// the requests. At that address, it may reach another server than the cluster does, or none, so the findings say which machine made the request. If the cluster
// itself reports whether it reaches the peer, that report counts.
func accesses(r *report) {
	var answered []string
	failed := map[string]bool{}
	for _, a := range r.Accesses {
		established, accepted := r.reaches(a.Peer)
		r.about(partAPIServer, a.Peer)
		switch {
		case a.Proxy != "" && established:
			answered = append(answered, fmt.Sprintf("%s reaches %s through %s, as it says itself", r.ID, a.Peer, a.Proxy))
		case a.Proxy != "":
		case a.Unusable:
			r.about(partIdentity, a.Peer)
			r.fail("liqoctl authenticate --remote-kubeconfig FILE, with the kubeconfig of cluster "+a.Peer+", makes the kubeconfig again",
				"the API server of %s was not asked as %s at %s: %s", a.Peer, a.Identity, a.Server, a.Failure).identity = a.Identity
		case a.Refused:
			r.about(partDenied, a.Peer)
			cure := fmt.Sprintf("in cluster %s: liqoctl activate tenant %s if it is drained, else here: liqoctl authenticate --remote-kubeconfig FILE", a.Peer, r.ID) +
				r.withoutKubeconfig(a.Peer)
			if accepted {
				r.warn(fmt.Sprintf("see what responds at %s on this machine, such as a proxy. If it is cluster %s: %s", a.Server, a.Peer, cure),
					"%s reaches %s at %s, as it says itself; asked from here, %s is refused: %s", r.ID, a.Peer, a.Server, a.Identity, a.Failure).identity = a.Identity
				continue
			}
			r.fail(cure, "the API server of %s refuses %s at %s, asked from here: %s", a.Peer, a.Identity, a.Server, a.Failure).identity = a.Identity
		case a.Failure != "" && established:
			answered = append(answered, fmt.Sprintf("%s reaches %s at %s, as it says itself; from here: %s", r.ID, a.Peer, a.Server, a.Failure))
		case a.Failure != "":
			// Several Identities in one peer fail for the same reason, so the failure is reported once per server.
			if key := a.Peer + " " + a.Server; !failed[key] {
				failed[key] = true
				r.fail("see that "+a.Server+" can be reached from the cluster, and that cluster "+a.Peer+" did not take the rights away (liqoctl info there)",
					"the API server of %s does not answer as %s at %s, asked from here: %s", a.Peer, a.Identity, a.Server, a.Failure)
			}
		default:
			answered = append(answered, fmt.Sprintf("%s answers %s in %s, asked from here", a.Peer, a.Identity, a.Took.Round(time.Millisecond)))
		}
		if len(a.Denied) > 0 {
			r.about(partDenied, a.Peer)
			r.fail(fmt.Sprintf("in cluster %s: liqoctl activate tenant %s if it is drained, else see RoleBindings in the tenant namespace", a.Peer, r.ID),
				"%s may not do in cluster %s: %s (asked from here)", a.Identity, a.Peer, strings.Join(a.Denied, ", ")).identity = a.Identity
		}
	}
	if len(answered) > 0 {
		r.healthy("%s", strings.Join(answered, "; "))
	}
}

// formerPeers reports the ForeignClusters that are left over from peerings that were removed.
func formerPeers(r *report) {
	for i := range r.Peers {
		if former := &r.Peers[i]; Former(former) && former.Spec.OutgoingPeeringEnabled != corev1beta1.PeeringYes {
			r.check = "former peer " + former.Spec.ClusterID
			left := "its ForeignCluster"
			if namespace := former.Status.TenantNamespace.Local; namespace != "" {
				left += " and the tenant namespace " + namespace
			}
			r.about(partCondition, former.Spec.ClusterID)
			if way := former.Labels[corev1beta1.LabelDiscoveryType]; way != "" {
				r.check = "discovered cluster " + former.Spec.ClusterID
				r.add(OK, "", "it was discovered (%s) at %s, and is not peered", way, former.Spec.ForeignAuthURL)
				continue
			}
			r.add(OK, "", "the peering was undone; what is left is %s", left)
		}
	}
}

// deniesAccess reports whether the ForeignCluster of a provider says that the identity of this cluster has no access there.
func deniesAccess(peers []corev1beta1.ForeignCluster, provider string) bool {
	return slices.ContainsFunc(peers, func(p corev1beta1.ForeignCluster) bool {
		return p.Spec.ClusterID == provider && slices.ContainsFunc(p.Status.Modules.Authentication.Conditions, func(c corev1beta1.Condition) bool {
			return c.Type == corev1beta1.AuthIdentityControlPlaneStatus && c.Status != corev1beta1.StatusReady
		})
	})
}

// peerings checks the conditions of the ForeignClusters.
func peerings(r *report) {
	var fine []string
	for i := range r.Peers {
		peer := &r.Peers[i]
		if Former(peer) && peer.Spec.OutgoingPeeringEnabled != corev1beta1.PeeringYes {
			continue
		}
		type one struct {
			corev1beta1.Condition
			of module
		}
		var conditions []one
		add := func(of module, list []corev1beta1.Condition) {
			for _, condition := range list {
				conditions = append(conditions, one{condition, of})
			}
		}
		add(authentication, peer.Status.Conditions)
		modules := peer.Status.Modules
		for _, each := range []struct {
			corev1beta1.Module
			of module
		}{{modules.Networking, networking}, {modules.Authentication, authentication}, {modules.Offloading, offloading}} {
			if each.Enabled {
				add(each.of, each.Conditions)
			}
		}
		bad := 0
		for _, condition := range conditions {
			// None is the state of a peering that is not requested.
			if slices.Contains([]corev1beta1.ConditionStatus{corev1beta1.StatusReady, corev1beta1.StatusEstablished, corev1beta1.StatusNone},
				condition.Status) {
				continue
			}
			bad++
			of := partCondition
			if condition.Type == corev1beta1.APIServerStatus {
				of = partServerCondition
			}
			r.about(of, peer.Spec.ClusterID)
			cure := "liqoctl info peer " + peer.Spec.ClusterID + " shows the parts of the peering; peer again when they are repaired"
			if condition.Reason == reasons.TooManyCopies {
				cure = fmt.Sprintf("in cluster %s, delete the objects that are not needed: kubectl -n %s get %s -l %s=%s lists them",
					peer.Spec.ClusterID, peer.Status.TenantNamespace.Remote, peering.Resources(), api.LabelReplicated, api.True)
			}
			finding := r.fail(cure, "%s: %s is %s, %s: %s",
				peer.Spec.ClusterID, condition.Type, condition.Status, condition.Reason, condition.Message)
			finding.module, finding.fromManager = condition.of, true
			finding.proxied = of == partServerCondition && r.inBand(peer.Spec.ClusterID)
		}
		if bad == 0 {
			fine = append(fine, fmt.Sprintf("%s (%s, %d conditions)", peer.Spec.ClusterID, peer.Status.Role, len(conditions)))
		}
	}
	if len(fine) > 0 {
		r.healthy("%s", strings.Join(fine, ", "))
	}
}
