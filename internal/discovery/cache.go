package discovery

import (
	"cmp"
	"slices"
	"time"
)

// maxCached is the maximum number of records in a Cache. A full Cache accepts no more records until some expire.
const maxCached = 1024

// Cache holds the records that hosts of the local network announced, each until its TTL is over. The zero value is empty.
type Cache struct {
	entries []entry
}

type entry struct {
	record  Record
	expires time.Time
}

// Same reports whether two records have the same name, type and content. Their TTLs may differ.
func (r *Record) Same(other *Record) bool {
	return r.Name == other.Name && r.Type == other.Type && r.Target == other.Target && r.Port == other.Port && r.Priority == other.Priority &&
		r.Weight == other.Weight && r.Address == other.Address && slices.Equal(r.Text, other.Text)
}

// Add takes the records of a message that belong to the service of a domain, directly or through the hosts that its services name. A TTL of 0 removes
// a record.
func (c *Cache) Add(domain string, records []Record, now time.Time) {
	c.expire(now)
	for i := range records {
		record := records[i]
		record.TTL = min(record.TTL, maxTTL)
		at := slices.IndexFunc(c.entries, func(e entry) bool { return e.record.Same(&record) })
		switch {
		case at >= 0 && record.TTL == 0:
			c.entries = slices.Delete(c.entries, at, at+1)
		case at >= 0:
			c.entries[at] = entry{record: record, expires: now.Add(time.Duration(record.TTL) * time.Second)}
		case record.TTL > 0 && len(c.entries) < maxCached && c.wanted(domain, records, &record):
			c.entries = append(c.entries, entry{record: record, expires: now.Add(time.Duration(record.TTL) * time.Second)})
		}
	}
}

// wanted reports whether a record belongs to the service. Other hosts of the network announce other services, such as printers.
func (c *Cache) wanted(domain string, message []Record, record *Record) bool {
	service := ServiceName(domain)
	switch record.Type {
	case PTR:
		return record.Name == service
	case SRV, TXT:
		return len(record.Name) > len(service) && record.Name[len(record.Name)-len(service)-1:] == "."+service
	case A, AAAA:
		leads := func(r *Record) bool { return r.Type == SRV && r.Target == record.Name && c.wanted(domain, nil, r) }
		return slices.ContainsFunc(message, func(r Record) bool { return leads(&r) }) ||
			slices.ContainsFunc(c.entries, func(e entry) bool { return leads(&e.record) })
	default:
		return false
	}
}

func (c *Cache) expire(now time.Time) {
	c.entries = slices.DeleteFunc(c.entries, func(e entry) bool { return !now.Before(e.expires) })
}

// Live returns the records that are still valid, with the time that is left as their TTL.
func (c *Cache) Live(now time.Time) []Record {
	c.expire(now)
	out := make([]Record, 0, len(c.entries))
	for _, e := range c.entries {
		record := e.record
		record.TTL = uint32(max(e.expires.Sub(now)/time.Second, 1)) //nolint:gosec // between 1 and maxTTL
		out = append(out, record)
	}
	return out
}

// Expires returns when the next valid record expires; the zero time if there is none.
func (c *Cache) Expires(now time.Time) time.Time {
	c.expire(now)
	if len(c.entries) == 0 {
		return time.Time{}
	}
	return slices.MinFunc(c.entries, func(a, b entry) int { return cmp.Compare(a.expires.UnixNano(), b.expires.UnixNano()) }).expires
}
