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

// entry is what an object was given, and which object.
type entry struct {
	uid   types.UID
	value string
}

// entries by the names of the objects. Objects that were given nothing are among them too.
type entries map[types.NamespacedName]entry

// book tells whether the cache may be planned with: a cache that does not show what was given already would let the same be given twice.
// It holds nothing but what this process wrote, or was told when it asked, and did not see yet; a new process asks the API server once.
type book struct {
	mu sync.Mutex
	// trusted tells that every write since the API server was last asked is known.
	trusted bool
	// unseen are those writes, asked is what the API server said: both as far as the cache did not show them yet.
	unseen, asked entries
	// waits is how many passes in a row found the cache too old.
	waits int
}

// patience is after how many passes the API server is asked whether what is waited for is still there: somebody may have taken it away. With
// growing pauses between them, that is some seconds.
const patience = 10

// current tells whether the cached objects show all that was given; if not, the next pass comes after the pause. live reads them from the
// API server.
func (b *book) current(ctx context.Context, cached entries, live func(context.Context) (entries, error)) (current bool, pause time.Duration, err error) {
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
	// What is not there any more, or is another object by now, was deleted: a cache does not forget. Another value was put there by somebody
	// else, and is newer.
	maps.DeleteFunc(b.unseen, func(key types.NamespacedName, given entry) bool {
		now, there := cached[key]
		return !there || now.uid != given.uid || now.value != ""
	})
	if len(b.asked)+len(b.unseen) == 0 {
		b.waits = 0
		return true, 0, nil
	}
	pause = min(behindDelay<<min(b.waits, patience), longestDelay)
	b.waits++
	b.trusted = b.waits%patience != 0
	return false, pause, nil
}

// wrote notes the outcome of giving something to an object.
func (b *book) wrote(key types.NamespacedName, given entry, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		if given.value != "" {
			b.unseen[key] = given
		}
	case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err):
		b.trusted = false // it may have been written or not
	}
}

// outcomes collects what went wrong with single objects, while the others go on.
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
		o.behind = true // the object changed meanwhile; the next pass sees how
	case apierrors.IsNotFound(err): // it is gone
	default:
		o.errs = append(o.errs, err)
	}
}

func (o *outcomes) err() error { return errors.Join(o.errs...) }
