package provider

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/peering/invite"
)

// authentication is the Service of the authentication service, with an address from a load balancer unless that is empty.
func authentication(address string) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: invite.Service},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "https", Port: 443, NodePort: 30443}}},
	}
	if address != "" {
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	}
	return service
}

func node(address string) client.Object {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}}}
}

// keyOf returns the key that the authentication service checks tokens with.
func keyOf(tf *terraform) []byte {
	tf.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: invite.KeySecret}}
	if !tf.get(secret) {
		tf.Fatal("there is no Secret of the tokens")
	}
	return secret.Data[invite.SecretKey]
}

// TestGeneratedTokens: liqo_generate returns the cluster ID, the address and a token that the authentication service accepts, with the pin of its
// certificate. A second plan changes nothing, and an address that changes is read.
func TestGeneratedTokens(t *testing.T) {
	service := authentication("198.51.100.7")
	tf := configured(t, service)
	state := tf.applied("liqo_generate", nil, attributes{})
	if state["cluster_id"] != "rome" || state["cluster_name"] != "rome" || state["auth_ep"] != "https://198.51.100.7" {
		t.Errorf("%v", state)
	}
	token, err := invite.CheckToken(keyOf(tf), state["local_token"].(string), "milan", time.Now())
	if err != nil || len(token.Pin) == 0 || token.Consumer != "" || time.Until(token.Expires) > tokenLifetime || time.Until(token.Expires) < tokenLifetime-time.Hour {
		t.Errorf("%+v, %v", token, err)
	}
	tf.settled("liqo_generate", state, attributes{})
	for _, attribute := range tf.schemas["liqo_generate"].Block.Attributes {
		if attribute.Sensitive != (attribute.Name == "local_token") {
			t.Errorf("%s: sensitive is %t", attribute.Name, attribute.Sensitive)
		}
	}

	tf.get(service)
	service.Status.LoadBalancer.Ingress[0].IP = "198.51.100.8"
	if err := tf.client.Status().Update(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	if state = tf.refresh("liqo_generate", state); state["auth_ep"] != "https://198.51.100.8" {
		t.Errorf("%v", state)
	}
	next, problems := tf.apply("liqo_generate", state, nil)
	contains(t, problems, "WARNING", "The token stays valid", "Secret auth-token")
	if next != nil || tf.get(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: invite.KeySecret}}) == false {
		t.Error("a destroy revokes the tokens of other consumers, or leaves the resource in the state")
	}
}

// TestTokensForOneConsumer: the token is for the consumer that the configuration names, and may live longer. Another consumer replaces the token.
func TestTokensForOneConsumer(t *testing.T) {
	tf := configured(t, authentication("198.51.100.7"))
	config := attributes{"consumer_cluster_id": "milan", "token_lifetime": "2160h"}
	if problems := tf.validate("liqo_generate", config); problems != "" {
		t.Fatal(problems)
	}
	state := tf.applied("liqo_generate", nil, config)
	token, err := invite.CheckToken(keyOf(tf), state["local_token"].(string), "milan", time.Now())
	if err != nil || token.Consumer != "milan" || time.Until(token.Expires) < 2159*time.Hour {
		t.Errorf("%+v, %v", token, err)
	}
	tf.settled("liqo_generate", state, config)
	if plan := tf.plan("liqo_generate", state, attributes{"consumer_cluster_id": "turin"}); !plan.replaces {
		t.Error("the consumer of a token changes in place")
	}
	for lifetime, consumer := range map[string]any{"2160h": nil, "9000h": "milan", "-1h": nil} {
		problems := tf.validate("liqo_generate", attributes{"token_lifetime": lifetime, "consumer_cluster_id": consumer})
		contains(t, problems, "token_lifetime")
	}
}

// TestRevokedTokensAreReplaced: a token that the cluster does not know any more leaves the state. An expired one stays, because its consumer has peered with it.
func TestRevokedTokensAreReplaced(t *testing.T) {
	tf := configured(t, authentication("198.51.100.7"))
	state := tf.applied("liqo_generate", nil, attributes{})
	expired := attributes{"cluster_id": "rome", "cluster_name": "rome", "auth_ep": "https://198.51.100.7"}
	id, err := invite.NewTokenID(zeros{})
	if err != nil {
		t.Fatal(err)
	}
	expired["local_token"] = invite.Token{ID: id, Expires: time.Unix(1, 0)}.Text(keyOf(tf))
	tf.settled("liqo_generate", expired, attributes{})
	if err := tf.client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: invite.KeySecret}}); err != nil {
		t.Fatal(err)
	}
	if state = tf.refresh("liqo_generate", state); state != nil {
		t.Errorf("a revoked token stays in the state: %v", state)
	}
	tf.applied("liqo_generate", nil, attributes{})
	if expired = tf.refresh("liqo_generate", expired); expired != nil {
		t.Error("a token of the former Secret stays in the state")
	}
	state = tf.applied("liqo_generate", nil, attributes{})
	for _, object := range []client.Object{authentication(""), installation("rome")} {
		if err := tf.client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		next := tf.refresh("liqo_generate", state)
		if _, installed := object.(*corev1.Service); installed != (next != nil) {
			t.Errorf("after the deletion of %T: %v", object, next)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestTokensThatCantBeUsed: without an authentication service that consumers reach, no token is created, and the error names the Service and the cure. The
// address of a node is a warning.
func TestTokensThatCantBeUsed(t *testing.T) {
	tf := configured(t)
	_, problems := tf.apply("liqo_generate", nil, attributes{})
	contains(t, problems, "there is no Service liqo/liqo-auth", "auth.enabled=true")
	tf = configured(t, authentication(""), node("192.0.2.10"))
	state, problems := tf.apply("liqo_generate", nil, attributes{})
	contains(t, problems, "WARNING", "Service liqo/liqo-auth has no address from a load balancer yet")
	if state["auth_ep"] != "https://192.0.2.10:30443" {
		t.Errorf("%v", state)
	}
	tf = newTerraform(t)
	if problems := tf.configure(attributes{"kubernetes": attributes{"host": "https://192.0.2.1"}}); problems != "" {
		t.Fatal(problems)
	}
	_, problems = tf.apply("liqo_generate", nil, attributes{})
	contains(t, problems, "liqo is not installed in namespace liqo of the cluster of https://192.0.2.1", "liqoctl install")
}
