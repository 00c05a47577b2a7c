package sharing

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// division divides the resources of this cluster among claims.
type division struct {
	policy Policy
	// claims are the claims to be served, the oldest first.
	claims []*claim
	stock  map[corev1.ResourceName]stock
	// caps are the limits of consumers by cluster ID.
	caps map[string]corev1.ResourceList
}

// party is a participant in a division: a consumer, or one of its claims. Amounts are in units (see unitOf).
type party struct {
	claims []*claim
	// want is the maximum that the party requests. get is its share. used is the part of its usage within want. excess is the usage beyond want,
	// which no party gets as a share.
	used, want, get, excess int64
	// capped means that a ResourceOffer limits want.
	capped bool
}

func newParty(c *claim, name corev1.ResourceName) *party {
	used, want := c.used[name], c.want(name)
	return &party{claims: []*claim{c}, used: min(used, want), want: want, excess: max(0, used-want)}
}

// names returns the resources that this cluster has or a claim names, sorted. It also resets the shares of all claims.
func (d *division) names() []corev1.ResourceName {
	names := sets.KeySet(d.stock)
	for _, c := range d.claims {
		c.share = corev1.ResourceList{}
		for name := range c.asked {
			names.Insert(name)
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// divide divides one resource: among the consumers, then the part of each consumer among its claims.
func (d *division) divide(name corev1.ResourceName) {
	free := max(0, d.stock[name].capacity-d.stock[name].local)
	consumers := d.consumers(name)
	for _, p := range consumers {
		free = max(0, free-p.excess)
	}
	shared := percent(name, free, d.policy.Percentage)
	fill(consumers, free, shared)
	for _, p := range consumers {
		parties := make([]*party, len(p.claims))
		for i, c := range p.claims {
			parties[i] = newParty(c, name)
		}
		fill(parties, p.get, p.get)
		for _, own := range parties {
			d.grant(name, own, p)
		}
	}
	d.hold(name, consumers, max(free, shared))
}

// consumers returns one party for each consumer. The consumer with the oldest claim comes first.
func (d *division) consumers(name corev1.ResourceName) []*party {
	var ordered []*party
	byID := map[string]*party{}
	for _, c := range d.claims {
		p := byID[c.consumer]
		if p == nil {
			p = &party{}
			byID[c.consumer] = p
			ordered = append(ordered, p)
		}
		p.claims = append(p.claims, c)
		own := newParty(c, name)
		p.used, p.excess, p.want = p.used+own.used, p.excess+own.excess, min(p.want+own.want, most)
	}
	for id, p := range byID {
		if limit, ok := d.caps[id][name]; ok && units(name, limit, false) < p.want {
			p.want, p.capped = units(name, limit, false), true
			p.excess += max(0, p.used-p.want)
			p.used = min(p.used, p.want)
		}
	}
	return ordered
}

// want returns the most units of a resource that a claim requests.
func (c *claim) want(name corev1.ResourceName) int64 {
	if quantity, named := c.asked[name]; named {
		return units(name, quantity, !device(name))
	}
	if c.takesAll(name) {
		return most
	}
	return 0
}

// takesAll reports whether a claim requests a resource without an amount: it takes as much as this cluster can share.
func (c *claim) takesAll(name corev1.ResourceName) bool {
	_, named := c.asked[name]
	return !named && !c.exact && (c.all || everyPod(name))
}

// percent returns the given percentage of n units. It rounds down, but for devices to the nearest whole number: 90 % of a single device is one
// device.
func percent(name corev1.ResourceName, n int64, percentage int) int64 {
	half := int64(0)
	if device(name) {
		half = 50
	}
	return (n*int64(percentage) + half) / 100
}

// fill sets what each party gets. First it raises all parties evenly up to their usage (used), as far as free suffices. Then it raises them
// evenly up to what they want, until shared is used up.
func fill(parties []*party, free, shared int64) {
	floors := level(free, parties, func(p *party) (least, most int64) { return 0, p.used })
	total := int64(0)
	for i, p := range parties {
		p.get = floors[i]
		total += floors[i]
	}
	for i, n := range level(max(shared, total), parties, func(p *party) (least, most int64) { return p.get, p.want }) {
		parties[i].get = n
	}
}

// level divides total evenly among the parties, within the bounds of each party. A party gets more than another one in two cases only: the
// other party wants no more, or the first party's lower bound requires it. The first parties get the remainder that can't be divided evenly.
// total should cover the sum of the lower bounds.
func level(total int64, parties []*party, bounds func(*party) (least, most int64)) []int64 {
	amounts := make([]int64, len(parties))
	at := func(height int64) (sum int64) {
		for i, p := range parties {
			least, most := bounds(p)
			amounts[i] = max(least, min(height, most))
			sum += amounts[i]
		}
		return sum
	}
	low, high := int64(0), total // total is high enough, provided that it covers the lower bounds
	for low < high {
		if middle := low + (high-low+1)/2; at(middle) <= total {
			low = middle
		} else {
			high = middle - 1
		}
	}
	rest := total - at(low)
	for i, p := range parties {
		if least, most := bounds(p); rest > 0 && low >= least && low < most {
			amounts[i]++
			rest--
		}
	}
	return amounts
}

// grant records in the claim of own how much of the resource it gets. If that is less than it requests, grant also records the cause.
func (d *division) grant(name corev1.ResourceName, own, consumer *party) {
	c := own.claims[0]
	asked, named := c.asked[name]
	if !named {
		if _, known := d.stock[name]; known && c.takesAll(name) {
			c.share[name] = quantityOf(name, own.get)
		}
		return
	}
	got := quantityOf(name, own.get)
	if got.Cmp(asked) >= 0 {
		c.share[name] = asked
		return
	}
	c.share[name] = got
	switch {
	case d.stock[name].capacity == 0:
		c.cuts = append(c.cuts, cut{name, cutMissing})
	case own.get == own.want:
		c.cuts = append(c.cuts, cut{name, cutWhole})
	case consumer.capped && consumer.get == consumer.want:
		c.cuts = append(c.cuts, cut{name, cutOffer})
	default:
		c.cuts = append(c.cuts, cut{name, cutShared})
	}
}

// hold prevents small changes: a share that differs from the amount granted before by at most the threshold keeps that amount. This does not apply to
// devices. If the amount granted before is larger, two more conditions apply: the sum of all shares stays within bound, and the ResourceOffer of the
// consumer, if there is one, allows the amount.
func (d *division) hold(name corev1.ResourceName, consumers []*party, bound int64) {
	if device(name) {
		return
	}
	var shrunk []*claim
	sum, over := int64(0), map[*claim]bool{}
	for _, p := range consumers {
		total := int64(0)
		var mine []*claim
		for _, c := range p.claims {
			before := d.steady(name, c)
			now := units(name, c.share[name], true)
			if before > now {
				mine = append(mine, c)
			}
			if before >= 0 {
				now = before
			}
			total += now
		}
		if p.capped && total > p.want {
			for _, c := range mine {
				over[c] = true
				total -= d.steady(name, c) - units(name, c.share[name], true)
			}
		}
		shrunk = append(shrunk, mine...)
		sum += total
	}
	for _, c := range d.claims {
		lowered := slices.Contains(shrunk, c)
		if d.steady(name, c) >= 0 && !over[c] && (!lowered || sum <= bound) {
			c.share[name] = c.granted[name]
		}
	}
}

// steady returns how many units a claim was granted before, or -1 if the new share can't keep that amount. The share can keep it on three conditions:
// both differ by at most the threshold, the claim still requests at least that amount, and the new share is less than the full request.
func (d *division) steady(name corev1.ResourceName, c *claim) int64 {
	before, had := c.granted[name]
	now, has := c.share[name]
	if asked, named := c.asked[name]; !had || !has || named && (now.Cmp(asked) == 0 || before.Cmp(asked) > 0) {
		return -1
	}
	was, is := units(name, before, true), units(name, now, true)
	if move := max(was-is, is-was); move*100 > max(was, is)*int64(d.policy.Threshold) {
		return -1
	}
	return was
}

// cut is a request that is not granted in full.
type cut struct {
	name   corev1.ResourceName
	reason cutReason
}

type cutReason int

const (
	cutShared cutReason = iota
	cutOffer
	cutMissing
	cutWhole
)

// explain returns a message for people that says which requests are not granted in full, and why. It changes only with the share and the
// request, so that other changes cause no write of the status.
func (c *claim) explain(policy Policy) string {
	var parts []string
	for reason, why := range [...]string{
		cutShared:  fmt.Sprintf("the provider shares %d%% of what it has free among its consumers", policy.Percentage),
		cutOffer:   fmt.Sprintf("a ResourceOffer limits cluster %s", c.consumer),
		cutMissing: "no node of the provider that accepts pods has any",
		cutWhole:   "only whole units are shared",
	} {
		var amounts []string
		for _, cut := range c.cuts {
			if got, asked := c.share[cut.name], c.asked[cut.name]; cut.reason == cutReason(reason) && got.Cmp(asked) < 0 {
				amounts = append(amounts, fmt.Sprintf("%s of %s %s", got.String(), asked.String(), cut.name))
			}
		}
		if len(amounts) > 0 {
			parts = append(parts, strings.Join(amounts, ", ")+" ("+why+")")
		}
	}
	return strings.Join(parts, "; ")
}

func refusedByLimit(limit int) string {
	return fmt.Sprintf("each consumer gets %d ResourceSlices here, the oldest first, and this one is beyond that: delete others, or have the provider raise "+
		"controllerManager.config.resourceSliceLimit", limit)
}
