package tunnel

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/test/clitest/fakecluster"
)

// TestKeyInUse: if a cluster has several PublicKeys of one peer, the explanation of a broken tunnel names the one that the gateway uses, and that
// one is replaced.
func TestKeyInUse(t *testing.T) {
	const namespace = "tenant"
	whole := func(fill byte) []byte { return bytes.Repeat([]byte{fill}, network.KeyLength) }
	key := func(name string, age int64, data []byte) *networkingv1beta1.PublicKey {
		object := PublicKey(namespace, name, "rome", data)
		object.CreationTimestamp = metav1.Unix(age, 0)
		return object
	}
	milan := fakecluster.New("milan", key("a-young", 9, whole(2)), key("z-old", 5, whole(1)), key("b-broken", 1, []byte{3}))
	rome := fakecluster.New("rome", &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keys"}, Data: map[string][]byte{networkingv1beta1.SecretPublicKey: whole(4)},
	})
	server := &End{Cluster: milan, Peer: "rome", TenantNamespace: namespace}
	client := &End{Cluster: rome, Peer: "milan", TenantNamespace: namespace}
	client.Gateways.Client = &networkingv1beta1.GatewayClient{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "milan"},
		Spec:       networkingv1beta1.GatewayClientSpec{SecretRef: &corev1.LocalObjectReference{Name: "keys"}},
	}
	facts := client.facts(t.Context(), server)
	if !bytes.Equal(facts.stored, whole(1)) || facts.storedBy != "z-old" || !bytes.Equal(facts.key, whole(4)) {
		t.Errorf("milan uses %x of PublicKey %s for %x, want the key of z-old", facts.stored, facts.storedBy, facts.key)
	}
	if err := ensureKey(t.Context(), milan, namespace, "rome", whole(4), "is replaced"); err != nil {
		t.Fatal(err)
	}
	if facts := client.facts(t.Context(), server); !bytes.Equal(facts.stored, facts.key) {
		t.Errorf("after the replacement milan uses %x of PublicKey %s, the gateway has %x", facts.stored, facts.storedBy, facts.key)
	}
	var all networkingv1beta1.PublicKeyList
	if err := milan.List(t.Context(), &all); err != nil || len(all.Items) != 3 {
		t.Errorf("%d PublicKeys, error %v: want none but those that were there", len(all.Items), err)
	}
}
