package cli

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/internal/cli/console"
)

// rewatch is the pause before a watch that ended is restarted.
const rewatch = 500 * time.Millisecond

// verdict is the result of a check of an object: done, or why not yet.
type verdict struct {
	done bool
	// why is the current state of the object, for the message on a timeout.
	why string
	// err ends the wait, because the expected state can no longer occur.
	err error
}

func yes() verdict { return verdict{done: true} }

func notYet(format string, args ...any) verdict { return verdict{why: fmt.Sprintf(format, args...)} }

func never(format string, args ...any) verdict { return verdict{err: fmt.Errorf(format, args...)} }

// wait watches an object, given by namespace and name, until check returns done or an error, or ctx ends. It reads each state into the
// object before it calls check. It does not call check while the object does not exist. The step, if not nil, shows what is missing.
//
// A dry run does not wait: see assume, which also uses the answers.
func (c *cluster) wait(ctx context.Context, step *console.Step, object client.Object, check func() verdict, answers ...func()) error {
	if c.isDryRun() {
		return c.assume(ctx, object, check, answers)
	}
	name := c.name(object)
	last := notYet("the API server has not responded")
	err := c.follow(ctx, object, func(exists bool) (bool, error) {
		last = verdict{why: "it does not exist"}
		if exists {
			last = check()
		}
		if step != nil && !last.done {
			step.Update("Waiting for %s: %s", name, last.why)
		}
		return last.done, last.err
	})
	return c.waited(ctx, err, name, last.why)
}

// gone watches the object until it no longer exists. If the object has a UID, gone waits for the object with that UID. Otherwise it waits
// for the first object that it observes.
func (c *cluster) gone(ctx context.Context, step *console.Step, object client.Object) error {
	if c.isDryRun() {
		return c.assumeGone(ctx, object)
	}
	name, uid := c.name(object), object.GetUID()
	why := "the API server has not responded"
	err := c.follow(ctx, object, func(exists bool) (bool, error) {
		if !exists || uid != "" && object.GetUID() != uid { // another object may have the same name now
			return true, nil
		}
		uid = object.GetUID()
		why = "it is not being deleted"
		if object.GetDeletionTimestamp() != nil {
			why = "it is being deleted"
		}
		if finalizers := object.GetFinalizers(); len(finalizers) > 0 {
			why += ", held by finalizers " + strings.Join(finalizers, ", ")
		}
		if step != nil {
			step.Update("Waiting for %s to be gone: %s", name, why)
		}
		return false, nil
	})
	return c.waited(ctx, err, name+" to be gone", why)
}

// waited returns the error of a failed wait, with the awaited object and its last state.
func (c *cluster) waited(ctx context.Context, err error, name, why string) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		reason := "interrupted"
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			reason = "the time is over (--timeout)"
		}
		return c.error(&waitError{fmt.Sprintf("waiting for %s: %s, last seen: %s", name, reason, why), ctx.Err()})
	default:
		return c.error(fmt.Errorf("waiting for %s: %w", name, err))
	}
}

// waitError has a complete text about why the wait ended. Its cause is only for errors.Is and errors.As.
type waitError struct {
	text  string
	cause error
}

func (e *waitError) Error() string { return e.text }
func (e *waitError) Unwrap() error { return e.cause }

// name returns the kind, name and namespace of an object for messages.
func (c *cluster) name(object client.Object) string { return called(c, object) }

func called(c client.Client, object client.Object) string {
	kind := fmt.Sprintf("%T", object)
	if gvk, err := apiutil.GVKForObject(object, c.Scheme()); err == nil {
		kind = gvk.Kind
	}
	if object.GetNamespace() == "" {
		return fmt.Sprintf("%s %s", kind, object.GetName())
	}
	return fmt.Sprintf("%s %s in namespace %s", kind, object.GetName(), object.GetNamespace())
}

// follow calls look for each state of the object until look returns true or an error, or ctx ends. It reads each state into the object
// first.
func (c *cluster) follow(ctx context.Context, object client.Object, look func(exists bool) (bool, error)) error {
	key := client.ObjectKeyFromObject(object)
	for {
		done, err := c.followOnce(ctx, object, key, look)
		if done || (err != nil && !transient(err)) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rewatch):
		}
	}
}

// transient reports whether a retry may avoid the error: a broken connection, a busy or restarting server, or an expired resource version.
func transient(err error) bool {
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		return !meta.IsNoMatchError(err)
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsGone(err) || apierrors.IsResourceExpired(err)
}

// look reads the object by a list with a field selector for its name. A watch can continue from the resource version of that list.
func (c *cluster) look(ctx context.Context, object client.Object) (list client.ObjectList, exists bool, err error) {
	gvk, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return nil, false, err
	}
	made, err := c.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, false, err
	}
	list, ok := made.(client.ObjectList)
	if !ok {
		return nil, false, fmt.Errorf("listing %s: %T is not a list", gvk.Kind, made)
	}
	key := client.ObjectKeyFromObject(object)
	if err := c.List(ctx, list, alone(key)...); err != nil {
		return nil, false, fmt.Errorf("reading %s %s: %w", gvk.Kind, key, err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, false, err
	}
	if len(items) > 0 {
		copyInto(object, items[0])
	}
	return list, len(items) > 0, nil
}

func alone(key client.ObjectKey) []client.ListOption {
	return []client.ListOption{client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name}}
}

func (c *cluster) followOnce(ctx context.Context, object client.Object, key client.ObjectKey, look func(bool) (bool, error)) (bool, error) {
	list, exists, err := c.look(ctx, object)
	if err != nil {
		return false, err
	}
	if done, err := decide(look(exists)); done {
		return true, err
	}
	watcher, err := c.Watch(ctx, list, append(alone(key), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})...)
	if err != nil {
		gvk, _ := apiutil.GVKForObject(object, c.Scheme())
		return false, fmt.Errorf("watching %s %s: %w", gvk.Kind, key, err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified:
			copyInto(object, event.Object)
			if done, err := decide(look(true)); done {
				return true, err
			}
		case watch.Deleted:
			if done, err := decide(look(false)); done {
				return true, err
			}
		case watch.Error:
			return false, apierrors.FromObject(event.Object)
		case watch.Bookmark:
		}
	}
	return false, nil
}

// decide makes follow end on an error too, not only when look is done.
func decide(done bool, err error) (bool, error) { return done || err != nil, err }

// copyInto overwrites to with from. Both must have the same type.
func copyInto(to client.Object, from runtime.Object) {
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem())
}
