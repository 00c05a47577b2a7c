package controllers

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// mostMessages is the number of messages about claims that an object may receive at once. Further messages follow at a rate of one a minute. The limit is
	// needed because a provider chooses the text of messages, and so their number. mostMessages is also the number of messages about a claim that are
	// remembered for each object.
	mostMessages = 16
	// mostInNamespace is the number of messages that the pods of a namespace may receive at once. Further messages follow at a rate of one a second. The claims
	// of a namespace have a separate limit of the same size, so that a namespace with many pods does not delay their messages.
	mostInNamespace = 1000
)

// messageLimits limits how many messages about refused claims are emitted as Events. The limit belongs to the receiving object, because a user can recreate a
// claim in a loop, and each message is repeated on all pods that use the claim. messageLimits is safe for concurrent use.
type messageLimits struct {
	mu sync.Mutex
	// limiters holds only limiters that were used in the last minutes. sweep deletes a limiter that permits its full burst again, because a new one would
	// permit the same.
	limiters map[receiver]*rate.Limiter
	swept    time.Time
}

// receiver is an object that receives messages. Without a name, it is all objects of a kind in a namespace.
type receiver struct {
	kind, namespace, name string
	// uid is the UID of a pod. It is empty for a claim, so that a recreated claim has the limit of the former one.
	uid types.UID
}

func newMessageLimits() *messageLimits { return &messageLimits{limiters: map[receiver]*rate.Limiter{}} }

// allow reports whether a claim or a pod may receive another message. If so, it counts the message.
func (l *messageLimits) allow(obj client.Object, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	to := receiver{kind: "PersistentVolumeClaim", namespace: obj.GetNamespace()}
	if _, isPod := obj.(*corev1.Pod); isPod {
		to.kind, to.uid = "Pod", obj.GetUID()
	}
	all := l.of(receiver{kind: to.kind, namespace: to.namespace}, time.Second, mostInNamespace)
	if all.TokensAt(now) < 1 { // the namespace has reached its limit, so the object needs no limiter
		return false
	}
	to.name = obj.GetName()
	return l.of(to, time.Minute, mostMessages).AllowN(now, 1) && all.AllowN(now, 1)
}

// of returns the limiter of a receiver. It creates one if there is none.
func (l *messageLimits) of(to receiver, interval time.Duration, burst int) *rate.Limiter {
	known := l.limiters[to]
	if known == nil {
		known = rate.NewLimiter(rate.Every(interval), burst)
		l.limiters[to] = known
	}
	return known
}

// sweep deletes the limiters that permit their full burst again. It does so once a minute.
func (l *messageLimits) sweep(now time.Time) {
	if now.Sub(l.swept) < time.Minute {
		return
	}
	l.swept = now
	maps.DeleteFunc(l.limiters, func(_ receiver, known *rate.Limiter) bool { return known.TokensAt(now) >= float64(known.Burst()) })
}
