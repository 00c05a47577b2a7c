package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/kube"
)

// RetryPause is the pause before a command repeats a request that failed.
const RetryPause = time.Second

// rewatch is the pause before a watch that ended is restarted.
const rewatch = 500 * time.Millisecond

// Verdict is the result of a check of an object: done, or why not yet.
type Verdict struct {
	Done bool
	// Why is the current state of the object, for the message on a timeout.
	Why string
	// err ends the wait, because the expected state can no longer occur.
	err error
}

// Yes is the verdict that the object has the state.
func Yes() Verdict { return Verdict{Done: true} }

// NotYet is the verdict that the command has to wait, with the present state.
func NotYet(format string, args ...any) Verdict { return Verdict{Why: fmt.Sprintf(format, args...)} }

// Never is the verdict that the state cannot occur any more.
func Never(format string, args ...any) Verdict { return Verdict{err: fmt.Errorf(format, args...)} }

// Goal is the state of an object for which a command waits, after it has written its own fields of the object.
type Goal struct {
	Object client.Object
	// Doing is the message while the command waits. Made is the message after it has written the object, and Done the message at the end; both may be
	// empty.
	Doing, Made, Done string
	// Fill sets the fields that the command writes. It is nil if the command only waits.
	Fill func()
	// Met reports whether a state of the object meets the goal.
	Met func() Verdict
	// Answer sets, in a dry run, the fields that a controller would set. It may be nil.
	Answer func()
	// Trouble is called if the wait fails. It returns a cause that the object does not show, for example why a pod does not run, which Reach appends to the
	// error; empty if it knows none. Trouble may be nil.
	Trouble func() string
}

// ToReach returns the step that reaches a goal.
func (c *Cluster) ToReach(g *Goal) func(context.Context) error {
	return func(ctx context.Context) error { return c.Reach(ctx, g) }
}

// Reach writes the object of the goal, if the goal has fields to write, and waits until the goal is met.
func (c *Cluster) Reach(ctx context.Context, g *Goal) error {
	shown := c.Start("%s", g.Doing)
	defer shown.End()
	if g.Fill != nil {
		changed, err := c.Ensure(ctx, g.Object, func() error { g.Fill(); return nil })
		if err != nil {
			return err
		}
		if changed && g.Made != "" {
			c.Did("%s", g.Made)
		}
	}
	var answers []func()
	if g.Answer != nil {
		answers = []func(){g.Answer}
	}
	if err := c.WaitFor(ctx, shown, g.Object, g.Met, answers...); err != nil {
		if g.Trouble != nil {
			if why := g.Trouble(); why != "" {
				return fmt.Errorf("%w; %s", err, why)
			}
		}
		return err
	}
	if g.Done != "" {
		shown.Done("%s", g.Done)
	}
	return nil
}

// Ensure creates the object, or changes it if it differs. It fails if the object is being deleted.
func (c *Cluster) Ensure(ctx context.Context, object client.Object, mutate func() error) (bool, error) {
	return c.EnsureAny(ctx, object, func() error {
		if object.GetDeletionTimestamp() != nil {
			return c.Leaving(object)
		}
		return mutate()
	})
}

// EnsureAny calls kube.Ensure, and also sets the global labels and annotations on an object that it creates.
func (c *Cluster) EnsureAny(ctx context.Context, object client.Object, mutate func() error) (bool, error) {
	changed, err := kube.Ensure(ctx, c, object, func() error {
		if object.GetResourceVersion() == "" {
			c.Mark(object)
		}
		return mutate()
	})
	return changed, c.Err(err)
}

// Leaving returns the error for an object that cannot be changed because it is being deleted.
func (c *Cluster) Leaving(object client.Object) error {
	return fmt.Errorf("%s is being deleted: run the command again when the deletion is complete", c.Name(object))
}

// InOrder runs the steps one after another until one fails.
func InOrder(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// When returns the step, or one that does nothing if the condition does not hold.
func When(condition bool, step func(context.Context) error) func(context.Context) error {
	if condition {
		return step
	}
	return func(context.Context) error { return nil }
}

// Both runs two functions concurrently, one per cluster, and joins their errors.
func Both(a, b func() error) error {
	done := make(chan error, 1)
	go func() { done <- a() }()
	err := b()
	return errors.Join(<-done, err)
}

// Together runs two functions concurrently, one per cluster. If one fails, together cancels the context of the other and returns the first
// error.
func Together(ctx context.Context, a, b func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 2)
	go func() { done <- a(ctx) }()
	go func() { done <- b(ctx) }()
	if err := <-done; err != nil {
		cancel()
		<-done
		return err
	}
	return <-done
}

// WaitFor watches an object, given by namespace and name, until check returns done or an error, or ctx ends. It reads each state into the
// object before it calls check. It does not call check while the object does not exist. The step, if not nil, shows what is missing.
//
// A dry run does not wait: see assume. Only then are the functions in answers called: they set the fields of the object that a controller would set.
func (c *Cluster) WaitFor(ctx context.Context, step *console.Step, object client.Object, check func() Verdict, answers ...func()) error {
	if c.IsDryRun() {
		return c.assume(ctx, object, check, answers)
	}
	name := c.Name(object)
	last := NotYet("the API server has not responded")
	err := c.Follow(ctx, object, func(exists bool) (bool, error) {
		last = Verdict{Why: "it does not exist"}
		if exists {
			last = check()
		}
		if step != nil && !last.Done {
			step.Update("Waiting for %s: %s", name, last.Why)
		}
		return last.Done, last.err
	})
	return c.Waited(ctx.Err(), err, name, last.Why)
}

// assume replaces WaitFor in a dry run. It checks an existing object once, and assumes that any further wait would succeed. The answers set the fields
// that a controller would set, so that the API server can validate later steps. These fields reach the API server only in dry-run requests.
func (c *Cluster) assume(ctx context.Context, object client.Object, check func() Verdict, answers []func()) error {
	name := c.Name(object)
	_, exists, err := c.look(ctx, object)
	if err != nil {
		return c.Waited(ctx.Err(), err, name, "")
	}
	now := Verdict{}
	if exists {
		now = check()
	}
	switch {
	case now.err != nil:
		return c.Waited(ctx.Err(), now.err, name, "")
	case now.Done:
		return nil
	}
	c.Plan.WaitsFor(name)
	for _, answer := range answers {
		answer()
		if err := c.Plan.Remember(object, !exists); err != nil {
			return err
		}
	}
	return nil
}

// WaitGone watches the object until it no longer exists. If the object has a UID, WaitGone waits for the object with that UID. Otherwise it waits
// for the first object that it observes.
func (c *Cluster) WaitGone(ctx context.Context, step *console.Step, object client.Object) error {
	if c.IsDryRun() {
		return assumeGone(ctx, c, object)
	}
	name, uid := c.Name(object), object.GetUID()
	why := "the API server has not responded"
	err := c.Follow(ctx, object, func(exists bool) (bool, error) {
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
	return c.Waited(ctx.Err(), err, name+" to be gone", why)
}

// assumeGone replaces WaitGone in a dry run: it assumes that the object would be deleted.
func assumeGone(ctx context.Context, c *Cluster, object client.Object) error {
	name := c.Name(object)
	_, exists, err := c.look(ctx, object)
	if err != nil || !exists {
		return c.Waited(ctx.Err(), err, name+" to be gone", "")
	}
	c.Plan.WaitsFor(name + " to be gone")
	return c.Plan.Forget(object)
}

// WaitAllGone waits until the objects no longer exist, one after another. It calls report with a message for each deleted object.
func (c *Cluster) WaitAllGone(ctx context.Context, objects []client.Object, report func(format string, args ...any)) error {
	for _, object := range objects {
		name := c.Name(object)
		step := c.Start("Waiting for %s to be gone", name)
		err := c.WaitGone(ctx, step, object)
		step.End()
		if err != nil {
			return err
		}
		report("%s correctly deleted", name)
	}
	return nil
}

// DeleteAll requests the deletion of the objects and, with wait, waits until they are gone. It reports objects that do not exist.
func (c *Cluster) DeleteAll(ctx context.Context, objects []client.Object, wait bool) error {
	var there []client.Object
	for _, object := range objects {
		if object.GetUID() == "" { // only the name is known
			err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
			if kube.Absent(err) {
				c.Info("%s not found: nothing to delete", c.Name(object))
				continue
			}
			if err != nil {
				return c.Err(fmt.Errorf("reading %s: %w", c.Name(object), err))
			}
		}
		there = append(there, object)
		if err := kube.Delete(ctx, c, object); err != nil {
			return c.Err(err)
		}
	}
	if !wait {
		return nil
	}
	return c.WaitAllGone(ctx, there, c.Did)
}

// Follow calls look for each state of the object until look returns true or an error, or ctx ends. It reads each state into the object
// first.
func (c *Cluster) Follow(ctx context.Context, object client.Object, look func(exists bool) (bool, error)) error {
	key := client.ObjectKeyFromObject(object)
	for {
		done, err := c.followOnce(ctx, object, key, look)
		if done || (err != nil && !Transient(err)) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rewatch):
		}
	}
}

// look reads the object by a list with a field selector for its name. A watch can continue from the resource version of that list.
func (c *Cluster) look(ctx context.Context, object client.Object) (list client.ObjectList, exists bool, err error) {
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
		kube.Overwrite(object, items[0])
	}
	return list, len(items) > 0, nil
}

func alone(key client.ObjectKey) []client.ListOption {
	return []client.ListOption{client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name}}
}

func (c *Cluster) followOnce(ctx context.Context, object client.Object, key client.ObjectKey, look func(bool) (bool, error)) (bool, error) {
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
			kube.Overwrite(object, event.Object)
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

// decide ends Follow when look is done, and also on an error.
func decide(done bool, err error) (bool, error) { return done || err != nil, err }
