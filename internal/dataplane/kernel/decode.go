package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
)

// decode returns the rule that encode turns into these expressions. It guesses a rule and encodes it again. If the result differs from the
// expressions, the rule is foreign, and Foreign describes the expressions.
func decode(exprs []expr.Any) dataplane.FilterRule {
	r := guess(exprs)
	again := encode(r)
	same := len(again) == len(exprs)
	for i := 0; same && i < len(exprs); i++ {
		same = reflect.DeepEqual(again[i], normal(exprs[i]))
	}
	if !same {
		return dataplane.FilterRule{Foreign: describe(exprs)}
	}
	for _, e := range exprs {
		if c, ok := e.(*expr.Counter); ok {
			r.Packets = c.Packets
		}
	}
	return r
}

// normal returns the expression without the values of counters and the IDs of sets.
func normal(e expr.Any) expr.Any {
	switch e := e.(type) {
	case *expr.Counter:
		return &expr.Counter{}
	case *expr.Lookup:
		n := *e
		n.SetID = 0
		return &n
	}
	return e
}

func describe(exprs []expr.Any) string {
	words := make([]string, 0, len(exprs))
	for _, e := range exprs {
		if u, ok := e.(*unknown); ok {
			words = append(words, fmt.Sprintf("%s %x", u.name, u.data))
			continue
		}
		words = append(words, strings.TrimPrefix(fmt.Sprintf("%T%+v", e, reflect.ValueOf(e).Elem()), "*expr."))
	}
	return strings.Join(words, " ")
}

// guess converts expressions that encode wrote. It does few checks, because decode verifies the result.
func guess(exprs []expr.Any) (r dataplane.FilterRule) {
	for len(exprs) > 0 {
		first := exprs[0]
		switch e := first.(type) {
		case *expr.Meta:
			guessMeta(&r.Match, e, at(exprs, 1))
			exprs = exprs[min(2, len(exprs)):]
		case *expr.Ct:
			r.Match.NewOrInvalid = r.Match.NewOrInvalid || e.Key == expr.CtKeySTATE
			r.Match.DestinationTranslated = r.Match.DestinationTranslated || e.Key == expr.CtKeySTATUS
			exprs = exprs[min(3, len(exprs)):]
		case *expr.Payload:
			exprs = exprs[min(guessPayload(&r, field{e.Base, e.Offset, e.Len}, exprs), len(exprs)):]
		case *expr.Immediate:
			switch at(exprs, 1).(type) {
			case *expr.Exthdr:
				if len(e.Data) == 2 {
					r.ClampMSS = binary.BigEndian.Uint16(e.Data)
				}
			case *expr.NAT:
				r.Verdict = dataplane.ToSource
				r.Address, _ = netip.AddrFromSlice(e.Data)
			}
			exprs = exprs[min(2, len(exprs)):]
		case *expr.Counter:
			r.Counter = true
			exprs = exprs[1:]
		case *expr.Verdict:
			r.Verdict, r.Chain = verdictOf(e.Kind), e.Chain
			exprs = exprs[1:]
		case *expr.Masq:
			r.Verdict = dataplane.Masquerade
			exprs = exprs[1:]
		default:
			exprs = exprs[1:]
		}
	}
	return r
}

func at(exprs []expr.Any, i int) expr.Any {
	if i < len(exprs) {
		return exprs[i]
	}
	return nil
}

func verdictOf(kind expr.VerdictKind) dataplane.Verdict {
	switch kind {
	case expr.VerdictAccept:
		return dataplane.Accept
	case expr.VerdictDrop:
		return dataplane.Drop
	case expr.VerdictReturn:
		return dataplane.Return
	case expr.VerdictJump:
		return dataplane.Jump
	}
	return dataplane.NextRule
}

func guessMeta(m *dataplane.Match, e *expr.Meta, next expr.Any) {
	c, ok := next.(*expr.Cmp)
	if !ok {
		return
	}
	name := dataplane.LinkName{Name: string(bytes.TrimRight(c.Data, "\x00")), Not: c.Op == expr.CmpOpNeq}
	switch e.Key {
	case expr.MetaKeyIIFNAME:
		m.InLink = name
	case expr.MetaKeyOIFNAME:
		m.OutLink = name
	case expr.MetaKeyL4PROTO:
		protocols := []dataplane.Transport{dataplane.TCP, dataplane.UDP, dataplane.ICMP}
		if i := slices.IndexFunc(protocols, func(t dataplane.Transport) bool { return bytes.Equal(c.Data, []byte{protocolNumber(t)}) }); i >= 0 {
			m.Transport = protocols[i]
		}
	}
}

// guessPayload reads what the rule does with a field of the packet. It returns the number of expressions that this takes.
func guessPayload(r *dataplane.FilterRule, f field, exprs []expr.Any) int {
	switch f {
	case destinationPort:
		if c, ok := at(exprs, 1).(*expr.Cmp); ok && len(c.Data) == 2 {
			r.Match.DestinationPort = binary.BigEndian.Uint16(c.Data)
		}
		return 2
	case tcpFlags:
		r.Match.SYN = true
		return 3
	case icmpType:
		r.Match.ICMPError = true
		return 2
	}
	name, selector := addressField(&r.Match, f)
	if selector == nil {
		return 1
	}
	if store, ok := at(exprs, 2).(*expr.Payload); ok && store.OperationType == expr.PayloadWrite {
		r.Rewrite.Field = name
		switch e := exprs[1].(type) {
		case *expr.Lookup:
			r.Rewrite.Map = e.SetName
		case *expr.Bitwise:
			r.Rewrite.To = prefixOf(inverse(e.Mask), e.Xor)
		}
		return 3
	}
	switch e := at(exprs, 1).(type) {
	case *expr.NAT:
		r.Verdict = dataplane.KeepSource
	case *expr.Lookup:
		*selector = dataplane.Selector{Set: e.SetName, Not: e.Invert}
	case *expr.Cmp:
		selector.Prefix = prefixOf(networkMask(32), e.Data)
		selector.Not = e.Op == expr.CmpOpNeq
	case *expr.Bitwise:
		if c, ok := at(exprs, 2).(*expr.Cmp); ok {
			selector.Prefix = prefixOf(e.Mask, c.Data)
			selector.Not = c.Op == expr.CmpOpNeq
		}
		return 3
	}
	return 2
}

func addressField(m *dataplane.Match, f field) (dataplane.Field, *dataplane.Selector) {
	switch f {
	case sourceAddress:
		return dataplane.SourceField, &m.Source
	case destinationAddress:
		return dataplane.DestinationField, &m.Destination
	case quotedSource:
		return dataplane.QuotedSourceField, &m.QuotedSource
	case quotedDestination:
		return dataplane.QuotedDestinationField, &m.QuotedDestination
	}
	return dataplane.NoField, nil
}

func inverse(mask []byte) []byte {
	out := make([]byte, len(mask))
	for i, b := range mask {
		out[i] = ^b
	}
	return out
}

// unknown is an expression of a type that encode never writes.
type unknown struct {
	expr.Any
	name string
	data []byte
}

// parseExpressions parses the list of expressions of a rule in the kernel's format.
func parseExpressions(list []byte) ([]expr.Any, error) {
	var out []expr.Any
	for element := range attributes(list) {
		var name string
		var data []byte
		for a := range attributes(element.value) {
			switch a.kind {
			case unix.NFTA_EXPR_NAME:
				name = text(a.value)
			case unix.NFTA_EXPR_DATA:
				data = a.value
			}
		}
		e := known(name, data)
		if e == nil {
			out = append(out, &unknown{name: name, data: data})
			continue
		}
		if err := expr.Unmarshal(unix.NFPROTO_IPV4, data, e); err != nil {
			return nil, fmt.Errorf("reading expression %s: %w", name, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// known returns an empty expression of the named type; nil if encode never writes that type.
func known(name string, data []byte) expr.Any {
	switch name {
	case "meta":
		return &expr.Meta{}
	case "ct":
		return &expr.Ct{}
	case "cmp":
		return &expr.Cmp{}
	case "payload":
		return &expr.Payload{}
	case "bitwise":
		return &expr.Bitwise{}
	case "lookup":
		return &expr.Lookup{}
	case "immediate":
		if isVerdict(data) {
			return &expr.Verdict{}
		}
		return &expr.Immediate{}
	case "counter":
		return &expr.Counter{}
	case "exthdr":
		return &expr.Exthdr{}
	case "nat":
		return &expr.NAT{}
	case "masq":
		return &expr.Masq{}
	}
	return nil
}

func isVerdict(data []byte) bool {
	for a := range attributes(data) {
		if a.kind == unix.NFTA_IMMEDIATE_DREG && len(a.value) == 4 {
			return binary.BigEndian.Uint32(a.value) == unix.NFT_REG_VERDICT
		}
	}
	return false
}
