package apitest

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Listing is a client whose watches do not start with a list, which the fake client does not support.
type Listing struct {
	client.WithWatch
	// Watched receives a value for each watch that has started, unless it is nil or full: a fake client sends no event for a write between a list and its watch.
	Watched chan struct{}
}

// IsWatchListSemanticsUnSupported makes informers list first.
func (Listing) IsWatchListSemanticsUnSupported() bool { return true }

// Watch starts a watch and reports it to Watched.
func (l Listing) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	w, err := l.WithWatch.Watch(ctx, list, opts...)
	select {
	case l.Watched <- struct{}{}:
	default: // no receiver is waiting
	}
	return w, err
}
