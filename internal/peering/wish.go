package peering

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/internal/reasons"
)

// FinalizerOutgoing keeps a ForeignCluster that asked for a peering (spec.outgoingPeeringEnabled) until that peering has ended.
const FinalizerOutgoing = "foreigncluster.liqo.io/outgoing-peering"

const (
	// PollToken is the time until the token Secret of a wanted peering is read again. The cache holds no Secret without labels of Liqo.
	PollToken = 10 * time.Second
	// pollDiscovered replaces PollToken while a discovered cluster has no token. There may be many such clusters, and most of them never get a token.
	pollDiscovered = 5 * time.Minute
)

// Wish holds a ForeignCluster that requests a peering or its end, and further facts that the next step depends on.
type Wish struct {
	// ForeignCluster requests a peering or its end by its spec, and the end also by its deletion.
	ForeignCluster *corev1beta1.ForeignCluster
	// Own is the ID of this cluster, Namespace the namespace of the installation.
	Own, Namespace string
	// Joins means that this cluster peers automatically with clusters that it discovers. The peering still needs a token.
	Joins bool
	// NamespaceTaken means that the default name of the tenant namespace belongs to another namespace.
	NamespaceTaken bool
	// Token is the content of the token Secret; nil when there is none. It is only needed until this cluster has an identity.
	Token []byte
	// TokenURL is the address in the token Secret; empty when there is none.
	TokenURL string
	// Invitation is the Secret that the enrollment uses, Kubeconfig the kubeconfig Secret of the control-plane Identity. Each is nil when it does not
	// exist.
	Invitation, Kubeconfig *corev1.Secret
	// Requests are this cluster's requests for a network with the peer.
	Requests []networkingv1beta1.NetworkRequest
	// Mapped means that namespaces of this cluster still have a remote namespace in the peer.
	Mapped bool
	// Connectable means that this cluster can have a tunnel to a peer.
	Connectable bool
	// NodeTaken names the node of this cluster with the name that the virtual node would get; empty when there is none.
	NodeTaken string
	// Now is the current time.
	Now time.Time
}

// Plan is the next step towards the peering, or the end of the peering, that a ForeignCluster requests. Its parts are executed in the order of the
// fields.
type Plan struct {
	// Held means that the ForeignCluster has FinalizerOutgoing. It gets the finalizer before the other parts, and loses it after them.
	Held bool
	// Create lists objects that are missing.
	Create []Object
	// Invitation is the invitation with its new content; nil when it stays as it is.
	Invitation *corev1.Secret
	// Accept is the Identity that gets AnnotationAcceptedInvitation for the invitation of the peer; nil when none does.
	Accept *authv1beta1.Identity
	// Resign is the kubeconfig Secret that gets AnnotationResign; nil when none does.
	Resign *corev1.Secret
	// Delete lists objects to be deleted.
	Delete []Object
	// Ask means that the API server of the peer has to respond right before Delete is carried out. A cut of the network is known only after some time.
	Ask bool
	// Poll is the time after which the token Secret, which no watch reports, is read again; 0 when the plan does not depend on it.
	Poll time.Duration
	// Condition reports the state; nil for a ForeignCluster that asks for nothing.
	Condition *corev1beta1.Condition
}

// with returns the plan with its condition.
func (p Plan) with(status corev1beta1.ConditionStatus, reason, format string, args ...any) Plan {
	p.Condition = &corev1beta1.Condition{Type: corev1beta1.OutgoingPeering, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
	return p
}

func (p Plan) refused(reason, format string, args ...any) Plan {
	return p.with(corev1beta1.StatusError, reason, format, args...)
}

func (p Plan) pending(reason, format string, args ...any) Plan {
	return p.with(corev1beta1.StatusPending, reason, format, args...)
}

// PlanWish returns the next step towards the peering, or the end of the peering, that the ForeignCluster requests. Once a step was executed, the
// facts lead to the following one. When the peering is as requested, the plan only has a condition.
func PlanWish(f *Facts) Plan {
	if f.Wish == nil {
		return Plan{}
	}
	fc := f.Wish.ForeignCluster
	held := slices.Contains(fc.Finalizers, FinalizerOutgoing)
	switch {
	case fc.DeletionTimestamp != nil && held:
		return f.unpeer()
	case fc.DeletionTimestamp != nil:
		return Plan{}
	case fc.Spec.OutgoingPeeringEnabled == corev1beta1.PeeringYes:
		return f.peer()
	case fc.Spec.OutgoingPeeringEnabled == corev1beta1.PeeringNo:
		return f.unpeer()
	case f.Wish.discovered() && f.Wish.Joins && (held || !f.uses()): // a peering that this controller did not establish is not changed
		return f.join()
	default:
		return Plan{}
	}
}

// discovered reports whether the address of the peer comes from a DNS response. Such an address is not trustworthy.
func (w *Wish) discovered() bool {
	return w.ForeignCluster.Labels[corev1beta1.LabelDiscoveryType] != ""
}

// join returns the next step towards a peering with a discovered cluster. Without a token for that cluster, the plan does nothing and reports no
// error.
func (f *Facts) join() Plan {
	plan := f.peer()
	if plan.Condition.Reason == reasons.TokenMissing {
		plan.Condition.Status = corev1beta1.StatusNone
		plan.Poll = pollDiscovered
	}
	return plan
}

// lost reports whether an administrator declared the peer permanently unreachable.
func (w *Wish) lost() bool { return w.ForeignCluster.Annotations[AnnotationUnreachable] == api.True }

// uses reports whether this cluster uses resources of the peer, which are released only by ending the peering.
func (f *Facts) uses() bool {
	return f.Identity != nil || f.Wish.Kubeconfig != nil || len(f.Asked)+len(f.VirtualNodes)+len(f.Wish.Requests) > 0
}

// peer plans the next step to establish a peering: tenant namespace, identity, then network and resources.
func (f *Facts) peer() Plan {
	w, plan := f.Wish, Plan{Held: f.uses()}
	id := w.ForeignCluster.Spec.ClusterID
	namespace := f.tenantNamespace()
	switch {
	case w.ForeignCluster.Name != id:
		return plan.refused(reasons.NameDiffers, "metadata.name is %q and spec.clusterID is %q: create the ForeignCluster under the name %s", w.ForeignCluster.Name, id, id)
	case id == w.Own:
		return plan.refused(reasons.OwnClusterID, "spec.clusterID is %q, this cluster itself: a cluster cannot peer with itself", id)
	case w.lost():
		return plan.refused(reasons.DeclaredUnreachable, "annotation %s declares the cluster permanently unreachable: remove it to peer again", AnnotationUnreachable)
	case namespace == "" && w.NamespaceTaken:
		return plan.refused(reasons.NamespaceTaken, "namespace %s exists and is not labelled as the tenant namespace of cluster %s: add the labels %s=%s and %s=%s if it should be the tenant namespace, or delete it if it is not in use",
			api.TenantNamespace(id), id, api.LabelTenantNamespace, api.True, api.LabelRemoteClusterID, id)
	case namespace == "":
		// Check the address before the tenant namespace is created, so that an invalid address creates no namespace.
		if _, reason, err := w.terms(); err != nil {
			plan.Poll = PollToken
			return plan.refused(reason, "%v", err)
		}
		plan.Create = []Object{newTenantNamespace(id)}
		return plan.pending(reasons.CreatingNamespace, "creating the tenant namespace %s", api.TenantNamespace(id))
	}
	if slices.ContainsFunc(f.TenantNamespaces, func(n corev1.Namespace) bool { return n.Name == namespace && n.DeletionTimestamp != nil }) {
		return plan.pending(reasons.NamespaceDeleting, "waiting for namespace %s of an earlier peering to be deleted", namespace)
	}
	if f.Identity == nil || !Granted(&f.Identity.Spec.AuthParams) || f.Identity.DeletionTimestamp != nil {
		return f.enroll(plan, namespace)
	}
	if trouble := identityTrouble(f.Identity, f.APIServer, metav1.NewTime(w.Now)); trouble != "" {
		return plan.pending(reasons.IdentityNotReady, "%s", trouble)
	}
	return f.useProvider(plan, namespace)
}

// enroll returns the next step to an identity in the peer: create the Identity, then write the invitation, unless there is one already. The
// controller of Identities then enrolls this cluster with the invitation.
func (f *Facts) enroll(plan Plan, namespace string) Plan {
	w, identity := f.Wish, f.Identity
	id := w.ForeignCluster.Spec.ClusterID
	switch {
	case identity == nil && w.Kubeconfig != nil:
		return plan.pending(reasons.EarlierPeering, "waiting for Secret %s/%s of an earlier peering to be deleted", namespace, w.Kubeconfig.Name)
	case identity != nil && identity.DeletionTimestamp != nil:
		return plan.pending(reasons.EarlierPeering, "waiting for Identity %s/%s of an earlier peering to be deleted", identity.Namespace, identity.Name)
	}
	plan.Poll = PollToken
	given := w.given()
	var content map[string][]byte
	if !given {
		var reason string
		var err error
		if content, reason, err = w.terms(); err != nil {
			return plan.refused(reason, "%v", err)
		}
	}
	if identity == nil {
		plan.Held = true
		created := newIdentity(namespace, id)
		if given {
			Accept(created, w.Invitation)
		}
		plan.Create = []Object{created}
		return plan.pending(reasons.Enrolling, "creating the Identity %s/%s", namespace, ControlPlaneIdentityName(id))
	}
	if given && !Accepts(identity, w.Invitation) {
		plan.Accept = identity.DeepCopy()
		Accept(plan.Accept, w.Invitation)
		return plan.pending(reasons.Enrolling, "accepting the invitation of cluster %s, Secret %s/%s", id, identity.Namespace, invite.Secret)
	}
	if !given && (w.Invitation == nil || !InvitationOf(identity, w.Invitation) || !sameContent(w.Invitation.Data, content)) {
		plan.Invitation = newInvitation(identity, content)
		return plan.pending(reasons.Enrolling, "writing the address and the token to Secret %s/%s", identity.Namespace, invite.Secret)
	}
	where := fmt.Sprintf("Secret %s/%s", w.Namespace, corev1beta1.TokenSecretPrefix+id)
	if given {
		where = fmt.Sprintf("Secret %s/%s", identity.Namespace, invite.Secret)
	}
	ready := meta.FindStatusCondition(identity.Status.Conditions, "Ready")
	if ready != nil && ready.Reason == reasons.InvitationUnconfirmed {
		return plan.refused(ready.Reason, "%s", ready.Message)
	}
	if ready != nil && strings.HasPrefix(ready.Reason, "Invitation") {
		return plan.refused(ready.Reason, "the token in %s does not admit this cluster: %s", where, ready.Message)
	}
	return plan.pending(reasons.Enrolling, "Identity %s/%s is not granted yet%s", identity.Namespace, identity.Name, readyReason(identity.Status.Conditions))
}

// given reports whether the enrollment uses an invitation that this controller did not create. An administrator's invitation always takes precedence.
// An invitation that the peer sent is used only if an administrator requests the peering without an address and a token, because the peer chose its
// content.
func (w *Wish) given() bool {
	switch {
	case w.Invitation == nil || invitedBy(w.Invitation, kindIdentity):
		return false
	case invitedBy(w.Invitation, kindTenant):
		spec := &w.ForeignCluster.Spec
		return spec.OutgoingPeeringEnabled == corev1beta1.PeeringYes && spec.ForeignAuthURL == "" && len(w.Token) == 0
	default:
		return true
	}
}

// terms returns the content of the invitation: address and token. The error names the field or Secret that is missing or wrong.
func (w *Wish) terms() (content map[string][]byte, reason string, err error) {
	spec := &w.ForeignCluster.Spec
	secret := fmt.Sprintf("Secret %s/%s, data.%s", w.Namespace, corev1beta1.TokenSecretPrefix+spec.ClusterID, corev1beta1.TokenSecretKey)
	const cure = "liqoctl generate peer-command, run in that cluster, prints"
	if spec.ForeignAuthURL == "" {
		return nil, reasons.AddressMissing, fmt.Errorf("spec.foreignAuthUrl is empty: set it to the URL of the authentication service of cluster %s, which %s",
			spec.ClusterID, cure)
	}
	if err := invite.CheckURL(spec.ForeignAuthURL); err != nil {
		return nil, reasons.AddressInvalid, fmt.Errorf("spec.foreignAuthUrl: %w", err)
	}
	content = map[string][]byte{invite.URLKey: []byte(spec.ForeignAuthURL)}
	if proxy := spec.ForeignProxyURL; proxy != "" {
		if err := CheckProxyURL(proxy); err != nil {
			return nil, reasons.ProxyInvalid, fmt.Errorf("spec.foreignProxyUrl is %w", err)
		}
		content[invite.ProxyKey] = []byte(proxy)
	}
	text := strings.TrimSpace(string(w.Token))
	if text == "" {
		return nil, reasons.TokenMissing, fmt.Errorf("%s is missing or empty: put the token of cluster %s there, which %s", secret, spec.ClusterID, cure)
	}
	token, err := invite.ParseToken(text)
	switch {
	case err != nil:
		return nil, reasons.TokenInvalid, fmt.Errorf("%s: %w", secret, err)
	case w.Now.After(token.Expires):
		return nil, reasons.TokenExpired, fmt.Errorf("%s: %w", secret, invite.ErrTokenExpired)
	case token.Consumer != "" && token.Consumer != w.Own:
		return nil, reasons.TokenInvalid, fmt.Errorf("%s: the token is for cluster %s, and this is %s", secret, token.Consumer, w.Own)
	case len(token.Pin) == 0 && w.discovered():
		// An attacker who answers the DNS query could have a certificate that the system trusts, and steal the token.
		return nil, reasons.TokenWithoutFingerprint, fmt.Errorf("%s: the token has no fingerprint of the provider's key, and the address in spec.foreignAuthUrl "+
			"was discovered, so its server cannot be verified: ask for a token without --trusted-certificate", secret)
	case len(token.Pin) == 0 && w.TokenURL != spec.ForeignAuthURL:
		// Otherwise, a user who may write ForeignClusters could have the token sent to an address of the user's choice.
		return nil, reasons.TokenWithoutFingerprint, fmt.Errorf("%s: the token has no fingerprint of the provider's key, so the Secret must contain the URL to which it may be sent: "+
			"set its data.%s to %s, the value of spec.foreignAuthUrl, or ask for a token without --trusted-certificate", secret, corev1beta1.TokenURLKey, spec.ForeignAuthURL)
	}
	content[invite.TokenKey] = []byte(text)
	return content, "", nil
}

// useProvider returns the next step for a cluster that already has an identity in the peer: request a network and resources.
func (f *Facts) useProvider(plan Plan, namespace string) Plan {
	w := f.Wish
	id := w.ForeignCluster.Spec.ClusterID
	if w.Connectable && len(w.Requests) == 0 && !f.Network.administered() {
		plan.Create = append(plan.Create, newNetworkRequest(namespace, id))
	}
	used := append(objects(f.Asked), objects(f.VirtualNodes)...)
	if len(used) > 0 && !slices.ContainsFunc(used, func(o Object) bool { return o.GetDeletionTimestamp() == nil }) {
		return plan.pending(reasons.EarlierPeering, "waiting for %s/%s of an earlier peering to be deleted", used[0].GetNamespace(), used[0].GetName())
	}
	if len(used) == 0 {
		if w.NodeTaken != "" {
			return plan.refused(reasons.NodeNameTaken, "%s, and the virtual node of cluster %s would have the same name: create a ResourceSlice of another name for it "+
				"(liqoctl create resourceslice NAME --remote-cluster-id %s)", w.NodeTaken, id, id)
		}
		plan.Create = append(plan.Create, newResourceSlice(namespace, id))
	}
	if len(plan.Create) > 0 {
		return plan.pending(reasons.AskingForResources, "asking cluster %s for resources", id)
	}
	module := offloaded(f)
	message := ""
	for _, condition := range module.Conditions {
		if condition.Status != corev1beta1.StatusReady && message == "" {
			message = condition.Message
		}
	}
	switch {
	case f.APIServer != nil && !f.APIServer.Up:
		return plan.refused(reasons.ProviderUnreachable, "the API server of cluster %s %s: %s", id, silence(f.APIServer), f.APIServer.Message)
	case phaseOf(module, corev1beta1.OffloadingVirtualNodeStatus, corev1beta1.OffloadingNodeStatus) == corev1beta1.PhaseEstablished:
		return plan.with(corev1beta1.StatusEstablished, reasons.PeeringEstablished, "cluster %s is peered", id)
	case message == "":
		message = "waiting for the virtual node"
	}
	return plan.pending(reasons.WaitingForResources, "%s", message)
}

// administered reports whether an administrator of this cluster created a gateway for the peer. Then Liqo does not request a network.
func (f *NetworkFacts) administered() bool {
	gateways := append(objects(f.Servers), objects(f.Clients)...)
	return slices.ContainsFunc(gateways, func(o Object) bool { return o.GetDeletionTimestamp() == nil && !networkingv1beta1.Negotiated(o) })
}

// requested returns a network object that was created for a NetworkRequest; nil if there is none.
func (f *NetworkFacts) requested() Object {
	for _, o := range append(append(objects(f.Configurations), objects(f.Servers)...), objects(f.Clients)...) {
		if networkingv1beta1.Negotiated(o) {
			return o
		}
	}
	return nil
}

// unpeer returns the next step to end the peering. The order lets the peer clean up: resources, network, identity. Nothing is deleted while the peer
// does not answer. Its pods could not be stopped, and would run twice once they are replaced. What the peer needs to use this cluster stays until its use ends.
func (f *Facts) unpeer() Plan {
	w, plan := f.Wish, Plan{Held: true}
	id := w.ForeignCluster.Spec.ClusterID
	leaving := func(reason, format string, args ...any) Plan {
		return plan.with(corev1beta1.StatusDisconnecting, reason, format, args...)
	}
	if left := f.Network.requested(); !f.uses() && f.Tenant == nil && left != nil { // garbage collection deletes this object once the last NetworkRequest is deleted
		return leaving(reasons.ReleasingNetwork, "waiting for the network with cluster %s to be deleted: %s/%s", id, left.GetNamespace(), left.GetName())
	}
	if !f.uses() {
		return Plan{}.with(corev1beta1.StatusNone, reasons.NotPeered, "this cluster uses nothing of cluster %s", id)
	}
	granted := f.Identity != nil && Granted(&f.Identity.Spec.AuthParams)
	if granted && !w.lost() && (f.APIServer == nil || !f.APIServer.Up) {
		why := "it has not answered yet"
		if f.APIServer != nil {
			why = f.APIServer.Message
		}
		return leaving(reasons.ProviderUnreachable, "waiting for the API server of cluster %s, whose pods can't be stopped otherwise: %s. "+
			"If that cluster is gone for good: liqoctl force unpeer %s", id, why, id)
	}
	// A ResourceSlice is deleted as soon as the deletion of its VirtualNode has begun. But the pods have left the peer only when the VirtualNode no
	// longer exists.
	stays := !w.lost() && NetworkStays(f.Tenant != nil, f.Network.Requests)
	requests := objects(w.Requests)
	if stays {
		requests = nil
	}
	for _, stage := range []struct {
		kind string
		all  []Object
	}{
		{"ResourceSlice", objects(f.Asked)}, {"VirtualNode", objects(f.VirtualNodes)}, {"NetworkRequest", requests},
	} {
		if len(stage.all) == 0 {
			continue
		}
		for _, object := range stage.all {
			if object.GetDeletionTimestamp() == nil {
				plan.Delete = append(plan.Delete, object)
			}
		}
		plan.Ask = granted && !w.lost() && len(plan.Delete) > 0
		return leaving(reasons.ReleasingResources, "waiting for %s %s/%s to be deleted", stage.kind, stage.all[0].GetNamespace(), stage.all[0].GetName())
	}
	switch {
	case w.Mapped:
		return leaving(reasons.ReleasingResources, "waiting for the remote namespaces in cluster %s to be deleted", id)
	case stays:
		return leaving(reasons.NetworkInUse, "the resources of cluster %[1]s are released. The network and the Identity stay as long as cluster %[1]s uses resources of this "+
			"cluster, because only this cluster requested the network", id)
	case f.Identity == nil || f.Identity.DeletionTimestamp != nil:
		return leaving(reasons.Resigning, "waiting for the Tenant of this cluster in cluster %s to be deleted", id)
	}
	if w.Kubeconfig != nil && w.Kubeconfig.Annotations[AnnotationResign] != api.True {
		plan.Resign = w.Kubeconfig
	}
	plan.Delete = []Object{f.Identity}
	return leaving(reasons.Resigning, "deleting the Identity %s/%s", f.Identity.Namespace, f.Identity.Name)
}
