// Package commands checks the calls of kubectl and helm in the documents. Calls of liqoctl are checked by tests of its own packages.
package commands

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	helm "helm.sh/helm/v4/pkg/cmd"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubectl "k8s.io/kubectl/pkg/cmd"
)

// record is shell code that records the calls of both programs and makes no other program available. The commands of a pipeline run at the same time, so each
// process of the shell writes its own file.
const record = `PATH=/nonexistent
kubectl() { printf '%s\x1f' kubectl "$@" >> "$RECORDS/$BASHPID"; printf '\x1e' >> "$RECORDS/$BASHPID"; }
helm() { printf '%s\x1f' helm "$@" >> "$RECORDS/$BASHPID"; printf '\x1e' >> "$RECORDS/$BASHPID"; }
command_not_found_handle() { return 0; }
`

// calls returns the calls of kubectl and helm in a text for a shell, as the shell understands them.
func calls(t *testing.T, text string) [][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "/bin/bash", "-c", record+text)
	shell.Dir = t.TempDir()
	records := t.TempDir()
	shell.Env = []string{"RECORDS=" + records}
	if out, err := shell.CombinedOutput(); strings.Contains(string(out), "syntax error") || ctx.Err() != nil {
		t.Errorf("%v: %s in\n%s", err, out, text)
	}
	files, err := os.ReadDir(records)
	if err != nil {
		t.Fatal(err)
	}
	var found [][]string
	for _, file := range files {
		written, err := os.ReadFile(filepath.Join(records, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for call := range strings.SplitSeq(strings.TrimSuffix(string(written), "\x1e"), "\x1e") {
			found = append(found, strings.Split(strings.TrimSuffix(call, "\x1f"), "\x1f"))
		}
	}
	return found
}

// programs returns the commands of kubectl and helm in the versions of go.mod.
func programs(t *testing.T) map[string]*cobra.Command {
	t.Helper()
	streams := genericiooptions.NewTestIOStreamsDiscard()
	charts, err := helm.NewRootCmd(io.Discard, nil, func(bool) {})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*cobra.Command{"kubectl": kubectl.NewKubectlCommand(kubectl.KubectlOptions{IOStreams: streams}), "helm": charts}
}

// parse returns why a program would reject the arguments, nil if it accepts them.
func parse(program *cobra.Command, arguments []string) error {
	command, rest, err := program.Find(arguments)
	if err != nil {
		return err
	}
	if err := command.ParseFlags(rest); err != nil {
		return err
	}
	if command.HasSubCommands() && command.Flags().NArg() > 0 {
		return errors.New("no such command: " + strings.Join(command.Flags().Args(), " "))
	}
	return nil
}

var (
	blocks = regexp.MustCompile("(?ms)^ *```bash\n(.*?)^ *```$")
	spans  = regexp.MustCompile("`((?:kubectl|helm) [^`]+)`")
)

// TestGuidesUseExistingCommandsOfOthers: every call of kubectl and helm in the guides and in the README has an existing command and existing flags, in blocks
// and in sentences.
func TestGuidesUseExistingCommandsOfOthers(t *testing.T) {
	documents := []string{"../../README.md", "../../docs/development.md"}
	for _, pattern := range []string{"../../docs/guide/*.md", "../../docs/guide/runbooks/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d documents, %v", pattern, len(found), err)
		}
		documents = append(documents, found...)
	}
	known, parsed := programs(t), map[string]int{}
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		var script strings.Builder
		for _, block := range blocks.FindAllStringSubmatch(string(text), -1) {
			script.WriteString(block[1] + "\n")
		}
		for _, span := range spans.FindAllStringSubmatch(blocks.ReplaceAllString(string(text), ""), -1) {
			script.WriteString(strings.ReplaceAll(span[1], `\|`, "|") + "\n")
		}
		for _, call := range calls(t, script.String()) {
			if call[0] == "kubectl" && slices.Contains([]string{"liqo", "krew"}, call[1]) {
				continue // skip plugins
			}
			parsed[call[0]]++
			if err := parse(known[call[0]], call[1:]); err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(document), strings.Join(call, " "), err)
			}
		}
	}
	if parsed["kubectl"] < 100 || parsed["helm"] < 10 {
		t.Errorf("only %v", parsed)
	}
}

func TestWrongCallsAreSeen(t *testing.T) {
	known := programs(t)
	for text, want := range map[string]bool{
		"kubectl get nodes -o wide # all":                                       true,
		"export PATH=x\nfor n in a b; do kubectl -n \"$n\" get pods | wc; done": true,
		"kubectl apply -f - <<END\nkubectl gett\nEND":                           true,
		"kubectl exec a -- ls --no-such":                                        true,
		"helm install liqo ./chart --namespace liqo \\\n  --values 'a b'":       true,
		"kubectl gett nodes":                                                    false,
		"kubectl get nodes --no-such":                                           false,
		"kubectl rollout again deployment/a":                                    false,
		"true && (kubectl get --no-such)":                                       false,
		"A=$(kubectl get pods --no-such) sudo":                                  false,
		"helm instal liqo":                                                      false,
		"helm repo plus liqo":                                                   false,
	} {
		found := calls(t, text)
		if len(found) == 0 {
			t.Errorf("%s: no calls", text)
		}
		for _, call := range found {
			if err := parse(known[call[0]], call[1:]); (err == nil) != want {
				t.Errorf("%q of %q: %v", call, text, err)
			}
		}
	}
}

// TestCallsOfAPipelineAreKeptApart: although the commands of a pipeline run at the same time, each call is recorded separately and completely.
func TestCallsOfAPipelineAreKeptApart(t *testing.T) {
	counted := map[string]int{}
	for _, call := range calls(t, "for i in {1..100}; do helm template liqo ./chart | kubectl apply --filename -; done") {
		counted[strings.Join(call, " ")]++
	}
	if want := map[string]int{"helm template liqo ./chart": 100, "kubectl apply --filename -": 100}; !maps.Equal(counted, want) {
		t.Errorf("recorded %v instead of %v", counted, want)
	}
}
