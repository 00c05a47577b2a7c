package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/cli/session"
)

// refuses checks that the command, in this state and as a dry run too, fails with the texts and changes nothing.
func (w *world) refuses(t *testing.T, at worldSnapshot, command string, says []string) {
	t.Helper()
	for _, command := range []string{command, command + " --dry-run"} {
		ran := w.in(t, at, command, nil)
		if diff := cmp.Diff(essence(at), essence(ran.left)); ran.code != 1 || ran.wrote != 0 || diff != "" {
			t.Errorf("%s: code %d, %d changes: %s%s", command, ran.code, ran.wrote, ran.said, diff)
		}
		for _, want := range says {
			if !strings.Contains(ran.said, want) {
				t.Errorf("%s: no %q in %s", command, want, ran.said)
			}
		}
	}
}

// edit changes an object, given by namespace and name.
func edit(t *testing.T, c client.Client, object client.Object, change func()) {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	change()
	if err := c.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// in runs a command in a world at a snapshot, on a clock of its own, and with answers instead of the servers'.
func (w *world) in(t *testing.T, at worldSnapshot, command string, prepare func()) (ran ranCommand) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w.begin(at)
		if prepare != nil {
			prepare()
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { // gateways measure their tunnels all the time
			defer close(done)
			for tick := w.ticks; tick; {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Second):
					for _, c := range w.clusters {
						c.measure(ctx)
					}
				}
			}
		}()
		began := time.Now()
		ran.code, ran.out, ran.said = w.run(ctx, command)
		ran.took = time.Since(began)
		cancel()
		<-done
		ran.seen, ran.wrote, ran.changes, ran.left = w.seen, w.wrote, w.changes, w.snapshot()
	})
	return ran
}

type ranCommand struct {
	code      int
	out, said string
	took      time.Duration
	seen      []string
	wrote     int      // changes that a server made
	changes   []string // as the command's journal has them
	left      worldSnapshot
}

// essence is equal for two runs with the same result: every object, with its spec if nothing in it is random.
func essence(at worldSnapshot) map[string]string {
	out := map[string]string{}
	for id, snapshot := range at {
		for key, object := range snapshot.objects {
			u := unstructured.Unstructured{Object: object}
			spec, err := json.Marshal(object["spec"])
			if err != nil {
				panic(err)
			}
			if slices.Contains([]string{"PublicKey", "CertificateSigningRequest", "Secret"}, u.GetKind()) {
				spec = nil
			}
			out[id+" "+key] = string(spec)
		}
	}
	return out
}

// disturbance is a way in which a request goes wrong.
type disturbance struct {
	name string
	// hits tells whether a request may go wrong so.
	hits func(request string) bool
	// answer is given instead of the server's.
	answer func(r *http.Request) (*http.Response, error)
	// cure lists advice, one of which the error must contain.
	cure []string
	// passes is whether another try meets it no more.
	passes bool
	// alike is whether it is enough to see it once for each verb and kind.
	alike bool
}

func refuseWith(code int, reason metav1.StatusReason) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		// It says nothing that the command should say itself.
		return refusal(code, reason, memoryPath{}, servedKind{}, "refused by the law"), nil
	}
}

func mutates(request string) bool {
	return !strings.Contains(request, " GET ") && !strings.Contains(request, " WATCH ")
}

var disturbances = []disturbance{
	{name: "forbidden", hits: func(string) bool { return true }, answer: refuseWith(http.StatusForbidden, metav1.StatusReasonForbidden), cure: []string{"lacks this right", "administrator"}},
	{name: "conflict", hits: func(request string) bool {
		return strings.Contains(request, " PATCH ") || strings.Contains(request, " PUT ")
	},
		answer: refuseWith(http.StatusConflict, metav1.StatusReasonConflict), cure: []string{"run the command again"}},
	{name: "exists", hits: func(request string) bool { return strings.Contains(request, " POST ") }, answer: refuseWith(http.StatusConflict, metav1.StatusReasonAlreadyExists), cure: []string{"run the command again", "not found"}},
	{name: "busy", hits: func(string) bool { return true }, passes: true, alike: true, answer: refuseWith(http.StatusGatewayTimeout, metav1.StatusReasonTimeout), cure: []string{"run the command again"}},
	{name: "silence", alike: true, cure: []string{"did not answer in time", "timed out (--timeout)"}, hits: func(string) bool { return true }, answer: func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}},
}

// ungrammatical matches text that no user should see: failed formats, and Go's types and values.
var ungrammatical = regexp.MustCompile(`%!|&\{|map\[|<nil>|\*?v1(alpha1|beta1)?\.[A-Z]|0x[0-9a-f]{6}|goroutine`)

// quoted URLs name what the command should name itself.
var quotedURL = regexp.MustCompile(`(Get|Post|Put|Patch|Delete) "[^"]*"`)

// wellSaid returns what is wrong with the error message of a command. subject is the object of the failed request.
func wellSaid(said string, subject servedKind) (wrong []string) {
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if !strings.HasSuffix(said, "\n") {
		note("half a line")
	}
	for line := range strings.Lines(said) {
		if !regexp.MustCompile(`^( INFO  | WARN  | ERRO  |       )\S`).MatchString(line) {
			note("a line of no message: %q", line)
		}
	}
	if strings.Count(said, " ERRO  ") != 1 {
		note("%d errors", strings.Count(said, " ERRO  "))
	}
	if found := ungrammatical.FindString(said); found != "" {
		note("%q is nothing to show", found)
	}
	_, failed, _ := strings.Cut(said, " ERRO  ")
	failed = strings.ToLower(quotedURL.ReplaceAllString(failed, ""))
	if !strings.Contains(failed, strings.ToLower(subject.kind)) && !strings.Contains(failed, subject.resource) {
		note("no word of %s", subject.kind)
	}
	return wrong
}

// subjectOf is the kind that a request is about, as an error should name it.
func subjectOf(request string) servedKind {
	fields := strings.Fields(request)
	path, _, _ := strings.Cut(fields[2], "?")
	of, ok := parsePath(path)
	if !ok {
		return servedKind{}
	}
	return servedKinds()[of.of]
}

// TestLaw: whichever request of whichever command fails, the command says so with a cure and lists what it did before. If it reports success, it did
// everything. If it is run again, it reaches the same end.
func TestLaw(t *testing.T) {
	// Hundreds of commands, each with its own connections: their garbage is a third of the time otherwise.
	before := debug.SetGCPercent(800)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	leaves := map[string]bool{}
	root := newRoot(session.New(genericiooptions.NewTestIOStreamsDiscard()))
	root.InitDefaultCompletionCmd()
	for _, command := range commands(root) {
		name := strings.TrimPrefix(command.CommandPath(), "liqoctl ")
		if _, _, errOut := run(t, strings.Fields(name)...); len(command.Commands()) == 0 || command.HasParent() && command.RunE != nil && !strings.Contains(errOut, "needs a subcommand") {
			leaves[name] = true
		}
	}
	for name := range leaves {
		if row := lawTable[name]; row.command == "" && row.exempt == "" {
			t.Errorf("%s has no row in the table of the law: add valid arguments, so that each of its requests is seen to fail", name)
		}
	}
	states := lawSnapshots(t)
	for _, name := range slices.Sorted(maps.Keys(lawTable)) {
		if !leaves[name] {
			t.Errorf("there is no command %q", name)
		}
		if row := lawTable[name]; row.command != "" {
			t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
				t.Parallel()
				newTrial(t, row, states[row.state]).judge(t)
			})
		}
	}
}

var wholeLaw = flag.Bool("law", false, "have every request of every command fail in every way")

// isPrelude tells requests that every command begins with.
func isPrelude(request string) bool {
	return slices.ContainsFunc([]string{" /api #", " /apis #", "/kube-system #", "/configmaps #", "/deployments/" + session.ControllerManager + " #1", "/v1/namespaces #"}, func(part string) bool {
		return strings.Contains(request, part)
	})
}

// trial is one command before the law.
type trial struct {
	*world
	lawRow
	at   worldSnapshot
	want ranCommand
}

// lawSnapshots are the states of the table.
func lawSnapshots(t *testing.T) map[string]worldSnapshot {
	t.Helper()
	w := installedWorld(t)
	apart := w.snapshot()
	out := map[string]worldSnapshot{"": apart}
	for state, before := range lawStates {
		at := apart
		for _, command := range before {
			ran := w.in(t, at, command, nil)
			if ran.code != 0 {
				t.Fatalf("%s: code %d: %s%s", command, ran.code, ran.out, ran.said)
			}
			at = ran.left
		}
		out[state] = at
	}
	return out
}

func newTrial(t *testing.T, row lawRow, at worldSnapshot) *trial {
	t.Helper()
	out := &trial{world: newWorld(t, at), lawRow: row, at: at}
	out.world.ticks = row.ticks
	out.want = out.in(t, out.at, row.command, nil)
	if out.want.code != row.code {
		t.Fatalf("%s: code %d: %s%s", row.command, out.want.code, out.want.out, out.want.said)
	}
	return out
}

func (l *trial) judge(t *testing.T) {
	l.abandoned(t)
	l.dryRun(t)
	l.uninstalled(t)
	once := map[string]bool{}
	for _, request := range slices.Sorted(slices.Values(l.want.seen)) {
		for _, d := range disturbances {
			like := fmt.Sprint(d.name, strings.Fields(request)[1], subjectOf(request).kind)
			seen := once[like]
			once[like] = true
			switch {
			case !d.hits(request):
				continue
			case *wholeLaw:
			case d.alike && (seen || !l.thorough) || !mutates(request) && (seen || !l.thorough && isPrelude(request)):
				continue
			}
			l.disturbed(t, request, d)
		}
	}
}

// disturbed runs the command with one request going wrong, and then once more.
func (l *trial) disturbed(t *testing.T, request string, d disturbance) {
	t.Helper()
	// Steps that run side by side may go on until the command has the answer: a request that is silent stops only those that wait for it.
	fired, answered, after := false, false, []string(nil)
	ran := l.in(t, l.at, l.command, func() {
		l.answer = func(this string, r *http.Request) (*http.Response, error) {
			l.mu.Lock()
			same := strings.HasPrefix(this, request[:strings.LastIndex(request, "#")])
			// A change that met a conflict may be tried again, and nothing else may follow.
			again := same && d.name == "conflict"
			if answered && mutates(this) && strings.HasPrefix(this, request[:4]) && !again {
				after = append(after, this)
			}
			hit := this == request || fired && !d.passes && same
			fired = fired || hit
			l.mu.Unlock()
			if hit {
				response, err := d.answer(r)
				l.mu.Lock()
				answered = true
				l.mu.Unlock()
				return response, err
			}
			return nil, nil
		}
	})
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s, %s of %s: %s; code %d\n%s%s", l.command, d.name, request, fmt.Sprintf(format, args...), ran.code, ran.out, ran.said)
	}
	if ran.code == l.code {
		if diff := cmp.Diff(essence(l.want.left), essence(ran.left)); diff != "" && l.code == 0 && !strings.Contains(ran.said, " WARN  ") {
			fail("it says that it succeeded, and did not (-want +got): %s", diff)
		}
		return
	}
	if d.name == "forbidden" && l.want.wrote > 0 {
		l.hindered(t, request, d, ran)
	}
	for _, wrong := range wellSaid(ran.said, subjectOf(request)) {
		fail("%s", wrong)
	}
	if !slices.ContainsFunc(d.cure, func(cure string) bool { return strings.Contains(ran.said, cure) }) {
		fail("no cure of %q", d.cure)
	}
	if told := strings.Contains(ran.said, "Applied before the failure: "); told != (ran.wrote > 0) {
		fail("it made %d changes, and tells of them: %t", ran.wrote, told)
	}
	if len(after) > 0 {
		fail("it went on with %v", after)
	}
	if ran.wrote == 0 && !mutates(request) {
		return // nothing to go on from
	}
	again := l.in(t, ran.left, l.command, nil)
	if diff := cmp.Diff(essence(l.want.left), essence(again.left)); again.code != l.code && !strings.Contains(again.said, "ERRO  there is no ") || diff != "" {
		fail("run again it comes to another end, code %d (-want +got): %s%s%s", again.code, diff, again.out, again.said)
	}
}

// abandoned runs the command without controllers: it ends at its timeout, and names what it waited for and the last state of that.
func (l *trial) abandoned(t *testing.T) {
	t.Helper()
	ran := l.in(t, l.at, l.command, func() { l.silent = true })
	if ran.code == l.code {
		return // it waits for nothing
	}
	for _, wrong := range wellSaid(ran.said, servedKind{}) {
		t.Errorf("%s, and no controller: %s\n%s", l.command, wrong, ran.said)
	}
	if command, _, err := newRoot(session.New(genericiooptions.NewTestIOStreamsDiscard())).Find(strings.Fields(l.command)); err != nil || command.Flag("timeout") == nil {
		t.Errorf("%s waits, and has no --timeout (%v)", l.command, err)
	}
	if !strings.Contains(ran.said, "waiting for ") || !strings.Contains(ran.said, "timed out (--timeout), last seen: ") {
		t.Errorf("%s, and no controller: no word of what was waited for: %s", l.command, ran.said)
	}
}
