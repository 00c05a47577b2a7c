package reflect

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// queue holds the objects that wait to be looked at, each once, those of which the provider told something apart from the rest: of a thousand pods
// that are made at once the first ones run long before the last ones have their ShadowPod, and would look as if they did not. The two take turns, so
// that neither waits for more than as many of the other.
type queue struct {
	workqueue.TypedRateLimitingInterface[types.NamespacedName]
	lanes *lanes
}

func newQueue() queue {
	l := &lanes{told: map[types.NamespacedName]struct{}{}, lane: map[types.NamespacedName]int{}}
	return queue{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry, lastRetry),
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{
				DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.NamespacedName]{
					Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[types.NamespacedName]{Queue: l}),
				}),
			}),
		lanes: l,
	}
}

// addTold adds an object of which the provider told something.
func (q queue) addTold(key types.NamespacedName) {
	q.lanes.tell(key)
	q.Add(key)
}

// The lanes, and how many there are.
const (
	laneRest = iota
	laneTold
	laneCount
)

// lanes is a workqueue.Queue.
type lanes struct {
	mu sync.Mutex
	// told are those that belong into the lane of that name when they are pushed, or already wait.
	told map[types.NamespacedName]struct{}

	// What follows is guarded by the workqueue.

	// lane is where an object waits. What waits in another lane was moved, and is passed over there.
	lane  map[types.NamespacedName]int
	order [laneCount][]types.NamespacedName
	// next is whose turn it is.
	next int
}

func (l *lanes) tell(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told[key] = struct{}{}
}

// of returns where an object that is added belongs.
func (l *lanes) of(key types.NamespacedName) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, told := l.told[key]; !told {
		return laneRest
	}
	delete(l.told, key)
	return laneTold
}

// Push is part of workqueue.Queue.
func (l *lanes) Push(key types.NamespacedName) { l.append(key, l.of(key)) }

// Touch is part of workqueue.Queue: key waits already.
func (l *lanes) Touch(key types.NamespacedName) {
	if to := l.of(key); to == laneTold && l.lane[key] != to {
		l.append(key, to)
	}
}

func (l *lanes) append(key types.NamespacedName, to int) {
	l.lane[key] = to
	l.order[to] = append(l.order[to], key)
}

// Len is part of workqueue.Queue.
func (l *lanes) Len() int { return len(l.lane) }

// Pop is part of workqueue.Queue.
func (l *lanes) Pop() types.NamespacedName {
	for range laneCount {
		from := l.next
		l.next = (l.next + 1) % laneCount
		for len(l.order[from]) > 0 {
			key := l.order[from][0]
			l.order[from] = l.order[from][1:]
			if at, waits := l.lane[key]; waits && at == from {
				delete(l.lane, key)
				return key
			}
		}
	}
	return types.NamespacedName{} // nobody pops from an empty queue
}
