package story

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
)

// Story is a test on a World. Requests of its clients are cancelled when it ends.
type Story struct {
	*testing.T
	*World
	name string
	// together means that other stories run at the same time, so that each printed line needs the name of its story.
	together bool
	// step is the title of the current step.
	step string
	// checking is the context of the running check of Eventually, nil outside of checks.
	checking   context.Context
	namespaces []string
	// shared are namespaces that other stories use too, and that therefore stay.
	shared []string
	before map[*playground.Cluster]Snapshot
	others []string
}

// Tell runs one story as a subtest. Before it, Liqo is installed and the clusters are peered. After it, all clusters must be in the same state as before,
// unless the story has uninstalled Liqo. In a World that is compared once, the namespaces of the story are only being deleted when it ends.
func (w *World) Tell(t *testing.T, name string, body func(s *Story)) {
	t.Helper()
	w.tell(t, name, func(s *Story) {
		w.ready(s)
		if w.ComparedOnce {
			body(s)
			s.beginRemoval()
			return
		}
		s.before = w.snapshots(s)
		body(s)
		s.removeNamespaces()
		if installed, err := w.Installed(s.Context(), w.Rome); err != nil || !installed {
			s.Must(err)
			return // the story has uninstalled everything and has compared with the empty clusters itself
		}
		s.nothingLeft()
	})
}

// TellBefore runs a story as a subtest before Liqo is installed. Clusters that the story installs stay installed for the later stories. It must not install
// rome, because an installation of rome means that all clusters are ready.
func (w *World) TellBefore(t *testing.T, name string, body func(s *Story)) {
	t.Helper()
	w.tell(t, name, body)
}

// Named is a story and the name of its subtest.
type Named struct {
	Name string
	Body func(s *Story)
}

// atOnce is how many stories TellTogether runs at the same time. More of them overload two cores: pods then take longer to start than the stories wait.
const atOnce = 4

// TellTogether runs stories in parallel, each as a subtest, and starts them in the given order. They may change only their own namespaces. After the last one,
// the subtest "nothing-left" compares the clusters with their state before the first one.
func (w *World) TellTogether(t *testing.T, stories ...Named) {
	t.Helper()
	first := &Story{T: t, World: w}
	w.ready(first)
	var before map[*playground.Cluster]Snapshot
	if !w.ComparedOnce {
		before = w.snapshots(first)
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, told := range stories {
		group.Go(func() error {
			w.tell(t, told.Name, func(s *Story) {
				s.together = true
				told.Body(s)
				if w.ComparedOnce {
					s.beginRemoval()
				} else {
					s.removeNamespaces()
				}
			})
			return nil
		})
	}
	_ = group.Wait() // the subtests report the failures
	if w.ComparedOnce {
		return
	}
	w.tell(t, "nothing-left", func(s *Story) {
		s.before = before
		s.nothingLeft()
	})
}

func (w *World) tell(t *testing.T, name string, body func(s *Story)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		began := time.Now()
		s := &Story{T: t, World: w, name: name}
		fmt.Printf("== story %s\n", name)
		defer func() { fmt.Printf("== story %s: %.1f s\n", name, time.Since(began).Seconds()) }()
		defer func() {
			if t.Failed() {
				Describe(t.Context(), slices.Concat(s.namespaces, s.shared), w.Clusters()...)
				s.tidy()
			}
		}()
		body(s)
	})
}

// nothingLeft waits until every cluster is in the same state as before the story.
func (s *Story) nothingLeft() {
	s.Helper()
	s.Step("nothing is left", func() {
		for _, c := range s.Clusters() {
			s.Same(c, s.before[c])
		}
	})
}

func (w *World) snapshots(s *Story) map[*playground.Cluster]Snapshot {
	s.Helper()
	all, err := takeAll(s.Context(), w.Clusters())
	s.Must(err)
	return all
}

// Renewed declares that the story has intentionally changed or renamed objects. The comparison at the end ignores all objects whose key in a Snapshot contains
// one of the parts.
func (s *Story) Renewed(c *playground.Cluster, parts ...string) {
	s.Helper()
	now, err := Take(s.Context(), c)
	s.Must(err)
	renewed := func(object string, _ string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(object, part) })
	}
	maps.DeleteFunc(s.before[c], renewed)
	maps.DeleteFunc(now, func(object, text string) bool { return !renewed(object, text) })
	if len(now) == 0 {
		s.Fatalf("%s holds no %v", c.ID, parts)
	}
	maps.Copy(s.before[c], now)
}

// Others declares that other programs may change objects. The comparison ignores all objects whose key in a Snapshot contains one of the parts.
func (s *Story) Others(parts ...string) { s.others = append(s.others, parts...) }

// Shares declares that other stories use an offloaded namespace of rome too. So the comparison ignores that namespace.
func (s *Story) Shares(namespace string) {
	s.shared = append(s.shared, namespace)
	s.Others("namespaces "+namespace, " "+namespace+"/", " "+Twin(namespace)+"/", "namespacemaps ", "ipaddresses *")
}

func (s *Story) without(snapshot Snapshot) Snapshot {
	left := maps.Clone(snapshot)
	maps.DeleteFunc(left, func(object, _ string) bool {
		return slices.ContainsFunc(s.others, func(part string) bool { return strings.Contains(object, part) })
	})
	return left
}

// Same waits until the cluster has the same objects as in the snapshot before. If it does not, the story fails with the difference.
func (s *Story) Same(c *playground.Cluster, before Snapshot) {
	s.Helper()
	s.Eventually(90*time.Second, c.ID+" to be as it was", func(ctx context.Context) error {
		now, err := Take(ctx, c)
		if err != nil {
			return err
		}
		return s.without(before).Differs(s.without(now))
	})
}

// Step runs a part of the story, and prints its title and duration.
func (s *Story) Step(title string, do func()) {
	s.Helper()
	s.step = title
	if s.together {
		title = s.name + ": " + title
	}
	say(title, do)
}

// Errorf reports a failure and lets the story continue.
func (s *Story) Errorf(format string, args ...any) {
	s.Helper()
	s.failed(fmt.Sprintf(format, args...))
	s.T.Errorf(format, args...)
}

// Error is Errorf without a format.
func (s *Story) Error(args ...any) {
	s.Helper()
	s.Errorf("%s", strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
}

// Fatalf reports a failure and ends the story.
func (s *Story) Fatalf(format string, args ...any) {
	s.Helper()
	s.failed(fmt.Sprintf(format, args...))
	s.T.Fatalf(format, args...)
}

// Fatal is Fatalf without a format.
func (s *Story) Fatal(args ...any) {
	s.Helper()
	s.Fatalf("%s", strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
}

// Pause waits, in stories that show that nothing changes with time.
func (s *Story) Pause(d time.Duration) {
	select {
	case <-s.Context().Done():
	case <-time.After(d):
	}
}

// failedCheck is the panic by which Must ends a check of Eventually.
type failedCheck struct{ err error }

// Must ends the story if err is not nil. Inside a check of Eventually it ends only this attempt: a request that fails once may succeed later.
func (s *Story) Must(err error) {
	s.Helper()
	switch {
	case err == nil:
	case s.checking != nil:
		panic(failedCheck{err})
	default:
		s.Fatal(err)
	}
}

// Context returns the context of the running check of Eventually. Outside of checks, it returns that of the story. Goroutines that outlive a check must take
// the context before they start.
func (s *Story) Context() context.Context {
	if s.checking != nil {
		return s.checking
	}
	return s.T.Context()
}

// Eventually repeats check until it returns nil. If that takes longer than within, the story ends with the last error of check. Helpers of the story that check
// calls obey the limit, and a failed request in one of them is an error of check.
func (s *Story) Eventually(within time.Duration, what string, check func(context.Context) error) {
	s.Helper()
	err := eventually(s.Context(), within, func(ctx context.Context) error { return s.attempt(ctx, check) })
	if err != nil {
		s.Must(fmt.Errorf("waited %v for %s: %w", within, what, err))
	}
}

// attempt runs check once, and returns the error of a Must inside of it.
func (s *Story) attempt(ctx context.Context, check func(context.Context) error) (err error) {
	outer := s.checking
	s.checking = ctx
	defer func() {
		s.checking = outer
		switch cause := recover().(type) {
		case nil:
		case failedCheck:
			err = cause.err
		default:
			panic(cause)
		}
	}()
	return check(ctx)
}

const (
	// lastAttempt is how long an attempt of eventually may take at least, also if it begins just before the limit.
	lastAttempt = 5 * time.Second
	// shortestPause is the pause after a fast attempt of eventually. A slow attempt is followed by a pause of its own length.
	shortestPause = 50 * time.Millisecond
)

// eventually repeats check until it returns nil or the limit has passed, and returns the error of the last attempt that was not cancelled. It tries at least once.
func eventually(parent context.Context, within time.Duration, check func(context.Context) error) error {
	end := time.Now().Add(within)
	var last error
	for {
		began := time.Now()
		ctx, cancel := context.WithTimeout(parent, max(time.Until(end), lastAttempt))
		err := check(ctx)
		if err != nil && (ctx.Err() == nil || last == nil) {
			last = err
		}
		cancel()
		if err == nil {
			return nil
		}
		pause := max(shortestPause, time.Since(began))
		if !time.Now().Add(pause).Before(end) {
			pause = time.Until(end)
			if pause <= 0 {
				return last
			}
		}
		select {
		case <-parent.Done():
			return errors.Join(last, parent.Err())
		case <-time.After(pause):
		}
	}
}

// Offload creates a namespace in rome and offloads it to all providers. The remote namespace is called name-rome. The end of the story deletes it.
func (s *Story) Offload(name string, flags ...string) {
	s.Helper()
	s.Namespace(name, nil)
	_, err := s.Liqoctl(s.Context(), append([]string{"offload", "namespace", name, "--kubeconfig", s.Rome.Kubeconfig, "--timeout", "60s"}, flags...)...)
	s.Must(err)
}

// Namespace creates a namespace in rome. The end of the story deletes it.
func (s *Story) Namespace(name string, labels map[string]string) {
	s.Helper()
	s.Must(s.Rome.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
	s.namespaces = append(s.namespaces, name)
}

// Twin returns the name of the remote namespace of an offloaded namespace.
func Twin(namespace string) string { return namespace + "-rome" }

// tidy deletes the namespaces of a failed story as far as possible, so that the next story does not fail because of them.
func (s *Story) tidy() {
	if os.Getenv(EnvKeep) != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), 90*time.Second)
	defer cancel()
	for _, name := range s.namespaces {
		// The namespace's volumes would block the deletion of remote namespaces and virtual nodes.
		_, unoffload := s.Liqoctl(ctx, "unoffload", "namespace", name, "--delete-volumes", "--kubeconfig", s.Rome.Kubeconfig)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		err := s.Rome.Delete(ctx, namespace)
		for err == nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
			err = s.Rome.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		}
		if err == nil || client.IgnoreNotFound(err) != nil {
			fmt.Printf("---- namespace %s of %s stays: %v\n", name, s.Rome.ID, errors.Join(unoffload, err))
		}
	}
}

// removeNamespaces deletes the namespaces that Offload created, and waits until their remote namespaces are gone.
func (s *Story) removeNamespaces() {
	s.Helper()
	if len(s.namespaces) == 0 {
		return
	}
	s.Step("delete the namespace in rome", func() {
		for _, name := range s.namespaces {
			s.Must(client.IgnoreNotFound(s.Rome.Delete(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})))
			// Kubernetes itself would delete the pods only 5 s later.
			s.Must(s.Rome.DeleteAllOf(s.Context(), &corev1.Pod{}, client.InNamespace(name)))
		}
		for _, name := range s.namespaces {
			s.deleted(name, 90*time.Second)
		}
	})
	s.Step("its twins are gone", func() {
		for _, name := range s.namespaces {
			for _, provider := range s.Providers() {
				s.Gone(provider, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Twin(name)}}, 90*time.Second)
			}
		}
	})
}

// beginRemoval deletes the pods of the namespaces that the story created, and begins to delete the namespaces. Removed waits for their end.
func (s *Story) beginRemoval() {
	s.Helper()
	if len(s.namespaces) == 0 {
		return
	}
	s.Step("delete the pods, and begin to delete the namespaces", func() {
		for _, name := range s.namespaces {
			s.Must(client.IgnoreNotFound(s.Rome.Delete(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})))
			s.Must(s.Rome.DeleteAllOf(s.Context(), &corev1.Pod{}, client.InNamespace(name)))
		}
		for _, name := range s.namespaces {
			s.PodsReady(s.Rome, name, 0, 90*time.Second)
		}
	})
	s.removing.Lock()
	defer s.removing.Unlock()
	s.removing.namespaces = append(s.removing.namespaces, s.namespaces...)
}

// Removed waits until the namespaces of all earlier stories, and their remote namespaces, are deleted.
func (s *Story) Removed() {
	s.Helper()
	s.removing.Lock()
	names := slices.Clone(s.removing.namespaces)
	s.removing.Unlock()
	s.Step("the namespaces of earlier stories are deleted", func() {
		for _, name := range names {
			s.deleted(name, 90*time.Second)
			for _, provider := range s.Providers() {
				s.Gone(provider, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Twin(name)}}, 90*time.Second)
			}
		}
	})
}

// deleted waits until a namespace of rome that is being deleted is gone. Kubernetes empties it after 5 s. As long as pods remain, it checks again after
// another 5, 10, 20 and 40 s, or 5 s after the namespace was changed. So the namespace is changed once, when its last pod is gone.
func (s *Story) deleted(name string, within time.Duration) {
	s.Helper()
	touched := false
	s.Eventually(within, fmt.Sprintf("namespace %s to be gone from %s", name, s.Rome.ID), func(ctx context.Context) error {
		var namespace corev1.Namespace
		if err := s.Rome.Get(ctx, client.ObjectKey{Name: name}, &namespace); err != nil {
			return client.IgnoreNotFound(err)
		}
		pods, err := s.TryPods(ctx, s.Rome, name)
		if err != nil {
			return err
		}
		if len(pods) == 0 && !touched {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"empty-of-pods":"true"}}}`))
			if err := client.IgnoreNotFound(s.Rome.Patch(ctx, &namespace, patch)); err != nil {
				return err
			}
			touched = true
		}
		return fmt.Errorf("deleted at %v, it has the pods %v and the conditions %+v", namespace.DeletionTimestamp, Names(pods), namespace.Status.Conditions)
	})
}

// Gone waits until the object no longer exists.
func (s *Story) Gone(c *playground.Cluster, object client.Object, within time.Duration) {
	s.Helper()
	key := client.ObjectKeyFromObject(object)
	s.Eventually(within, fmt.Sprintf("%T %s to be gone from %s", object, key, c.ID), func(ctx context.Context) error {
		err := c.Get(ctx, key, object)
		if err == nil {
			return fmt.Errorf("it is there, deletion timestamp %v, finalizers %v", object.GetDeletionTimestamp(), object.GetFinalizers())
		}
		return client.IgnoreNotFound(err)
	})
}
