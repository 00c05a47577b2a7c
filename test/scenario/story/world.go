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

// EnvKeep is the environment variable that, if set, keeps the clusters running at the end for debugging.
const EnvKeep = "SCENARIO_KEEP"

// Plan describes a World.
type Plan struct {
	// Prefix distinguishes the clusters from those of other Worlds, and from those of other users of the machine.
	Prefix string
	// Budget limits the duration of all stories together; 0: only the suite has a limit.
	Budget time.Duration
	// Create holds flags of "playground create cluster", by cluster ID. Without flags, a cluster has one node and the same addresses as the others.
	Create map[string][]string
	// Install holds flags of "liqoctl install" by cluster, Peer those of "liqoctl peer" by provider.
	Install, Peer map[string][]string
	// Strangers means that the clusters are not peered: the stories peer them.
	Strangers bool
	// Otherwise holds functions that install a cluster, by its ID, instead of the built liqoctl.
	Otherwise map[string]func(context.Context, *playground.Cluster) error
	// Images are images of the build that stories need besides those of the components.
	Images []string
	// Pair means that there is no naples.
	Pair bool
	// ComparedOnce means that no story compares the clusters with their former state but the one that uninstalls Liqo. So stories need not wait until their
	// namespaces are deleted.
	ComparedOnce bool
}

// World is a set of three clusters, or of two.
type World struct {
	playground.Machine
	Plan
	// Rome uses Milan and, if there is one, Naples.
	Rome, Milan, Naples *playground.Cluster
	// empty is the state of each cluster before anything was installed.
	empty map[*playground.Cluster]Snapshot
	began time.Time
	// slowness is the slowness of the machine. Budgets are multiplied by it.
	slowness float64
	// removing are the namespaces of stories that have ended, in a World that is compared once.
	removing struct {
		sync.Mutex
		namespaces []string
	}
	// failures are the failures of all stories, which may be reported from several goroutines.
	failures struct {
		sync.Mutex
		all []string
	}
}

// New creates the clusters. Liqo is installed when the first story starts. The clusters are deleted when the test ends.
func New(t *testing.T, plan Plan) *World {
	t.Helper()
	Hush()
	machine, err := playground.Find(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &World{Machine: machine, Plan: plan, began: time.Now()}
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
				// Delete the clusters that an earlier, killed run has left.
				if err := machine.Delete(t.Context(), &playground.Cluster{Name: w.Prefix + id}); err != nil {
					return err
				}
				var err error
				clusters[i], err = machine.Create(t.Context(), plan.Prefix, id, plan.Create[id]...)
				if err == nil && len(plan.Images) > 0 {
					err = machine.Load(t.Context(), plan.Prefix+id, machine, plan.Images...)
				}
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
		if w.empty, err = takeAll(t.Context(), w.Clusters()); err != nil {
			t.Fatal(err)
		}
	})
	return w
}

// Join returns a World of two clusters that already exist and are peered.
func Join(t *testing.T, machine playground.Machine, rome, milan *playground.Cluster) *World {
	t.Helper()
	Hush()
	w := &World{Machine: machine, Rome: rome, Milan: milan}
	t.Cleanup(w.conclude)
	return w
}

// failed records a failure for conclude.
func (s *Story) failed(what string) {
	s.failures.Lock()
	defer s.failures.Unlock()
	s.failures.all = append(s.failures.all, fmt.Sprintf("%s: %s: %s", s.Name(), s.step, what))
}

// conclude prints the first line of each failure again, because the printed states of the clusters hide the failures.
func (w *World) conclude() {
	w.failures.Lock()
	defer w.failures.Unlock()
	for _, failure := range w.failures.all {
		fmt.Printf("---- FAILED %.400s\n", strings.Join(strings.Fields(failure), " "))
	}
}

// Hush silences the log of client-go, which would report each stream that a story ends as an error.
func Hush() {
	log.SetLogger(klog.Background())
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

// Clusters returns all clusters.
func (w *World) Clusters() []*playground.Cluster {
	return append([]*playground.Cluster{w.Rome}, w.Providers()...)
}

// Providers returns all clusters but rome.
func (w *World) Providers() []*playground.Cluster {
	return slices.DeleteFunc([]*playground.Cluster{w.Milan, w.Naples}, func(c *playground.Cluster) bool { return c == nil })
}

// Empty returns the state of the cluster before anything was installed.
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
	// Whether the product is right does not depend on how busy the machine was.
	if err := playground.Budget("all stories", time.Since(w.began), w.Budget, w.slowness); err != nil {
		fmt.Printf("== warning: %v\n", err)
	}
}

// ready installs Liqo in all clusters and peers rome with the others, where this is not done yet.
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
				if installed, err := w.Installed(s.Context(), c); err != nil || installed {
					return err // a story of TellBefore has installed it
				}
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
		for _, provider := range w.Providers() {
			s.Must(w.Machine.Peer(s.Context(), w.Rome, provider, w.Plan.Peer[provider.ID]...))
		}
	})
}

// Installed reports whether the cluster has Liqo's kinds.
func (w *World) Installed(ctx context.Context, c *playground.Cluster) (bool, error) {
	// Use a new client: clients cache the kinds of a cluster, which change during a run.
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

// say runs do, and prints the title and the duration.
func say(title string, do func()) {
	began := time.Now()
	defer func() { fmt.Printf("   %6.1f s  %s\n", time.Since(began).Seconds(), title) }()
	do()
}
