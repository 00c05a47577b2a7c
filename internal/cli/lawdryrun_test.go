package cli

import (
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"liqo.io/liqo/internal/cli/session"
)

// dry is the name of a request without its being dry and how often it was made.
func dry(request string) string {
	request = strings.TrimSuffix(request[:strings.LastIndex(request, " #")], " (dry run)")
	return request
}

// foretold returns the lines of a dry run that announce a change, in the form of the journal.
var foretold = regexp.MustCompile(`(?m)^ INFO  \((?:(local|remote), )?dry run\) (\S+) (\S+)(?: in namespace (\S+))? would be (created|changed|deleted)`)

func changesTold(said string) (out []string) {
	for _, line := range foretold.FindAllStringSubmatch(said, -1) {
		change := line[2] + " " + strings.TrimPrefix(line[4]+"/"+line[3], "/") + " " + line[5]
		if line[1] != "" {
			change += " (" + line[1] + ")"
		}
		out = append(out, change)
	}
	return out
}

// dryRun runs the command with --dry-run: that writes nothing, succeeds where the command does, and tells all that the command then changes.
// Commands that change nothing have no such flag.
func (l *trial) dryRun(t *testing.T) {
	t.Helper()
	words := strings.Fields(l.command)
	command, _, err := newRoot(session.New(genericiooptions.NewTestIOStreamsDiscard())).Find(words)
	if err != nil {
		t.Fatal(err)
	}
	if writes, has := l.want.wrote > 0, command.Flags().Lookup("dry-run") != nil; writes != has {
		t.Errorf("%s made %d changes; it has --dry-run: %t", l.command, l.want.wrote, has)
	} else if !has {
		return
	}
	ran := l.in(t, l.at, l.command+" --dry-run", nil)
	if ran.code != 0 || ran.wrote != 0 || ran.out != "" {
		t.Errorf("%s --dry-run: code %d, %d changes: %s%s", l.command, ran.code, ran.wrote, ran.out, ran.said)
	}
	if diff := cmp.Diff(essence(l.at), essence(ran.left)); diff != "" {
		t.Errorf("%s --dry-run leaves another world (-want +got): %s", l.command, diff)
	}
	told := changesTold(ran.said)
	for _, change := range l.want.changes {
		if !slices.Contains(told, change) {
			t.Errorf("%s --dry-run does not tell %q:\n%s", l.command, change, ran.said)
		}
	}
	for _, change := range told {
		// What a controller deletes while the command waits is not left for the command to delete.
		if !slices.Contains(l.want.changes, change) && !strings.Contains(change, " deleted") {
			t.Errorf("%s --dry-run tells %q, which the command does not do:\n%s", l.command, change, ran.said)
		}
	}
}

// hindered runs the command with --dry-run, and the same request refused that a run without met: it says the same.
func (l *trial) hindered(t *testing.T, request string, d disturbance, really ranCommand) {
	t.Helper()
	if !strings.HasSuffix(request, " #1") {
		return
	}
	fired := false
	ran := l.in(t, l.at, l.command+" --dry-run", func() {
		l.answer = func(this string, r *http.Request) (*http.Response, error) {
			if dry(this) != dry(request) || r.URL.Query().Get("watch") != "" {
				return nil, nil
			}
			l.mu.Lock()
			fired = true
			l.mu.Unlock()
			return d.answer(r)
		}
	})
	if ran.wrote != 0 {
		t.Errorf("%s --dry-run, %s of %s: %d changes", l.command, d.name, request, ran.wrote)
	}
	failed := func(said string) string {
		_, said, _ = strings.Cut(said, " ERRO  ")
		said, _, _ = strings.Cut(said, "\n       Applied before the failure: ")
		return strings.TrimSpace(strings.ReplaceAll(said, "?dryRun=All", ""))
	}
	if want, got := failed(really.said), failed(ran.said); fired && want != got {
		t.Errorf("%s, %s of %s: with --dry-run it says something else (-without +with): %s", l.command, d.name, request, cmp.Diff(want, got))
	}
}

// TestDryRunOfTestNetwork: the plan is printed even without real clusters.
func TestDryRunOfTestNetwork(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	at := w.in(t, w.snapshot(), "peer"+lawBoth, nil).left
	ran := w.in(t, at, "test network --rm --dry-run --remote-kubeconfigs %milan --kubeconfig %rome", nil)
	if diff := cmp.Diff(essence(at), essence(ran.left)); ran.code != 0 || ran.wrote != 0 || diff != "" {
		t.Errorf("code %d, %d changes: %s%s", ran.code, ran.wrote, ran.said, diff)
	}
	for _, want := range []string{
		"(dry run) Namespace liqo-test-network-rome would be created", "(milan, dry run) DaemonSet network-test-host in namespace liqo-test-hosts-rome would be created", "would connect to all others",
	} {
		if !strings.Contains(ran.said, want) {
			t.Errorf("no %q in: %s", want, ran.said)
		}
	}
}
