package examples

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
	"liqo.io/liqo/test/scenario/tutorial"
)

// budget is the limit for the whole suite, including the creation of the clusters, on two cores.
const budget = 27 * time.Minute

// namespace is the namespace that all tutorials use.
const namespace = "liqo-demo"

// Flags: whether the stories partition and burst run too (make soak sets this), how long the clusters are cut off, and when in a burst the virtual kubelet is
// killed. For example:
//
//	go test ./test/scenario/examples -timeout 2h -soak -partition 10m -kills 0s-20s
var (
	soak  = flag.Bool("soak", false, "tell the partition and the burst too, which take minutes")
	cut   = flag.Duration("partition", 90*time.Second, "how long the clusters are cut apart")
	kills = flag.String("kills", "", "FROM-TO: kill the virtual kubelet at every 0.2 s of that part of a burst (default: at one moment, chosen at random)")
)

func TestMain(m *testing.M) {
	began := time.Now()
	// Always use the same folder, so that the clusters of a killed run are found.
	if err := os.Setenv("PLAYGROUND_HOME", filepath.Join(os.TempDir(), "liqo-examples")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	flag.Parse()
	// Run two Worlds at a time: clusters need both processors while they start, and mostly wait later.
	if err := flag.Set("test.parallel", "2"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	slowness, err := slow()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := playground.Budget("all examples", time.Since(began), budget, slowness); err != nil && *cut < 2*time.Minute && *kills == "" {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// slow returns the slowness of this machine, measured before any cluster runs.
func slow() (float64, error) {
	machine, err := playground.Find(os.TempDir())
	if err != nil {
		return 0, err
	}
	return machine.Slowness(context.Background())
}

// TestTutorials follows the other tutorials, each on its own clusters.
func TestTutorials(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"stateful-applications", "homelab-gpu", "global-ingress", "offloading-with-policies", "replicated-deployments", "service-offloading"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			open(t, folder).follow("")
		})
	}
}

// TestQuickStart follows the quick start. Further stories run on its clusters before it removes them. They measure response times, so nothing else runs at the
// same time.
func TestQuickStart(t *testing.T) {
	b := open(t, "quick-start")
	b.follow("Take it down")
	b.browse("http://localhost:8080")
	b.guide("docs/guide/offloading.md")
	world := story.Join(t, b.machine, b.cluster("rome"), b.cluster("milan"))
	world.Tell(t, "home", home)
	world.Tell(t, "shop", shop)
	if *soak {
		world.Tell(t, "partition", partition)
		world.Tell(t, "burst", burst)
	}
	b.follow("")
}

// book is a tutorial with the next step to run.
type book struct {
	*testing.T
	machine playground.Machine
	shell   *tutorial.Shell
	steps   []tutorial.Step
	began   time.Time
}

// last matches the commands by which a tutorial removes its clusters.
var last = regexp.MustCompile(`(?m)^playground delete cluster --name (\S+)$`)

// open starts a tutorial. Its clusters are deleted at the end of the test in any case.
func open(t *testing.T, folder string) *book {
	t.Helper()
	story.Hush()
	machine, err := playground.Find(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(machine.Root, "examples", folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	b := &book{T: t, machine: machine, shell: tutorial.NewShell(t, machine.Root), began: time.Now()}
	if b.steps, err = tutorial.Parse(string(text)); err != nil {
		t.Fatalf("%s: %v", folder, err)
	}
	var names []string
	for _, match := range last.FindAllStringSubmatch(string(text), -1) {
		names = append(names, match[1])
	}
	if len(names) == 0 {
		t.Fatalf("tutorial %s does not take its clusters down", folder)
	}
	b.remove(names) // delete the clusters that an earlier, killed run has left
	t.Cleanup(func() {
		if t.Failed() {
			b.describe(names)
		}
		if os.Getenv(story.EnvKeep) == "" {
			b.remove(names)
		}
		kubeconfigs, err := filepath.Glob(filepath.Join(machine.Root, "examples", folder, "liqo_kubeconf_*"))
		if err != nil {
			t.Error(err)
		}
		for _, file := range kubeconfigs {
			if err := os.Remove(file); err != nil {
				t.Error(err)
			}
		}
	})
	return b
}

// follow runs all steps up to a section; all remaining steps if section is "".
func (b *book) follow(section string) {
	b.Helper()
	for len(b.steps) > 0 && (section == "" || b.steps[0].Section != section) {
		b.shell.Do(b.steps[0])
		b.steps = b.steps[1:]
	}
	if section != "" && len(b.steps) == 0 {
		b.Fatalf("the tutorial has no section %q", section)
	}
	fmt.Printf("== tutorial %s: %.1f s\n", b.Name(), time.Since(b.began).Seconds())
}

// guide runs the steps of another document on the clusters of this tutorial.
func (b *book) guide(file string) {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.machine.Root, file))
	if err != nil {
		b.Fatal(err)
	}
	steps, err := tutorial.Parse(string(text))
	if err != nil {
		b.Fatalf("%s: %v", file, err)
	}
	for _, step := range steps {
		b.shell.Do(step)
	}
}

func (b *book) cluster(name string) *playground.Cluster {
	b.Helper()
	c, err := b.machine.Connect(b.Context(), "", name)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (b *book) remove(names []string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), time.Minute)
	defer cancel()
	var group errgroup.Group
	for _, name := range names {
		group.Go(func() error { return b.machine.Delete(ctx, &playground.Cluster{Name: name}) })
	}
	if err := group.Wait(); err != nil {
		b.Error(err)
	}
}

// describe prints the state of those of the clusters that exist.
func (b *book) describe(names []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), time.Minute)
	defer cancel()
	for _, name := range names {
		c, err := b.machine.Connect(ctx, "", name)
		if err != nil {
			fmt.Printf("---- no cluster %s: %v\n", name, err)
			continue
		}
		story.Describe(ctx, []string{namespace}, c)
	}
}
