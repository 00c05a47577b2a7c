package doctor

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/offload"
)

var update = flag.Bool("update", false, "write the table of pods in page troubleshooting.md")

// unscheduledStates are the reasons for which pods are Pending that page troubleshooting.md lists, with what the scheduler reports, or the provider of a pod that
// is refused there.
var unscheduledStates = []struct {
	name, message string
	refused       bool
	selector      map[string]string
}{
	{name: "a volume of the pod was deleted", message: "0/2 nodes are available: 2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)."},
	{name: "a claim of the pod does not exist", message: `persistentvolumeclaim "data" not found`},
	{name: "a claim of the pod has no volume", message: "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."},
	{name: "the volume of the pod is in another cluster", message: "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."},
	{
		name: "the node that the pod selects was removed", message: "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
		selector: map[string]string{corev1.LabelHostname: "milan"},
	},
	{
		name:    "pods of the namespace may not leave the cluster, which is full",
		message: "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {virtual-node.liqo.io/not-allowed: true}.",
	},
	{name: "the nodes have a taint", message: "0/2 nodes are available: 2 node(s) had untolerated taint {maintenance: planned}."},
	{name: "a ResourceQuota is used up", message: "pods \"web\" is forbidden: exceeded quota: shop, requested: requests.cpu=2, used: requests.cpu=3, limited: requests.cpu=4"},
	{name: "no node has enough resources", message: "0/2 nodes are available: 2 Insufficient cpu."},
	{name: "what the provider has granted is used up", refused: true, message: "quota liqo-tenant-rome/milan: 1 of cpu are wanted, 4 of 4 are used: " + offload.QuotaCure},
	{name: "the provider refuses the pod", refused: true, message: "containers with hostPort are not accepted"},
	{name: "the scheduler has another reason", message: "0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints."},
}

// TestUnscheduledPodsInGuide: the table of pods of page troubleshooting.md has what doctor prints. Each reason with a cure of its own is in the table.
func TestUnscheduledPodsInGuide(t *testing.T) {
	const begin, end = "<!-- begin of the table of pods: go test ./internal/doctor -run TestUnscheduledPodsInGuide -update -->\n", "<!-- end of the table of pods -->\n"
	page := filepath.Join("..", "..", "docs", "guide", "troubleshooting.md")
	guide, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(guide), begin)
	have, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no table between the lines %q and %q", page, begin, end)
	}
	var want strings.Builder
	want.WriteString("| state | doctor's line | the cure |\n|---|---|---|\n")
	listed := map[string]bool{}
	for _, state := range unscheduledStates {
		facts := world(t)
		pod := unscheduled("web", state.message)
		if state.refused {
			pod = pending("web", state.message)
		}
		pod.Spec.NodeSelector = state.selector
		facts.Local.Waiting = []corev1.Pod{pod}
		var found []Finding
		for _, finding := range Examine(facts) {
			if finding.Level != OK {
				found = append(found, finding)
			}
		}
		if len(found) != 1 {
			t.Errorf("%s: found %d problems, want one:\n%s", state.name, len(found), text(found, true))
			continue
		}
		for _, known := range refusals {
			if !state.refused && known.pattern.MatchString(state.message) {
				listed[known.pattern.String()] = true
				break
			}
		}
		fmt.Fprintf(&want, "| %s | `%s` | %s |\n", state.name, found[0].Evidence, found[0].Cure)
	}
	for _, known := range refusals {
		if !listed[known.pattern.String()] {
			t.Errorf("no state of the table has a message that matches %q", known.pattern)
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want.String(), have); diff != "" {
		t.Errorf("the table of pods of %s is not what doctor prints (go test ./internal/doctor -run TestUnscheduledPodsInGuide -update writes it):\n%s", page, diff)
	}
}
