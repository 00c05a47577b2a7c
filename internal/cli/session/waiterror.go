package session

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// Waited returns the error of a failed wait, with the awaited object and its last state. ended is the error of the context.
func (c *Cluster) Waited(ended, err error, name, why string) error {
	switch {
	case err == nil:
		return nil
	case ended != nil:
		reason := "interrupted"
		if errors.Is(ended, context.DeadlineExceeded) {
			reason = "timed out (--timeout)"
		}
		return c.Err(&WaitError{Text: fmt.Sprintf("waiting for %s: %s, last seen: %s", name, reason, why), Cause: ended})
	default:
		return c.Err(fmt.Errorf("waiting for %s: %w", name, err))
	}
}

// WaitError is the error of a wait that ended. Its Text is complete; its Cause is only for errors.Is and errors.As.
type WaitError struct {
	Text  string
	Cause error
}

func (e *WaitError) Error() string { return e.Text }

func (e *WaitError) Unwrap() error { return e.Cause }

// Name returns the kind, name and namespace of an object for messages.
func (c *Cluster) Name(object client.Object) string { return kube.Called(c, object) }

// Transient reports whether a retry may avoid the error: a broken connection, a busy or restarting server, or an expired resource version.
func Transient(err error) bool {
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		return !meta.IsNoMatchError(err)
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsGone(err) || apierrors.IsResourceExpired(err)
}
