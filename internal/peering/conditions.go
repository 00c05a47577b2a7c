package peering

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/reasons"
)

// tally counts the objects that are ready, and keeps the problem of the first object that is not.
type tally struct {
	ready, all int
	trouble    string
}

// add counts one more object. An empty trouble means that the object is ready.
func (t *tally) add(trouble string) {
	t.all++
	switch {
	case trouble == "":
		t.ready++
	case t.trouble == "":
		t.trouble = trouble
	}
}

// condition summarizes the count. The reason starts with the word what and ends with Ready, SomeNotReady or NotReady. The message has the problem of the first
// object that is not ready.
func (t *tally) condition(kind corev1beta1.ConditionType, what string) corev1beta1.Condition {
	c := state(kind, what, t.ready, t.all)
	switch {
	case t.trouble != "" && t.all == 1:
		c.Message = t.trouble
	case t.trouble != "":
		c.Message += ": " + t.trouble
	}
	return c
}

// state summarizes how many of the objects are ready. The reason starts with the word what and ends with Ready, SomeNotReady or NotReady.
func state(kind corev1beta1.ConditionType, what string, ready, all int) corev1beta1.Condition {
	status := corev1beta1.StatusSomeNotReady
	switch ready {
	case all:
		status = corev1beta1.StatusReady
	case 0:
		status = corev1beta1.StatusNotReady
	}
	return corev1beta1.Condition{
		Type: kind, Status: status, Reason: what + string(status), Message: fmt.Sprintf("%d of %d ready", ready, all),
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// authenticated compiles the status of the authentication module.
func authenticated(f *Facts, now metav1.Time) corev1beta1.Module {
	module := corev1beta1.Module{Enabled: f.Tenant != nil || f.Identity != nil}
	if f.Tenant != nil {
		var t tally
		t.add(tenantTrouble(f.Tenant))
		module.Conditions = append(module.Conditions, t.condition(corev1beta1.AuthTenantStatus, reasons.CountedTenant))
	}
	if f.Identity != nil {
		var t tally
		t.add(identityTrouble(f.Identity, f.APIServer, now))
		condition := t.condition(corev1beta1.AuthIdentityControlPlaneStatus, reasons.CountedIdentity)
		if t.trouble != "" && f.APIServer != nil && f.APIServer.Refused != "" {
			condition.Reason = reasons.AccessRevoked // virtual kubelets without remote namespaces depend on it
		}
		if late := renewalTrouble(f.Identity, now); late != "" && t.trouble == "" {
			condition.Message += ": " + late
		}
		module.Conditions = append(module.Conditions, condition)
	}
	return module
}

func tenantReady(tenant *authv1beta1.Tenant) bool {
	tolerated := tenant.Spec.AuthzPolicy == authv1beta1.TolerateNoHandshake && len(tenant.Spec.CSR) == 0
	return tenant.Status.TenantNamespace != "" && (tenant.Status.AuthParams != nil || tolerated)
}

// tenantTrouble says why the other cluster can't use its Tenant in this cluster; it returns "" when it can.
func tenantTrouble(tenant *authv1beta1.Tenant) string {
	name := fmt.Sprintf("Tenant %s/%s", tenant.Namespace, tenant.Name)
	switch {
	case tenant.DeletionTimestamp != nil:
		return name + " is being deleted" + readyReason(tenant.Status.Conditions)
	case !GrantsOf(tenant).Access:
		return fmt.Sprintf("%s is drained: liqoctl activate tenant %s lets it in again", name, tenant.Name)
	case !tenantReady(tenant):
		return name + " is not admitted" + readyReason(tenant.Status.Conditions)
	}
	return ""
}

// anotherCredential says how to replace a credential that the provider does not accept any more.
const anotherCredential = "liqoctl authenticate gets another one, or without a kubeconfig of the other cluster liqoctl peer out-of-band, " +
	"with a token of liqoctl generate peer-command"

// identityTrouble says why this cluster can't use its Identity in the other cluster; it returns "" when it can.
func identityTrouble(identity *authv1beta1.Identity, probe *Probe, now metav1.Time) string {
	name := fmt.Sprintf("Identity %s/%s", identity.Namespace, identity.Name)
	if identity.Status.KubeconfigSecretRef == nil {
		return name + " has no kubeconfig" + readyReason(identity.Status.Conditions)
	}
	credential, err := CredentialOf(&identity.Spec.AuthParams)
	if err == nil && credential.Expires() && now.After(credential.Until) {
		return fmt.Sprintf("the %s of %s ended at %s and was not renewed in time: %s",
			credential.Kind, name, credential.Until.UTC().Format(time.RFC3339), anotherCredential)
	}
	if aws := identity.Spec.AuthParams.AwsConfig; aws != nil {
		return awsTrouble(name, aws, probe)
	}
	if probe != nil && probe.Refused != "" {
		return fmt.Sprintf("%s grants nothing: %s. The other cluster drained or removed our Tenant. Its administrator can activate it again (liqoctl activate tenant). "+
			"Or create another one (liqoctl authenticate, or liqoctl peer out-of-band with a new token), or end the peering (liqoctl unpeer)", name, probe.Refused)
	}
	if probe != nil && probe.Unauthorized {
		why, kind := "it has another CA now, or a clock is wrong", KindOf(&identity.Spec.AuthParams)
		if kind == KindToken {
			why = "it revoked the token, as it does when its Tenant was removed or has another key, or an hour after it offered a certificate that this cluster did not fetch"
		}
		return fmt.Sprintf("the other cluster does not accept the %s of %s (%s): %s. %s", kind, name, probe.Message, why, anotherCredential)
	}
	return ""
}

// AccessLost returns the message of the Event that a provider has begun to deny this cluster all access. It returns "" if the provider grants access, or if the
// message is not new. before and after are two successive statuses of the ForeignCluster.
func AccessLost(before, after *corev1beta1.ForeignClusterStatus, probe *Probe) string {
	if probe == nil || probe.Refused == "" && !probe.Unauthorized {
		return ""
	}
	identity := func(status *corev1beta1.ForeignClusterStatus) (message string, faulty bool) {
		for _, c := range status.Modules.Authentication.Conditions {
			if c.Type == corev1beta1.AuthIdentityControlPlaneStatus {
				return c.Message, c.Status == corev1beta1.StatusNotReady
			}
		}
		return "", false
	}
	message, faulty := identity(after)
	if was, known := identity(before); !faulty || known && was == message {
		return ""
	}
	return message
}

// awsTrouble says why an Identity with an access key of AWS grants nothing. It returns "" if the Identity grants access, or if the probe does not
// show whether it does. The message lists all possible causes, because EKS does not distinguish them.
func awsTrouble(name string, aws *authv1beta1.AwsConfig, probe *Probe) string {
	why := ""
	switch {
	case probe == nil:
	case probe.Refused != "":
		why = probe.Refused
	case probe.Unauthorized:
		why = probe.Message
	}
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s grants nothing: %s. Possible causes: EKS cluster %s in region %s maps user %s to no user of Kubernetes (there: aws eks list-access-entries, or ConfigMap kube-system/aws-auth), "+
		"its access key was deleted or is another one, the Tenant there is drained, or a clock is wrong by more than 5 minutes. A new access key belongs into spec.authParams.awsConfig",
		name, why, aws.AwsClusterName, aws.AwsRegion, aws.AwsUserArn)
}

// renewalTrouble warns that a credential has not been renewed, while it is still valid; it returns "" when the renewal is not overdue.
func renewalTrouble(identity *authv1beta1.Identity, now metav1.Time) string {
	credential, err := CredentialOf(&identity.Spec.AuthParams)
	if err != nil || !credential.Late(now.Time) {
		return ""
	}
	return fmt.Sprintf("its %s expires at %s, and the other cluster has not renewed it: see Renew %s in the log of its controller manager",
		credential.Kind, credential.Until.UTC().Format(time.RFC3339), identity.Name)
}

// readyReason formats the reason and the message of condition Ready as text for people. Callers append it to the name of the object.
func readyReason(conditions []metav1.Condition) string {
	ready := meta.FindStatusCondition(conditions, "Ready")
	if ready == nil {
		return ": it was not reconciled yet, check whether the controller manager runs"
	}
	return fmt.Sprintf(": %s, %s", ready.Reason, ready.Message)
}

// offloaded compiles the status of the offloading module: from the virtual nodes, and from the ResourceSlices that should have a virtual node and
// have none yet.
func offloaded(f *Facts) corev1beta1.Module {
	var virtual, nodes tally
	for i := range f.Asked {
		slice := &f.Asked[i]
		if slice.DeletionTimestamp == nil && slice.Annotations[authv1beta1.AnnotationCreateVirtualNode] == "true" && !hasNode(f, slice) {
			virtual.add(sliceTrouble(slice))
		}
	}
	for i := range f.VirtualNodes {
		node := &f.VirtualNodes[i]
		virtual.add(virtualNodeTrouble(node))
		if makesNode(node) {
			nodes.add(nodeTrouble(node, f.Nodes))
		}
	}
	module := corev1beta1.Module{Enabled: virtual.all > 0}
	if virtual.all > 0 {
		module.Conditions = append(module.Conditions, virtual.condition(corev1beta1.OffloadingVirtualNodeStatus, reasons.CountedVirtualNodes))
	}
	if nodes.all > 0 {
		module.Conditions = append(module.Conditions, nodes.condition(corev1beta1.OffloadingNodeStatus, reasons.CountedNodes))
	}
	return module
}

func hasNode(f *Facts, slice *authv1beta1.ResourceSlice) bool {
	for i := range f.VirtualNodes {
		if f.VirtualNodes[i].Namespace == slice.Namespace && f.VirtualNodes[i].Name == slice.Name {
			return true
		}
	}
	return false
}

// sliceTrouble says why a ResourceSlice has no virtual node yet.
func sliceTrouble(slice *authv1beta1.ResourceSlice) string {
	name := fmt.Sprintf("ResourceSlice %s/%s", slice.Namespace, slice.Name)
	for _, condition := range slice.Status.Conditions {
		if condition.Status != authv1beta1.ResourceSliceAccepted {
			return fmt.Sprintf("%s: %s is %s, %s: %s", name, condition.Type, condition.Status, condition.Reason, condition.Message)
		}
	}
	if !accepted(slice) {
		return name + " waits for the answer of the other cluster"
	}
	return name + " waits for its VirtualNode"
}

func makesNode(node *offloadingv1beta1.VirtualNode) bool {
	return node.Spec.CreateNode == nil || *node.Spec.CreateNode
}

// virtualNodeTrouble says which part of a virtual node does not run; it returns "" when all of them do.
func virtualNodeTrouble(node *offloadingv1beta1.VirtualNode) string {
	name := fmt.Sprintf("VirtualNode %s/%s", node.Namespace, node.Name)
	running := false
	for i := range node.Status.Conditions {
		condition := &node.Status.Conditions[i]
		isNode := condition.Type == offloadingv1beta1.VirtualNodeNode
		if condition.Status != offloadingv1beta1.VirtualNodeRunning && (!isNode || makesNode(node)) {
			return strings.TrimSuffix(fmt.Sprintf("%s: %s is %s, %s", name, condition.Type, condition.Status, condition.Message), ", ")
		}
		running = running || !isNode
	}
	if !running {
		return name + ": it was not reconciled yet, check whether the controller manager runs"
	}
	return ""
}

// nodeTrouble says why the Node of a virtual node is not ready; it returns "" when it is.
func nodeTrouble(virtual *offloadingv1beta1.VirtualNode, nodes []corev1.Node) string {
	for i := range nodes {
		if nodes[i].Name != virtual.Name {
			continue
		}
		for _, condition := range nodes[i].Status.Conditions {
			switch {
			case condition.Type != corev1.NodeReady:
			case condition.Status == corev1.ConditionTrue:
				return ""
			default:
				return fmt.Sprintf("Node %s: Ready is %s, %s: %s", virtual.Name, condition.Status, condition.Reason, condition.Message)
			}
		}
		return fmt.Sprintf("Node %s has no condition Ready yet", virtual.Name)
	}
	return fmt.Sprintf("Node %s does not exist yet: its virtual kubelet creates it, see the pods of Deployment vk-%s in namespace %s", virtual.Name, virtual.Name, virtual.Namespace)
}

// answers returns the condition that shows whether the remote API server answers, from the outcome of its probe.
func answers(status *corev1beta1.ForeignClusterStatus, probe *Probe) corev1beta1.Condition {
	c := corev1beta1.Condition{
		Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusEstablished, Reason: reasons.APIServerReady, Message: "the remote API server is ready",
	}
	if probe.Up {
		if kinds := slices.Sorted(maps.Keys(probe.Exceeded)); len(kinds) > 0 {
			c.Status, c.Reason = corev1beta1.StatusSomeNotReady, reasons.TooManyCopies
			c.Message = fmt.Sprintf("the remote API server responds, but this cluster does not read its %s in namespace %s: %s. What this cluster read before stays in use. "+
				"The administrator of the remote cluster deletes those that are not needed: kubectl -n %[2]s get %[1]s -l %[4]s=%[5]s",
				resourceOf(kinds[0]), status.TenantNamespace.Remote, probe.Exceeded[kinds[0]], api.LabelReplicated, api.True)
		}
		return c
	}
	through := ""
	if status.ForeignProxyURL != "" {
		through = " through " + status.ForeignProxyURL
	}
	c.Status, c.Reason = corev1beta1.StatusError, reasons.APIServerNotReady
	c.Message = fmt.Sprintf("the API server at %s %s%s: %s", status.APIServerURL, silence(probe), through, probe.Message)
	return c
}

// silence says, in a word for people, how a probe failed.
func silence(probe *Probe) string {
	if probe.Unauthorized {
		return "rejects the identity of this cluster"
	}
	return "does not answer"
}
