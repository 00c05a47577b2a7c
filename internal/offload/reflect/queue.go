package reflect

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// queue holds the objects that wait to be looked at, each once, those of which the provider told something apart from the rest: of a thousand pods
// that are made at once the first ones run long before the last ones have their ShadowPod, and would look as if they did not. The two take turns of
// some objects each: neither waits for more than that of the other, and states are shown many at a time, which costs those who follow them less.
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

// turn is how many objects of a lane come one after the other while there are others in the other one. For each state of a pod that its ReplicaSet hears of,
// Kubernetes counts all its pods and writes what it counted, and so does the Deployment; for thirty at once it does so a few times.
const turn = 32

// lanes is a workqueue.Queue.
type lanes struct {
	mu sync.Mutex
	// told are those that belong into the lane of that name when they are pushed, or already wait.
	told map[types.NamespacedName]struct{}

	// What follows is guarded by the workqueue.

	// lane is where an object waits. What waits in another lane was moved, and is passed over there.
	lane  map[types.NamespacedName]int
	order [laneCount][]types.NamespacedName
	// at is the lane whose turn it is, left how many more that turn has.
	at, left int
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
	for range laneCount + 1 {
		if l.left > 0 {
			if key, ok := l.take(l.at); ok {
				l.left--
				return key
			}
		}
		l.at, l.left = (l.at+1)%laneCount, turn
	}
	return types.NamespacedName{} // nobody pops from an empty queue
}

// take removes the first object that waits in a lane, false if there is none.
func (l *lanes) take(from int) (types.NamespacedName, bool) {
	for len(l.order[from]) > 0 {
		key := l.order[from][0]
		l.order[from] = l.order[from][1:]
		if at, waits := l.lane[key]; waits && at == from {
			delete(l.lane, key)
			return key, true
		}
	}
	return types.NamespacedName{}, false
}
