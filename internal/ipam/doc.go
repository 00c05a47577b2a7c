// Package ipam decides which address ranges a cluster uses, where those of its peers appear here, and which address makes a host, a
// service or a pod known to peers. It is pure: every plan is made from all the objects there are, so nothing is remembered between two
// plans that is not in an object, and what an object was given before is never changed.
//
// Only IPv4 is planned; IPv6 gets an error that says so.
package ipam

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons why something is not as it should be.
const (
	// ReasonInvalid tells that the object itself is wrong; somebody has to change it.
	ReasonInvalid = "Invalid"
	// ReasonConflict tells that a range or an address collides with another one.
	ReasonConflict = "Conflict"
	// ReasonExhausted tells that there is nothing free to give.
	ReasonExhausted = "Exhausted"
	// ReasonWaiting tells that the Network of an IP has no range yet.
	ReasonWaiting = "WaitingForNetwork"
	// ReasonDuplicate, ReasonPodAddress and ReasonNotExternal tell that peers reach nothing by the address of an IP: another one exposes the
	// same address, it is that of a pod here, or it is not from the range where peers look.
	ReasonDuplicate   = "Duplicate"
	ReasonPodAddress  = "PodAddress"
	ReasonNotExternal = "NotExternal"
)

// Problem is what keeps an object from being served, or what is wrong with what it has. Its zero value is none.
type Problem struct {
	// Reason is one of those above.
	Reason string
	// Message names the object, the field, the ranges in question and the cure.
	Message string
}

func problem(reason, format string, args ...any) Problem {
	return Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// older orders objects: those that were given something before the others, then by age, then by name. It is the order in which they are
// served, so that the later one of two that collide is the one that is told.
func older(a, b *metav1.ObjectMeta, aGiven, bGiven bool) int {
	rank := func(given bool) int {
		if given {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(rank(aGiven), rank(bGiven)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	)
}

func keyOf(meta *metav1.ObjectMeta) types.NamespacedName {
	return types.NamespacedName{Namespace: meta.Namespace, Name: meta.Name}
}

// listed is a list of things for a message: the first few, and how many more there are.
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
