package offload

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Ledger is the account of what the pods of each user take, kept from the news of a cache and from what its holder writes itself, of which the
// cache has not heard yet. It holds nothing that can't be read again: a new one that is told what exists knows as much.
//
// There is one pod of a name at a time: what is being made there, or made greater, and what was last seen there count as one, with the greater
// amount of each resource.
//
// The zero value is not usable; a Ledger is not safe for use by several goroutines.
type Ledger struct {
	seen  map[types.NamespacedName]entry
	ahead map[types.NamespacedName]writing
	used  map[string]corev1.ResourceList
}

// entry is one pod.
type entry struct {
	uid   types.UID
	user  string
	usage corev1.ResourceList
}

// writing is a pod that was, or is being, made or made greater; its UID is empty until the API server answers.
type writing struct {
	entry
	since time.Time
}

// NewLedger returns an empty Ledger.
func NewLedger() *Ledger {
	return &Ledger{seen: map[types.NamespacedName]entry{}, ahead: map[types.NamespacedName]writing{}, used: map[string]corev1.ResourceList{}}
}

// Used returns what the pods of a user take, but for that of one name: it is about to be filled anew. The list must not be changed.
func (l *Ledger) Used(user string, except types.NamespacedName) corev1.ResourceList {
	own := l.at(except)
	if own.user != user || len(own.usage) == 0 {
		return l.used[user]
	}
	rest := l.used[user].DeepCopy()
	subtract(rest, own.usage)
	return rest
}

// User returns on whose account the cache's pod of that UID is, empty if it is not known.
func (l *Ledger) User(key types.NamespacedName, uid types.UID) string {
	if seen := l.seen[key]; seen.uid == uid {
		return seen.user
	}
	return ""
}

// See says that the cache has a pod, and what it takes; nothing once it has finished. It returns the user who has more room by that, if any.
func (l *Ledger) See(key types.NamespacedName, uid types.UID, user string, usage corev1.ResourceList) string {
	return l.change(key, func() {
		l.seen[key] = entry{uid: uid, user: user, usage: usage}
		if l.ahead[key].uid == uid {
			delete(l.ahead, key)
		}
	})
}

// Miss says that the cache no longer has a pod.
func (l *Ledger) Miss(key types.NamespacedName, uid types.UID) string {
	return l.change(key, func() {
		if l.seen[key].uid == uid {
			delete(l.seen, key)
		}
	})
}

// Begin says that a pod is about to be made, or to take more. Of what was last seen under that name nothing is free before the cache has said so:
// a pod that was made smaller may still have it. What becomes of it is to be told by Made or Failed before the next one of that name begins.
func (l *Ledger) Begin(key types.NamespacedName, user string, usage corev1.ResourceList, now time.Time) string {
	return l.change(key, func() { l.ahead[key] = writing{entry: entry{user: user, usage: usage}, since: now} })
}

// Made says that the pod of Begin exists.
func (l *Ledger) Made(key types.NamespacedName, uid types.UID) string {
	return l.change(key, func() {
		w, open := l.ahead[key]
		if l.seen[key].uid == uid { // the cache was faster
			delete(l.ahead, key)
		} else if open {
			w.uid = uid
			l.ahead[key] = w
		}
	})
}

// Failed says that the pod of Begin was not made, or is not there any more.
func (l *Ledger) Failed(key types.NamespacedName) string {
	return l.change(key, func() { delete(l.ahead, key) })
}

// Writing tells whether a pod is being made, or was and the cache has not heard of it yet.
func (l *Ledger) Writing(key types.NamespacedName) bool {
	_, open := l.ahead[key]
	return open
}

// Open returns the names whose writing began before a time and still goes on: nobody answered, or what was made went before the cache
// saw it, or before the answer came. Somebody has to look, and say Made or Failed.
func (l *Ledger) Open(before time.Time) []types.NamespacedName {
	var keys []types.NamespacedName
	for key, w := range l.ahead {
		if w.since.Before(before) {
			keys = append(keys, key)
		}
	}
	return keys
}

// at returns what counts under a name.
func (l *Ledger) at(key types.NamespacedName) entry {
	w, open := l.ahead[key]
	seen := l.seen[key]
	switch {
	case !open:
		return seen
	case w.user == seen.user:
		w.usage = greater(w.usage, seen.usage)
	}
	return w.entry
}

// change does something to a name, moves the sums along and returns the user who has more room by that.
func (l *Ledger) change(key types.NamespacedName, do func()) (freed string) {
	before := l.at(key)
	do()
	after := l.at(key)
	if len(after.usage) > 0 {
		if l.used[after.user] == nil {
			l.used[after.user] = corev1.ResourceList{}
		}
		add(l.used[after.user], after.usage)
	}
	if sum := l.used[before.user]; len(before.usage) > 0 {
		subtract(sum, before.usage)
		if len(sum) == 0 {
			delete(l.used, before.user)
		}
	}
	for name, quantity := range before.usage {
		if left := after.usage[name]; before.user != after.user || left.Cmp(quantity) < 0 {
			return before.user
		}
	}
	return ""
}

func add(sum, some corev1.ResourceList) {
	for name, quantity := range some {
		total := sum[name]
		total.Add(quantity)
		sum[name] = total
	}
}

// subtract takes some from a sum, and forgets what nothing is left of.
func subtract(sum, some corev1.ResourceList) {
	for name, quantity := range some {
		total := sum[name]
		total.Sub(quantity)
		if total.IsZero() {
			delete(sum, name)
			continue
		}
		sum[name] = total
	}
}
