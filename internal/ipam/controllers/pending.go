package controllers

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// entry is the value (a range or an address) given to an object, and the UID of that object.
type entry struct {
	uid   types.UID
	value string
}

// entries maps names of objects to their allocated values. It includes objects without a value.
type entries map[types.NamespacedName]entry

// pendingAllocations decides whether the cache is fresh enough for a plan: with a cache that lacks an allocated value, the same value could be
// allocated twice. It holds only values that the cache does not show yet: the writes of this process, and the result of the last live read.
// A new process reads the API server once.
type pendingAllocations struct {
	mu sync.Mutex
	// trusted is true if the outcome of every write since the last live read is known.
	trusted bool
	// unseen holds those writes, and asked holds the result of the live read. Values that the cache has shown since are removed from both.
	unseen, asked entries
	// waits is the number of successive passes that found the cache too old.
	waits int
}

// maxWaits is the number of passes after which pendingAllocations reads the API server again, because the objects with the missing values may have
// been deleted meanwhile. With the growing pauses between passes, that is some seconds.
const maxWaits = 10

// current reports whether the cached objects show all allocated values. If not, pause is the time to wait before the next pass. live
// reads the objects from the API server.
func (b *pendingAllocations) current(ctx context.Context, cached entries, live func(context.Context) (entries, error)) (current bool, pause time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.trusted {
		there, err := live(ctx)
		if err != nil {
			return false, 0, err
		}
		maps.DeleteFunc(there, func(_ types.NamespacedName, given entry) bool { return given.value == "" })
		b.trusted, b.unseen, b.asked = true, entries{}, there
	}
	maps.DeleteFunc(b.asked, func(key types.NamespacedName, given entry) bool { return cached[key] == given })
	// An object that is missing in the cache, or has another UID, was deleted: a cache does not lose objects. If the cache has another value, another client
	// wrote it later.
	maps.DeleteFunc(b.unseen, func(key types.NamespacedName, given entry) bool {
		now, there := cached[key]
		return !there || now.uid != given.uid || now.value != ""
	})
	if len(b.asked)+len(b.unseen) == 0 {
		b.waits = 0
		return true, 0, nil
	}
	pause = min(behindDelay<<min(b.waits, maxWaits), longestDelay)
	b.waits++
	b.trusted = b.waits%maxWaits != 0
	return false, pause, nil
}

// wrote records the outcome of writing a value to an object.
func (b *pendingAllocations) wrote(key types.NamespacedName, given entry, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		if given.value != "" {
			b.unseen[key] = given
		}
	case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err):
		b.trusted = false // the outcome of the write is unknown
	}
}

// outcomes collects the errors of single objects, while the processing of the other objects continues.
type outcomes struct {
	mu     sync.Mutex
	errs   []error
	behind bool
}

func (o *outcomes) add(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
	case apierrors.IsConflict(err):
		o.behind = true // the object has changed meanwhile; the next pass reads it again
	case apierrors.IsNotFound(err): // deleted
	default:
		o.errs = append(o.errs, err)
	}
}

func (o *outcomes) err() error { return errors.Join(o.errs...) }
