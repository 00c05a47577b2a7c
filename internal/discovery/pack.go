package discovery

import (
	"fmt"

	"golang.org/x/net/dns/dnsmessage"
)

// Pack returns the bytes of a message, which Parse reads back. A response is authoritative. With Flush, its records other than PTR replace all
// records of the same name in the caches of the receivers.
func (m *Message) Pack() ([]byte, error) {
	out := dnsmessage.Message{Header: dnsmessage.Header{
		ID: m.ID, Response: m.Response, Authoritative: m.Response, Truncated: m.Truncated, RecursionDesired: m.Recurse,
	}}
	for _, question := range m.Questions {
		name, err := dnsmessage.NewName(question.Name)
		if err != nil {
			return nil, fmt.Errorf("%q is no DNS name: %w", question.Name, err)
		}
		packed := dnsmessage.Question{Name: name, Type: question.Type, Class: dnsmessage.ClassINET}
		if question.Unicast {
			packed.Class |= unicastResponse
		}
		out.Questions = append(out.Questions, packed)
	}
	for _, part := range []struct {
		records []Record
		to      *[]dnsmessage.Resource
	}{{m.Answers, &out.Answers}, {m.Additionals, &out.Additionals}} {
		for i := range part.records {
			resource, err := part.records[i].resource(m.Flush)
			if err != nil {
				return nil, err
			}
			*part.to = append(*part.to, resource)
		}
	}
	data, err := out.Pack()
	if err != nil {
		return nil, fmt.Errorf("packing a DNS message: %w", err)
	}
	return data, nil
}

func (r *Record) resource(flush bool) (dnsmessage.Resource, error) {
	name, err := dnsmessage.NewName(r.Name)
	if err != nil {
		return dnsmessage.Resource{}, fmt.Errorf("%q is no DNS name: %w", r.Name, err)
	}
	out := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name, Type: r.Type, Class: dnsmessage.ClassINET, TTL: r.TTL}}
	if flush && r.Type != PTR { // several hosts have a PTR record of the same name, and the record of one must not replace those of the others
		out.Header.Class |= cacheFlush
	}
	target := dnsmessage.Name{}
	if r.Target != "" {
		if target, err = dnsmessage.NewName(r.Target); err != nil {
			return dnsmessage.Resource{}, fmt.Errorf("%q is no DNS name: %w", r.Target, err)
		}
	}
	switch r.Type {
	case PTR:
		out.Body = &dnsmessage.PTRResource{PTR: target}
	case CNAME:
		out.Body = &dnsmessage.CNAMEResource{CNAME: target}
	case SRV:
		out.Body = &dnsmessage.SRVResource{Priority: r.Priority, Weight: r.Weight, Port: r.Port, Target: target}
	case TXT:
		out.Body = &dnsmessage.TXTResource{TXT: r.Text}
	case A:
		if !r.Address.Is4() {
			return dnsmessage.Resource{}, fmt.Errorf("%s is no IPv4 address", r.Address)
		}
		out.Body = &dnsmessage.AResource{A: r.Address.As4()}
	case AAAA:
		if !r.Address.IsValid() {
			return dnsmessage.Resource{}, fmt.Errorf("the AAAA record of %s has no address", r.Name)
		}
		out.Body = &dnsmessage.AAAAResource{AAAA: r.Address.As16()}
	default:
		return dnsmessage.Resource{}, fmt.Errorf("records of %s are not announced", r.Type)
	}
	return out, nil
}
