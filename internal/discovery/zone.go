package discovery

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"liqo.io/liqo/internal/address"
)

// Advertisement holds the data that a cluster announces about itself.
type Advertisement struct {
	// ID is the cluster ID.
	ID string
	// Host is the name of the host of the authentication service, for an address that only DNS knows; empty if Addresses has the address.
	Host string
	// Addresses are those of the authentication service, Port is its port.
	Addresses []netip.Addr
	Port      uint16
	// Fingerprint is that of the key of the authentication service; empty to announce none.
	Fingerprint string
	// TTL is the validity of the records, in seconds.
	TTL uint32
}

// Advertise returns the advertisement of a cluster whose authentication service has the URL, without a TTL.
func Advertise(id, service string) (*Advertisement, error) {
	parsed, err := url.Parse(service)
	if err != nil {
		return nil, fmt.Errorf("reading the URL of the authentication service: %w", err)
	}
	port := uint64(443)
	if text := parsed.Port(); text != "" {
		if port, err = strconv.ParseUint(text, 10, 16); err != nil {
			return nil, fmt.Errorf("reading the port of %s: %w", service, err)
		}
	}
	out := &Advertisement{ID: id, Port: uint16(port)} //nolint:gosec // 16 bits were read
	ip, err := netip.ParseAddr(parsed.Hostname())
	if err != nil {
		out.Host = parsed.Hostname()
		return out, nil //nolint:nilerr // it is a host name
	}
	if err := address.Check(ip, nil); err != nil {
		return nil, fmt.Errorf("other clusters can't use %s: %w", service, err)
	}
	out.Addresses = []netip.Addr{ip}
	return out, nil
}

// Records returns the records that announce the cluster in a domain: PTR, SRV and TXT, and those of the addresses.
func (a *Advertisement) Records(domain string) []Record {
	service := ServiceName(domain)
	instance, host := a.ID+"."+service, canonical(a.Host)
	if a.Host == "" {
		host = canonical("liqo-auth-" + a.ID + "." + strings.Trim(domain, "."))
	}
	text := []string{keyVersion + "=" + textVersion, keyID + "=" + a.ID}
	if a.Fingerprint != "" {
		text = append(text, keyFingerprint+"="+a.Fingerprint)
	}
	records := []Record{
		{Name: service, Type: PTR, TTL: a.TTL, Target: instance},
		{Name: instance, Type: SRV, TTL: a.TTL, Target: host, Port: a.Port},
		{Name: instance, Type: TXT, TTL: a.TTL, Text: text},
	}
	if a.Host != "" {
		return records
	}
	for _, address := range a.Addresses {
		kind := AAAA
		if address.Unmap().Is4() {
			kind = A
		}
		records = append(records, Record{Name: host, Type: kind, TTL: a.TTL, Address: address.Unmap()})
	}
	return records
}

// ZoneText returns records as lines of a zone file (RFC 1035, section 5), for any DNS server.
func ZoneText(records []Record) string {
	var b strings.Builder
	for _, record := range records {
		fmt.Fprintf(&b, "%s %d IN %s %s\n", record.Name, record.TTL, strings.TrimPrefix(record.Type.String(), "Type"), record.content())
	}
	return b.String()
}

func (r *Record) content() string {
	switch r.Type {
	case SRV:
		return fmt.Sprintf("%d %d %d %s", r.Priority, r.Weight, r.Port, r.Target)
	case TXT:
		quoted := make([]string, len(r.Text))
		for i, text := range r.Text {
			quoted[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
		}
		return strings.Join(quoted, " ")
	case A, AAAA:
		return r.Address.String()
	default:
		return r.Target
	}
}
