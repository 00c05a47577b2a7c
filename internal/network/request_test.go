package network

import (
	"strings"
	"testing"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// Both clusters decide the same, whoever looks first, and what is there decides before all.
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
		"everything there is": {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{Pod: []string{"0.0.0.0/0"}}}, want: "0.0.0.0/0"},
		"no range":            {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{External: []string{"here"}}}, want: `"here"`},
		"bits after it":       {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.244.0.1/16"}}}, want: "10.244.0.1/16"},
		"IPv6":                {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{Pod: []string{"fd00::/64"}}}, want: "fd00"},
		"too many":            {facts: networkingv1beta1.NetworkFacts{CIDR: networkingv1beta1.CIDRs{Pod: make([]string, maxRanges+1)}}, want: "65 ranges"},
		"a short key":         {facts: networkingv1beta1.NetworkFacts{PublicKey: []byte("key")}, want: "3 bytes"},
		"nowhere":             {facts: networkingv1beta1.NetworkFacts{Endpoint: &networkingv1beta1.Endpoint{Port: 1}}, want: "0 addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckFacts(&test.facts)
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
