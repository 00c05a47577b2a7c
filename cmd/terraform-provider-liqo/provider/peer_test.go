package provider

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/test/clitest"
)

func milan() *corev1beta1.ForeignCluster {
	return &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
}

func tokenSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "remote-token-milan"}}
}

func token(t *testing.T) string {
	t.Helper()
	id, err := invite.NewTokenID(zeros{})
	if err != nil {
		t.Fatal(err)
	}
	return invite.Token{ID: id, Expires: time.Unix(1<<40, 0)}.Text([]byte("key"))
}

// peeringWith is a control of a terraform: it reports what yes and no are to the wish of ForeignCluster milan.
func peeringWith(t *testing.T, yes, no corev1beta1.Condition) func(client.Client, client.Object) {
	return func(c client.Client, _ client.Object) {
		foreign := milan()
		if c.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign) != nil {
			return
		}
		condition := map[corev1beta1.PeeringWish]corev1beta1.Condition{corev1beta1.PeeringYes: yes, corev1beta1.PeeringNo: no}[foreign.Spec.OutgoingPeeringEnabled]
		condition.Type = corev1beta1.OutgoingPeering
		foreign.Status.Conditions, foreign.Status.ObservedGeneration = []corev1beta1.Condition{condition}, foreign.Generation
		if err := c.Status().Update(t.Context(), foreign); err != nil {
			t.Error(err)
		}
	}
}

var (
	isPeered  = corev1beta1.Condition{Status: corev1beta1.StatusEstablished, Reason: reasons.PeeringEstablished, Message: "cluster milan is peered"}
	notPeered = corev1beta1.Condition{Status: corev1beta1.StatusNone, Reason: reasons.NotPeered, Message: "this cluster uses nothing of cluster milan"}
)

func toMilan(t *testing.T) attributes {
	return attributes{"cluster_id": "milan", "cluster_name": "milan", "cluster_authurl": "https://198.51.100.7", "cluster_token": token(t)}
}

// TestPeerings: a peering is requested, changed in place, read, imported and ended. A second plan changes nothing. Nothing is left at the end.
func TestPeerings(t *testing.T) {
	tf := configured(t)
	tf.control = peeringWith(t, isPeered, notPeered)
	config := toMilan(t)
	if problems := tf.validate("liqo_peer", config); problems != "" {
		t.Fatal(problems)
	}
	state := tf.applied("liqo_peer", nil, config)
	foreign, secret := milan(), tokenSecret()
	if !tf.get(foreign) || foreign.Spec.ClusterID != "milan" || foreign.Spec.OutgoingPeeringEnabled != corev1beta1.PeeringYes || foreign.Spec.ForeignAuthURL != "https://198.51.100.7" {
		t.Fatalf("%+v", foreign.Spec)
	}
	if !tf.get(secret) || string(secret.Data["token"]) != config["cluster_token"] || string(secret.Data["url"]) != "https://198.51.100.7" || secret.Labels["liqo.io/remote-cluster-id"] != "milan" {
		t.Fatalf("%+v", secret)
	}
	tf.settled("liqo_peer", state, config)

	config["cluster_authurl"], config["timeout"] = "https://198.51.100.8", "1m"
	state = tf.applied("liqo_peer", state, config)
	if tf.get(foreign); foreign.Spec.ForeignAuthURL != "https://198.51.100.8" {
		t.Errorf("%+v", foreign.Spec)
	}
	tf.settled("liqo_peer", state, config)

	imported, problems := tf.imported("liqo_peer", "milan")
	delete(config, "timeout")
	delete(config, "cluster_name")
	if problems != "" {
		t.Fatal(problems)
	}
	tf.settled("liqo_peer", imported, config)
	other := toMilan(t)
	other["cluster_id"], other["cluster_name"] = "turin", "turin"
	if plan := tf.plan("liqo_peer", state, other); !plan.replaces {
		t.Error("the provider of a peering changes in place")
	}

	tf.applied("liqo_peer", state, nil)
	if tf.get(milan()) || tf.get(tokenSecret()) {
		t.Error("the ForeignCluster or the token is left")
	}
}

// TestEndedPeeringsAreRequestedAgain: a ForeignCluster that was deleted, or whose peering liqoctl has ended, leaves the state, and is created again. While the
// peering ends, the resource stays in the state.
func TestEndedPeeringsAreRequestedAgain(t *testing.T) {
	tf := configured(t)
	tf.control = peeringWith(t, isPeered, notPeered)
	state := tf.applied("liqo_peer", nil, toMilan(t))
	foreign := milan()
	tf.get(foreign)
	foreign.Spec.OutgoingPeeringEnabled = corev1beta1.PeeringNo
	if err := tf.client.Update(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if gone := tf.refresh("liqo_peer", state); gone != nil {
		t.Errorf("a peering that has ended stays in the state: %v", gone)
	}
	tf.control = peeringWith(t, isPeered, corev1beta1.Condition{Status: corev1beta1.StatusDisconnecting, Reason: reasons.ReleasingResources})
	if tf.refresh("liqo_peer", state) == nil {
		t.Error("a peering that is ending leaves the state")
	}
	longer := toMilan(t)
	longer["timeout"] = "1m"
	_, problems := tf.apply("liqo_peer", state, longer)
	contains(t, problems, "ForeignCluster milan says that the peering ends", "to keep the peering, run: kubectl patch")
	if tf.get(foreign); foreign.Spec.OutgoingPeeringEnabled != corev1beta1.PeeringNo {
		t.Errorf("the end of the peering is stopped without a question: %+v", foreign.Spec)
	}
	tf.control = peeringWith(t, isPeered, notPeered)
	state = tf.applied("liqo_peer", nil, toMilan(t))
	if tf.get(foreign); foreign.Spec.OutgoingPeeringEnabled != corev1beta1.PeeringYes {
		t.Errorf("%+v", foreign.Spec)
	}
	if err := tf.client.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if gone := tf.refresh("liqo_peer", state); gone != nil {
		t.Errorf("a deleted ForeignCluster stays in the state: %v", gone)
	}
	tf.applied("liqo_peer", nil, toMilan(t))
}

// TestDataInAProviderIsKept: a peering is not ended while claims have data in the provider. The error is that of liqoctl unpeer, and names each claim.
func TestDataInAProviderIsKept(t *testing.T) {
	tf := configured(t, clitest.VolumeOf("1", "shop", "orders", "milan"), clitest.MapOf("milan", "shop"))
	tf.control = peeringWith(t, isPeered, notPeered)
	state := tf.applied("liqo_peer", nil, toMilan(t))
	next, problems := tf.apply("liqo_peer", state, nil)
	contains(t, problems, "The peering with cluster milan stays", "data would be lost", "PersistentVolumeClaim orders in namespace shop has a volume of Liqo, 1Gi in cluster milan", "Nothing was changed. Copy the data")
	if foreign := milan(); !tf.get(foreign) || foreign.Spec.OutgoingPeeringEnabled != corev1beta1.PeeringYes || !tf.get(tokenSecret()) || next == nil {
		t.Errorf("changed although it is refused: %+v", foreign)
	}
}

// TestPeeringsOfUnreachableProvidersStay: the end of a peering with a provider that is unreachable changes nothing. If the provider gets unreachable later, no
// ForeignCluster is deleted, and the error says what the resource waits for.
func TestPeeringsOfUnreachableProvidersStay(t *testing.T) {
	tf := configured(t)
	waiting := corev1beta1.Condition{Status: corev1beta1.StatusDisconnecting, Reason: reasons.ProviderUnreachable, Message: "waiting for the API server of cluster milan"}
	control := peeringWith(t, isPeered, waiting)
	tf.control = control
	config := toMilan(t)
	config["timeout"] = "50ms"
	state := tf.applied("liqo_peer", nil, config)
	tf.control = func(c client.Client, object client.Object) {
		control(c, object)
		foreign := milan()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil {
			t.Error(err)
		}
		foreign.Status.Conditions = append(foreign.Status.Conditions, corev1beta1.Condition{Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusError, Message: "no route to host"})
		if err := c.Status().Update(t.Context(), foreign); err != nil {
			t.Error(err)
		}
	}
	next, problems := tf.apply("liqo_peer", state, nil)
	contains(t, problems, "the API server of cluster milan", "no route to host", "Nothing was changed", "liqoctl force unpeer milan")
	if foreign := milan(); !tf.get(foreign) || foreign.Spec.OutgoingPeeringEnabled != corev1beta1.PeeringYes || !tf.get(tokenSecret()) || next == nil {
		t.Errorf("changed although it is refused: %+v", foreign.Spec)
	}
	tf.control = control
	next, problems = tf.apply("liqo_peer", state, nil)
	contains(t, problems, "not finished within 50ms: waiting for the API server of cluster milan", "terraform destroy again")
	if foreign := milan(); !tf.get(foreign) || next == nil {
		t.Error("the ForeignCluster or the state is gone")
	}
	stays := "The network and the Identity stay as long as cluster milan uses resources of this cluster"
	tf.control = peeringWith(t, isPeered, corev1beta1.Condition{Status: corev1beta1.StatusDisconnecting, Reason: reasons.NetworkInUse, Message: stays})
	next, problems = tf.apply("liqo_peer", state, nil)
	contains(t, problems, "WARNING", stays)
	if !tf.get(milan()) || next != nil {
		t.Error("the peering of the other direction has no ForeignCluster any more, or the resource stays in the state")
	}
}

// TestThePeeringOfTheOtherDirectionKeepsItsForeignCluster: the end of a peering does not delete the ForeignCluster of a cluster that uses this one.
func TestThePeeringOfTheOtherDirectionKeepsItsForeignCluster(t *testing.T) {
	tf := configured(t)
	tf.control = peeringWith(t, isPeered, notPeered)
	state := tf.applied("liqo_peer", nil, toMilan(t))
	foreign := milan()
	tf.get(foreign)
	foreign.Status.Modules.Authentication.Conditions = []corev1beta1.Condition{{Type: corev1beta1.AuthTenantStatus, Status: corev1beta1.StatusReady}}
	if err := tf.client.Status().Update(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	next, problems := tf.apply("liqo_peer", state, nil)
	contains(t, problems, "WARNING", "ForeignCluster milan stays, because cluster milan uses this cluster")
	if next != nil || !tf.get(milan()) {
		t.Error("the ForeignCluster is gone, or the resource stays in the state")
	}
}

// TestPeeringsThatFail: a peering that does not come about fails with the reason. An error that stays ends the wait before the timeout. An unreachable provider
// does not.
func TestPeeringsThatFail(t *testing.T) {
	expired := corev1beta1.Condition{Status: corev1beta1.StatusError, Reason: reasons.TokenExpired, Message: "Secret liqo/remote-token-milan: the token has expired"}
	unreachable := corev1beta1.Condition{Status: corev1beta1.StatusError, Reason: reasons.ProviderUnreachable, Message: "the API server of cluster milan is unreachable"}
	for timeout, condition := range map[string]corev1beta1.Condition{"1h": expired, "60ms": unreachable} {
		tf := configured(t)
		tf.control = peeringWith(t, condition, notPeered)
		config := toMilan(t)
		config["timeout"] = timeout
		state, problems := tf.apply("liqo_peer", nil, config)
		want := map[string]string{"1h": "ERROR: Peering with cluster milan failed", "60ms": "WARNING: Peering with cluster milan is not finished"}[timeout]
		contains(t, problems, want, condition.Message)
		if state == nil {
			t.Error("the ForeignCluster is not in the state, so that no destroy ends the peering")
		}
	}
	tf := configured(t)
	config := toMilan(t)
	config["timeout"] = "20ms"
	_, problems := tf.apply("liqo_peer", nil, config)
	contains(t, problems, "WARNING", "has not reconciled ForeignCluster milan yet")
}

// TestProblemsOfAPeeringAreWarnings: a plan says that a peering has an error, or that another user ends it. It stays in the state, and without a problem there is no warning.
func TestProblemsOfAPeeringAreWarnings(t *testing.T) {
	tf := configured(t)
	tf.control = peeringWith(t, isPeered, notPeered)
	state := tf.applied("liqo_peer", nil, toMilan(t))
	failed := corev1beta1.Condition{Status: corev1beta1.StatusError, Reason: reasons.TokenExpired, Message: "Secret liqo/remote-token-milan: the token has expired"}
	ends := corev1beta1.Condition{Status: corev1beta1.StatusPending, Message: "the peering ends"}
	for _, row := range []struct {
		wish      corev1beta1.PeeringWish
		condition corev1beta1.Condition
		want      []string
	}{
		{corev1beta1.PeeringYes, isPeered, nil},
		{corev1beta1.PeeringYes, corev1beta1.Condition{Status: corev1beta1.StatusPending, Message: "the provider has not answered yet"}, nil},
		{corev1beta1.PeeringYes, failed, []string{"WARNING: The peering with cluster milan has an error", failed.Message}},
		{corev1beta1.PeeringNo, ends, []string{"WARNING: The peering with cluster milan is being ended", "apply again when it has ended", "kubectl patch foreigncluster milan"}},
		{corev1beta1.PeeringNo, failed, []string{"WARNING: The peering with cluster milan is being ended"}},
	} {
		tf.control = nil
		foreign := milan()
		tf.get(foreign)
		foreign.Spec.OutgoingPeeringEnabled = row.wish
		if err := tf.client.Update(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
		tf.control = peeringWith(t, row.condition, row.condition)
		next, problems := tf.read("liqo_peer", state)
		if contains(t, problems, row.want...); next == nil || strings.Contains(problems, "ERROR:") || len(row.want) == 0 && problems != "" {
			t.Errorf("%s, %s: in the state %t: %s", row.wish, row.condition.Status, next != nil, problems)
		}
	}
}

// TestPeeringsOfOthersAreNotTakenOver: a ForeignCluster that requests the peering already is imported on demand only. One that does not, of a discovered cluster
// for example, is used.
func TestPeeringsOfOthersAreNotTakenOver(t *testing.T) {
	requested := milan()
	requested.Spec = corev1beta1.ForeignClusterSpec{ClusterID: "milan", OutgoingPeeringEnabled: corev1beta1.PeeringYes}
	tf := configured(t, requested)
	state, problems := tf.apply("liqo_peer", nil, toMilan(t))
	contains(t, problems, "ForeignCluster milan requests the peering already", "terraform import liqo_peer.NAME milan")
	if state != nil || tf.get(tokenSecret()) {
		t.Error("taken over")
	}
	requested.Spec.OutgoingPeeringEnabled, requested.ResourceVersion = corev1beta1.PeeringAuto, ""
	tf = configured(t, requested)
	tf.control = peeringWith(t, isPeered, notPeered)
	tf.applied("liqo_peer", nil, toMilan(t))

	requested.ResourceVersion = ""
	requested.Status.Modules.Authentication.Conditions = []corev1beta1.Condition{{Type: corev1beta1.AuthIdentityControlPlaneStatus, Status: corev1beta1.StatusReady}}
	tf = configured(t, requested)
	state, problems = tf.apply("liqo_peer", nil, toMilan(t))
	contains(t, problems, "this cluster is peered with cluster milan already", "kubectl patch foreigncluster milan", "terraform import liqo_peer.NAME milan")
	if state != nil || tf.get(tokenSecret()) {
		t.Error("a peering of liqoctl is taken over")
	}
}

// TestInvalidPeers: invalid attributes fail before anything is changed, with the attribute and the cure. No error contains a token.
func TestInvalidPeers(t *testing.T) {
	tf := newTerraform(t)
	for attribute, test := range map[string]struct {
		value string
		want  []string
	}{
		"cluster_id":      {"Milan", []string{`"Milan" is not a cluster ID`}},
		"cluster_name":    {"turin", []string{`cluster_name is "turin" and cluster_id is "milan"`, "leave cluster_name out"}},
		"cluster_authurl": {"http://198.51.100.7", []string{"http://198.51.100.7", "https://host"}},
		"cluster_token":   {"secret", []string{"cluster_token", "copy the whole command"}},
	} {
		config := toMilan(t)
		config[attribute] = test.value
		problems := tf.validate("liqo_peer", config)
		contains(t, problems, test.want...)
		if strings.Contains(problems, "secret") {
			t.Errorf("the token is in the error: %s", problems)
		}
	}
}
