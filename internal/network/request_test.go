package network

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// TestWhoIsTheServer: both clusters choose the same side as server, in any order of decisions, and existing gateways take precedence.
func TestWhoIsTheServer(t *testing.T) {
	const rome, milan = "rome", "milan"
	request := func(consumer string, server networkingv1beta1.ServerLocation) networkingv1beta1.NetworkRequest {
		q := networkingv1beta1.NetworkRequest{Spec: networkingv1beta1.NetworkRequestSpec{Server: server}}
		q.Name = consumer
		return q
	}
	consumer := func(q *networkingv1beta1.NetworkRequest) string { return q.Name }
	for name, test := range map[string]struct {
		requests       []networkingv1beta1.NetworkRequest
		server, client bool
		milan          bool
	}{
		"rome asks":                      {requests: []networkingv1beta1.NetworkRequest{request(rome, networkingv1beta1.ServerAtProvider)}, milan: true},
		"rome asks, and is the server":   {requests: []networkingv1beta1.NetworkRequest{request(rome, networkingv1beta1.ServerAtConsumer)}},
		"rome asks without a preference": {requests: []networkingv1beta1.NetworkRequest{request(rome, "")}, milan: true},
		"both ask":                       {requests: []networkingv1beta1.NetworkRequest{request(rome, ""), request(milan, "")}},
		"both ask, the other way round":  {requests: []networkingv1beta1.NetworkRequest{request(milan, ""), request(rome, "")}},
	} {
		t.Run(name, func(t *testing.T) {
			atMilan, atRome := AsServer(test.requests, consumer, milan, false, false), AsServer(test.requests, consumer, rome, false, false)
			if atMilan != test.milan || atRome == atMilan {
				t.Errorf("milan is the server: %t, rome: %t; want %t and the opposite", atMilan, atRome, test.milan)
			}
		})
	}
	asked := []networkingv1beta1.NetworkRequest{request(rome, "")}
	if !AsServer(asked, consumer, rome, true, false) || AsServer(asked, consumer, milan, false, true) {
		t.Error("gateways that are there do not decide")
	}
	if AsServer(nil, consumer, milan, false, false) {
		t.Error("a server for nobody")
	}
}

func TestFactsOfPeersAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		facts networkingv1beta1.NetworkFacts
		want  string
	}{
		"none yet": {},
		"all": {facts: networkingv1beta1.NetworkFacts{
			CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.244.0.0/16"}, External: []string{"10.70.0.0/16"}}, PublicKey: make([]byte, KeyLength),
			Endpoint: &networkingv1beta1.Endpoint{Addresses: []string{"198.51.100.7"}, Port: 51840},
		}},
		"shared address space":        {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{Pod: []string{"100.64.0.0/16"}, External: []string{"192.168.0.0/16"}}}},
		"everything there is":         {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{Pod: []string{"0.0.0.0/0"}}}, want: "0.0.0.0/0"},
		"the Internet":                {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{Pod: []string{"8.8.8.0/24"}}}, want: "range 8.8.8.0/24 is not private"},
		"one address outside":         {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{External: []string{"203.0.113.7/32"}}}, want: "range 203.0.113.7/32 is not private"},
		"more than private":           {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{Pod: []string{"172.0.0.0/8"}}}, want: "range 172.0.0.0/8 is not private"},
		"metadata":                    {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{Pod: []string{"169.254.169.254/32"}}}, want: "is not private"},
		"all that is private":         {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.0.0.0/8"}}}, want: "more than 2097152 addresses"},
		"piece by piece":              {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.0.0.0/12", "10.16.0.0/12"}, External: []string{"10.70.0.0/16"}}}, want: "together with 10.70.0.0/16"},
		"a gateway that is this host": {facts: networkingv1beta1.NetworkFacts{Endpoint: &networkingv1beta1.Endpoint{Addresses: []string{"127.0.0.1"}, Port: 1}}, want: "127.0.0.1"},
		"a gateway next door":         {facts: networkingv1beta1.NetworkFacts{Endpoint: &networkingv1beta1.Endpoint{Addresses: []string{"fe80::1"}, Port: 1}}, want: "fe80::1"},
		"a gateway behind a blank":    {facts: networkingv1beta1.NetworkFacts{Endpoint: &networkingv1beta1.Endpoint{Addresses: []string{" 169.254.169.254"}, Port: 1}}, want: "169.254.169.254"},
		"no range":                    {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{External: []string{"here"}}}, want: `"here"`},
		"bits after it":               {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.244.0.1/16"}}}, want: "10.244.0.1/16"},
		"IPv6":                        {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{Pod: []string{"fd00::/64"}}}, want: "fd00"},
		"too many":                    {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{Pod: make([]string, maxRanges+1)}}, want: "65 ranges"},
		"a short key":                 {facts: networkingv1beta1.NetworkFacts{PublicKey: []byte("key")}, want: "3 bytes"},
		"nowhere":                     {facts: networkingv1beta1.NetworkFacts{Endpoint: &networkingv1beta1.Endpoint{Port: 1}}, want: "0 addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckFacts(&test.facts)
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// TestNegotiatedStays: a range that only a peer reported stays marked so without the owner reference to its request, and with an owner reference
// alone, as earlier versions wrote it. The ranges that liqoctl read in the peer are checked like those, but no request owns their Configuration.
func TestNegotiatedStays(t *testing.T) {
	owners := []metav1.OwnerReference{{Kind: "NetworkRequest", Name: "milan"}}
	label := map[string]string{networkingv1beta1.LabelNegotiated: api.True}
	for name, test := range map[string]struct {
		meta metav1.ObjectMeta
		want bool
	}{
		"an administrator's":   {metav1.ObjectMeta{}, false},
		"another owner":        {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Tenant"}}}, false},
		"owned":                {metav1.ObjectMeta{OwnerReferences: owners, Labels: label}, true},
		"its owner is gone":    {metav1.ObjectMeta{Labels: label}, true},
		"an earlier version's": {metav1.ObjectMeta{OwnerReferences: owners}, true},
	} {
		c := &networkingv1beta1.Configuration{ObjectMeta: test.meta}
		if got := networkingv1beta1.Negotiated(c); got != test.want || ReportedByPeer(c) != test.want {
			t.Errorf("%s: negotiated %t, reported by the peer %t", name, got, ReportedByPeer(c))
		}
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, networkingv1beta1.AnnotationReportedByPeer, api.True)
		if networkingv1beta1.Negotiated(c) != test.want || !ReportedByPeer(c) {
			t.Errorf("%s, read by liqoctl: negotiated %t, reported by the peer %t", name, networkingv1beta1.Negotiated(c), ReportedByPeer(c))
		}
	}
}
