package network

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

func TestOnePort(t *testing.T) {
	type e = networkingv1beta1.ServerEndpoint
	for _, c := range []struct {
		given, want e
		refuse      string
	}{
		{given: e{Port: 51840, NodePort: 30000}, want: e{Port: 51840, NodePort: 30000}},
		{given: e{Ports: []int32{51840}, NodePorts: []int32{30000}}, want: e{Port: 51840, NodePort: 30000}},
		{given: e{Ports: []int32{1, 2}}, refuse: "spec.endpoint.ports names 2 ports"},
		{given: e{Port: 1, NodePorts: []int32{1, 2}}, refuse: "spec.endpoint.nodePorts names 2 ports"},
		{given: e{}, refuse: "spec.endpoint.port is missing"},
		{given: e{Port: 70000}, refuse: "70000 is no port"},
		{given: e{Port: 1, ServiceType: corev1.ServiceTypeExternalName}, refuse: "choose ClusterIP, NodePort or LoadBalancer"},
	} {
		got, err := OnePort(c.given)
		if c.refuse != "" {
			if err == nil || !strings.Contains(err.Error(), c.refuse) {
				t.Errorf("%+v: error %v, want %q", c.given, err, c.refuse)
			}
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%+v: %v %s", c.given, err, diff)
		}
	}
	for _, c := range []struct {
		given  networkingv1beta1.Endpoint
		refuse string
	}{
		{given: networkingv1beta1.Endpoint{Addresses: []string{"a"}, Port: 1}},
		{given: networkingv1beta1.Endpoint{Addresses: []string{"a"}, Ports: []int32{1}, Protocol: corev1.ProtocolUDP}},
		{given: networkingv1beta1.Endpoint{Port: 1}, refuse: "needs addresses and port"},
		{given: networkingv1beta1.Endpoint{Addresses: []string{"a"}, Port: 1, Protocol: corev1.ProtocolTCP}, refuse: "protocol is TCP"},
		{given: networkingv1beta1.Endpoint{Addresses: []string{"a"}, Ports: []int32{1, 2}}, refuse: "names 2 ports"},
		{given: networkingv1beta1.Endpoint{Addresses: []string{"a", "127.0.0.1"}, Port: 1}, refuse: "spec.endpoint.addresses: 127.0.0.1 has another meaning"},
		{given: networkingv1beta1.Endpoint{Addresses: []string{" ::ffff:169.254.169.254"}, Port: 1}, refuse: "spec.endpoint.addresses: 169.254.169.254"},
	} {
		got, err := OneDialedPort(c.given)
		if (err == nil) != (c.refuse == "") || (err != nil && !strings.Contains(err.Error(), c.refuse)) {
			t.Errorf("%+v: error %v, want %q", c.given, err, c.refuse)
		}
		if err == nil && (got.Port != 1 || got.Protocol != corev1.ProtocolUDP) {
			t.Errorf("%+v: %+v", c.given, got)
		}
	}
}

func testNode(name string, ready bool, addresses ...string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i, a := range addresses {
		kind := []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP}[i]
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: kind, Address: a})
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: conditionStatus(ready)}}
	return n
}

func testPod(name, node, ip string, ready bool) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{PodIP: ip, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: conditionStatus(ready)}}},
	}
}

func conditionStatus(ok bool) corev1.ConditionStatus {
	if ok {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

func TestActivePod(t *testing.T) {
	active := testPod("c", "n3", "10.0.0.3", true)
	active.Labels = map[string]string{networkingv1beta1.LabelActive: "true"}
	a, b, down := testPod("a", "n1", "10.0.0.1", true), testPod("b", "n2", "10.0.0.2", true), testPod("0", "n0", "10.0.0.9", false)
	present := &networkingv1beta1.InternalEndpoint{IP: "10.0.0.2", Node: "n2"}
	for name, c := range map[string]struct {
		pods    []corev1.Pod
		present *networkingv1beta1.InternalEndpoint
		want    string
	}{
		"none":                 {nil, present, ""},
		"none ready":           {[]corev1.Pod{down}, present, ""},
		"the one that says so": {[]corev1.Pod{a, b, active, down}, present, "10.0.0.3"},
		"the present one":      {[]corev1.Pod{a, b}, present, "10.0.0.2"},
		"a ready one":          {[]corev1.Pod{down, b, a}, nil, "10.0.0.1"},
	} {
		got := ActivePod(c.pods, c.present)
		if (got == nil) != (c.want == "") || (got != nil && got.IP != c.want) {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

func TestKeys(t *testing.T) {
	data, err := KeyPair([KeyLength]byte{31: 0xff, 0: 0xff})
	if err != nil {
		t.Fatal(err)
	}
	private := data[networkingv1beta1.SecretPrivateKey]
	if private[0]&7 != 0 || private[31]&0x80 != 0 || private[31]&0x40 == 0 {
		t.Error("the private key is not clamped")
	}
	if err := CheckKeys(data); err != nil {
		t.Error(err)
	}
	other, err := KeyPair([KeyLength]byte{1: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		private, public []byte
		want            string
	}{
		{private, nil, "publicKey has 0 bytes"},
		{private, other[networkingv1beta1.SecretPublicKey], "replace both"},
		{[]byte("wPmCd2Y8yOl2SLKc4KDZn1EwEyGgo/g9Rfz8Wz0DcW4="), private, "privateKey has 44 bytes"},
	} {
		err := CheckKeys(map[string][]byte{networkingv1beta1.SecretPrivateKey: c.private, networkingv1beta1.SecretPublicKey: c.public})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
		if err != nil && bytes.Contains([]byte(err.Error()), c.private[:8]) {
			t.Error("the error shows a private key")
		}
	}
}
