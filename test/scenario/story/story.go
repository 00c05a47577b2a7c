package story

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
)

// Story is a test on the world. Its clients' requests end with it.
type Story struct {
	*testing.T
	*World
	name string
	// together says that other stories are told at the same time, so that each line has to say whose it is.
	together bool
	// step is what is being done.
	step       string
	namespaces []string
	// shared are namespaces that stay for other stories.
	shared []string
	before map[*playground.Cluster]Snapshot
	others []string
}

// Tell runs one story as a subtest. Liqo is installed and peered before; afterwards, unless the story says so itself by calling
// Leaves, everything has to be as it was.
func (w *World) Tell(t *testing.T, name string, body func(s *Story)) {
	t.Helper()
	w.tell(t, name, func(s *Story) {
		w.ready(s)
		s.before = w.snapshots(s)
		body(s)
		s.removeNamespaces()
		if installed, err := w.Installed(s.Context(), w.Rome); err != nil || !installed {
			s.Must(err)
			return // the story took everything down, and has compared with the empty clusters
		}
		s.nothingLeft()
	})
}

// Named is a story and the name of its subtest.
type Named struct {
	Name string
	Body func(s *Story)
}

// TellTogether runs stories side by side, each as a subtest. They touch nothing but namespaces of their own. When the last one has ended, a subtest of
// its own, "nothing-left", compares with what there was before the first one.
func (w *World) TellTogether(t *testing.T, stories ...Named) {
	t.Helper()
	first := &Story{T: t, World: w}
	w.ready(first)
	before := w.snapshots(first)
	var group sync.WaitGroup
	for _, told := range stories {
		group.Go(func() {
			w.tell(t, told.Name, func(s *Story) {
				s.together = true
				told.Body(s)
				s.removeNamespaces()
			})
		})
	}
	group.Wait()
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

// nothingLeft waits until every cluster is as it was before.
func (s *Story) nothingLeft() {
	s.Helper()
	s.Step("nothing is left", func() {
		for _, c := range s.Clusters() {
			s.Same(c, s.before[c])
		}
	})
}

func (w *World) snapshots(s *Story) map[*playground.Cluster]Snapshot {
	all := map[*playground.Cluster]Snapshot{}
	for _, c := range w.Clusters() {
		snapshot, err := Take(s.Context(), c)
		s.Must(err)
		all[c] = snapshot
	}
	return all
}

// Renewed says that objects were given other contents on purpose, or other names, which stay: all those that have one of the parts in how
// a Snapshot names them.
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

// Others says that objects are not of this story, and may change: those that have one of the parts in how a Snapshot names them.
func (s *Story) Others(parts ...string) { s.others = append(s.others, parts...) }

// Shares says that an offloaded namespace of rome is there for other stories as well, so that it may come, stay and go.
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

// Same waits until the cluster holds what it held before, and fails with the difference.
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

// Step does a part of the story and prints its title and how long it took.
func (s *Story) Step(title string, do func()) {
	s.Helper()
	s.step = title
	if s.together {
		title = s.name + ": " + title
	}
	say(title, do)
}

// Errorf notes that the story is not true, and goes on.
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

// Fatalf ends the story: it is not true.
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

// Must ends the story if there is an error.
func (s *Story) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Eventually asks until check returns nil, and ends the story with its last error if that takes longer than within.
func (s *Story) Eventually(within time.Duration, what string, check func(context.Context) error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), within)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		// A check that is cut short by the deadline says less than the one before it.
		if err := check(ctx); err == nil {
			return
		} else if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			s.Fatalf("waited %v for %s: %v", within, what, last)
		case <-tick.C:
		}
	}
}

// Offload makes a namespace in rome and offloads it to all providers; its twin there is called name-rome. The story's end deletes it.
func (s *Story) Offload(name string, flags ...string) {
	s.Helper()
	s.Namespace(name, nil)
	_, err := s.Liqoctl(s.Context(), append([]string{"offload", "namespace", name, "--kubeconfig", s.Rome.Kubeconfig, "--timeout", "60s"}, flags...)...)
	s.Must(err)
}

// Namespace makes a namespace in rome. The story's end deletes it.
func (s *Story) Namespace(name string, labels map[string]string) {
	s.Helper()
	s.Must(s.Rome.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
	s.namespaces = append(s.namespaces, name)
}

// Twin is the name of an offloaded namespace in the providers.
func Twin(namespace string) string { return namespace + "-rome" }

// tidy takes the namespaces of a story that failed away, as far as that goes, so that the next one does not fail because of them.
func (s *Story) tidy() {
	if os.Getenv(EnvKeep) != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), 90*time.Second)
	defer cancel()
	for _, name := range s.namespaces {
		_, err := s.Liqoctl(ctx, "unoffload", "namespace", name, "--kubeconfig", s.Rome.Kubeconfig)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for err = errors.Join(err, s.Rome.Delete(ctx, namespace)); err == nil && ctx.Err() == nil; {
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
			err = s.Rome.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		}
		if client.IgnoreNotFound(err) != nil {
			fmt.Printf("---- namespace %s of %s stays: %v\n", name, s.Rome.ID, err)
		}
	}
}

// removeNamespaces deletes what Offload made, twins included.
func (s *Story) removeNamespaces() {
	s.Helper()
	if len(s.namespaces) == 0 {
		return
	}
	s.Step("delete the namespace in rome", func() {
		for _, name := range s.namespaces {
			s.Must(client.IgnoreNotFound(s.Rome.Delete(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})))
			// Kubernetes itself would delete the pods only at its first look, after 5 s.
			s.Must(s.Rome.DeleteAllOf(s.Context(), &corev1.Pod{}, client.InNamespace(name)))
		}
		for _, name := range s.namespaces {
			s.deleted(name, 90*time.Second)
		}
	})
	s.Step("its twins are gone", func() {
		for _, name := range s.namespaces {
			for _, provider := range s.providers() {
				s.Gone(provider, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Twin(name)}}, 90*time.Second)
			}
		}
	})
}

// deleted waits until a namespace of rome that is being deleted is gone. Kubernetes empties it after 5 s. As long as pods remain, it looks again after
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

// Gone waits until the object is not there.
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
