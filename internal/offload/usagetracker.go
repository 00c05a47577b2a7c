package offload

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
)

// UsageTracker accounts for the resources that the pods of each user use. Its sources are the events of a cache, and the writes of its caller that
// the cache has not observed yet. It keeps no durable state: a new UsageTracker that gets the existing pods is equivalent.
//
// Each name counts for one pod. A pending write (creation or increase) and the pod last observed under the same name are combined: the greater amount
// of each resource counts.
//
// The zero value is not usable. A UsageTracker is not safe for concurrent use.
type UsageTracker struct {
	seen  map[types.NamespacedName]entry
	ahead map[types.NamespacedName]writing
	used  map[string]corev1.ResourceList
}

// entry is the usage of one pod.
type entry struct {
	uid   types.UID
	user  string
	usage corev1.ResourceList
}

// writing is a pending write: the creation of a pod, or an increase of its resources, that the cache has not observed yet. The UID is empty until the
// API server responds.
type writing struct {
	entry
	since time.Time
}

// NewUsageTracker returns an empty UsageTracker.
func NewUsageTracker() *UsageTracker {
	return &UsageTracker{seen: map[types.NamespacedName]entry{}, ahead: map[types.NamespacedName]writing{}, used: map[string]corev1.ResourceList{}}
}

// Used returns the resources that the pods of a user use, without the pod named except, whose usage is about to be replaced. The list must not be
// changed.
func (l *UsageTracker) Used(user string, except types.NamespacedName) corev1.ResourceList {
	own := l.at(except)
	if own.user != user || len(own.usage) == 0 {
		return l.used[user]
	}
	rest := l.used[user].DeepCopy()
	subtract(rest, own.usage)
	return rest
}

// User returns the user that the observed pod of that UID counts for, empty if unknown.
func (l *UsageTracker) User(key types.NamespacedName, uid types.UID) string {
	if seen := l.seen[key]; seen.uid == uid {
		return seen.user
	}
	return ""
}

// Observe records that the cache has a pod, and the pod's usage, which is empty once it has finished. It returns the user whose usage decreased, if
// any.
func (l *UsageTracker) Observe(key types.NamespacedName, uid types.UID, user string, usage corev1.ResourceList) string {
	return l.change(key, func() {
		l.seen[key] = entry{uid: uid, user: user, usage: usage}
		if l.ahead[key].uid == uid {
			delete(l.ahead, key)
		}
	})
}

// Forget records that the cache no longer has a pod. It returns the user whose usage decreased, if any.
func (l *UsageTracker) Forget(key types.NamespacedName, uid types.UID) string {
	return l.change(key, func() {
		if l.seen[key].uid == uid {
			delete(l.seen, key)
		}
	})
}

// Reserve records that a pod is about to be created, or to get more resources. If the pod that was last observed under that name is of the same user, the
// greater usage of the two counts, because a pod whose resources were reduced may still hold them. The caller must call Confirm or Release before the next
// Reserve of that name. Reserve returns the user for whom less is counted than before, empty if there is none.
func (l *UsageTracker) Reserve(key types.NamespacedName, user string, usage corev1.ResourceList, now time.Time) string {
	return l.change(key, func() { l.ahead[key] = writing{entry: entry{user: user, usage: usage}, since: now} })
}

// Confirm records that the pod of Reserve exists. It returns the same user as Reserve.
func (l *UsageTracker) Confirm(key types.NamespacedName, uid types.UID) string {
	return l.change(key, func() {
		w, open := l.ahead[key]
		if l.seen[key].uid == uid { // the cache observed the pod before Confirm was called
			delete(l.ahead, key)
		} else if open {
			w.uid = uid
			l.ahead[key] = w
		}
	})
}

// Release records that the pod of Reserve was not created, or no longer exists. It returns the user for whom less is counted than before, if any.
func (l *UsageTracker) Release(key types.NamespacedName) string {
	return l.change(key, func() { delete(l.ahead, key) })
}

// IsPending reports whether a write is pending: a pod is being created or increased, or the cache has not observed the result yet.
func (l *UsageTracker) IsPending(key types.NamespacedName) bool {
	_, open := l.ahead[key]
	return open
}

// Pending returns the names whose pending write began before a time. Either the API server has not responded, or the pod was deleted before the cache
// observed it or before the response arrived. The caller has to read these pods, and to report each with Confirm or Release.
func (l *UsageTracker) Pending(before time.Time) []types.NamespacedName {
	var keys []types.NamespacedName
	for key, w := range l.ahead {
		if w.since.Before(before) {
			keys = append(keys, key)
		}
	}
	return keys
}

// at returns the usage that counts under a name. If a pending write is for another user than the observed pod, only the pending write counts.
func (l *UsageTracker) at(key types.NamespacedName) entry {
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

// change applies do to the entry of a name, updates the sums and returns the user whose usage decreased, if any.
func (l *UsageTracker) change(key types.NamespacedName, do func()) (freed string) {
	before := l.at(key)
	do()
	after := l.at(key)
	if len(after.usage) > 0 {
		if l.used[after.user] == nil {
			l.used[after.user] = corev1.ResourceList{}
		}
		api.AddResources(l.used[after.user], after.usage)
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

// subtract subtracts some from sum, and removes the resources that become zero.
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

// ObjectTracker counts the objects of the rows that Countable returns, in each namespace, so that the API server need not count them while they are few. Its
// sources are the events of caches. It keeps no durable state: a new ObjectTracker that gets the existing objects and ResourceQuotas is equivalent.
//
// The zero value is not usable. An ObjectTracker is not safe for concurrent use.
type ObjectTracker struct {
	hard   corev1.ResourceList
	limits map[corev1.ResourceName]int64
	sets   map[objectSetKey]*objectSet
}

type objectSetKey struct {
	row       corev1.ResourceName
	namespace string
}

// objectSet are the names of the objects of a row in a namespace. counted is the last decision for this row. It is false if there are no objects.
type objectSet struct {
	names   map[string]struct{}
	counted bool
}

// NewObjectTracker returns an empty ObjectTracker for ResourceQuotas with all rows of hard.
func NewObjectTracker(hard corev1.ResourceList) *ObjectTracker {
	t := &ObjectTracker{hard: hard, limits: map[corev1.ResourceName]int64{}, sets: map[objectSetKey]*objectSet{}}
	for _, row := range Countable(hard) {
		limit := hard[row]
		t.limits[row] = limit.Value()
	}
	return t
}

// Observe records that the cache has an object. It reports whether the ResourceQuota of its namespace needs another set of rows now.
func (t *ObjectTracker) Observe(row corev1.ResourceName, key types.NamespacedName) bool {
	at := objectSetKey{row: row, namespace: key.Namespace}
	set := t.sets[at]
	if set == nil {
		set = &objectSet{names: map[string]struct{}{}}
		t.sets[at] = set
	}
	set.names[key.Name] = struct{}{}
	return t.decide(at, set.counted)
}

// Forget records that the cache no longer has an object. It reports whether the ResourceQuota of its namespace needs another set of rows now.
func (t *ObjectTracker) Forget(row corev1.ResourceName, key types.NamespacedName) bool {
	at := objectSetKey{row: row, namespace: key.Namespace}
	set := t.sets[at]
	if set == nil {
		return false
	}
	delete(set.names, key.Name)
	changed := t.decide(at, set.counted)
	if len(set.names) == 0 {
		delete(t.sets, at)
	}
	return changed
}

// Hard returns the spec.hard of the ResourceQuota of a namespace whose present spec.hard is given. A row whose objects are not all known stays.
func (t *ObjectTracker) Hard(namespace string, present corev1.ResourceList, known func(row corev1.ResourceName) bool) corev1.ResourceList {
	hard := t.hard.DeepCopy()
	for row := range t.limits {
		if !known(row) {
			continue
		}
		at := objectSetKey{row: row, namespace: namespace}
		_, counted := present[row]
		t.decide(at, counted)
		if set := t.sets[at]; set == nil || !set.counted {
			delete(hard, row)
		}
	}
	return hard
}

// decide decides whether the API server counts the objects of a row, given whether it has counted them, and records the decision. It reports whether the
// recorded decision has changed.
func (t *ObjectTracker) decide(at objectSetKey, counted bool) bool {
	set := t.sets[at]
	if set == nil {
		return false
	}
	before := set.counted
	set.counted = CountedByServer(t.limits[at.row], int64(len(set.names)), counted)
	return set.counted != before
}
