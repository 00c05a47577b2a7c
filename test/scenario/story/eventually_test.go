package story

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// errNotYet is the error of a check that is not true yet.
var errNotYet = errors.New("not yet")

func TestEventuallyKeepsTheErrorOfTheOnlyAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := eventually(t.Context(), time.Second, func(ctx context.Context) error {
			<-ctx.Done() // takes longer than the limit
			return errNotYet
		})
		if !errors.Is(err, errNotYet) {
			t.Errorf("%v, want the error of the check", err)
		}
	})
}

func TestEventuallyPrefersTheErrorOfAnAttemptThatWasNotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		err := eventually(t.Context(), 10*time.Second, func(ctx context.Context) error {
			if attempts++; attempts == 1 {
				return errNotYet
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, errNotYet) || attempts != 2 {
			t.Errorf("%v after %d attempts, want the error of the first one", err, attempts)
		}
	})
}

func TestEventuallyTriesUntilItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, attempts := time.Now(), 0
		slow := func(ctx context.Context) error {
			attempts++
			return errors.Join(errNotYet, wait.PollUntilContextTimeout(ctx, time.Second, time.Second, false, func(context.Context) (bool, error) { return true, nil }))
		}
		if err := eventually(t.Context(), 10*time.Second, slow); !errors.Is(err, errNotYet) {
			t.Error(err)
		}
		// Each attempt takes a second and is followed by a pause of a second.
		if took := time.Since(began); attempts < 5 || attempts > 6 || took > 12*time.Second {
			t.Errorf("%d attempts in %v", attempts, took)
		}
	})
}

func TestEventuallyEndsWithTheStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := eventually(ctx, time.Hour, func(context.Context) error { return errNotYet })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errNotYet) || time.Since(began) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A request that fails once in a check of Eventually does not end the story, and the limit holds for helpers of the story in the check.
func TestAFailedRequestInACheckIsRepeated(t *testing.T) {
	s := &Story{T: t, World: &World{}}
	attempts := 0
	s.Eventually(time.Minute, "the third attempt", func(ctx context.Context) error {
		if s.Context() != ctx {
			t.Error("helpers of the story use another context than the check")
		}
		if attempts++; attempts < 3 {
			s.Must(errNotYet)
		}
		return nil
	})
	if attempts != 3 {
		t.Errorf("%d attempts", attempts)
	}
	if s.Context() != t.Context() {
		t.Error("after the check, the story uses its context")
	}
}

// Eventually inside a check of Eventually fails the attempt, not the story.
func TestALimitInsideACheckIsAFailedAttempt(t *testing.T) {
	s := &Story{T: t, World: &World{}}
	attempts, brief := 0, time.Millisecond
	s.Eventually(time.Minute, "the second attempt", func(context.Context) error {
		attempts++
		s.Eventually(brief, "something", func(context.Context) error {
			if attempts < 2 {
				return errNotYet
			}
			return nil
		})
		return nil
	})
	if attempts != 2 {
		t.Errorf("%d attempts", attempts)
	}
}

// Other panics of a check are not caught.
func TestAPanicInACheckIsNotCaught(t *testing.T) {
	s := &Story{T: t, World: &World{}}
	defer func() {
		if cause := recover(); cause != errNotYet { //nolint:errorlint // it is the value that was thrown
			t.Errorf("recovered %v", cause)
		}
	}()
	s.Eventually(time.Minute, "nothing", func(context.Context) error { panic(errNotYet) })
}
