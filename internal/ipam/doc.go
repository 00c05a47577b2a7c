// Package ipam plans the address ranges of a cluster: its own ranges, the ranges under which it sees its peers, and the addresses
// at which peers reach a host, service or pod. It computes every plan from all objects, and keeps no other state between plans. A
// value that an object already has never changes.
//
// Only IPv4 is planned; for IPv6, the plan contains an error that says so.
package ipam

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
)

// Problem is the reason why an object gets no range or address, or a problem with its current one. The zero value means no problem.
type Problem struct {
	// Reason is one of package reasons.
	Reason string
	// Message names the object, the field, the ranges in question and the remedy.
	Message string
}

func problem(reason, format string, args ...any) Problem {
	return Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// older orders objects for planning: objects that already have a value come first, then older objects (api.CompareAge). So if two objects conflict,
// the later one in this order gets the problem.
func older(a, b *metav1.ObjectMeta, aGiven, bGiven bool) int {
	rank := func(given bool) int {
		if given {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(rank(aGiven), rank(bGiven)),
		api.CompareAge(a, b),
	)
}

func keyOf(meta *metav1.ObjectMeta) types.NamespacedName {
	return types.NamespacedName{Namespace: meta.Namespace, Name: meta.Name}
}

// listed formats a list for a message: the first few items, and the number of the others.
func listed[T fmt.Stringer](items []T) string {
	const most = 5
	texts := make([]string, 0, most)
	for _, item := range items[:min(most, len(items))] {
		texts = append(texts, item.String())
	}
	slices.Sort(texts)
	out := strings.Join(texts, ", ")
	if more := len(items) - most; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
