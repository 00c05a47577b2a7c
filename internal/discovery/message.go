package discovery

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// Limits of a message. Larger ones are refused.
const (
	// MaxMessage is the maximum number of bytes of a message: that of multicast DNS (RFC 6762, section 17).
	MaxMessage = 9000
	// maxRecords is the maximum number of records in a message.
	maxRecords = 512
)

// Type is the type of a record.
type Type = dnsmessage.Type

// Types of records that discovery uses.
const (
	PTR   = dnsmessage.TypePTR
	SRV   = dnsmessage.TypeSRV
	TXT   = dnsmessage.TypeTXT
	A     = dnsmessage.TypeA
	AAAA  = dnsmessage.TypeAAAA
	CNAME = dnsmessage.TypeCNAME
)

// classMask removes the top bit of a class. In a record of multicast DNS, that bit means that the record replaces others (RFC 6762, section 10.2). In
// a question, it means that a unicast response is preferred (section 5.4).
const (
	classMask       = 0x7fff
	unicastResponse = 0x8000
	cacheFlush      = 0x8000
)

// Record is a DNS record. Which fields are set depends on the type.
type Record struct {
	// Name is the owner, in lower case, with a final dot.
	Name string
	Type Type
	// TTL is the number of seconds for which the record is valid. In multicast DNS, 0 withdraws the record.
	TTL uint32
	// Target is the name that a PTR, SRV or CNAME record leads to, in lower case, with a final dot.
	Target string
	// Priority, Weight and Port belong to an SRV record.
	Priority, Weight, Port uint16
	// Text holds the strings of a TXT record.
	Text []string
	// Address is that of an A or AAAA record.
	Address netip.Addr
}

// Question asks for the records of a name.
type Question struct {
	// Name is in lower case, with a final dot.
	Name string
	Type Type
	// Unicast is whether the response is wanted at the address of the sender.
	Unicast bool
}

// Message is a DNS message.
type Message struct {
	ID uint16
	// Response means that the message is a response, not a query. Truncated means that records are missing, because they did not fit into the
	// datagram.
	Response, Truncated bool
	// Recurse asks the server for a recursive lookup.
	Recurse bool
	// Flush means that the records of a response replace others: see Pack.
	Flush bool
	// Failure is the error code of a response; empty for success.
	Failure              string
	Questions            []Question
	Answers, Additionals []Record
}

// canonical returns a name in the form in which names are compared.
func canonical(name string) string {
	name = strings.ToLower(name)
	if !strings.HasSuffix(name, ".") {
		name += "."
	}
	return name
}

// Parse reads a message. It skips records of other types and classes than those that discovery uses.
func Parse(data []byte) (*Message, error) {
	if len(data) > MaxMessage {
		return nil, fmt.Errorf("the message has %d bytes, at most %d are read", len(data), MaxMessage)
	}
	var parser dnsmessage.Parser
	header, err := parser.Start(data)
	if err != nil {
		return nil, fmt.Errorf("reading the header: %w", err)
	}
	if header.OpCode != 0 {
		return nil, fmt.Errorf("the message has operation code %d, want a query", header.OpCode)
	}
	m := &Message{ID: header.ID, Response: header.Response, Truncated: header.Truncated}
	if header.RCode != dnsmessage.RCodeSuccess {
		m.Failure = strings.TrimPrefix(header.RCode.String(), "RCode")
	}
	for range maxRecords {
		q, err := parser.Question()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return m, m.records(&parser)
		}
		if err != nil {
			return nil, fmt.Errorf("reading a question: %w", err)
		}
		m.Questions = append(m.Questions, Question{Name: canonical(q.Name.String()), Type: q.Type, Unicast: q.Class&unicastResponse != 0})
	}
	return nil, fmt.Errorf("the message has more than %d questions", maxRecords)
}

// records reads the answers and the additional records.
func (m *Message) records(parser *dnsmessage.Parser) error {
	left := maxRecords
	answers, err := section(parser.AnswerHeader, parser, parser.SkipAnswer, &left)
	if err != nil {
		return fmt.Errorf("reading the answers: %w", err)
	}
	if err := parser.SkipAllAuthorities(); err != nil {
		return fmt.Errorf("skipping the authorities: %w", err)
	}
	additionals, err := section(parser.AdditionalHeader, parser, parser.SkipAdditional, &left)
	if err != nil {
		return fmt.Errorf("reading the additional records: %w", err)
	}
	m.Answers, m.Additionals = answers, additionals
	return nil
}

func section(next func() (dnsmessage.ResourceHeader, error), parser *dnsmessage.Parser, skip func() error, left *int) ([]Record, error) {
	var out []Record
	for ; *left > 0; *left-- {
		header, err := next()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		record := Record{Name: canonical(header.Name.String()), Type: header.Type, TTL: header.TTL}
		known := header.Class&classMask == dnsmessage.ClassINET
		if known {
			known, err = record.body(parser)
		}
		if !known && err == nil {
			err = skip()
		}
		if err != nil {
			return nil, err
		}
		if known {
			out = append(out, record)
		}
	}
	return nil, fmt.Errorf("the message has more than %d records", maxRecords)
}

// body reads the content of a record. known is false for a type that discovery does not use, whose content is still to be skipped.
func (r *Record) body(parser *dnsmessage.Parser) (known bool, err error) {
	switch r.Type {
	case PTR:
		body, err := parser.PTRResource()
		r.Target = canonical(body.PTR.String())
		return true, err
	case CNAME:
		body, err := parser.CNAMEResource()
		r.Target = canonical(body.CNAME.String())
		return true, err
	case SRV:
		body, err := parser.SRVResource()
		r.Target, r.Priority, r.Weight, r.Port = canonical(body.Target.String()), body.Priority, body.Weight, body.Port
		return true, err
	case TXT:
		body, err := parser.TXTResource()
		r.Text = body.TXT
		return true, err
	case A:
		body, err := parser.AResource()
		r.Address = netip.AddrFrom4(body.A)
		return true, err
	case AAAA:
		body, err := parser.AAAAResource()
		r.Address = netip.AddrFrom16(body.AAAA)
		return true, err
	default:
		return false, nil
	}
}

// Query returns the message that asks for the records of a name. unicast asks multicast responders for a response at the address of the sender; for
// ordinary servers, the same bit requests a recursive lookup.
func Query(id uint16, name string, kind Type, unicast bool) ([]byte, error) {
	m := Message{ID: id, Recurse: !unicast, Questions: []Question{{Name: canonical(name), Type: kind, Unicast: unicast}}}
	return m.Pack()
}

// AnswersTo returns the records of a response that answer a question: those of the name itself, and of the names that it is an alias of. It returns
// an error if the message does not belong to the question. Records of other names are ignored.
func (m *Message) AnswersTo(id uint16, name string, kind Type) ([]Record, error) {
	name = canonical(name)
	switch {
	case !m.Response || m.ID != id:
		return nil, errors.New("the message is no response to this query")
	case len(m.Questions) != 1 || m.Questions[0].Name != name || m.Questions[0].Type != kind:
		return nil, errors.New("the response is to another question")
	case m.Failure == "NameError":
		return nil, nil
	case m.Failure != "":
		return nil, fmt.Errorf("the DNS server reports %s", m.Failure)
	}
	names := aliases(m.Answers, name)
	var out []Record
	for _, record := range m.Answers {
		if record.Type == kind && names[record.Name] {
			record.Name = name
			out = append(out, record)
		}
	}
	return out, nil
}

// maxAliases is the maximum length of a chain of aliases.
const maxAliases = 8

// aliases returns a name and the names that CNAME records lead to from there.
func aliases(records []Record, name string) map[string]bool {
	names := map[string]bool{name: true}
	for range maxAliases {
		for _, record := range records {
			if record.Type == CNAME && names[record.Name] {
				names[record.Target] = true
			}
		}
	}
	return names
}
