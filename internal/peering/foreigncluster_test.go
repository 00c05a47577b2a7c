package peering

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/reasons"
)

// picture writes a status the way an operator would read it.
func picture(s *corev1beta1.ForeignClusterStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s auth=%t offloading=%t networking=%t %s/%s %s\n", s.Role, s.Modules.Authentication.Enabled, s.Modules.Offloading.Enabled,
		s.Modules.Networking.Enabled, s.TenantNamespace.Local, s.TenantNamespace.Remote, s.APIServerURL)
	p := s.Peering
	fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", p.Type, p.Outgoing, p.Incoming, p.Networking, p.Authentication)
	for _, list := range [][]corev1beta1.Condition{s.Conditions, s.Modules.Authentication.Conditions, s.Modules.Offloading.Conditions} {
		for _, c := range list {
			fmt.Fprintf(&b, "%s=%s (%s: %s)\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return b.String()
}

func TestForeignClusters(t *testing.T) {
	tenant := &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tns", Name: "rome"}, Status: authv1beta1.TenantStatus{TenantNamespace: "tns", AuthParams: &authv1beta1.AuthParams{}},
	}
	with := func(f func(*authv1beta1.Tenant)) *authv1beta1.Tenant {
		changed := tenant.DeepCopy()
		f(changed)
		return changed
	}
	refused := with(func(tn *authv1beta1.Tenant) {
		tn.Status.AuthParams = nil
		tn.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "SignatureVerificationFailed", Message: "spec.signature: it is wrong"}}
	})
	drained := with(func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantDrained })
	identity := &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tnm", Name: "controlplane-milan"},
		Spec:       authv1beta1.IdentitySpec{Namespace: "there", AuthParams: authv1beta1.AuthParams{APIServer: "https://milan"}},
	}
	ready := identity.DeepCopy()
	ready.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "s"}
	late := ready.DeepCopy()
	late.Spec.AuthParams.SignedCRT = newHolder(t, Ed25519).certificate(t, ControlPlaneSubject("rome"), 0)
	proxied := ready.DeepCopy()
	proxied.Spec.AuthParams.ProxyURL = new("http://10.71.0.9:8118")
	ended := ready.DeepCopy()
	ended.Spec.AuthParams.SignedCRT = newHolder(t, Ed25519).certificate(t, ControlPlaneSubject("rome"), -time.Hour)
	revoked := ready.DeepCopy()
	revoked.Spec.AuthParams.Token = &authv1beta1.SealedToken{Sealed: []byte("x"), IssuedAt: at(-time.Hour), ExpiresAt: at(100 * time.Hour)}
	unknown := &Probe{Message: "asking https://milan/livez: 401 Unauthorized", Unauthorized: true}
	slice := func(resources authv1beta1.ResourceSliceConditionStatus) authv1beta1.ResourceSlice {
		return authv1beta1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tnm", Name: "milan", Annotations: map[string]string{authv1beta1.AnnotationCreateVirtualNode: "true"}},
			Status: authv1beta1.ResourceSliceStatus{Conditions: []authv1beta1.ResourceSliceCondition{
				{Type: authv1beta1.ResourceSliceAuthentication, Status: authv1beta1.ResourceSliceAccepted},
				{Type: authv1beta1.ResourceSliceResources, Status: resources, Reason: "TooMuch", Message: "ask for less"},
			}},
		}
	}
	node := func(name string, status offloadingv1beta1.VirtualNodeConditionStatus) offloadingv1beta1.VirtualNode {
		return offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "tnm", Name: name}, Status: offloadingv1beta1.VirtualNodeStatus{
			Conditions: []offloadingv1beta1.VirtualNodeCondition{{Type: "VirtualKubelet", Status: status}, {Type: "Node", Status: status}},
		}}
	}
	leaving := node("milan", "Running")
	leaving.DeletionTimestamp = new(at(0))
	without := node("c", "Running")
	without.Spec.CreateNode = new(false)
	without.Status.Conditions[1].Status = "None"
	kubernetes := func(name string, status corev1.ConditionStatus) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "Silent", Message: "no answer"}},
		}}
	}
	for name, c := range map[string]struct {
		facts Facts
		want  string
	}{
		"a former peer":    {Facts{}, "Unknown auth=false offloading=false networking=false / \n|  | None | None | None | None |\n"},
		"only a namespace": {Facts{TenantNamespaces: namespaces("here")}, "Unknown auth=false offloading=false networking=false here/ \n|  | None | None | None | None |\n"},
		"a consumer": {Facts{TenantNamespaces: namespaces("here"), Tenant: tenant},
			"Consumer auth=true offloading=false networking=false here/ \n| OutOfBand | None | None | None | Established |\n" +
				"AuthTenantStatus=Ready (TenantReady: 1 of 1 ready)\n"},
		"a consumer that uses resources": {Facts{Tenant: tenant, Granted: []authv1beta1.ResourceSlice{slice("Accepted")}},
			"Consumer auth=true offloading=false networking=false / \n| OutOfBand | None | Established | None | Established |\n" +
				"AuthTenantStatus=Ready (TenantReady: 1 of 1 ready)\n"},
		"a consumer that nobody looked at": {Facts{Tenant: &authv1beta1.Tenant{ObjectMeta: tenant.ObjectMeta}},
			"Consumer auth=true offloading=false networking=false / \n| OutOfBand | None | Pending | None | Pending |\n" +
				"AuthTenantStatus=NotReady (TenantNotReady: Tenant tns/rome is not admitted: it was not reconciled yet, check whether the controller manager runs)\n"},
		"a consumer that is refused": {Facts{Tenant: refused},
			"Consumer auth=true offloading=false networking=false / \n| OutOfBand | None | Pending | None | Pending |\n" +
				"AuthTenantStatus=NotReady (TenantNotReady: Tenant tns/rome is not admitted: SignatureVerificationFailed, spec.signature: it is wrong)\n"},
		"a consumer that is drained": {Facts{Tenant: drained},
			"Consumer auth=true offloading=false networking=false / \n| OutOfBand | None | Disconnecting | None | Pending |\n" +
				"AuthTenantStatus=NotReady (TenantNotReady: Tenant tns/rome is drained: liqoctl activate tenant rome lets it in again)\n"},
		"a provider": {Facts{Identity: ready, APIServer: &Probe{Up: true}},
			"Provider auth=true offloading=false networking=false /there https://milan\n| OutOfBand | None | None | None | Established |\n" +
				"APIServerStatus=Established (APIServerReady: the remote API server is ready)\n" +
				"AuthIdentityControlPlaneStatus=Ready (IdentityReady: 1 of 1 ready)\n"},
		"a provider that has too much": {Facts{Identity: ready, APIServer: &Probe{Up: true, Exceeded: map[string]string{"Renew": "there are more than 1000 objects"}}},
			"Provider auth=true offloading=false networking=false /there https://milan\n| OutOfBand | None | None | None | Established |\n" +
				"APIServerStatus=SomeNotReady (TooManyCopies: the remote API server responds, but this cluster does not read its renews.authentication.liqo.io in namespace there: " +
				"there are more than 1000 objects. What this cluster read before stays in use. The administrator of the remote cluster deletes those that are " +
				"not needed: kubectl -n there get renews.authentication.liqo.io -l liqo.io/replicated=true)\n" +
				"AuthIdentityControlPlaneStatus=Ready (IdentityReady: 1 of 1 ready)\n"},
		"a provider that is down": {Facts{Identity: proxied, APIServer: &Probe{Message: "refused"}, VirtualNodes: []offloadingv1beta1.VirtualNode{without}},
			"Provider auth=true offloading=true networking=false /there https://milan\n| InBand | Error | None | None | Error |\n" +
				"APIServerStatus=Error (APIServerNotReady: the API server at https://milan does not answer through http://10.71.0.9:8118: refused)\n" +
				"AuthIdentityControlPlaneStatus=Ready (IdentityReady: 1 of 1 ready)\n" +
				"OffloadingVirtualNodeStatus=Ready (VirtualNodesReady: 1 of 1 ready)\n"},
		"an identity without a kubeconfig": {Facts{Identity: identity},
			"Provider auth=true offloading=false networking=false /there https://milan\n| OutOfBand | None | None | None | Pending |\n" +
				"AuthIdentityControlPlaneStatus=NotReady (IdentityNotReady: Identity tnm/controlplane-milan has no kubeconfig: it was not reconciled yet, check whether the controller manager runs)\n"},
		"a certificate that ended": {Facts{Identity: ended},
			"Provider auth=true offloading=false networking=false /there https://milan\n| OutOfBand | None | None | None | Pending |\n" +
				"AuthIdentityControlPlaneStatus=NotReady (IdentityNotReady: the certificate of Identity tnm/controlplane-milan ended at " +
				at(-time.Hour).UTC().Format(time.RFC3339) + " and was not renewed in time: liqoctl authenticate gets another one, or without a kubeconfig of the other cluster liqoctl peer out-of-band, with a token of liqoctl generate peer-command)\n"},
		"a certificate that nobody renews": {Facts{Identity: late},
			"Provider auth=true offloading=false networking=false /there https://milan\n| OutOfBand | None | None | None | Established |\n" +
				"AuthIdentityControlPlaneStatus=Ready (IdentityReady: 1 of 1 ready: its certificate expires at " + at(0).UTC().Format(time.RFC3339) +
				", and the other cluster has not renewed it: see Renew controlplane-milan in the log of its controller manager)\n"},
		"a provider that took our rights back": {Facts{Identity: ready, APIServer: &Probe{Up: true, Refused: "forbidden"}},
			"Provider auth=true offloading=false networking=false /there https://milan\n| OutOfBand | None | None | None | Pending |\n" +
				"APIServerStatus=Established (APIServerReady: the remote API server is ready)\n" +
				"AuthIdentityControlPlaneStatus=NotReady (AccessRevoked: Identity tnm/controlplane-milan grants nothing: forbidden. The other cluster drained or removed our Tenant. " +
				"Its administrator can activate it again (liqoctl activate tenant). Or create another one (liqoctl authenticate, or liqoctl peer out-of-band with a new token), or end the peering (liqoctl unpeer))\n"},
		"a provider that revoked our token": {Facts{Identity: revoked, APIServer: unknown},
			"Provider auth=true offloading=false networking=false /there https://milan\n| OutOfBand | None | None | None | Error |\n" +
				"APIServerStatus=Error (APIServerNotReady: the API server at https://milan rejects the identity of this cluster: asking https://milan/livez: 401 Unauthorized)\n" +
				"AuthIdentityControlPlaneStatus=NotReady (IdentityNotReady: the other cluster does not accept the token of Identity tnm/controlplane-milan " +
				"(asking https://milan/livez: 401 Unauthorized): it revoked the token, as it does when its Tenant was removed or has another key, or an hour after it offered a " +
				"certificate that this cluster did not fetch. liqoctl authenticate gets another one, or without a kubeconfig of the other cluster liqoctl peer out-of-band, with a token of liqoctl generate peer-command)\n"},
		"a provider with another CA": {Facts{Identity: ready, APIServer: unknown},
			"Provider auth=true offloading=false networking=false /there https://milan\n| OutOfBand | None | None | None | Error |\n" +
				"APIServerStatus=Error (APIServerNotReady: the API server at https://milan rejects the identity of this cluster: asking https://milan/livez: 401 Unauthorized)\n" +
				"AuthIdentityControlPlaneStatus=NotReady (IdentityNotReady: the other cluster does not accept the certificate of Identity tnm/controlplane-milan " +
				"(asking https://milan/livez: 401 Unauthorized): it has another CA now, or a clock is wrong. liqoctl authenticate gets another one, or without a kubeconfig of the other cluster liqoctl peer out-of-band, with a token of liqoctl generate peer-command)\n"},
		"resources that are denied": {Facts{Identity: ready, Asked: []authv1beta1.ResourceSlice{slice("Denied")}},
			"Provider auth=true offloading=true networking=false /there https://milan\n| OutOfBand | Pending | None | None | Established |\n" +
				"AuthIdentityControlPlaneStatus=Ready (IdentityReady: 1 of 1 ready)\n" +
				"OffloadingVirtualNodeStatus=NotReady (VirtualNodesNotReady: ResourceSlice tnm/milan: Resources is Denied, TooMuch: ask for less)\n"},
		"a virtual node without its Node": {Facts{Asked: []authv1beta1.ResourceSlice{slice("Accepted")}, VirtualNodes: []offloadingv1beta1.VirtualNode{node("milan", "Running")}},
			"Provider auth=false offloading=true networking=false / \n| OutOfBand | Pending | None | None | None |\n" +
				"OffloadingVirtualNodeStatus=Ready (VirtualNodesReady: 1 of 1 ready)\n" +
				"OffloadingNodeStatus=NotReady (NodesNotReady: Node milan does not exist yet: its virtual kubelet creates it, see the pods of Deployment vk-milan in namespace tnm)\n"},
		"virtual nodes, some of them ready": {Facts{
			VirtualNodes: []offloadingv1beta1.VirtualNode{node("a", "Running"), node("b", "Creating"), without},
			Nodes:        []corev1.Node{kubernetes("a", "True"), kubernetes("b", "False"), kubernetes("stranger", "True")},
		}, "Provider auth=false offloading=true networking=false / \n| OutOfBand | Pending | None | None | None |\n" +
			"OffloadingVirtualNodeStatus=SomeNotReady (VirtualNodesSomeNotReady: 2 of 3 ready: VirtualNode tnm/b: VirtualKubelet is Creating)\n" +
			"OffloadingNodeStatus=SomeNotReady (NodesSomeNotReady: 1 of 2 ready: Node b: Ready is False, Silent: no answer)\n"},
		"a virtual node that leaves": {Facts{VirtualNodes: []offloadingv1beta1.VirtualNode{leaving}, Nodes: []corev1.Node{kubernetes("milan", "True")}},
			"Provider auth=false offloading=true networking=false / \n| OutOfBand | Disconnecting | None | None | None |\n" +
				"OffloadingVirtualNodeStatus=Ready (VirtualNodesReady: 1 of 1 ready)\nOffloadingNodeStatus=Ready (NodesReady: 1 of 1 ready)\n"},
		"in both directions": {Facts{Tenant: tenant, Identity: ready},
			"ConsumerAndProvider auth=true offloading=false networking=false /there https://milan\n| OutOfBand | None | None | None | Established |\n" +
				"AuthTenantStatus=Ready (TenantReady: 1 of 1 ready)\n" +
				"AuthIdentityControlPlaneStatus=Ready (IdentityReady: 1 of 1 ready)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := CompileForeignCluster(&c.facts, &Plan{}, &corev1beta1.ForeignClusterStatus{}, 3, at(0))
			if diff := cmp.Diff(c.want, picture(&got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// Law: the same facts result in the same status later, including all times, unless a certificate has expired in between.
			if c.facts.Identity == late {
				return
			}
			later := CompileForeignCluster(&c.facts, &Plan{}, &got, 3, at(time.Hour))
			if diff := cmp.Diff(got, later); diff != "" {
				t.Errorf("an hour later (-before +after):\n%s", diff)
			}
		})
	}
}

// namespaces returns namespaces of these names, the first the oldest.
func namespaces(names ...string) []corev1.Namespace {
	out := make([]corev1.Namespace, len(names))
	for i, name := range names {
		out[i].Name, out[i].CreationTimestamp = name, at(time.Duration(i)*time.Hour)
	}
	return out
}

// TestTenantNamespaceInUse: of several namespaces that are labelled as the tenant namespace of a cluster, the status names the one that the peering
// uses, whatever their names are.
func TestTenantNamespaceInUse(t *testing.T) {
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: "c"}}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "d"}}
	configuration := func(namespace string, age time.Duration) networkingv1beta1.Configuration {
		return networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, CreationTimestamp: at(-age)}}
	}
	network := NetworkFacts{Configurations: []networkingv1beta1.Configuration{configuration("a", 0), configuration("e", time.Hour)}}
	all := namespaces("b", "a", "c", "d", "e")
	for name, row := range map[string]struct {
		facts Facts
		want  string
	}{
		"none":                            {Facts{}, ""},
		"the oldest, without a peering":   {Facts{TenantNamespaces: all}, "b"},
		"of the Identity":                 {Facts{TenantNamespaces: all, Identity: identity, Tenant: tenant, Network: network}, "c"},
		"of the Tenant":                   {Facts{TenantNamespaces: all, Tenant: tenant, Network: network}, "d"},
		"of the oldest Configuration":     {Facts{TenantNamespaces: all, Network: network}, "e"},
		"the Identity is in none of them": {Facts{TenantNamespaces: namespaces("a", "d"), Identity: identity, Tenant: tenant}, "d"},
	} {
		if got := CompileForeignCluster(&row.facts, &Plan{}, &corev1beta1.ForeignClusterStatus{}, 1, at(0)).TenantNamespace.Local; got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

func TestTransitionTimesFollowTheStatus(t *testing.T) {
	facts := Facts{Identity: &authv1beta1.Identity{}, APIServer: &Probe{Up: true}}
	first := CompileForeignCluster(&facts, &Plan{}, &corev1beta1.ForeignClusterStatus{}, 1, at(0))
	facts.APIServer = &Probe{Message: "refused"}
	second := CompileForeignCluster(&facts, &Plan{}, &first, 1, at(time.Hour))
	if !second.Conditions[0].LastTransitionTime.Equal(new(at(time.Hour))) {
		t.Errorf("went down at %s, it says %s", at(time.Hour), second.Conditions[0].LastTransitionTime)
	}
	if got := second.Modules.Authentication.Conditions[0].LastTransitionTime; !got.Equal(new(at(0))) {
		t.Errorf("what did not change is from %s now", got)
	}
}

// TestAPIServerStatusStaysUntilTheFirstProbe: a new process keeps the reported status of a peer's API server until its own first probe.
func TestAPIServerStatusStaysUntilTheFirstProbe(t *testing.T) {
	facts := Facts{Identity: &authv1beta1.Identity{}, APIServer: &Probe{Message: "refused"}}
	first := CompileForeignCluster(&facts, &Plan{}, &corev1beta1.ForeignClusterStatus{}, 1, at(0))
	facts.APIServer = nil
	if diff := cmp.Diff(first, CompileForeignCluster(&facts, &Plan{}, &first, 1, at(time.Hour))); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	if gone := CompileForeignCluster(&Facts{}, &Plan{}, &first, 1, at(time.Hour)); len(gone.Conditions) > 0 {
		t.Errorf("without an identity there is nothing to know: %v", gone.Conditions)
	}
}

// TestForeignClustersAreRequeued: a ForeignCluster is reconciled again when something in its status depends on the time, for example the end of a
// certificate.
func TestForeignClustersAreRequeued(t *testing.T) {
	if again := (&Facts{}).Again(at(0).Time); again != 0 {
		t.Errorf("without anything that ends: %s", again)
	}
	facts := Facts{Identity: &authv1beta1.Identity{}}
	facts.Identity.Spec.AuthParams.SignedCRT = newHolder(t, Ed25519).certificate(t, ControlPlaneSubject("rome"), time.Hour)
	if again := facts.Again(at(0).Time); again != 45*time.Minute+time.Second {
		t.Errorf("with a certificate of an hour: %s", again)
	}
	if again := facts.Again(at(55 * time.Minute).Time); again != 5*time.Minute+time.Second {
		t.Errorf("with five minutes left: %s", again)
	}
	if again := facts.Again(at(2 * time.Hour).Time); again != 0 {
		t.Errorf("after its end: %s", again)
	}
}

// TestLostAccessIsAnnouncedOnce: an Event reports that the provider denies all access, or rejects the identity, when that begins. It has the message of
// the condition.
func TestLostAccessIsAnnouncedOnce(t *testing.T) {
	status := func(status corev1beta1.ConditionStatus, message string) *corev1beta1.ForeignClusterStatus {
		out := &corev1beta1.ForeignClusterStatus{}
		out.Modules.Authentication.Conditions = []corev1beta1.Condition{
			{Type: corev1beta1.AuthTenantStatus, Status: corev1beta1.StatusNotReady, Message: "of the other direction"},
			{Type: corev1beta1.AuthIdentityControlPlaneStatus, Status: status, Message: message},
		}
		return out
	}
	ready, drained := status(corev1beta1.StatusReady, "1 of 1 ready"), status(corev1beta1.StatusNotReady, "drained")
	refused, unauthorized := &Probe{Up: true, Refused: "forbidden"}, &Probe{Unauthorized: true}
	for what, row := range map[string]struct {
		before, after *corev1beta1.ForeignClusterStatus
		probe         *Probe
		want          string
	}{
		"drained":                      {ready, drained, refused, "drained"},
		"rejected":                     {ready, drained, unauthorized, "drained"},
		"at the first look":            {&corev1beta1.ForeignClusterStatus{}, drained, refused, "drained"},
		"drained before":               {drained, drained, refused, ""},
		"another fault before":         {status(corev1beta1.StatusNotReady, "no kubeconfig"), drained, refused, "drained"},
		"not ready for another reason": {ready, drained, &Probe{Up: true}, ""},
		"unreachable":                  {ready, ready, &Probe{Message: "no route"}, ""},
		"not probed":                   {ready, drained, nil, ""},
		"access again":                 {drained, ready, &Probe{Up: true}, ""},
	} {
		if got := AccessLost(row.before, row.after, row.probe); got != row.want {
			t.Errorf("%s: %q, want %q", what, got, row.want)
		}
	}
}

// TestRevokedAccessHasItsOwnTime: the time of revoked access begins when access is revoked, also if the condition was NotReady for another reason before. Virtual nodes
// wait for a minute from then on.
func TestRevokedAccessHasItsOwnTime(t *testing.T) {
	condition := func(reason string) []corev1beta1.Condition {
		return []corev1beta1.Condition{{Type: corev1beta1.AuthIdentityControlPlaneStatus, Status: corev1beta1.StatusNotReady, Reason: reason}}
	}
	for name, test := range map[string]struct {
		before, now string
		kept        bool
	}{
		"another reason, then revoked": {reasons.IdentityNotReady, reasons.AccessRevoked, false},
		"revoked, then another reason": {reasons.AccessRevoked, reasons.IdentityNotReady, false},
		"revoked all the time":         {reasons.AccessRevoked, reasons.AccessRevoked, true},
		"other reasons":                {"Some", reasons.IdentityNotReady, true},
	} {
		previous, conditions := condition(test.before), condition(test.now)
		previous[0].LastTransitionTime = at(0)
		stamp(conditions, previous, at(time.Hour))
		if want := map[bool]metav1.Time{true: at(0), false: at(time.Hour)}[test.kept]; conditions[0].LastTransitionTime != want {
			t.Errorf("%s: since %s, want %s", name, conditions[0].LastTransitionTime, want)
		}
	}
}
