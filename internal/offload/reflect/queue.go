package reflect

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// queue holds the objects to reconcile, each once. Objects with updates from the provider have a separate lane. Otherwise, of a thousand pods created
// at once, the first would run long before the last have their ShadowPods, but their status would not show it.
//
// The two lanes alternate after a fixed number of objects (see turn), so neither waits for more than one turn of the other. Status updates are
// written in batches as a result, which reduces the load on controllers that watch the pods.
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

// addTold enqueues an object after an update from the provider.
func (q queue) addTold(key types.NamespacedName) {
	q.lanes.tell(key)
	q.Add(key)
}

// Lanes of a queue, and their number.
const (
	laneRest = iota
	laneTold
	laneCount
)

// turn is the number of consecutive objects from one lane while the other lane has objects. A ReplicaSet that observes a pod's status counts all its
// pods and writes its own status, and then its Deployment does the same. For about thirty pods at once they do so only a few times.
const turn = 32

// lanes implements workqueue.Queue.
type lanes struct {
	mu sync.Mutex
	// told holds the objects that belong in laneTold. They are about to be pushed or wait already.
	told map[types.NamespacedName]struct{}

	// The fields below are guarded by the workqueue.

	// lane is the lane in which an object waits. If the object was moved, its entry in the other lane is stale and is skipped.
	lane  map[types.NamespacedName]int
	order [laneCount][]types.NamespacedName
	// at is the current lane, left the number of objects that remain in its turn.
	at, left int
}

func (l *lanes) tell(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told[key] = struct{}{}
}

// of returns the lane of an object that is added.
func (l *lanes) of(key types.NamespacedName) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, told := l.told[key]; !told {
		return laneRest
	}
	delete(l.told, key)
	return laneTold
}

// Push implements workqueue.Queue.
func (l *lanes) Push(key types.NamespacedName) { l.append(key, l.of(key)) }

// Touch implements workqueue.Queue. It is called when key is added while it waits already.
func (l *lanes) Touch(key types.NamespacedName) {
	if to := l.of(key); to == laneTold && l.lane[key] != to {
		l.append(key, to)
	}
}

func (l *lanes) append(key types.NamespacedName, to int) {
	l.lane[key] = to
	l.order[to] = append(l.order[to], key)
}

// Len implements workqueue.Queue.
func (l *lanes) Len() int { return len(l.lane) }

// Pop implements workqueue.Queue.
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
	return types.NamespacedName{} // never reached: the workqueue does not pop from an empty queue
}

// take removes the first waiting object of a lane, false if there is none.
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
