package peering

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/peering/invite"
)

// doorSecret is the key of the tokens of this test, doorToken a token of milan.
var (
	doorSecret = []byte(strings.Repeat("a1", 64))
	doorToken  = invite.Token{ID: "AAECAwQFBgcI", Expires: then.Add(time.Hour).Truncate(time.Second), Pin: bytes.Repeat([]byte{7}, sha256.Size)}
)

// wishing returns the facts about a ForeignCluster milan of cluster rome that asks for a peering, and that nothing was done for yet.
func wishing(wish corev1beta1.PeeringWish) *Facts {
	return &Facts{Wish: &Wish{
		ForeignCluster: &corev1beta1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "milan"},
			Spec:       corev1beta1.ForeignClusterSpec{ClusterID: "milan", OutgoingPeeringEnabled: wish, ForeignAuthURL: "https://192.0.2.7"},
		},
		Own: "rome", Namespace: "liqo", Token: []byte(doorToken.Text(doorSecret)), Connectable: true, Now: then,
	}}
}

// obey carries out a plan as the controller does.
func obey(f *Facts, plan *Plan) {
	w := f.Wish
	if plan.Held && !slices.Contains(w.ForeignCluster.Finalizers, FinalizerOutgoing) {
		w.ForeignCluster.Finalizers = append(w.ForeignCluster.Finalizers, FinalizerOutgoing)
	}
	for _, object := range plan.Create {
		switch o := object.(type) {
		case *corev1.Namespace:
			f.TenantNamespaces = append(f.TenantNamespaces, *o)
		case *authv1beta1.Identity:
			f.Identity = o
		case *networkingv1beta1.NetworkRequest:
			w.Requests = append(w.Requests, *o)
		case *authv1beta1.ResourceSlice:
			f.Asked = append(f.Asked, *o)
		}
	}
	if plan.Invitation != nil {
		w.Invitation = plan.Invitation
	}
	if plan.Accept != nil {
		f.Identity = plan.Accept
	}
	if plan.Resign != nil {
		w.Kubeconfig.Annotations = map[string]string{AnnotationResign: api.True}
	}
	for _, object := range plan.Delete {
		object.SetDeletionTimestamp(&metav1.Time{Time: then})
	}
	if !plan.Held {
		w.ForeignCluster.Finalizers = nil
	}
}

// others are the steps of other controllers and of the peer. Each does something only if it is its turn.
func others(crt []byte) []func(*Facts) {
	gone := func(o metav1.Object) bool { return o.GetDeletionTimestamp() != nil }
	return []func(*Facts){
		func(f *Facts) { // the peer grants an identity
			if f.Identity != nil && !gone(f.Identity) && f.Wish.Invitation != nil && Accepts(f.Identity, f.Wish.Invitation) {
				f.Identity.Spec.AuthParams.SignedCRT = crt
			}
		},
		func(f *Facts) { // its kubeconfig is written, and the API server of the peer answers
			if f.Identity != nil && len(f.Identity.Spec.AuthParams.SignedCRT) > 0 && !gone(f.Identity) {
				f.Identity.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "k"}
				if f.Wish.Kubeconfig == nil {
					f.Wish.Kubeconfig = &corev1.Secret{}
				}
				f.APIServer = &Probe{Up: true}
			}
		},
		func(f *Facts) { // a slice becomes a virtual node, with remote namespaces
			for i := range f.Asked {
				if !gone(&f.Asked[i]) && len(f.VirtualNodes) == 0 {
					f.VirtualNodes, f.Wish.Mapped = []offloadingv1beta1.VirtualNode{runningNode("milan")}, true
					f.Nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Status: corev1.NodeStatus{
						Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
					}}}
				}
			}
		},
		func(f *Facts) { // deleted objects disappear, and a virtual node disappears with its ResourceSlice
			if slices.ContainsFunc(f.Asked, func(o authv1beta1.ResourceSlice) bool { return gone(&o) }) {
				for i := range f.VirtualNodes {
					f.VirtualNodes[i].DeletionTimestamp = &metav1.Time{Time: then}
				}
				f.Asked = nil
				return
			}
			f.Wish.Requests = slices.DeleteFunc(f.Wish.Requests, func(o networkingv1beta1.NetworkRequest) bool { return gone(&o) })
			f.VirtualNodes = slices.DeleteFunc(f.VirtualNodes, func(o offloadingv1beta1.VirtualNode) bool { return gone(&o) })
		},
		func(f *Facts) { // the last virtual node takes the remote namespaces with it
			f.Wish.Mapped = f.Wish.Mapped && len(f.VirtualNodes) > 0
		},
		func(f *Facts) { // the Identity disappears with its invitation; then the Tenant in the peer and the kubeconfig
			switch {
			case f.Identity != nil && gone(f.Identity):
				f.Identity, f.Wish.Invitation, f.APIServer = nil, nil, nil
			case f.Identity == nil && f.Wish.Kubeconfig != nil && f.Wish.Kubeconfig.Annotations[AnnotationResign] == api.True:
				f.Wish.Kubeconfig = nil
			}
		},
	}
}

func runningNode(name string) offloadingv1beta1.VirtualNode {
	return offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: name},
		Status: offloadingv1beta1.VirtualNodeStatus{Conditions: []offloadingv1beta1.VirtualNodeCondition{
			{Type: "VirtualKubelet", Status: offloadingv1beta1.VirtualNodeRunning}, {Type: "Node", Status: offloadingv1beta1.VirtualNodeRunning},
		}},
	}
}

// settle lets all controllers act in a random order until none has anything to do, and returns the last plan.
func settle(t *testing.T, f *Facts, random *rand.Rand, crt []byte) Plan {
	t.Helper()
	for range 40 {
		for _, i := range random.Perm(len(others(crt)) + 1) {
			if i < len(others(crt)) {
				others(crt)[i](f)
				continue
			}
			plan := PlanWish(f)
			if diff := cmp.Diff(plan, PlanWish(f)); diff != "" {
				t.Fatalf("the same facts lead to another plan (-first +second):\n%s", diff)
			}
			obey(f, &plan)
		}
	}
	plan := PlanWish(f)
	if len(plan.Create)+len(plan.Delete) > 0 || plan.Invitation != nil || plan.Resign != nil {
		t.Fatalf("it does not settle: %+v", plan)
	}
	return plan
}

// TestWishLaws: in whatever order everybody acts, Yes ends as one peering with one of each object, No and the deletion of the ForeignCluster
// leave nothing, and the wish can change at any moment.
func TestWishLaws(t *testing.T) {
	crt := newHolder(t, Ed25519).certificate(t, ControlPlaneSubject("rome"), time.Hour)
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // reproducible worlds
		f := wishing(corev1beta1.PeeringYes)
		check := func() {
			t.Helper()
			f.Wish.ForeignCluster.Spec.OutgoingPeeringEnabled = corev1beta1.PeeringYes
			plan := settle(t, f, random, crt)
			got := fmt.Sprint(plan.Condition.Status, " ", plan.Held, len(f.TenantNamespaces), len(f.Asked), len(f.VirtualNodes), len(f.Wish.Requests),
				f.Wish.ForeignCluster.Finalizers)
			if want := "Established true 1 1 1 1 [" + FinalizerOutgoing + "]"; got != want {
				t.Fatalf("seed %d: %s, want %s", seed, got, want)
			}
		}
		left := func(after string) {
			t.Helper()
			settle(t, f, random, crt)
			objects := len(f.Asked) + len(f.VirtualNodes) + len(f.Wish.Requests) + len(f.Wish.ForeignCluster.Finalizers)
			if f.Identity != nil || f.Wish.Kubeconfig != nil || f.Wish.Invitation != nil || f.Wish.Mapped || objects > 0 {
				t.Fatalf("seed %d: left after %s: %+v %+v", seed, after, f, f.Wish)
			}
		}
		check()
		f.Wish.ForeignCluster.Spec.OutgoingPeeringEnabled = corev1beta1.PeeringNo
		left("No")
		// A change of mind half way.
		f.Wish.ForeignCluster.Spec.OutgoingPeeringEnabled = corev1beta1.PeeringYes
		for range random.IntN(20) {
			others(crt)[random.IntN(len(others(crt)))](f)
			plan := PlanWish(f)
			obey(f, &plan)
		}
		f.Wish.ForeignCluster.Spec.OutgoingPeeringEnabled = corev1beta1.PeeringNo
		for range random.IntN(20) {
			others(crt)[random.IntN(len(others(crt)))](f)
			plan := PlanWish(f)
			obey(f, &plan)
		}
		check()
		f.Wish.ForeignCluster.DeletionTimestamp = &metav1.Time{Time: then}
		left("the deletion")
	}
}

// TestNothingIsReleasedOutOfReach: while the peer does not answer, nothing is deleted; pods there would run twice. A peer that is declared
// lost is not waited for.
func TestNothingIsReleasedOutOfReach(t *testing.T) {
	crt := newHolder(t, Ed25519).certificate(t, ControlPlaneSubject("rome"), time.Hour)
	for name, probe := range map[string]*Probe{"down": {Message: "i/o timeout"}, "not probed yet": nil} {
		f := wishing(corev1beta1.PeeringYes)
		settle(t, f, rand.New(rand.NewPCG(1, 1)), crt) //nolint:gosec // reproducible worlds
		f.Wish.ForeignCluster.Spec.OutgoingPeeringEnabled, f.APIServer = corev1beta1.PeeringNo, probe
		plan := PlanWish(f)
		if len(plan.Delete) > 0 || plan.Resign != nil || !plan.Held || plan.Ask || plan.Condition.Status != corev1beta1.StatusDisconnecting ||
			!strings.Contains(plan.Condition.Message, "force unpeer milan") {
			t.Errorf("%s: %+v, %+v", name, plan, plan.Condition)
		}
		f.Wish.ForeignCluster.Annotations = map[string]string{AnnotationUnreachable: api.True}
		if plan := PlanWish(f); len(plan.Delete) == 0 || plan.Ask {
			t.Errorf("%s, declared lost: %+v", name, plan)
		}
		f.Wish.ForeignCluster.Annotations, f.APIServer = nil, &Probe{Up: true}
		if plan := PlanWish(f); len(plan.Delete) == 0 || !plan.Ask {
			t.Errorf("%s, and back: a state of some seconds ago suffices: %+v", name, plan)
		}
	}
}

// TestTheNetworkGoesToo: a peering has ended when its network is deleted, unless the peer uses it too, or an administrator created it.
func TestTheNetworkGoesToo(t *testing.T) {
	requested := []networkingv1beta1.Configuration{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{networkingv1beta1.LabelNegotiated: api.True}}}}
	for name, row := range map[string]struct {
		change func(*Facts)
		held   bool
	}{
		"requested":              {func(f *Facts) { f.Network.Configurations = requested }, true},
		"of an administrator":    {func(f *Facts) { f.Network.Configurations = []networkingv1beta1.Configuration{{}} }, false},
		"requested by the peer":  {func(f *Facts) { f.Network.Configurations, f.Tenant = requested, &authv1beta1.Tenant{} }, false},
		"nothing is left of it ": {func(*Facts) {}, false},
	} {
		f := wishing(corev1beta1.PeeringNo)
		row.change(f)
		if plan := PlanWish(f); plan.Held != row.held || len(plan.Delete) > 0 || (plan.Condition.Status == corev1beta1.StatusDisconnecting) != row.held {
			t.Errorf("%s: %+v, %+v", name, plan, plan.Condition)
		}
	}
}

// side is one of two clusters that may use each other.
type side struct {
	*Facts
	id string
	// unrequested means that the peering did not request a network: it was established while there was one, or without networking.
	unrequested bool
}

// exchange shows each cluster what the other one has: the Tenant of a cluster with an Identity, and the copies of its NetworkRequests.
func exchange(a, b *side) {
	for _, pair := range [][2]*side{{a, b}, {b, a}} {
		provider, consumer := pair[0], pair[1]
		provider.Tenant = nil
		provider.Network.Requests = slices.Clone(provider.Wish.Requests)
		if consumer.Identity == nil && consumer.Wish.Kubeconfig == nil {
			continue
		}
		provider.Tenant = &authv1beta1.Tenant{}
		for _, request := range consumer.Wish.Requests {
			request.Labels = map[string]string{api.LabelReplicated: api.True, api.LabelOriginID: consumer.id}
			provider.Network.Requests = append(provider.Network.Requests, request)
		}
	}
}

// active reports whether the cluster uses resources of the other one, and no step that ends this was taken.
func (s *side) active() bool {
	return len(s.VirtualNodes) > 0 && s.VirtualNodes[0].DeletionTimestamp == nil && s.Identity != nil && s.Identity.DeletionTimestamp == nil
}

// connectedBy reports whether one of the clusters requests the network and has the identity that carries the request to the other one.
func connectedBy(sides ...*side) bool {
	return slices.ContainsFunc(sides, func(s *side) bool {
		live := slices.ContainsFunc(s.Wish.Requests, func(q networkingv1beta1.NetworkRequest) bool { return q.DeletionTimestamp == nil })
		return live && s.Identity != nil && s.Identity.DeletionTimestamp == nil
	})
}

// TestDirectionsKeepTheirNetwork: two clusters use each other, end that and begin again at random moments. While a direction is active, no step of either
// cluster deletes the last request for the network, or the identity that carries it. When both have ended, nothing is left.
func TestDirectionsKeepTheirNetwork(t *testing.T) {
	crt := newHolder(t, Ed25519).certificate(t, ControlPlaneSubject("rome"), time.Hour)
	kept := 0
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // reproducible worlds
		var sides []*side
		for _, id := range []string{"rome", "milan"} {
			s := &side{Facts: wishing(corev1beta1.PeeringYes), id: id, unrequested: random.IntN(2) == 0}
			s.Wish.Connectable = !s.unrequested
			sides = append(sides, s)
		}
		turn := func() {
			t.Helper()
			s := sides[random.IntN(2)]
			exchange(sides[0], sides[1])
			steps := others(crt)
			if i := random.IntN(2 * len(steps)); i < len(steps) {
				steps[i](s.Facts)
				return
			}
			before := connectedBy(sides...)
			plan := PlanWish(s.Facts)
			obey(s.Facts, &plan)
			used := sides[0].active() || sides[1].active()
			if before && used && !connectedBy(sides...) {
				t.Fatalf("seed %d: %s cuts the network that is in use: %+v", seed, s.id, plan.Condition)
			}
			if plan.Condition != nil && plan.Condition.Reason == "NetworkInUse" {
				kept++
			}
		}
		for range 6 {
			wish := []corev1beta1.PeeringWish{corev1beta1.PeeringYes, corev1beta1.PeeringNo}[random.IntN(2)]
			sides[random.IntN(2)].Wish.ForeignCluster.Spec.OutgoingPeeringEnabled = wish
			for range random.IntN(300) {
				turn()
			}
		}
		for _, s := range sides {
			s.Wish.ForeignCluster.Spec.OutgoingPeeringEnabled = corev1beta1.PeeringNo
		}
		for range 3000 {
			turn()
		}
		for _, s := range sides {
			if objects := len(s.Asked) + len(s.VirtualNodes) + len(s.Wish.Requests) + len(s.Wish.ForeignCluster.Finalizers); s.Identity != nil || s.Wish.Kubeconfig != nil || objects > 0 {
				t.Fatalf("seed %d: %s still has %+v %+v", seed, s.id, s.Facts, s.Wish)
			}
		}
	}
	if kept == 0 {
		t.Error("in no world a network had to stay: this test checks nothing")
	}
}

// TestAutoTouchesNothing: a ForeignCluster that asks for nothing changes no peering, and shows no condition about one.
func TestAutoTouchesNothing(t *testing.T) {
	for _, wish := range []corev1beta1.PeeringWish{"", corev1beta1.PeeringAuto} {
		f := wishing(wish)
		f.Identity, f.Asked = &authv1beta1.Identity{}, []authv1beta1.ResourceSlice{{}}
		if diff := cmp.Diff(Plan{}, PlanWish(f)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", wish, diff)
		}
	}
}

// TestWishesAreRefused: what can't lead to a peering creates nothing, and the condition names the field or the Secret, and the cure.
func TestWishesAreRefused(t *testing.T) {
	token := func(change func(*invite.Token)) func(*Facts) {
		return func(f *Facts) {
			other := doorToken
			change(&other)
			f.Wish.Token = []byte(other.Text(doorSecret))
		}
	}
	namespaced := func(change func(*Facts)) func(*Facts) {
		return func(f *Facts) {
			f.TenantNamespaces = []corev1.Namespace{*newTenantNamespace("milan")}
			change(f)
		}
	}
	spec := func(change func(*corev1beta1.ForeignClusterSpec)) func(*Facts) {
		return namespaced(func(f *Facts) { change(&f.Wish.ForeignCluster.Spec) })
	}
	granted := func(change func(*Facts)) func(*Facts) {
		return namespaced(func(f *Facts) {
			f.Identity = newIdentity("liqo-tenant-milan", "milan")
			f.Identity.Spec.AuthParams.SignedCRT = newHolder(t, Ed25519).certificate(t, ControlPlaneSubject("rome"), time.Hour)
			f.Identity.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "k"}
			change(f)
		})
	}
	for name, row := range map[string]struct {
		change func(*Facts)
		reason string
		words  []string
	}{
		"another name": {func(f *Facts) { f.Wish.ForeignCluster.Name = "turin" }, "NameDiffers", []string{"metadata.name", "turin", "milan"}},
		"itself":       {func(f *Facts) { f.Wish.Own = "milan" }, "OwnClusterID", []string{"spec.clusterID", "milan"}},
		"declared lost": {func(f *Facts) {
			f.Wish.ForeignCluster.Annotations = map[string]string{AnnotationUnreachable: api.True}
		}, "DeclaredUnreachable", []string{AnnotationUnreachable}},
		"a taken namespace": {func(f *Facts) { f.Wish.NamespaceTaken = true }, "NamespaceTaken",
			[]string{"liqo-tenant-milan", api.LabelTenantNamespace}},
		"no address": {spec(func(s *corev1beta1.ForeignClusterSpec) { s.ForeignAuthURL = "" }), "AddressMissing",
			[]string{"spec.foreignAuthUrl", "generate peer-command"}},
		"no encryption": {spec(func(s *corev1beta1.ForeignClusterSpec) { s.ForeignAuthURL = "http://x" }), "AddressInvalid",
			[]string{"spec.foreignAuthUrl", "http://x"}},
		"a false proxy": {spec(func(s *corev1beta1.ForeignClusterSpec) { s.ForeignProxyURL = "proxy:80" }), "ProxyInvalid",
			[]string{"spec.foreignProxyUrl", "proxy:80"}},
		"no token": {namespaced(func(f *Facts) { f.Wish.Token = nil }), "TokenMissing",
			[]string{"liqo/remote-token-milan", "data.token", "generate peer-command"}},
		"an empty token":          {namespaced(func(f *Facts) { f.Wish.Token = []byte(" \n") }), "TokenMissing", []string{"data.token"}},
		"no token of Liqo":        {namespaced(func(f *Facts) { f.Wish.Token = []byte("deadbeef") }), "TokenInvalid", []string{"liqo/remote-token-milan"}},
		"a token of others":       {namespaced(token(func(t *invite.Token) { t.Consumer = "turin" })), "TokenInvalid", []string{"turin", "rome"}},
		"a token for any address": {namespaced(token(func(t *invite.Token) { t.Pin = nil })), "TokenWithoutFingerprint", []string{"data.url", "https://192.0.2.7"}},
		"a token for another address": {namespaced(func(f *Facts) {
			token(func(t *invite.Token) { t.Pin = nil })(f)
			f.Wish.TokenURL = "https://milan.example.org"
		}), "TokenWithoutFingerprint", []string{"data.url"}},
		"an expired token": {namespaced(token(func(t *invite.Token) { t.Expires = then.Add(-time.Hour) })), "TokenExpired", []string{"generate peer-command"}},
		"a refused token": {namespaced(func(f *Facts) {
			f.Identity = newIdentity("liqo-tenant-milan", "milan")
			f.Identity.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "InvitationRefused", Message: "the token is spent"}}
			content, _, err := f.Wish.terms()
			if err != nil {
				t.Fatal(err)
			}
			f.Wish.Invitation = newInvitation(f.Identity, content)
		}), "InvitationRefused", []string{"liqo/remote-token-milan", "the token is spent"}},
		"a node of its name": {granted(func(f *Facts) { f.Wish.NodeTaken = "Node milan exists in this cluster" }), "NodeNameTaken",
			[]string{"Node milan", "create resourceslice"}},
	} {
		f := wishing(corev1beta1.PeeringYes)
		row.change(f)
		plan := PlanWish(f)
		if row.reason != "NodeNameTaken" && len(plan.Create) > 0 || plan.Invitation != nil || len(plan.Delete) > 0 {
			t.Errorf("%s: it acts: %+v", name, plan)
		}
		if plan.Condition == nil || plan.Condition.Status != corev1beta1.StatusError || plan.Condition.Reason != row.reason {
			t.Errorf("%s: condition %+v, want reason %s", name, plan.Condition, row.reason)
			continue
		}
		for _, word := range row.words {
			if !strings.Contains(plan.Condition.Message, word) {
				t.Errorf("%s: %q does not name %q", name, plan.Condition.Message, word)
			}
		}
		if strings.Contains(plan.Condition.Message, "liqo1.") {
			t.Errorf("%s: the token is in the condition", name)
		}
	}
}

// TestInvitationsOfOthersStay: an invitation that the peer left, or that an administrator created, is used and never changed. A network of an
// administrator stays.
func TestInvitationsOfOthersStay(t *testing.T) {
	f := wishing(corev1beta1.PeeringYes)
	f.Wish.ForeignCluster.Spec.ForeignAuthURL, f.Wish.Token = "", nil
	f.TenantNamespaces = []corev1.Namespace{*newTenantNamespace("milan")}
	f.Wish.Invitation = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "sent", OwnerReferences: []metav1.OwnerReference{{Kind: "Tenant"}}}}
	f.Network.Clients = []networkingv1beta1.GatewayClient{{}}
	if plan := PlanWish(f); len(plan.Create) != 1 || plan.Invitation != nil {
		t.Fatalf("%+v", plan)
	}
	crt := newHolder(t, Ed25519).certificate(t, ControlPlaneSubject("rome"), time.Hour)
	plan := settle(t, f, rand.New(rand.NewPCG(2, 1)), crt) //nolint:gosec // reproducible worlds
	if plan.Condition.Status != corev1beta1.StatusEstablished || len(f.Wish.Requests) > 0 {
		t.Errorf("%+v, requests %d", plan.Condition, len(f.Wish.Requests))
	}
}

// TestInvitationsOfPeersReplaceNothing: what an administrator wrote decides, and not the invitation that a peer of the same name left.
func TestInvitationsOfPeersReplaceNothing(t *testing.T) {
	f := wishing(corev1beta1.PeeringYes)
	namespace := newTenantNamespace("milan")
	f.TenantNamespaces, f.Identity = []corev1.Namespace{*namespace}, newIdentity(namespace.Name, "milan")
	f.Wish.Invitation = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Tenant"}}}, Data: map[string][]byte{invite.URLKey: []byte("https://192.0.2.66")},
	}
	plan := PlanWish(f)
	if plan.Invitation == nil || string(plan.Invitation.Data[invite.URLKey]) != "https://192.0.2.7" || InvitationOfTenant(plan.Invitation) {
		t.Errorf("%+v", plan)
	}
	// The same content does not make it the invitation that the ForeignCluster decided on.
	f.Wish.Invitation.Data = plan.Invitation.Data
	if plan := PlanWish(f); plan.Invitation == nil || !Accepts(f.Identity, plan.Invitation) || Accepts(f.Identity, f.Wish.Invitation) {
		t.Errorf("%+v", plan)
	}
}

// TestOnlyAcceptedInvitationsAreUsed: an Identity enrolls with an invitation of an administrator, or one that a controller wrote for it. It enrolls with one that the
// peer sent only if that one was accepted.
func TestOnlyAcceptedInvitationsAreUsed(t *testing.T) {
	owned := func(uid, kind, owner string) *corev1.Secret {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}
		if kind != "" {
			secret.OwnerReferences = []metav1.OwnerReference{{Kind: kind, UID: types.UID(owner)}}
		}
		return secret
	}
	identity := newIdentity("liqo-tenant-milan", "milan")
	identity.UID = "identity"
	Accept(identity, owned("sent", "Tenant", "tenant"))
	both := owned("other", "Identity", "identity")
	both.OwnerReferences = append(both.OwnerReferences, metav1.OwnerReference{Kind: "Tenant", UID: "tenant"})
	for name, row := range map[string]struct {
		invitation *corev1.Secret
		want       bool
	}{
		"of an administrator":         {owned("any", "", ""), true},
		"of a tool of administrators": {owned("any", "SealedSecret", "tool"), true},
		"for this Identity":           {owned("any", "Identity", "identity"), true},
		"for an earlier Identity":     {owned("any", "Identity", "earlier"), false},
		"accepted, of the peer":       {owned("sent", "Tenant", "tenant"), true},
		"another of the peer":         {owned("later", "Tenant", "tenant"), false},
		"of the peer, without a UID":  {owned("", "Tenant", "tenant"), false},
		"also of the peer":            {both, false},
	} {
		if got := Accepts(identity, row.invitation); got != row.want {
			t.Errorf("an invitation %s is used: %t, want %t", name, got, row.want)
		}
	}
}

// TestOneIDHasOneKey: while a Tenant that claims the ID of a provider is not confirmed, the provider counts only if it has the key of the Tenant.
func TestOneIDHasOneKey(t *testing.T) {
	key, other := newHolder(t, Ed25519).public, newHolder(t, Ed25519).public
	for name, row := range map[string]struct {
		change func(*authv1beta1.Tenant, *authv1beta1.Identity)
		within []string // empty: no error
	}{
		"another key": {func(_ *authv1beta1.Tenant, i *authv1beta1.Identity) {
			i.Annotations[AnnotationProviderKey] = Fingerprint(other)
		},
			[]string{Fingerprint(key), Fingerprint(other), "kubectl annotate tenants.authentication.liqo.io -n liqo-tenant-milan milan " + AnnotationClaimedID + "-"}},
		"no key": {func(*authv1beta1.Tenant, *authv1beta1.Identity) {}, []string{Fingerprint(key), "unknown"}},
		"the same key": {func(_ *authv1beta1.Tenant, i *authv1beta1.Identity) {
			i.Annotations[AnnotationProviderKey] = Fingerprint(key)
		}, nil},
		"confirmed": {func(o *authv1beta1.Tenant, _ *authv1beta1.Identity) { delete(o.Annotations, AnnotationClaimedID) }, nil},
		"of the Tenant": {func(_ *authv1beta1.Tenant, i *authv1beta1.Identity) {
			i.Annotations[AnnotationAcceptedInvitation] = "sent"
		}, nil},
		"another ID":         {func(o *authv1beta1.Tenant, _ *authv1beta1.Identity) { o.Spec.ClusterID = "turin" }, nil},
		"of a ResourceSlice": {func(_ *authv1beta1.Tenant, i *authv1beta1.Identity) { i.Spec.Type = authv1beta1.IdentityResourceSlice }, nil},
	} {
		tenant := &authv1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Annotations: map[string]string{AnnotationClaimedID: api.True}},
			Spec:       authv1beta1.TenantSpec{ClusterID: "milan", PublicKey: key},
		}
		identity := newIdentity("liqo-tenant-milan", "milan")
		identity.Annotations = map[string]string{}
		row.change(tenant, identity)
		err := CheckClaim(tenant, identity)
		if (err != nil) != (len(row.within) > 0) {
			t.Errorf("%s: %v", name, err)
		}
		for _, text := range row.within {
			if err != nil && !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want %q in it", name, err, text)
			}
		}
	}
}

// TestStateOfAWish: the ForeignCluster shows the condition, with the time of its last change.
func TestStateOfAWish(t *testing.T) {
	f := wishing(corev1beta1.PeeringYes)
	plan := PlanWish(f)
	status := CompileForeignCluster(f, &plan, &corev1beta1.ForeignClusterStatus{}, 1, at(0))
	if len(status.Conditions) != 1 || status.Conditions[0].Type != corev1beta1.OutgoingPeering || status.Conditions[0].Status != corev1beta1.StatusPending {
		t.Fatalf("%+v", status.Conditions)
	}
	f.Wish.NamespaceTaken = true
	plan = PlanWish(f)
	later := CompileForeignCluster(f, &plan, &status, 1, at(time.Hour))
	if got := later.Conditions[0]; got.Status != corev1beta1.StatusError || !got.LastTransitionTime.Equal(new(at(time.Hour))) {
		t.Errorf("%+v", got)
	}
}

// TestAutoJoinTakesAToken: a discovered cluster that matches the patterns is joined with a token that contains its fingerprint, and only then. Until
// there is such a token, no object is created, however many clusters are announced. A peering that a user established is not changed.
func TestAutoJoinTakesAToken(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*Facts)
		reason string // empty: nothing is planned
		status corev1beta1.ConditionStatus
		writes int
	}{
		"joins":              {func(*Facts) {}, "CreatingNamespace", corev1beta1.StatusPending, 1},
		"no token":           {func(f *Facts) { f.Wish.Token = nil }, "TokenMissing", corev1beta1.StatusNone, 0},
		"not one of those":   {func(f *Facts) { f.Wish.Joins = false }, "", "", 0},
		"not discovered":     {func(f *Facts) { f.Wish.ForeignCluster.Labels = nil }, "", "", 0},
		"peered by others":   {func(f *Facts) { f.Identity = &authv1beta1.Identity{} }, "", "", 0},
		"without an address": {func(f *Facts) { f.Wish.ForeignCluster.Spec.ForeignAuthURL = "" }, "AddressMissing", corev1beta1.StatusError, 0},
		"an invitation of its own": {func(f *Facts) {
			f.TenantNamespaces, f.Wish.Token = []corev1.Namespace{*newTenantNamespace("milan")}, nil
			f.Wish.Invitation = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Tenant"}}}}
		}, "TokenMissing", corev1beta1.StatusNone, 0},
		"no fingerprint": {func(f *Facts) {
			other := doorToken
			other.Pin = nil
			f.Wish.Token = []byte(other.Text(doorSecret))
		}, "TokenWithoutFingerprint", corev1beta1.StatusError, 0},
	} {
		f := wishing(corev1beta1.PeeringAuto)
		f.Wish.ForeignCluster.Labels, f.Wish.Joins = map[string]string{corev1beta1.LabelDiscoveryType: corev1beta1.DiscoveredLAN}, true
		row.change(f)
		plan := PlanWish(f)
		// A discovered cluster without a token may stay without one for ever, so it is polled rarely.
		if rarely := row.reason == "TokenMissing"; rarely != (plan.Poll == pollDiscovered) {
			t.Errorf("%s: the token is read again after %s", name, plan.Poll)
		}
		if len(plan.Create) != row.writes || plan.Held || plan.Invitation != nil || len(plan.Delete) > 0 {
			t.Errorf("%s: it acts: %+v", name, plan)
		}
		if got := plan.Condition; (got == nil) != (row.reason == "") || got != nil && (got.Reason != row.reason || got.Status != row.status) {
			t.Errorf("%s: %+v, want %s %s", name, got, row.status, row.reason)
		}
	}
	// From there on it is the peering that Yes makes, until the cluster is no longer one of those.
	f := wishing(corev1beta1.PeeringAuto)
	f.Wish.ForeignCluster.Labels, f.Wish.Joins = map[string]string{corev1beta1.LabelDiscoveryType: corev1beta1.DiscoveredLAN}, true
	crt := newHolder(t, Ed25519).certificate(t, ControlPlaneSubject("rome"), time.Hour)
	plan := settle(t, f, rand.New(rand.NewPCG(3, 1)), crt) //nolint:gosec // reproducible worlds
	if plan.Condition.Status != corev1beta1.StatusEstablished || len(f.Wish.ForeignCluster.Finalizers) != 1 {
		t.Errorf("%+v, %v", plan.Condition, f.Wish.ForeignCluster.Finalizers)
	}
	// A peering with a discovered cluster that a user requests also needs a token with a fingerprint.
	f = wishing(corev1beta1.PeeringYes)
	f.Wish.ForeignCluster.Labels = map[string]string{corev1beta1.LabelDiscoveryType: corev1beta1.DiscoveredDNS}
	other := doorToken
	other.Pin = nil
	f.Wish.Token = []byte(other.Text(doorSecret))
	if plan := PlanWish(f); plan.Condition.Reason != "TokenWithoutFingerprint" || len(plan.Create) > 0 {
		t.Errorf("%+v", plan)
	}
}
