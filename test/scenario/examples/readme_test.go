package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
	"liqo.io/liqo/test/scenario/tutorial"
)

const (
	sectionClusters = "No clusters at hand"
	sectionPeering  = "Five commands to two peered clusters"
)

// untyped lists the other sections of the README with commands, and which test runs these.
var untyped = map[string]string{
	"Get the programs":      "story make in test/scenario/doors types make release; story release pushes it",
	"On kind, without root": "nobody: there is no Docker here, and the README says so",
}

// TestReadme runs the commands of the repository's README in a folder with only the results of make build. It first creates the clusters, and then runs the
// commands that peer them, and those that revert everything.
func TestReadme(t *testing.T) {
	t.Parallel()
	story.Hush()
	machine, err := playground.Find(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(machine.Root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := sectionsOf(string(text))
	for title, body := range sections {
		if title != sectionClusters && title != sectionPeering && untyped[title] == "" && strings.Contains(body, "```bash") {
			t.Errorf("nobody types the commands of section %q of the README", title)
		}
	}
	folder := t.TempDir()
	if err := os.Symlink(filepath.Join(machine.Root, "bin"), filepath.Join(folder, "bin")); err != nil {
		t.Fatal(err)
	}
	names := []string{"trial-rome", "trial-milan"}
	b := &book{T: t, machine: machine, shell: tutorial.NewShell(t, folder, "REGISTRY="), began: time.Now()}
	b.remove(names)
	t.Cleanup(func() {
		if t.Failed() {
			b.describe(names)
		}
		if os.Getenv(story.EnvKeep) == "" {
			b.remove(names)
		}
	})
	for _, title := range []string{sectionClusters, sectionPeering} {
		steps, err := tutorial.Parse(sections[title])
		if err != nil || len(steps) == 0 {
			t.Fatalf("section %q has %d steps: %v", title, len(steps), err)
		}
		for _, step := range steps {
			b.shell.Do(step)
			switch { // checks of what the text around the commands promises
			case strings.Contains(step.Commands, "liqoctl peer "):
				b.shell.Do(tutorial.Step{Commands: "kubectl wait --for=condition=Ready node/milan --timeout=10s\n"})
			case strings.Contains(step.Commands, "liqoctl offload"):
				b.shell.Do(tutorial.Step{Commands: "kubectl run web -n shop --image=registry.local/testserver:1 --overrides='{\"spec\": {\"nodeName\": \"milan\", \"terminationGracePeriodSeconds\": 1}}'\n" +
					"kubectl wait -n shop --for=condition=Ready pod/web --timeout=60s\n"})
			case strings.Contains(step.Commands, "liqoctl uninstall"):
				b.shell.Do(tutorial.Step{Commands: "kubectl get nodes -o name\n", Shows: "node/trial-rome-1"})
				b.shell.Do(tutorial.Step{Commands: "kubectl get crds,namespaces -o name | grep liqo || echo nothing\n", Shows: "nothing"})
			}
		}
	}
	b.follow("")
}

// heading matches a heading of any level except the first.
var heading = regexp.MustCompile(`(?m)^##+ (.+)$`)

// sectionsOf returns the texts below the headings of a document, each up to the next heading.
func sectionsOf(markdown string) map[string]string {
	sections := map[string]string{}
	found := heading.FindAllStringSubmatchIndex(markdown, -1)
	for i, at := range found {
		end := len(markdown)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		sections[markdown[at[2]:at[3]]] = markdown[at[1]:end]
	}
	return sections
}
