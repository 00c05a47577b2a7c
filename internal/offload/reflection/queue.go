package reflection

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// queue holds the objects to reconcile, each once. Objects with updates from the provider have a higher priority. Without these priorities, if a
// thousand pods were created at once, the status of the first pods would not be updated until the last pod had its ShadowPod.
//
// The queue alternates between the two priorities after a fixed number of objects (see turn), so neither waits for more than one turn of the other.
// Status updates are written in batches as a result, which reduces the load on controllers that watch the pods.
type queue struct {
	workqueue.TypedRateLimitingInterface[types.NamespacedName]
	priorities *priorities
}

func newQueue(c clock.PassiveClock) queue {
	l := &priorities{
		remoteTriggered: map[types.NamespacedName]struct{}{}, priority: map[types.NamespacedName]int{},
		clock: c, since: map[types.NamespacedName]time.Time{},
	}
	return queue{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry, lastRetry),
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{
				DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.NamespacedName]{
					Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[types.NamespacedName]{Queue: l}),
				}),
			}),
		priorities: l,
	}
}

// addRemoteTriggered enqueues an object after an update from the provider.
func (q queue) addRemoteTriggered(key types.NamespacedName) {
	q.priorities.markRemoteTriggered(key)
	q.Add(key)
}

// waited returns how long an object has waited to be processed, since it was first enqueued after the last call of settled. It is 0 if the object
// does not wait.
func (q queue) waited(key types.NamespacedName) time.Duration {
	q.priorities.mu.Lock()
	defer q.priorities.mu.Unlock()
	if since, there := q.priorities.since[key]; there {
		return q.priorities.clock.Since(since)
	}
	return 0
}

// settled records that an object was processed, so that waited starts at 0 again.
func (q queue) settled(key types.NamespacedName) {
	q.priorities.mu.Lock()
	defer q.priorities.mu.Unlock()
	delete(q.priorities.since, key)
}

// Priorities of a queue. priorityCount is how many there are.
const (
	priorityNormal = iota
	priorityRemote
	priorityCount
)

// turn is the number of consecutive objects from one priority while the other priority has objects. After each status update of a pod, the controllers of its
// ReplicaSet and of its Deployment count all pods and write a status. After about thirty updates at once, they do so only a few times.
const turn = 32

// priorities implements workqueue.Queue.
type priorities struct {
	mu sync.Mutex
	// remoteTriggered holds the objects that belong in priorityRemote: some wait there already, the others are about to be pushed.
	remoteTriggered map[types.NamespacedName]struct{}
	// since holds the time when each waiting object was first enqueued, see waited.
	clock clock.PassiveClock
	since map[types.NamespacedName]time.Time

	// The fields below are guarded by the workqueue.

	// priority is the priority in which an object waits. If the object was moved, its entry in the other priority is stale and is skipped.
	priority map[types.NamespacedName]int
	order    [priorityCount][]types.NamespacedName
	// at is the current priority, left the number of objects that remain in its turn.
	at, left int
}

func (l *priorities) markRemoteTriggered(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remoteTriggered[key] = struct{}{}
}

// priorityOf returns the priority of an object that is added.
func (l *priorities) priorityOf(key types.NamespacedName) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, waits := l.since[key]; !waits {
		l.since[key] = l.clock.Now()
	}
	if _, remoteTriggered := l.remoteTriggered[key]; !remoteTriggered {
		return priorityNormal
	}
	delete(l.remoteTriggered, key)
	return priorityRemote
}

// Push implements workqueue.Queue.
func (l *priorities) Push(key types.NamespacedName) { l.append(key, l.priorityOf(key)) }

// Touch implements workqueue.Queue. It is called when key is added while it waits already.
func (l *priorities) Touch(key types.NamespacedName) {
	if to := l.priorityOf(key); to == priorityRemote && l.priority[key] != to {
		l.append(key, to)
	}
}

func (l *priorities) append(key types.NamespacedName, to int) {
	l.priority[key] = to
	l.order[to] = append(l.order[to], key)
}

// Len implements workqueue.Queue.
func (l *priorities) Len() int { return len(l.priority) }

// Pop implements workqueue.Queue.
func (l *priorities) Pop() types.NamespacedName {
	for range priorityCount + 1 {
		if l.left > 0 {
			if key, ok := l.take(l.at); ok {
				l.left--
				return key
			}
		}
		l.at, l.left = (l.at+1)%priorityCount, turn
	}
	return types.NamespacedName{} // never reached: the workqueue does not pop from an empty queue
}

// take removes the first waiting object of a priority, false if there is none.
func (l *priorities) take(from int) (types.NamespacedName, bool) {
	for len(l.order[from]) > 0 {
		key := l.order[from][0]
		l.order[from] = l.order[from][1:]
		if at, waits := l.priority[key]; waits && at == from {
			delete(l.priority, key)
			return key, true
		}
	}
	return types.NamespacedName{}, false
}
