package offload

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// books simulates a UsageTracker with its environment: an API server, a cache that receives events late or not at all, and a client that creates pods.
type books struct {
	t       *testing.T
	random  *rand.Rand
	tracker *UsageTracker
	quota   offloadingv1beta1.QuotaSpec
	now     time.Time

	pods    map[types.NamespacedName]entry // the pods that exist
	news    []func()                       // events that the cache has not received yet
	cache   map[types.NamespacedName]entry // the pods in the cache
	behind  []func()                       // events in the cache that the tracker has not received yet
	answers []func()                       // responses of the API server that have not arrived yet
	wanted  map[types.NamespacedName]entry // pods that the client wants and that do not exist
	held    map[types.NamespacedName]bool  // wanted pods without room, which wait for wake
	busy    map[types.NamespacedName]bool  // wanted pods whose creation was requested
	made    int
}

const limit = 10

func newBooks(t *testing.T, seed uint64) *books {
	return &books{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), tracker: NewUsageTracker(), now: time.Unix(1000, 0),
		quota: offloadingv1beta1.QuotaSpec{Resources: cpus(limit)},
		pods:  map[types.NamespacedName]entry{}, cache: map[types.NamespacedName]entry{},
		wanted: map[types.NamespacedName]entry{}, held: map[types.NamespacedName]bool{}, busy: map[types.NamespacedName]bool{},
	}
}

func cpus(n int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI)}
}

// wake retries the requests that were refused for lack of the freed resources.
func (b *books) wake(user string) {
	for key := range b.held {
		if user != "" && b.wanted[key].user == user {
			delete(b.held, key)
		}
	}
}

// tell queues an event about the present state of a pod for the cache.
func (b *books) tell(key types.NamespacedName) {
	pod, there := b.pods[key]
	b.news = append(b.news, func() { b.hear(key, pod, there) })
}

func (b *books) hear(key types.NamespacedName, pod entry, there bool) {
	before, had := b.cache[key]
	switch {
	case there:
		if had && before.uid != pod.uid {
			b.hear(key, entry{}, false)
		}
		b.cache[key] = pod
		b.behind = append(b.behind, func() { b.wake(b.tracker.Observe(key, pod.uid, pod.user, pod.usage)) })
	case had:
		delete(b.cache, key)
		b.behind = append(b.behind, func() { b.wake(b.tracker.Forget(key, before.uid)) })
	}
}

// relist simulates a list after an interrupted watch: the cache misses the events in between.
func (b *books) relist() {
	b.news = nil
	for key := range maps.Clone(b.cache) {
		if _, there := b.pods[key]; !there {
			b.hear(key, entry{}, false)
		}
	}
	for key, pod := range b.pods {
		b.hear(key, pod, true)
	}
}

// make requests the creation of a pod, as the controller does.
func (b *books) make(key types.NamespacedName) {
	want, wanted := b.wanted[key]
	if !wanted || b.busy[key] || b.held[key] {
		return
	}
	if b.tracker.IsPending(key) {
		b.settle(key)
		return
	}
	if _, there := b.cache[key]; there {
		return // the cache still has an earlier pod of that name
	}
	if err := Exceeded(&b.quota, b.tracker.Used(want.user, key), want.usage); err != nil {
		b.held[key] = true
		return
	}
	b.wake(b.tracker.Reserve(key, want.user, want.usage, b.now))
	b.busy[key] = true
	taken := false
	switch b.random.IntN(5) {
	case 0: // the API server refuses the request
		b.answers = append(b.answers, func() { b.wake(b.tracker.Release(key)) })
	case 1, 2, 3:
		if _, taken = b.pods[key]; taken {
			b.answers = append(b.answers, func() { b.wake(b.tracker.Release(key)) }) // an earlier pod exists that the cache does not have yet: the client retries
			break
		}
		uid := b.create(key, want)
		if b.random.IntN(3) == 0 { // the response is lost
			b.answers = append(b.answers, func() {})
			break
		}
		b.answers = append(b.answers, func() { b.wake(b.tracker.Confirm(key, uid)) })
	default: // the request is lost, which the client can't know
		b.answers = append(b.answers, func() {})
	}
	last := len(b.answers) - 1
	answer := b.answers[last]
	b.answers[last] = func() { answer(); delete(b.busy, key) }
}

func (b *books) create(key types.NamespacedName, want entry) types.UID {
	b.made++
	want.uid = types.UID(fmt.Sprint("uid-", b.made))
	b.pods[key] = want
	delete(b.wanted, key)
	b.tell(key)
	return want.uid
}

// settle reads whether a requested pod exists.
func (b *books) settle(key types.NamespacedName) {
	if b.busy[key] {
		return
	}
	if pod, there := b.pods[key]; there {
		b.wake(b.tracker.Confirm(key, pod.uid))
		return
	}
	b.wake(b.tracker.Release(key))
}

func next(queue *[]func()) {
	if len(*queue) > 0 {
		first := (*queue)[0]
		*queue = (*queue)[1:]
		first()
	}
}

func (b *books) step() {
	key := types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("pod-", b.random.IntN(6))}
	switch b.random.IntN(10) {
	case 0, 1: // the client wants another pod
		_, there := b.pods[key]
		_, wanted := b.wanted[key]
		if !there && !wanted && !b.busy[key] {
			b.wanted[key] = entry{user: fmt.Sprint("user-", b.random.IntN(2)), usage: cpus(1 + b.random.Int64N(limit))}
		}
	case 2, 3:
		b.make(key)
	case 4:
		if len(b.answers) > 0 {
			i := b.random.IntN(len(b.answers))
			answer := b.answers[i]
			b.answers = slices.Delete(b.answers, i, i+1)
			answer()
		}
	case 5:
		next(&b.news)
	case 9:
		next(&b.behind)
	case 6: // a pod is deleted or finishes
		pod, there := b.pods[key]
		switch {
		case !there:
			return
		case b.random.IntN(3) == 0:
			pod.usage = nil
			b.pods[key] = pod
		default:
			delete(b.pods, key)
		}
		b.tell(key)
	case 7:
		if b.random.IntN(5) == 0 {
			b.relist()
		}
	case 8:
		for _, key := range b.tracker.Pending(b.now.Add(time.Second)) {
			b.settle(key)
		}
	}
	b.check()
}

// check compares the limit with the actual usage.
func (b *books) check() {
	b.t.Helper()
	for user, sum := range b.sums() {
		if q := sum[corev1.ResourceCPU]; q.CmpInt64(limit) > 0 {
			b.t.Fatalf("%s has %s of %d", user, q.String(), limit)
		}
	}
}

func (b *books) sums() map[string]corev1.ResourceList {
	sums := map[string]corev1.ResourceList{}
	for _, pod := range b.pods {
		for name, quantity := range pod.usage {
			if sums[pod.user] == nil {
				sums[pod.user] = corev1.ResourceList{}
			}
			total := sums[pod.user][name]
			total.Add(quantity)
			sums[pod.user][name] = total
		}
	}
	return sums
}

// TestUsageTrackerLaws: events and responses arrive in any order, late, twice or never. No consumer ever has more than granted, the account ends with
// the actual usage, and requests still refused then lack room.
func TestUsageTrackerLaws(t *testing.T) {
	for seed := range uint64(400) {
		b := newBooks(t, seed)
		for range 300 {
			b.step()
		}
		for len(b.answers)+len(b.news)+len(b.behind)+len(b.tracker.ahead) > 0 {
			next(&b.answers)
			next(&b.news)
			next(&b.behind)
			for _, key := range b.tracker.Pending(b.now.Add(time.Second)) {
				b.settle(key)
			}
			b.check()
		}
		if got, want := b.tracker.used, b.sums(); !equality.Semantic.DeepEqual(got, want) || len(b.tracker.ahead) > 0 {
			t.Fatalf("seed %d: the account says %v, there is %v, %d are open", seed, got, want, len(b.tracker.ahead))
		}
		for key := range b.held {
			want := b.wanted[key]
			if Exceeded(&b.quota, b.tracker.Used(want.user, key), want.usage) == nil {
				t.Fatalf("seed %d: %s is held though there is room", seed, key)
			}
		}
	}
}

func TestUsageTrackerForgets(t *testing.T) {
	l := NewUsageTracker()
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	l.Reserve(key, "rome", cpus(2), time.Unix(0, 0))
	if used := l.Used("rome", key); len(used) > 0 {
		t.Errorf("its own name counts: %v", used)
	}
	l.Confirm(key, "a")
	l.Observe(key, "a", "rome", cpus(2))
	if freed := l.Observe(key, "a", "rome", nil); freed != "rome" {
		t.Errorf("it finished, and gave room to %q", freed)
	}
	l.Observe(key, "a", "rome", cpus(2))
	if freed := l.Forget(key, "b"); freed != "" {
		t.Errorf("another one of that name went, and gave room to %q", freed)
	}
	l.Forget(key, "a")
	if len(l.seen)+len(l.ahead)+len(l.used) > 0 {
		t.Errorf("what is left: %+v", l)
	}
}

// TestUsageTrackerFreesNothingBeforeTheNode: a Pod is resized down and, before its node has applied that, up again. Its resources do not become free in
// between.
func TestUsageTrackerFreesNothingBeforeTheNode(t *testing.T) {
	l, key := NewUsageTracker(), types.NamespacedName{Namespace: "shop", Name: "web"}
	l.Observe(key, "a", "rome", cpus(8))
	if freed := l.Reserve(key, "rome", cpus(2), time.Unix(0, 0)); freed != "" {
		t.Errorf("a resize gave room to %q", freed)
	}
	used := func(want int64) {
		t.Helper()
		if got := l.used["rome"]; !equality.Semantic.DeepEqual(got, cpus(want)) {
			t.Errorf("%v are used, want %d", got, want)
		}
	}
	used(8)
	if rest := l.Used("rome", key); len(rest) > 0 {
		t.Errorf("its own name counts: %v", rest)
	}
	if freed := l.Observe(key, "a", "rome", cpus(1)); freed != "rome" {
		t.Errorf("its node made it smaller, and gave room to %q", freed)
	}
	used(2)
}

// TestRowsFollowTheObjects: with random creations, deletions, repeated events and restarts, a quota that is reconciled only when the ObjectTracker reports a change, or
// for no reason, has the row whenever half of the limit exists and lacks it below a quarter. In between the row does not change.
func TestRowsFollowTheObjects(t *testing.T) {
	const most = 2000
	hard := corev1.ResourceList{CountSecrets: *resource.NewQuantity(most, resource.DecimalSI)}
	known := func(corev1.ResourceName) bool { return true }
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 7))
		tracker, quota, exists := NewObjectTracker(hard), corev1.ResourceList{}, map[string]bool{}
		changes, flips, direction := 0, 0, 0.5
		for step := range 20000 {
			if step%1000 == 0 {
				direction = random.Float64()
			}
			name := fmt.Sprint(random.IntN(most))
			key := types.NamespacedName{Namespace: "shop-rome", Name: name}
			var changed bool
			if random.Float64() < direction {
				exists[name] = true
				changed = tracker.Observe(CountSecrets, key)
			} else {
				delete(exists, name)
				changed = tracker.Forget(CountSecrets, key)
			}
			if random.IntN(5000) == 0 { // a restart
				tracker = NewObjectTracker(hard)
				for name := range exists {
					tracker.Observe(CountSecrets, types.NamespacedName{Namespace: "shop-rome", Name: name})
				}
				changed = true
			}
			if changed {
				changes++
			}
			_, before := quota[CountSecrets]
			if changed || random.IntN(100) == 0 {
				quota = tracker.Hard("shop-rome", quota, known)
			}
			_, now := quota[CountSecrets]
			if before != now {
				flips++
			}
			if n := len(exists); 2*n >= most && !now || 4*n < most && now || 2*n < most && 4*n >= most && before != now {
				t.Fatalf("seed %d, step %d: %d of %d exist, the row was there: %v, and is: %v", seed, step, n, most, before, now)
			}
		}
		if changes > flips+20 {
			t.Errorf("seed %d: %d changes were reported, and the row changed %d times", seed, changes, flips)
		}
		for name := range exists {
			tracker.Forget(CountSecrets, types.NamespacedName{Namespace: "shop-rome", Name: name})
		}
		if len(tracker.sets) > 0 {
			t.Errorf("seed %d: the tracker remembers %v without objects", seed, tracker.sets)
		}
	}
}

// BenchmarkObjectTracker measures one creation, one change and one deletion of an object among 9,000.
func BenchmarkObjectTracker(b *testing.B) {
	tracker := NewObjectTracker(corev1.ResourceList{CountSecrets: *resource.NewQuantity(20000, resource.DecimalSI)})
	for i := range 9000 {
		tracker.Observe(CountSecrets, types.NamespacedName{Namespace: "shop-rome", Name: fmt.Sprint(i)})
	}
	key := types.NamespacedName{Namespace: "shop-rome", Name: "web"}
	for b.Loop() {
		tracker.Observe(CountSecrets, key)
		tracker.Observe(CountSecrets, key)
		tracker.Forget(CountSecrets, key)
	}
}
