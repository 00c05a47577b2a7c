package doctor

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/peering"
)

// identities are what this cluster is in others: certificates that end.
func identities(r *report) {
	first := time.Time{}
	for i := range r.Identities {
		identity := &r.Identities[i]
		name := fmt.Sprintf("Identity %s in namespace %s", identity.Name, identity.Namespace)
		certificate, err := peering.Certificate(identity.Spec.AuthParams.SignedCRT)
		again := "liqoctl authenticate --remote-kubeconfig of cluster " + identity.Spec.ClusterID + " gets another certificate"
		switch {
		case err != nil:
			r.fail(again, "%s: its certificate can not be read: %v", name, err)
			continue
		case r.now.After(certificate.NotAfter):
			r.fail(again, "%s: its certificate ended at %s", name, certificate.NotAfter.UTC().Format(time.RFC3339))
		case r.now.After(peering.RenewAt(certificate).Add(certificate.NotAfter.Sub(peering.RenewAt(certificate)) / 4)):
			// A renewal takes seconds; a quarter of the time that is left for it is more than it needs.
			r.warn("see the Renew in namespace "+identity.Namespace+" and whether the other API server answers", "%s: its certificate ends at %s and should have been renewed at %s",
				name, certificate.NotAfter.UTC().Format(time.RFC3339), peering.RenewAt(certificate).UTC().Format(time.RFC3339))
		}
		if identity.Status.KubeconfigSecretRef == nil {
			r.fail("see the log of the controller manager", "%s has no kubeconfig%s", name, because(identity.Status.Conditions))
		}
		if first.IsZero() || certificate.NotAfter.Before(first) {
			first = certificate.NotAfter
		}
	}
	if len(r.Identities) > 0 {
		r.healthy("%d identities, the first certificate ends at %s", len(r.Identities), first.UTC().Format(time.RFC3339))
	}
}

// because is what the summary condition says, to follow a name; empty when all is well.
func because(conditions []metav1.Condition) string {
	if ready := meta.FindStatusCondition(conditions, "Ready"); ready != nil && ready.Status != metav1.ConditionTrue {
		return fmt.Sprintf(": %s, %s", ready.Reason, ready.Message)
	}
	return ""
}

func tenants(r *report) {
	for i := range r.Tenants {
		tenant := &r.Tenants[i]
		name := fmt.Sprintf("Tenant %s in namespace %s", tenant.Name, tenant.Namespace)
		grants := peering.GrantsOf(tenant)
		why := because(tenant.Status.Conditions)
		switch {
		case !grants.Access:
			r.warn("liqoctl activate tenant "+tenant.Name+", when it is to be let in again", "%s is drained: it may do nothing", name)
		case why != "":
			r.fail("the consumer does the handshake again with liqoctl authenticate", "%s is not admitted%s", name, why)
		case !grants.More:
			r.warn("liqoctl uncordon tenant "+tenant.Name+", when it is to be granted more", "%s is cordoned: it is granted nothing further", name)
		}
	}
	if len(r.Tenants) > 0 {
		r.healthy("%d admitted", len(r.Tenants))
	}
}

// resources are what is asked for here and there.
func resources(r *report) {
	for i := range r.Slices {
		slice := &r.Slices[i]
		name, who, cure := fmt.Sprintf("ResourceSlice %s in namespace %s", slice.Name, slice.Namespace), "the provider", "ask for less, or ask the provider's administrator"
		if peering.IsCopy(slice, "") {
			who, cure = "this cluster", "see what this cluster shares, and whether the tenant is cordoned"
			if slice.Annotations[authv1beta1.AnnotationCordon] == api.True {
				r.warn(fmt.Sprintf("liqoctl uncordon resourceslice %s --remote-cluster-id %s, when it is to be granted more", slice.Name, slice.Labels[api.LabelOriginID]), "%s is cordoned", name)
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
					r.fail(cure, "%s: %s is %s, %s: %s", name, of, condition.Status, condition.Reason, condition.Message)
				}
			}
			if !found {
				r.fail("see whether the controller managers of both clusters run, and the class of the request", "%s (class %q): %s has not answered %s", name, slice.Spec.Class, who, of)
			}
		}
	}
	if len(r.Slices) > 0 {
		r.healthy("%d requests, all granted", len(r.Slices))
	}
}

// accesses are requests to the peers, as this cluster.
func accesses(r *report) {
	var answered []string
	for _, a := range r.Accesses {
		established := false
		for i := range r.Peers {
			if r.Peers[i].Spec.ClusterID == a.Peer {
				for _, condition := range r.Peers[i].Status.Conditions {
					established = established || condition.Type == corev1beta1.APIServerStatus && condition.Status == corev1beta1.StatusEstablished
				}
			}
		}
		switch {
		case a.Proxy != "" && established:
			answered = append(answered, fmt.Sprintf("%s reaches %s through %s, as it says itself", r.ID, a.Peer, a.Proxy))
		case a.Proxy != "":
		case a.Failure != "" && established:
			answered = append(answered, fmt.Sprintf("%s reaches %s at %s, as it says itself; from here: %s", r.ID, a.Peer, a.Server, a.Failure))
		case a.Failure != "":
			r.fail("see that "+a.Server+" can be reached from the cluster, and that cluster "+a.Peer+" did not take the rights away (liqoctl info there)",
				"the API server of %s does not answer as %s at %s: %s", a.Peer, a.Identity, a.Server, a.Failure)
		default:
			answered = append(answered, fmt.Sprintf("%s answers %s in %s", a.Peer, a.Identity, a.Took.Round(time.Millisecond)))
		}
		if len(a.Denied) > 0 {
			r.fail(fmt.Sprintf("in cluster %s: liqoctl activate tenant %s if it is drained, else see RoleBindings in the tenant namespace", a.Peer, r.ID),
				"%s may not do in cluster %s: %s", a.Identity, a.Peer, strings.Join(a.Denied, ", "))
		}
	}
	if len(answered) > 0 {
		r.healthy("%s", strings.Join(answered, "; "))
	}
}

// peerings are the ForeignClusters, whose conditions name what is wrong.
func peerings(r *report) {
	var fine []string
	for i := range r.Peers {
		peer := &r.Peers[i]
		conditions := peer.Status.Conditions
		for _, module := range []corev1beta1.Module{peer.Status.Modules.Networking, peer.Status.Modules.Authentication, peer.Status.Modules.Offloading} {
			if module.Enabled {
				conditions = append(conditions[:len(conditions):len(conditions)], module.Conditions...)
			}
		}
		bad := 0
		for _, condition := range conditions {
			if condition.Status == corev1beta1.StatusReady || condition.Status == corev1beta1.StatusEstablished {
				continue
			}
			bad++
			r.fail("liqoctl info peer "+peer.Spec.ClusterID+" shows the parts of the peering; peer again when they are repaired", "%s: %s is %s, %s: %s",
				peer.Spec.ClusterID, condition.Type, condition.Status, condition.Reason, condition.Message)
		}
		if bad == 0 {
			fine = append(fine, fmt.Sprintf("%s (%s, %d conditions)", peer.Spec.ClusterID, peer.Status.Role, len(conditions)))
		}
	}
	if len(r.Peers) > 0 {
		r.healthy("%s", strings.Join(fine, ", "))
	}
}
