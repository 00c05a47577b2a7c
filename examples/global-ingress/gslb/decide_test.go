package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const host = "liqo.cloud.example.com"

var eu = settings{GeoTag: "eu", Peers: []string{"us"}, Zone: "cloud.example.com", EdgeZone: "example.com", Namespace: "k8gb"}

// podinfo returns the facts of a healthy application in eu and us. changes are applied to its Ingress.
func podinfo(annotations map[string]string, changes ...func(*facts)) facts {
	ingress := networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "podinfo", Namespace: "podinfo", UID: "1", Annotations: annotations},
		Spec: networkingv1.IngressSpec{IngressClassName: ptr.To("nginx"), Rules: []networkingv1.IngressRule{{
			Host: host,
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: "/", Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "podinfo", Port: networkingv1.ServiceBackendPort{Number: 9898}}},
			}}}},
		}}},
		Status: networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: []networkingv1.IngressLoadBalancerIngress{
			{IP: "172.19.0.3"}, {Hostname: "localhost"}, {IP: "172.19.0.4"},
		}}},
	}
	f := facts{
		Ingresses: []networkingv1.Ingress{ingress},
		Services:  []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "podinfo", Namespace: "podinfo"}}},
		Slices: []discoveryv1.EndpointSlice{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "podinfo", Labels: map[string]string{discoveryv1.LabelServiceName: "podinfo"}},
			Endpoints:  []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}}, {Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		}},
		NameServer: []string{"172.30.1.128"},
		Peers:      map[string]map[string][]string{"us": {host: {"172.19.0.5", "172.19.0.6"}}},
	}
	for _, change := range changes {
		change(&f)
	}
	return f
}

func noEndpoints(f *facts) { f.Slices = nil }
func noService(f *facts)   { f.Services = nil }
func noPeer(f *facts)      { f.Peers = nil }

func TestAddressesForClients(t *testing.T) {
	robin := map[string]string{annotationStrategy: roundRobin}
	primary := func(tag string) map[string]string {
		return map[string]string{annotationStrategy: failover, annotationPrimary: tag}
	}
	own, others := []string{"172.19.0.3", "172.19.0.4"}, []string{"172.19.0.5", "172.19.0.6"}
	for name, test := range map[string]struct {
		facts  facts
		want   []string
		local  bool
		health string
	}{
		"round robin: all clusters, this one first":                    {podinfo(robin), append(own[:2:2], others...), true, healthy},
		"round robin: not a cluster that is unreachable":               {podinfo(robin, noPeer), own, true, healthy},
		"round robin: not this cluster without endpoints":              {podinfo(robin, noEndpoints), others, false, unhealthy},
		"round robin: not this cluster without the Service":            {podinfo(robin, noService), others, false, notFound},
		"round robin: nothing is healthy":                              {podinfo(robin, noEndpoints, noPeer), []string{}, false, unhealthy},
		"failover: this cluster is the primary one":                    {podinfo(primary("eu")), own, true, healthy},
		"failover: this cluster is the primary one and is not healthy": {podinfo(primary("eu"), noEndpoints), others, false, unhealthy},
		"failover: another cluster is the primary one":                 {podinfo(primary("us")), others, true, healthy},
		"failover: the primary cluster is unreachable":                 {podinfo(primary("us"), noPeer), own, true, healthy},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(eu, test.facts)
			if len(d.Gslbs) != 1 || len(d.Problems) > 0 {
				t.Fatalf("%d Gslbs, problems %v", len(d.Gslbs), d.Problems)
			}
			want := gslbStatus{GeoTag: "eu", HealthyRecords: map[string][]string{host: test.want}, ServiceHealth: map[string]string{host: test.health}}
			if diff := cmp.Diff(want, d.Gslbs[0].Status); diff != "" {
				t.Error(diff)
			}
			var zone []record
			if len(test.want) > 0 {
				zone = append(zone, record{host, "A", 30, test.want})
			}
			if test.local {
				zone = append(zone, record{"localtargets-" + host, "A", 30, own})
			}
			if diff := cmp.Diff(zone, d.Zone); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStrategyOf(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		want        strategy
		ok          bool
		problem     string
	}{
		"none": {annotations: map[string]string{annotationTTL: "x"}},
		"round robin": {
			annotations: map[string]string{annotationStrategy: "roundRobin", annotationTTL: "5"},
			want:        strategy{Type: "roundRobin", DNSTTLSeconds: 5, SplitBrainThresholdSeconds: 300}, ok: true,
		},
		"failover": {
			annotations: map[string]string{annotationStrategy: "failover", annotationPrimary: "us"},
			want:        strategy{Type: "failover", PrimaryGeoTag: "us", DNSTTLSeconds: 30, SplitBrainThresholdSeconds: 300}, ok: true,
		},
		"a strategy that is not supported": {
			annotations: map[string]string{annotationStrategy: "geoip"}, problem: `annotation k8gb.io/strategy is "geoip": set it to roundRobin or failover`,
		},
		"an unknown primary cluster": {
			annotations: map[string]string{annotationStrategy: "failover", annotationPrimary: "cn"}, problem: `annotation k8gb.io/primary-geotag is "cn": set it to one of eu, us`,
		},
		"no primary cluster": {
			annotations: map[string]string{annotationStrategy: "failover"}, problem: `annotation k8gb.io/primary-geotag is "": set it to one of eu, us`,
		},
		"an invalid time": {
			annotations: map[string]string{annotationStrategy: "roundRobin", annotationTTL: "-1"},
			problem:     `annotation k8gb.io/dns-ttl-seconds is "-1": set it to a number of seconds from 0 to 86400`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok, err := strategyOf(test.annotations, []string{"eu", "us"})
			if problem := ""; err != nil {
				if problem = err.Error(); problem != test.problem {
					t.Errorf("got %s, want %s", problem, test.problem)
				}
			} else if test.problem != "" {
				t.Errorf("no error, want %s", test.problem)
			}
			if ok != test.ok || ok && got != test.want {
				t.Errorf("got %v %+v, want %v %+v", ok, got, test.ok, test.want)
			}
		})
	}
}

// A Gslb has the Ingress, and its annotations of k8gb only, and is deleted with it.
func TestGslbOfAnIngress(t *testing.T) {
	f := podinfo(map[string]string{annotationStrategy: roundRobin, "meta.helm.sh/release-name": "podinfo"})
	got := decide(eu, f).Gslbs[0]
	want := Gslb{
		TypeMeta: metav1.TypeMeta{APIVersion: "k8gb.absa.oss/v1beta1", Kind: "Gslb"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "podinfo", Namespace: "podinfo", Annotations: map[string]string{annotationStrategy: roundRobin},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "podinfo", UID: "1"}},
		},
		Spec: gslbSpec{Ingress: f.Ingresses[0].Spec, Strategy: strategy{Type: roundRobin, DNSTTLSeconds: 30, SplitBrainThresholdSeconds: 300}},
	}
	want.Status = got.Status
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyHostsOfTheZone(t *testing.T) {
	f := podinfo(map[string]string{annotationStrategy: roundRobin}, func(f *facts) {
		rules := f.Ingresses[0].Spec.Rules
		for _, other := range []string{"", "example.org", "cloud.example.com", "*.cloud.example.com", "evilcloud.example.com", host} {
			rules = append(rules, networkingv1.IngressRule{Host: other, IngressRuleValue: rules[0].IngressRuleValue})
		}
		f.Ingresses[0].Spec.Rules = rules
	})
	if got := decide(eu, f).Gslbs[0].Status.ServiceHealth; len(got) != 1 || got[host] != healthy {
		t.Errorf("hosts %v", got)
	}
}

// Of two Ingresses with the same host, the older one has it.
func TestAHostBelongsToOneIngress(t *testing.T) {
	f := podinfo(map[string]string{annotationStrategy: roundRobin}, func(f *facts) {
		younger := *f.Ingresses[0].DeepCopy()
		younger.Namespace = "another"
		younger.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
		f.Ingresses = append([]networkingv1.Ingress{younger}, f.Ingresses...)
	})
	d := decide(eu, f)
	want := []string{"Ingress another/podinfo: host liqo.cloud.example.com belongs to Ingress podinfo/podinfo already: use another host"}
	if diff := cmp.Diff(want, d.Problems); diff != "" || len(d.Zone) != 2 {
		t.Errorf("%s\nzone %v", diff, d.Zone)
	}
}

func TestDelegation(t *testing.T) {
	want := []record{
		{"cloud.example.com", "NS", 30, []string{"gslb-ns-eu-cloud.example.com", "gslb-ns-us-cloud.example.com"}},
		{"gslb-ns-eu-cloud.example.com", "A", 30, []string{"172.30.1.128"}},
	}
	if diff := cmp.Diff(want, decide(eu, podinfo(nil)).Delegation); diff != "" {
		t.Error(diff)
	}
	if got := decide(eu, podinfo(nil, func(f *facts) { f.NameServer = nil })).Delegation; got != nil {
		t.Errorf("delegated to a server without an address: %v", got)
	}
}

func TestZoneFile(t *testing.T) {
	want := `cloud.example.com. 30 IN SOA gslb-ns-eu-cloud.example.com. hostmaster.example.com. 7 60 60 86400 5
cloud.example.com. 30 IN NS gslb-ns-eu-cloud.example.com.
cloud.example.com. 30 IN NS gslb-ns-us-cloud.example.com.
liqo.cloud.example.com. 30 IN A 172.19.0.3
liqo.cloud.example.com. 30 IN A 172.19.0.4
`
	if diff := cmp.Diff(want, zoneFile(eu, []record{{host, "A", 30, []string{"172.19.0.3", "172.19.0.4"}}}, 7)); diff != "" {
		t.Error(diff)
	}
}
