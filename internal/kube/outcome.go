package kube

import (
	"errors"
	"fmt"
	"time"

	"liqo.io/liqo/internal/reasons"
)

// wait is an outcome: nothing is wrong, but something else has to happen first.
type wait struct {
	reason, message string
	after           time.Duration
}

func (w *wait) Error() string { return w.message }

// invalid is an outcome: a retry is useless until a user changes the object.
type invalid struct{ reason, message string }

func (i *invalid) Error() string { return i.message }

// Wait returns an outcome for a reconciler that cannot continue before some other event, for which a watch exists. The message
// names what it waits for: object, namespace, cluster. The reason is one of package reasons and appears in the summary condition.
func Wait(reason, format string, args ...any) error {
	return &wait{reason: reason, message: fmt.Sprintf(format, args...)}
}

// WaitFor is like Wait for events without a watch: the object is requeued after d.
func WaitFor(d time.Duration, reason, format string, args ...any) error {
	return &wait{reason: reason, message: fmt.Sprintf(format, args...), after: d}
}

// Invalid returns an outcome for an object that is itself wrong. There is no retry before the object changes. The message names
// the field, the value and the remedy.
func Invalid(reason, format string, args ...any) error {
	return &invalid{reason: reason, message: fmt.Sprintf(format, args...)}
}

// IsWait reports whether err is or wraps an outcome of Wait or WaitFor.
func IsWait(err error) bool {
	var w *wait
	return errors.As(err, &w)
}

// IsInvalid reports whether err is or wraps an outcome of Invalid.
func IsInvalid(err error) bool {
	var i *invalid
	return errors.As(err, &i)
}

// explain converts the result of a pass to the status, reason and message of the summary condition.
func explain(err error) (ok bool, reason, message string) {
	var w *wait
	var i *invalid
	switch {
	case err == nil:
		return true, reasons.Reconciled, ""
	case errors.As(err, &w):
		return false, w.reason, err.Error()
	case errors.As(err, &i):
		return false, i.reason, err.Error()
	default:
		return false, reasons.Error, err.Error()
	}
}
