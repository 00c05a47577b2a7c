package examples

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// TestPair runs stories on a World with one node per cluster: common manifests have the same effect on a virtual node as on any other node, and two
// administrators make changes at the same time, or during a partition. To run one of them: -run TestPair/portable.
func TestPair(t *testing.T) {
	t.Parallel()
	w := story.New(t, story.Plan{Prefix: "portable-", Pair: true})
	w.Tell(t, "portable", portable)
	w.Tell(t, "apart", unpeerApart)
}

// row is a check of some of the manifests in testdata/portable, or of none.
type row struct {
	title string
	// manifests are the files that the row checks, without their extension, separated by spaces.
	manifests string
	holds     func(context.Context) error
}

// portables holds all manifests in testdata/portable. They are applied at once. Then each row checks them as a user would, by pods, conditions, Events and
// logs. A failed row does not prevent the checks of the next one.
type portables struct {
	*story.Story
	// ns is the namespace of the manifests, db a second offloaded namespace.
	ns, db string
}

// portable: common manifests have the same effect in milan as in rome, or an Event says what to do.
func portable(s *story.Story) {
	p := &portables{Story: s, ns: "portable", db: "portable-db"}
	clock := &clockAhead{Story: s, namespace: story.Twin(p.ns), app: "patient"}
	rows := []row{
		{"a token that never ends stays here, which is reported, until it is allowed to leave", "tokensecret", p.tokenThatNeverEnds},
		{"the endpoint of a node is reported, and works by an IP object", "endpoints externalname", p.endpoints},
		{"matchLabelKeys: both pods run", "matchlabelkeys", p.matchLabelKeys},
		{"a resize that milan refuses is a condition, and other pods are scheduled", "resize", p.resize},
		{"the CA by its usual name is that of rome", "rootca", p.rootCA},
		{"the API server of rome has all its names, accepts the account in its namespace, and two truths are reported", "apiclient", p.apiClient},
		{"the user of the pod may read its token, here and there", "tokenmode", p.tokenMode},
		{"a spread over a label that only rome's nodes have is satisfied, and reported", "topologykey", p.topologyKey},
		{"a safe sysctl is in effect", "sysctl", p.sysctl},
		{"an ExternalName is the remote name of the offloaded namespace, or reported", "externalname", p.externalName},
		{"a Secret of the user that is named after the pod is the user's", "tokenname", p.tokenName},
		{"a pod in milan has the zone of milan's node", "rootca", p.zone},
		{"rights to parts of a kubelet are those of a real node", "kubeletreader endpoints", p.kubeletReader},
		{"the Node has the architecture that its VirtualNode states", "", p.architecture},
		{"our kinds by the names that do not collide with those of Kubernetes", "", p.names},
		{"minReadySeconds does not wait for the clock of milan", "minready", func(ctx context.Context) error { return p.minReady(ctx, clock) }},
		{"a drain in milan leaves what a budget of rome protects", "budget", p.budget},
		{"a Job that was disrupted while milan was out of reach goes on", "job", p.job},
	}
	s.Must(p.covered(rows))
	s.Step("two offloaded namespaces, labelled nodes, and a clock that is ahead", func() {
		p.must(p.prepare(), clock.start())
	})
	s.Step("apply all manifests", func() { s.Must(p.kubectl(s.Rome, "apply -f "+p.manifests())) })
	for _, r := range rows {
		s.Step(r.title, func() {
			if err := r.holds(s.Context()); err != nil {
				s.Errorf("%s: %v", r.title, err)
			}
		})
	}
	s.Step("take back what is not in the namespaces", func() { p.must(clock.end(), p.restore()) })
}

func (p *portables) manifests() string {
	return filepath.Join(p.Root, "test", "scenario", "examples", "testdata", "portable")
}

// covered returns an error for each manifest that no row checks, and for each one in a row that does not exist.
func (p *portables) covered(rows []row) error {
	files, err := filepath.Glob(filepath.Join(p.manifests(), "*"))
	if err != nil {
		return err
	}
	unchecked := map[string]bool{}
	for _, file := range files {
		unchecked[strings.TrimSuffix(filepath.Base(file), ".yaml")] = true
	}
	var problems []error
	for _, r := range rows {
		for name := range strings.FieldsSeq(r.manifests) {
			if _, there := unchecked[name]; !there {
				problems = append(problems, fmt.Errorf("row %q: testdata/portable has no %s.yaml", r.title, name))
			}
			unchecked[name] = false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unchecked)) {
		if unchecked[name] {
			problems = append(problems, fmt.Errorf("no row checks testdata/portable/%s.yaml: add one", name))
		}
	}
	return errors.Join(problems...)
}

func (p *portables) must(problems ...error) {
	p.Helper()
	p.Must(errors.Join(problems...))
}

// kubectl runs a kubectl command as an administrator.
func (p *portables) kubectl(c *playground.Cluster, words string) error {
	_, err := p.Shell(p.Context(), c, "kubectl "+words)
	return err
}

func (p *portables) prepare() error {
	var group errgroup.Group
	for _, ns := range []string{p.ns, p.db} {
		p.Namespace(ns, nil)
		group.Go(func() error {
			_, err := p.Shell(p.Context(), p.Rome, "liqoctl offload namespace "+ns)
			return err
		})
	}
	return errors.Join(group.Wait(),
		p.kubectl(p.Rome, "label node "+p.Rome.Node()+" example.org/site=here"),
		p.kubectl(p.Rome, "label node milan example.org/site=there topology.kubernetes.io/zone=north"),
		p.kubectl(p.Milan, "label node "+p.Milan.Node()+" topology.kubernetes.io/zone=m-a"))
}

// restore removes the objects that prepare and the manifests have created outside of the namespaces.
func (p *portables) restore() error {
	return errors.Join(
		p.kubectl(p.Rome, "label node "+p.Rome.Node()+" example.org/site-"),
		p.kubectl(p.Rome, "label node milan example.org/site- topology.kubernetes.io/zone-"),
		p.kubectl(p.Milan, "label node "+p.Milan.Node()+" topology.kubernetes.io/zone-"),
		p.kubectl(p.Rome, "delete -f "+filepath.Join(p.manifests(), "kubeletreader.yaml")))
}

// soon waits until check returns nil. If that takes too long, it returns the last error of check.
func soon(ctx context.Context, within time.Duration, check func(context.Context) error) error {
	began := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if time.Since(began) > within {
			return fmt.Errorf("after %v: %w", within, err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// ready waits until the pods of these names are Ready in rome.
func (p *portables) ready(ctx context.Context, names ...string) error {
	return soon(ctx, start, func(ctx context.Context) error {
		all, err := p.TryPods(ctx, p.Rome, p.ns)
		for _, name := range names {
			i := slices.IndexFunc(all, func(pod corev1.Pod) bool { return pod.Name == name })
			if i < 0 || !story.Ready(all[i]) {
				err = errors.Join(err, fmt.Errorf("pod %s is not Ready%s", name, state(all, i)))
			}
		}
		return err
	})
}

// labelled waits until exactly want pods of an app are Ready in the cluster, and returns them.
func (p *portables) labelled(ctx context.Context, c *playground.Cluster, app string, want int) (found []corev1.Pod, err error) {
	ns := p.ns
	if c == p.Milan {
		ns = story.Twin(ns)
	}
	err = soon(ctx, start, func(ctx context.Context) error {
		var list corev1.PodList
		if err := c.List(ctx, &list, client.InNamespace(ns), client.MatchingLabels{"app": app}); err != nil {
			return err
		}
		found = slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !story.Ready(pod) })
		if len(found) != want {
			return fmt.Errorf("%d pods of %s are Ready in %s, want %d%s", len(found), app, c.ID, want, state(list.Items, 0))
		}
		return nil
	})
	return found, err
}

// state returns the status of a pod as text, for error messages.
func state(pods []corev1.Pod, i int) string {
	if i < 0 || i >= len(pods) {
		return ": it is not there"
	}
	status := pods[i].Status
	text := fmt.Sprintf(": %s is %s %s %s", pods[i].Name, status.Phase, status.Reason, status.Message)
	for _, c := range status.Conditions {
		if c.Status != corev1.ConditionTrue {
			text += fmt.Sprintf("; %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return text
}

// reported waits for a Warning with all these words about an object whose name starts with name.
func (p *portables) reported(ctx context.Context, kind, name string, words ...string) error {
	return soon(ctx, start, func(ctx context.Context) error {
		var list corev1.EventList
		if err := p.Rome.List(ctx, &list, client.InNamespace(p.ns)); err != nil {
			return err
		}
		var others []string
		for _, e := range list.Items {
			if e.InvolvedObject.Kind != kind || !strings.HasPrefix(e.InvolvedObject.Name, name) {
				continue
			}
			if e.Type == corev1.EventTypeWarning && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(e.Message, word) }) {
				return nil
			}
			others = append(others, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
		}
		return fmt.Errorf("no Warning about %s %s has the words %q; there are %q", kind, name, words, others)
	})
}

// in runs a command in the only container of a pod, through rome's API server.
func (p *portables) in(pod string, command ...string) (string, error) {
	said := p.Exec(p.Rome, story.WebSocket, p.ns, pod, "", command...)
	if said.Code != 0 {
		return said.Out, fmt.Errorf("%s in pod %s: exit code %d: %s%s", strings.Join(command, " "), pod, said.Code, said.Out, said.Err)
	}
	return said.Out, nil
}

// there reads the remote object of that name.
func (p *portables) there(ctx context.Context, name string, into client.Object) error {
	return p.Milan.Get(ctx, client.ObjectKey{Namespace: story.Twin(p.ns), Name: name}, into)
}

// node reads a Node of rome.
func (p *portables) node(ctx context.Context, name string) (*corev1.Node, error) {
	var node corev1.Node
	return &node, p.Rome.Get(ctx, client.ObjectKey{Name: name}, &node)
}

// virtualNode returns arguments of kubectl that select the VirtualNode of milan.
func virtualNode() string { return "virtualnode milan -n " + api.TenantNamespace("milan") }
