package kube

import (
	"errors"
	"fmt"
	"time"
)

// Reasons of the summary condition that the runner sets by itself.
const (
	// ReasonReconciled tells that the world follows the object.
	ReasonReconciled = "Reconciled"
	// ReasonError tells that the last pass failed and is retried with growing delays.
	ReasonError = "Error"
	// ReasonDeleting tells that the object waits for its finalizer.
	ReasonDeleting = "Deleting"
)

// wait is an outcome: nothing is wrong, something else has to happen first.
type wait struct {
	reason, message string
	after           time.Duration
}

func (w *wait) Error() string { return w.message }

// invalid is an outcome: trying again is useless until somebody changes the object.
type invalid struct{ reason, message string }

func (i *invalid) Error() string { return i.message }

// Wait says that the reconciler can't go on before something else happens, and that a watch will tell. The message names what
// is waited for: object, namespace, cluster. Reason is CamelCase and goes into the summary condition.
func Wait(reason, format string, args ...any) error {
	return &wait{reason: reason, message: fmt.Sprintf(format, args...)}
}

// WaitFor is Wait for what no watch announces: the object is looked at again after d.
func WaitFor(d time.Duration, reason, format string, args ...any) error {
	return &wait{reason: reason, message: fmt.Sprintf(format, args...), after: d}
}

// Invalid says that the object itself is wrong. It is not retried before it changes. The message names the field, the value and
// the cure.
func Invalid(reason, format string, args ...any) error {
	return &invalid{reason: reason, message: fmt.Sprintf(format, args...)}
}

// IsWait tells whether err is, or wraps, an outcome of Wait or WaitFor.
func IsWait(err error) bool {
	var w *wait
	return errors.As(err, &w)
}

// IsInvalid tells whether err is, or wraps, an outcome of Invalid.
func IsInvalid(err error) bool {
	var i *invalid
	return errors.As(err, &i)
}

// explain turns the result of a pass into the summary condition's status, reason and message.
func explain(err error) (ok bool, reason, message string) {
	var w *wait
	var i *invalid
	switch {
	case err == nil:
		return true, ReasonReconciled, ""
	case errors.As(err, &w):
		return false, w.reason, err.Error()
	case errors.As(err, &i):
		return false, i.reason, err.Error()
	default:
		return false, ReasonError, err.Error()
	}
}
