package story

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/test/playground"
)

// EnvKeep is the variable that, set to anything, leaves the clusters running at the end for a look at them.
const EnvKeep = "SCENARIO_KEEP"

// Plan says what a world is like.
type Plan struct {
	// Prefix keeps the clusters apart from those of other worlds, and of people who try Liqo on the same machine.
	Prefix string
	// Budget is how long all stories together may take; 0: the suite has a budget instead.
	Budget time.Duration
	// Create are flags of "playground create cluster", by cluster ID; without any, a cluster has one node and the addresses that all have.
	Create map[string][]string
	// Install are flags of "liqoctl install", by cluster, Peer those of "liqoctl peer", by provider.
	Install, Peer map[string][]string
	// Strangers are clusters that stories peer themselves.
	Strangers bool
	// Otherwise installs a cluster, by its ID, in another way than the liqoctl that was built.
	Otherwise map[string]func(context.Context, *playground.Cluster) error
	// Pair leaves Naples out.
	Pair bool
}

// World is three clusters, or two.
type World struct {
	playground.Machine
	Plan
	// Rome uses Milan and, if there is one, Naples.
	Rome, Milan, Naples *playground.Cluster
	// empty is what each cluster held before anything was installed.
	empty map[*playground.Cluster]Snapshot
	began time.Time
	// slowness is that of the machine, by which the budget grows.
	slowness float64
	// failures are what was not true of the stories. Those can go on in several goroutines.
	failures struct {
		sync.Mutex
		all []string
	}
}

// New makes the clusters; Liqo is installed when the first story begins. They are deleted when the test ends.
func New(t *testing.T, plan Plan) *World {
	t.Helper()
	Hush()
	machine, err := playground.Find(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &World{Machine: machine, Plan: plan, empty: map[*playground.Cluster]Snapshot{}, began: time.Now()}
	if w.slowness, err = machine.Slowness(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.end(t) })
	ids := []string{"rome", "milan", "naples"}
	if plan.Pair {
		ids = ids[:2]
	}
	say("clusters "+strings.Join(ids, ", "), func() {
		clusters := make([]*playground.Cluster, len(ids))
		var group errgroup.Group
		for i, id := range ids {
			group.Go(func() error {
				// What an earlier run left, if it was killed.
				if err := machine.Delete(t.Context(), &playground.Cluster{Name: w.Prefix + id}); err != nil {
					return err
				}
				var err error
				clusters[i], err = machine.Create(t.Context(), plan.Prefix, id, plan.Create[id]...)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		w.Rome, w.Milan = clusters[0], clusters[1]
		if !plan.Pair {
			w.Naples = clusters[2]
		}
		for _, c := range w.Clusters() {
			if w.empty[c], err = Take(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	})
	return w
}

// Join tells stories on two clusters that somebody else has made, and peered.
func Join(t *testing.T, machine playground.Machine, rome, milan *playground.Cluster) *World {
	t.Helper()
	Hush()
	w := &World{Machine: machine, Rome: rome, Milan: milan}
	t.Cleanup(w.conclude)
	return w
}

// failed keeps what was not true for the conclusion.
func (s *Story) failed(what string) {
	s.failures.Lock()
	defer s.failures.Unlock()
	s.failures.all = append(s.failures.all, fmt.Sprintf("%s: %s: %s", s.Name(), s.step, what))
}

// conclude repeats what was not true: the states of clusters, which are printed at that moment, hide it.
func (w *World) conclude() {
	w.failures.Lock()
	defer w.failures.Unlock()
	for _, failure := range w.failures.all {
		fmt.Printf("---- FAILED %s\n", failure)
	}
}

// Hush makes clients quiet: a stream that a story ends is no error, but client-go says so.
func Hush() {
	log.SetLogger(klog.Background())
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

// Clusters returns all of them.
func (w *World) Clusters() []*playground.Cluster {
	return append([]*playground.Cluster{w.Rome}, w.providers()...)
}

func (w *World) providers() []*playground.Cluster {
	return slices.DeleteFunc([]*playground.Cluster{w.Milan, w.Naples}, func(c *playground.Cluster) bool { return c == nil })
}

// Empty is what the cluster held before anything was installed.
func (w *World) Empty(c *playground.Cluster) Snapshot { return w.empty[c] }

func (w *World) end(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if os.Getenv(EnvKeep) == "" {
		var group errgroup.Group
		for _, id := range []string{"rome", "milan", "naples"} {
			group.Go(func() error { return w.Delete(ctx, &playground.Cluster{Name: w.Prefix + id}) })
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}
	w.conclude()
	if w.Budget == 0 {
		return
	}
	if err := playground.Budget("all stories", time.Since(w.began), w.Budget, w.slowness); err != nil {
		t.Error(err)
	}
}

// ready installs Liqo everywhere and peers rome with the others, where that is not so already.
func (w *World) ready(s *Story) {
	installed, err := w.Installed(s.Context(), w.Rome)
	s.Must(err)
	if installed {
		return
	}
	s.Step("install everywhere", func() {
		var group errgroup.Group
		for _, c := range w.Clusters() {
			group.Go(func() error {
				if install := w.Otherwise[c.ID]; install != nil {
					return install(s.Context(), c)
				}
				return w.Machine.Install(s.Context(), c, w.Plan.Install[c.ID]...)
			})
		}
		s.Must(group.Wait())
	})
	if w.Strangers {
		return
	}
	s.Step("peer rome with the others", func() {
		for _, provider := range w.providers() {
			s.Must(w.Machine.Peer(s.Context(), w.Rome, provider, w.Plan.Peer[provider.ID]...))
		}
	})
}

// Installed tells whether the cluster knows our kinds.
func (w *World) Installed(ctx context.Context, c *playground.Cluster) (bool, error) {
	// A client of its own: which kinds there are changes in the course of a run, and a client remembers.
	fresh, err := client.New(c.Config, client.Options{Scheme: c.Scheme()})
	if err != nil {
		return false, err
	}
	err = fresh.List(ctx, &corev1beta1.ForeignClusterList{})
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// say runs something and prints what it was and how long it took.
func say(title string, do func()) {
	began := time.Now()
	defer func() { fmt.Printf("   %6.1f s  %s\n", time.Since(began).Seconds(), title) }()
	do()
}
