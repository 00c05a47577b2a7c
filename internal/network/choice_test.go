package network

import (
	"net/netip"
	"testing"
	"time"
)

// TestChoose holds each decision of Choose. The candidates a, b and c have the addresses 10.0.0.1 to 10.0.0.3.
func TestChoose(t *testing.T) {
	now := time.Unix(1000, 0)
	timing := DefaultTiming(time.Second, 3)
	at := func(name byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, name - 'a' + 1}) }
	pod := func(name string, created int64, ready bool) Candidate {
		return Candidate{Pod: name, IP: at(name[0]), Created: created, Ready: ready}
	}
	answer := func(state State, duration, age time.Duration) ProbeResult {
		return ProbeResult{Answer: Answer{State: state, For: duration}, At: now.Add(-age)}
	}
	a, b, c := pod("a", 1, true), pod("b", 2, true), pod("c", 3, true)

	for name, row := range map[string]struct {
		candidates []Candidate
		present    byte
		answers    map[byte]ProbeResult
		want       byte // 0: no address
	}{
		"there is no candidate":                       {present: 'a', answers: map[byte]ProbeResult{'a': answer(Active, time.Minute, 0)}},
		"no candidate answered: the oldest":           {candidates: []Candidate{c, a, b}, want: 'a'},
		"no candidate answered: a ready one is first": {candidates: []Candidate{pod("a", 1, false), c, b}, want: 'b'},
		"no candidate answered, none is ready":        {candidates: []Candidate{pod("b", 2, false), pod("a", 1, false)}, want: 'a'},
		"no candidate answered: of one age, by name":  {candidates: []Candidate{pod("b", 1, true), pod("a", 1, true)}, want: 'a'},
		"no candidate answered: the present one stays": {
			candidates: []Candidate{a, b}, present: 'b', want: 'b',
		},
		"the present one is no candidate anymore": {
			candidates: []Candidate{a, b}, present: 'c', want: 'a',
		},
		"the present one is no candidate anymore: one that answers": {
			candidates: []Candidate{a, b}, present: 'c', answers: map[byte]ProbeResult{'b': answer(Standby, time.Second, 0)}, want: 'b',
		},
		"an address that is no candidate is active": {
			candidates: []Candidate{a, b}, answers: map[byte]ProbeResult{'c': answer(Active, time.Minute, 0)}, want: 'a',
		},
		"one that answers goes before an older one that does not": {
			candidates: []Candidate{a, b}, answers: map[byte]ProbeResult{'b': answer(Dialing, time.Second, 0)}, want: 'b',
		},
		"the present one stays beside one on standby": {
			candidates: []Candidate{a, b}, present: 'b', answers: map[byte]ProbeResult{'a': answer(Standby, time.Minute, 0)}, want: 'b',
		},
		"the present one stays beside one that dials": {
			candidates: []Candidate{a, b}, present: 'b', answers: map[byte]ProbeResult{'a': answer(Dialing, time.Minute, 0)}, want: 'b',
		},
		"an active one replaces the present one, which is on standby": {
			candidates: []Candidate{a, b}, present: 'a',
			answers: map[byte]ProbeResult{'a': answer(Standby, time.Second, 0), 'b': answer(Active, time.Second, 0)}, want: 'b',
		},
		"the active one goes before one that answered later": {
			candidates: []Candidate{a, b}, answers: map[byte]ProbeResult{'a': answer(Active, time.Minute, timing.Silence/2), 'b': answer(Standby, time.Second, 0)}, want: 'a',
		},
		"of two active ones, the last that became active": {
			candidates: []Candidate{a, b}, answers: map[byte]ProbeResult{'a': answer(Active, time.Minute, 0), 'b': answer(Active, time.Second, 0)}, want: 'b',
		},
		"of two active ones, the last that became active, whichever is older": {
			candidates: []Candidate{a, b}, answers: map[byte]ProbeResult{'a': answer(Active, time.Second, 0), 'b': answer(Active, time.Minute, 0)}, want: 'a',
		},
		"of two active ones, the last that became active, though the other is present": {
			candidates: []Candidate{a, b}, present: 'a', answers: map[byte]ProbeResult{'a': answer(Active, time.Minute, 0), 'b': answer(Active, time.Second, 0)}, want: 'b',
		},
		"of two active ones, the last that became active, though the other answered later": {
			candidates: []Candidate{a, b},
			answers:    map[byte]ProbeResult{'a': answer(Active, time.Second, timing.Silence/2), 'b': answer(Active, time.Minute, 0)}, want: 'a',
		},
		"of two active ones, the last that became active, though the other reports a shorter time": {
			candidates: []Candidate{a, b},
			// a is active for 500 ms, b for 450 ms.
			answers: map[byte]ProbeResult{'a': answer(Active, 100*time.Millisecond, 400*time.Millisecond), 'b': answer(Active, 450*time.Millisecond, 0)}, want: 'b',
		},
		"an active one that is silent does not count": {
			candidates: []Candidate{a, b, c}, present: 'a',
			answers: map[byte]ProbeResult{'b': answer(Active, time.Second, timing.Silence), 'c': answer(Standby, time.Second, 0)}, want: 'a',
		},
		"an active one that is almost silent counts": {
			candidates: []Candidate{a, b}, present: 'a', answers: map[byte]ProbeResult{'b': answer(Active, time.Second, timing.Silence-1)}, want: 'b',
		},
		"one that is silent does not go before the oldest": {
			candidates: []Candidate{a, b}, answers: map[byte]ProbeResult{'b': answer(Standby, time.Second, timing.Silence)}, want: 'a',
		},
	} {
		var present, want netip.Addr
		if row.present != 0 {
			present = at(row.present)
		}
		if row.want != 0 {
			want = at(row.want)
		}
		answers := map[netip.Addr]ProbeResult{}
		for name, answer := range row.answers {
			answers[at(name)] = answer
		}
		if got := Choose(row.candidates, present, answers, now, timing); got != want {
			t.Errorf("%s: chose %v, want %v", name, got, want)
		}
	}
}
