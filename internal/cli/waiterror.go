package cli

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// waited returns the error of a failed wait, with the awaited object and its last state. ended is the error of the context.
func (c *cluster) waited(ended, err error, name, why string) error {
	switch {
	case err == nil:
		return nil
	case ended != nil:
		reason := "interrupted"
		if errors.Is(ended, context.DeadlineExceeded) {
			reason = "timed out (--timeout)"
		}
		return c.error(&waitError{fmt.Sprintf("waiting for %s: %s, last seen: %s", name, reason, why), ended})
	default:
		return c.error(fmt.Errorf("waiting for %s: %w", name, err))
	}
}

// waitError is the error of a wait that ended. Its text is complete; its cause is only for errors.Is and errors.As.
type waitError struct {
	text  string
	cause error
}

func (e *waitError) Error() string { return e.text }

func (e *waitError) Unwrap() error { return e.cause }

// name returns the kind, name and namespace of an object for messages.
func (c *cluster) name(object client.Object) string { return kube.Called(c, object) }

// transient reports whether a retry may avoid the error: a broken connection, a busy or restarting server, or an expired resource version.
func transient(err error) bool {
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		return !meta.IsNoMatchError(err)
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsGone(err) || apierrors.IsResourceExpired(err)
}
