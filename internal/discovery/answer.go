package discovery

import "slices"

const (
	// typeAny asks for the records of all types.
	typeAny = Type(255)
	// legacyTTL is the longest TTL for clients that don't speak multicast DNS (RFC 6762, section 6.7).
	legacyTTL = 10
)

// Answer returns the response of a host with these records to a multicast query; nil if the host does not answer. unicast means that the response
// goes to the sender only. legacy means that the sender is an ordinary resolver, which does not send from the port of multicast DNS. Answer leaves
// out records that the query lists as known (RFC 6762, section 7.1).
func Answer(query *Message, records []Record, legacy bool) (response *Message, unicast bool) {
	if query.Response {
		return nil, false
	}
	response = &Message{Response: true, Flush: !legacy}
	unicast = true
	for _, question := range query.Questions {
		for _, record := range records {
			asked := record.Name == question.Name && (question.Type == record.Type || question.Type == typeAny)
			known := slices.ContainsFunc(query.Answers, func(r Record) bool { return r.Same(&record) && r.TTL >= record.TTL/2 })
			if asked && !known && !slices.ContainsFunc(response.Answers, func(r Record) bool { return r.Same(&record) }) {
				response.Answers = append(response.Answers, record)
				unicast = unicast && question.Unicast
			}
		}
	}
	if len(response.Answers) == 0 {
		return nil, false
	}
	// Add the records that the sender would query next.
	for _, record := range records {
		if !slices.ContainsFunc(response.Answers, func(r Record) bool { return r.Same(&record) }) {
			response.Additionals = append(response.Additionals, record)
		}
	}
	if !legacy {
		return response, unicast
	}
	response.ID, response.Questions = query.ID, query.Questions
	for _, part := range [][]Record{response.Answers, response.Additionals} {
		for i := range part {
			part[i].TTL = min(part[i].TTL, legacyTTL)
		}
	}
	return response, true
}

// Announcement returns the message that announces records without a query; with gone, it withdraws them.
func Announcement(records []Record, gone bool) *Message {
	out := slices.Clone(records)
	for i := range out {
		if gone {
			out[i].TTL = 0
		}
	}
	return &Message{Response: true, Flush: true, Answers: out}
}
