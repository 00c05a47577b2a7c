package controllers

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// staleDelay is the requeue delay after a reconciliation found the cache behind the API server.
const staleDelay = 50 * time.Millisecond

// exists reads an object into obj and reports whether it exists.
func exists(ctx context.Context, c client.Reader, obj client.Object, key client.ObjectKey) (bool, error) {
	err := c.Get(ctx, key, obj)
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	default:
		return false, fmt.Errorf("reading %T %s: %w", obj, key, err)
	}
}
