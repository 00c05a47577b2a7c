package discovery

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"liqo.io/liqo/internal/address"
)

const (
	// Service is the DNS-SD name of the authentication service.
	Service = "_liqo_auth._tcp"
	// LocalDomain is the domain of multicast DNS.
	LocalDomain = "local"
	// maxInstances is the maximum number of clusters that are read from the records of one domain.
	maxInstances = 64
	// maxText is the maximum number of bytes of a TXT record (RFC 6763, section 6.2).
	maxText = 1300
	// maxTTL is the maximum validity of a record, in seconds.
	maxTTL = 75 * 60
	// textVersion is the version of the attributes below.
	textVersion = "1"
)

// Attributes in the TXT record of a cluster.
const (
	keyVersion     = "txtvers"
	keyID          = "id"
	keyFingerprint = "fp"
)

var (
	label       = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	fingerprint = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`)
)

// Cluster holds the claims about a cluster in DNS records. They are not verified.
type Cluster struct {
	// ID is the cluster ID.
	ID string `json:"id"`
	// URLs are the URLs of the authentication service, one for each address, IPv4 first.
	URLs []string `json:"urls"`
	// Fingerprint is the fingerprint of the authentication service's key, for people to compare; empty if it is not announced. Enrollment relies on
	// the fingerprint in the token instead.
	Fingerprint string `json:"fingerprint,omitempty"`
	// TTL is the validity of the claims.
	TTL time.Duration `json:"-"`
}

// ServiceName returns the name under which the clusters of a domain are listed.
func ServiceName(domain string) string { return canonical(Service + "." + strings.Trim(domain, ".")) }

// CheckDomain returns an error if text can't be the domain of a DNS-SD query.
func CheckDomain(text string) error {
	name := strings.TrimSuffix(strings.ToLower(text), ".")
	if name == "" || len(name) > 200 || slices.ContainsFunc(strings.Split(name, "."), func(part string) bool { return !label.MatchString(part) }) {
		return fmt.Errorf("%q is no DNS domain, want for example clusters.example.org", text)
	}
	return nil
}

// Instances returns the names of the services that PTR records list in a domain, sorted. Withdrawn services, and those of
// other domains or types, are left out.
func Instances(domain string, records []Record) []string {
	service := ServiceName(domain)
	var out []string
	for _, record := range records {
		if record.Type == PTR && record.Name == service && record.TTL > 0 && strings.HasSuffix(record.Target, "."+service) {
			out = append(out, record.Target)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), maxInstances)]
}

// Assemble reads the clusters of a domain from its records, sorted by ID. own are the ranges of this cluster. It leaves out services that cannot be
// another cluster; the problems name each of them with the reason. If several services claim the same cluster ID with different content, it leaves
// out all of them, because at least one is false. It also leaves out a service in the local network with several hosts or addresses: a cluster
// announces only one address there, but any host can add others.
func Assemble(domain string, records []Record, own []netip.Prefix) (clusters []Cluster, problems []error) {
	var all []Cluster
	for _, instance := range Instances(domain, records) {
		cluster, err := read(instance, records, own, strings.Trim(domain, ".") == LocalDomain)
		if err != nil {
			problems = append(problems, fmt.Errorf("service %q: %w", instance, err))
			continue
		}
		all = append(all, cluster)
	}
	clusters, contradictions := Merge(all)
	problems = append(problems, contradictions...)
	slices.SortFunc(problems, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return clusters, problems
}

// Merge returns each cluster once, sorted by ID. If claims about one cluster ID differ, all of them are left out, and a problem is returned.
func Merge(all []Cluster) (clusters []Cluster, problems []error) {
	claims := map[string][]Cluster{}
	for _, cluster := range all {
		claims[cluster.ID] = append(claims[cluster.ID], cluster)
	}
	for id, all := range claims {
		if slices.ContainsFunc(all, func(c Cluster) bool { return !same(&c, &all[0]) }) {
			problems = append(problems, fmt.Errorf("cluster ID %s is claimed by %d services with different addresses or fingerprints: "+
				"at least one is false, and none is used", id, len(all)))
			continue
		}
		clusters = append(clusters, all[0])
	}
	slices.SortFunc(clusters, func(a, b Cluster) int { return cmp.Compare(a.ID, b.ID) })
	return clusters, problems
}

func same(a, b *Cluster) bool {
	return a.ID == b.ID && a.Fingerprint == b.Fingerprint && slices.Equal(a.URLs, b.URLs)
}

// read reads one service. single requires that it has only one host with one address.
func read(instance string, records []Record, own []netip.Prefix, single bool) (Cluster, error) {
	service, services := best(instance, records)
	var text []Record
	for _, record := range records {
		known := slices.ContainsFunc(text, func(t Record) bool { return slices.Equal(t.Text, record.Text) })
		if record.Type == TXT && record.Name == instance && record.TTL > 0 && !known {
			text = append(text, record)
		}
	}
	switch {
	case service == nil:
		return Cluster{}, errors.New("it has no SRV record")
	case service.Target == "." || service.Port == 0:
		return Cluster{}, errors.New("its SRV record says that there is no service")
	case single && services > 1:
		return Cluster{}, fmt.Errorf("it has %d SRV records: at least one is false, and none is used", services)
	case len(text) != 1:
		return Cluster{}, fmt.Errorf("it has %d TXT records, want one", len(text))
	}
	attributes, err := Attributes(text[0].Text)
	if err != nil {
		return Cluster{}, fmt.Errorf("its TXT record: %w", err)
	}
	cluster := Cluster{ID: attributes[keyID], Fingerprint: attributes[keyFingerprint], TTL: lifetime(service.TTL, text[0].TTL)}
	switch {
	case attributes[keyVersion] != textVersion:
		return Cluster{}, fmt.Errorf("its TXT record has version %q (%s), want %s", attributes[keyVersion], keyVersion, textVersion)
	case !label.MatchString(cluster.ID):
		return Cluster{}, fmt.Errorf("its TXT record has the cluster ID %q (%s), want a DNS label", cluster.ID, keyID)
	case cluster.Fingerprint != "" && !fingerprint.MatchString(cluster.Fingerprint):
		return Cluster{}, fmt.Errorf("its TXT record has the fingerprint %q (%s), want SHA256: and 43 characters of base64",
			cluster.Fingerprint, keyFingerprint)
	}
	var refused error
	all := addresses(service.Target, records)
	if single && len(all) > 1 {
		return Cluster{}, fmt.Errorf("its host %q has %d addresses: at least one is false, and none is used", service.Target, len(all))
	}
	for _, at := range all {
		if err := address.Check(at, own); err != nil {
			refused = err
			continue
		}
		cluster.URLs = append(cluster.URLs, "https://"+net.JoinHostPort(at.Unmap().String(), strconv.Itoa(int(service.Port))))
	}
	if len(cluster.URLs) == 0 {
		if refused == nil {
			refused = errors.New("there is no address")
		}
		return Cluster{}, fmt.Errorf("its host %q can't be used: %w", service.Target, refused)
	}
	return cluster, nil
}

// Host returns the host whose addresses Assemble uses for a service. It is empty if there is no service.
func Host(instance string, records []Record) string {
	service, _ := best(instance, records)
	if service == nil || service.Target == "." {
		return ""
	}
	return service.Target
}

// best returns the SRV record that clients prefer, and the number of SRV records. Clients prefer the lowest priority, and then the highest
// weight.
func best(instance string, records []Record) (first *Record, count int) {
	for i := range records {
		record := &records[i]
		if record.Type != SRV || record.Name != instance || record.TTL == 0 {
			continue
		}
		count++
		if first == nil || prefer(record, first) < 0 {
			first = record
		}
	}
	return first, count
}

func prefer(a, b *Record) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Port, b.Port))
}

// addresses returns the addresses of a host, IPv4 first.
func addresses(host string, records []Record) []netip.Addr {
	names := aliases(records, host)
	var out []netip.Addr
	for _, record := range records {
		if (record.Type == A || record.Type == AAAA) && names[record.Name] && record.TTL > 0 {
			out = append(out, record.Address)
		}
	}
	slices.SortFunc(out, func(a, b netip.Addr) int { return a.Compare(b) }) // shorter addresses come first
	return slices.Compact(out)
}

func lifetime(seconds ...uint32) time.Duration {
	return time.Duration(min(slices.Min(seconds), maxTTL)) * time.Second
}

// Attributes reads the strings of a TXT record by the rules of RFC 6763: keys are case-insensitive, the first occurrence of a key counts, and
// strings without a key are ignored.
func Attributes(text []string) (map[string]string, error) {
	size := 0
	out := map[string]string{}
	for _, item := range text {
		size += len(item) + 1
		key, value, _ := strings.Cut(item, "=")
		key = strings.ToLower(key)
		if _, present := out[key]; key != "" && !present {
			out[key] = value
		}
	}
	if size > maxText {
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", size, maxText)
	}
	return out, nil
}
