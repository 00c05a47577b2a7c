package controllers

import (
	"context"
	"errors"
	"sync"

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
// It holds nothing but what this process wrote and did not see yet; a new process asks the API server once.
type book struct {
	mu sync.Mutex
	// trusted tells that the cache was as new as the API server at some time, and that every write since then is known.
	trusted bool
	unseen  entries
	// waits is how many passes in a row found the cache too old.
	waits int
}

// patience is after how many passes the API server is asked whether what was written is still there: somebody may have taken it away.
const patience = 100

// current tells whether the cached objects show all that was given. live reads them from the API server.
func (b *book) current(ctx context.Context, cached entries, live func(context.Context) (entries, error)) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.trusted {
		there, err := live(ctx)
		if err != nil {
			return false, err
		}
		for key, given := range there {
			if given.value != "" && cached[key] != given {
				return false, nil
			}
		}
		b.trusted, b.unseen, b.waits = true, entries{}, 0
	}
	for key, given := range b.unseen {
		// What is not there any more, or is another object by now, was deleted: a cache does not forget. Another value was put there by somebody
		// else, and is newer.
		if now, there := cached[key]; there && now.uid == given.uid && now.value == "" {
			b.waits++
			b.trusted = b.waits < patience
			return false, nil
		}
		delete(b.unseen, key)
	}
	b.waits = 0
	return true, nil
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
