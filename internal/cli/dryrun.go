package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// addDryRun registers --dry-run with a command whose every write goes through its clusters. It does all that it does otherwise, so that what hinders it is
// told in the same words; but the API servers check its writes, with rights and admission, and keep none. Each write is a line. Nothing is waited for, and
// nobody is asked.
func (a *app) addDryRun(flags *pflag.FlagSet) {
	flags.BoolVar(&a.dryRun, "dry-run", false, "Have the API server check each change and tell it, and make none")
}

// plannedAddress stands for one that is not given yet; it is kept for documentation.
const plannedAddress = "192.0.2.1"

// rehearses tells whether the command is only to tell what it would do.
func (c *cluster) rehearses() bool { return c.plan != nil }

// foresee is wait in a dry run: what is there already is looked at, anything else is taken for done. answers fill in what somebody else would have answered,
// for what follows to be checked with; it never leaves this process but in checks.
func (c *cluster) foresee(ctx context.Context, object client.Object, check func() verdict, answers []func()) error {
	name := c.name(object)
	_, exists, err := c.look(ctx, object)
	if err != nil {
		return c.waited(ctx, err, name, "")
	}
	now := verdict{}
	if exists {
		now = check()
	}
	switch {
	case now.err != nil:
		return c.waited(ctx, now.err, name, "")
	case now.done:
		return nil
	}
	c.plan.waitsFor(name)
	for _, answer := range answers {
		answer()
		if err := c.plan.remember(object, !exists); err != nil {
			return err
		}
	}
	return nil
}

// foreseeGone is gone in a dry run.
func (c *cluster) foreseeGone(ctx context.Context, object client.Object) error {
	name := c.name(object)
	_, exists, err := c.look(ctx, object)
	if err != nil || !exists {
		return c.waited(ctx, err, name+" to be gone", "")
	}
	c.plan.waitsFor(name + " to be gone")
	return c.plan.forget(object)
}

// foreseeNamespace takes in a dry run for made a namespace that somebody else makes.
func (c *cluster) foreseeNamespace(ctx context.Context, name string) error {
	if !c.rehearses() {
		return nil
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := c.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
	if apierrors.IsNotFound(err) {
		return c.plan.remember(namespace, true)
	}
	if err != nil {
		return c.error(fmt.Errorf("reading Namespace %s: %w", name, err))
	}
	return nil
}

// waitsFor says once what would be waited for.
func (c *planner) waitsFor(what string) {
	c.mu.Lock()
	told := slices.Contains(c.waits, what)
	c.waits = append(c.waits, what)
	c.mu.Unlock()
	if !told {
		c.out.Info("It would wait for %s", what)
	}
}

// tell says what would be written.
func (c *planner) tell(format string, args ...any) {
	c.changes.Add(1)
	c.out.Info("%s", fmt.Sprintf(format, args...))
}

// rehearsed is the last line of a dry run that came to its end.
func (a *app) rehearsed() {
	if a.changes.Load() == 0 {
		a.console().Info("Dry run: there is nothing to change")
		return
	}
	a.console().Info("Dry run: nothing hinders these changes; none was made")
}
