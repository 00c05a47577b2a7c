package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Annotations of Ingresses, with the names and meanings of k8gb.
const (
	annotationStrategy = "k8gb.io/strategy"
	annotationPrimary  = "k8gb.io/primary-geotag"
	annotationTTL      = "k8gb.io/dns-ttl-seconds"
)

// Strategies.
const (
	roundRobin = "roundRobin"
	failover   = "failover"
)

// Values of status.serviceHealth.
const (
	healthy   = "Healthy"
	unhealthy = "Unhealthy"
	notFound  = "NotFound"
)

const (
	defaultTTL = 30
	// splitBrainThreshold is a default of k8gb. It has no effect here.
	splitBrainThreshold = 300
	// localPrefix precedes a host in the name of the record that contains the addresses of one cluster only. The other clusters query it.
	localPrefix = "localtargets-"
)

// settings are those of one cluster.
type settings struct {
	// GeoTag names this cluster, Peers are the names of the others.
	GeoTag string
	Peers  []string
	// Zone is the domain of the hosts. The edge DNS delegates it to the clusters. EdgeZone is the domain of the edge DNS itself.
	Zone, EdgeZone string
	// Namespace is the namespace of the Service of CoreDNS and of the DNSEndpoint.
	Namespace string
}

// nameServer returns the name of the DNS server of a cluster.
func (s settings) nameServer(geoTag string) string {
	return "gslb-ns-" + geoTag + "-" + strings.ReplaceAll(strings.TrimSuffix(s.Zone, "."+s.EdgeZone), ".", "-") + "." + s.EdgeZone
}

// facts are what the controller observes.
type facts struct {
	Ingresses []networkingv1.Ingress
	Services  []corev1.Service
	Slices    []discoveryv1.EndpointSlice
	// NameServer contains the addresses at which other clusters reach CoreDNS of this cluster.
	NameServer []string
	// Peers contains the addresses that each other cluster reports for each host. A cluster that is unreachable has none.
	Peers map[string]map[string][]string
}

// Gslb has the shape of a Gslb of k8gb.
type Gslb struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              gslbSpec   `json:"spec"`
	Status            gslbStatus `json:"status"`
}

type gslbSpec struct {
	Ingress  networkingv1.IngressSpec `json:"ingress"`
	Strategy strategy                 `json:"strategy"`
}

type strategy struct {
	Type                       string `json:"type"`
	PrimaryGeoTag              string `json:"primaryGeoTag,omitempty"`
	DNSTTLSeconds              int    `json:"dnsTtlSeconds"`
	SplitBrainThresholdSeconds int    `json:"splitBrainThresholdSeconds"`
}

type gslbStatus struct {
	GeoTag         string              `json:"geoTag"`
	HealthyRecords map[string][]string `json:"healthyRecords"`
	ServiceHealth  map[string]string   `json:"serviceHealth"`
}

// record is a DNS record set. Its JSON is that of an endpoint of a DNSEndpoint of ExternalDNS.
type record struct {
	Name    string   `json:"dnsName"`
	Type    string   `json:"recordType"`
	TTL     int      `json:"recordTTL"`
	Targets []string `json:"targets"`
}

// decision is everything that follows from the facts.
type decision struct {
	Gslbs []Gslb
	// Zone contains the records that CoreDNS of this cluster serves. Delegation contains those that ExternalDNS writes to the edge DNS.
	Zone, Delegation []record
	// Problems describe Ingresses that are ignored.
	Problems []string
}

// decide returns the Gslbs and records for the facts.
func decide(s settings, f facts) decision {
	d := decision{Delegation: delegation(s, f.NameServer)}
	owners := map[string]types.NamespacedName{}
	for _, ingress := range sorted(f.Ingresses) {
		name := types.NamespacedName{Namespace: ingress.Namespace, Name: ingress.Name}
		strategy, ok, err := strategyOf(ingress.Annotations, append([]string{s.GeoTag}, s.Peers...))
		if err != nil {
			d.Problems = append(d.Problems, fmt.Sprintf("Ingress %s: %v", name, err))
		}
		if !ok {
			continue
		}
		gslb := gslbOf(ingress, strategy)
		gslb.Status = gslbStatus{GeoTag: s.GeoTag, HealthyRecords: map[string][]string{}, ServiceHealth: map[string]string{}}
		for _, host := range hosts(ingress, s.Zone) {
			if owner, taken := owners[host]; taken && owner != name {
				d.Problems = append(d.Problems, fmt.Sprintf("Ingress %s: host %s belongs to Ingress %s already: use another host", name, host, owner))
				continue
			}
			owners[host] = name
			health := healthOf(ingress, host, f)
			targets := map[string][]string{}
			if health == healthy {
				targets[s.GeoTag] = addresses(ingress)
			}
			for _, peer := range s.Peers {
				targets[peer] = f.Peers[peer][host]
			}
			records := choose(s, strategy, targets)
			gslb.Status.ServiceHealth[host] = health
			gslb.Status.HealthyRecords[host] = records
			d.Zone = append(d.Zone, addressRecord(host, strategy.DNSTTLSeconds, records)...)
			d.Zone = append(d.Zone, addressRecord(localPrefix+host, strategy.DNSTTLSeconds, targets[s.GeoTag])...)
		}
		d.Gslbs = append(d.Gslbs, gslb)
	}
	return d
}

// choose returns the addresses for clients. Round robin: those of all clusters, this one first. Failover: those of the first cluster that has any, the primary
// one first.
func choose(s settings, strategy strategy, targets map[string][]string) []string {
	clusters := append([]string{s.GeoTag}, slices.Sorted(slices.Values(s.Peers))...)
	if strategy.Type == failover {
		others := slices.DeleteFunc(clusters, func(cluster string) bool { return cluster == strategy.PrimaryGeoTag })
		clusters = append([]string{strategy.PrimaryGeoTag}, others...)
	}
	chosen := []string{}
	for _, cluster := range clusters {
		for _, target := range targets[cluster] {
			if !slices.Contains(chosen, target) {
				chosen = append(chosen, target)
			}
		}
		if strategy.Type == failover && len(chosen) > 0 {
			break
		}
	}
	return chosen
}

// strategyOf returns the strategy that the annotations of an Ingress request. ok is false if they request none or an invalid one.
func strategyOf(annotations map[string]string, clusters []string) (_ strategy, ok bool, err error) {
	s := strategy{Type: annotations[annotationStrategy], DNSTTLSeconds: defaultTTL, SplitBrainThresholdSeconds: splitBrainThreshold}
	switch s.Type {
	case "":
		return s, false, nil
	case roundRobin:
	case failover:
		if s.PrimaryGeoTag = annotations[annotationPrimary]; !slices.Contains(clusters, s.PrimaryGeoTag) {
			return s, false, fmt.Errorf("annotation %s is %q: set it to one of %s", annotationPrimary, s.PrimaryGeoTag, strings.Join(slices.Sorted(slices.Values(clusters)), ", "))
		}
	default:
		return s, false, fmt.Errorf("annotation %s is %q: set it to %s or %s", annotationStrategy, s.Type, roundRobin, failover)
	}
	if text, given := annotations[annotationTTL]; given {
		if s.DNSTTLSeconds, err = strconv.Atoi(text); err != nil || s.DNSTTLSeconds < 0 || s.DNSTTLSeconds > 86400 {
			return s, false, fmt.Errorf("annotation %s is %q: set it to a number of seconds from 0 to 86400", annotationTTL, text)
		}
	}
	return s, true, nil
}

// gslbOf returns the Gslb of an Ingress, without a status. Kubernetes deletes it with the Ingress.
func gslbOf(ingress *networkingv1.Ingress, strategy strategy) Gslb {
	annotations := map[string]string{}
	maps.Copy(annotations, ingress.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !strings.HasPrefix(key, "k8gb.io/") })
	return Gslb{
		TypeMeta: metav1.TypeMeta{APIVersion: "k8gb.absa.oss/v1beta1", Kind: "Gslb"},
		ObjectMeta: metav1.ObjectMeta{
			Name: ingress.Name, Namespace: ingress.Namespace, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: ingress.Name, UID: ingress.UID}},
		},
		Spec: gslbSpec{Ingress: ingress.Spec, Strategy: strategy},
	}
}

// healthOf returns the health of a host: the worst one of the Services to which its rules lead.
func healthOf(ingress *networkingv1.Ingress, host string, f facts) string {
	health, found := healthy, false
	for _, rule := range ingress.Spec.Rules {
		if rule.Host != host || rule.HTTP == nil {
			continue
		}
		for _, path := range rule.HTTP.Paths {
			if path.Backend.Service == nil {
				continue
			}
			found = true
			name := path.Backend.Service.Name
			switch {
			case !slices.ContainsFunc(f.Services, func(s corev1.Service) bool { return s.Namespace == ingress.Namespace && s.Name == name }):
				return notFound
			case !slices.ContainsFunc(f.Slices, func(s discoveryv1.EndpointSlice) bool {
				return s.Namespace == ingress.Namespace && s.Labels[discoveryv1.LabelServiceName] == name && slices.ContainsFunc(s.Endpoints, ready)
			}):
				health = unhealthy
			}
		}
	}
	if !found {
		return notFound
	}
	return health
}

func ready(endpoint discoveryv1.Endpoint) bool { return ptr.Deref(endpoint.Conditions.Ready, true) }

// hosts returns the hosts of an Ingress in a zone, each one once.
func hosts(ingress *networkingv1.Ingress, zone string) []string {
	var found []string
	for _, rule := range ingress.Spec.Rules {
		if strings.HasSuffix(rule.Host, "."+zone) && !strings.HasPrefix(rule.Host, "*") && !slices.Contains(found, rule.Host) {
			found = append(found, rule.Host)
		}
	}
	return found
}

// addresses returns the IP addresses that the ingress controller has written to the status of an Ingress.
func addresses(ingress *networkingv1.Ingress) []string {
	var found []string
	for _, entry := range ingress.Status.LoadBalancer.Ingress {
		if entry.IP != "" {
			found = append(found, entry.IP)
		}
	}
	return found
}

func addressRecord(name string, ttl int, targets []string) []record {
	if len(targets) == 0 {
		return nil
	}
	return []record{{Name: name, Type: "A", TTL: ttl, Targets: targets}}
}

// nameServers returns the record with the DNS servers of the zone: one in each cluster.
func nameServers(s settings) record {
	r := record{Name: s.Zone, Type: "NS", TTL: defaultTTL}
	for _, cluster := range slices.Sorted(slices.Values(append([]string{s.GeoTag}, s.Peers...))) {
		r.Targets = append(r.Targets, s.nameServer(cluster))
	}
	return r
}

// delegation returns the records for the edge DNS: the DNS servers of the zone, and the addresses of the one in this cluster. It returns nothing as long as
// that one has no address.
func delegation(s settings, own []string) []record {
	if len(own) == 0 {
		return nil
	}
	return append([]record{nameServers(s)}, addressRecord(s.nameServer(s.GeoTag), defaultTTL, own)...)
}

func sorted(ingresses []networkingv1.Ingress) []*networkingv1.Ingress {
	var out []*networkingv1.Ingress
	for i := range ingresses {
		out = append(out, &ingresses[i])
	}
	slices.SortFunc(out, func(a, b *networkingv1.Ingress) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}
