package doctor

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/offload"
)

var update = flag.Bool("update", false, "write the tables of pods and of dry runs in page troubleshooting.md")

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
	tableInGuide(t, "pods", want.String())
}

// tableInGuide fails the test unless page troubleshooting.md has this table. With -update, it writes the table into the page.
func tableInGuide(t *testing.T, name, want string) {
	t.Helper()
	begin := fmt.Sprintf("<!-- begin of the table of %s: go test ./internal/doctor -run %s -update -->\n", name, t.Name())
	end := fmt.Sprintf("<!-- end of the table of %s -->\n", name)
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
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("the table of %s of %s is not what doctor prints (go test ./internal/doctor -run %s -update writes it):\n%s", name, page, t.Name(), diff)
	}
}

// dryRunStates are the refusals of dry runs that page troubleshooting.md lists, in rome where milan is its consumer or, if there is set, its provider.
var dryRunStates = []struct {
	name, kind, refusal string
	there               bool
}{
	{name: "a policy of Liqo can not be evaluated", kind: "PersistentVolumeClaim", refusal: unconfigured("liqo-copies-claim")},
	{name: "a policy of others can not be evaluated", kind: "Pod", refusal: unconfigured("limits")},
	{name: "a policy of others refuses a plain object", kind: "Pod", refusal: "is forbidden: ValidatingAdmissionPolicy 'labels' with binding 'all' denied request: no label team"},
	{name: "a webhook of others does not respond", kind: "Pod", refusal: `Internal error occurred: failed calling webhook "check.example.org": no route to host`},
	{name: "a webhook of others refuses a plain object", kind: "Service", refusal: `admission webhook "check.example.org" denied the request: no label team`},
	{name: "a webhook of others can not be called in a dry run", kind: "Pod", refusal: `admission webhook "check.example.org" does not support dry run`},
	{name: "a policy of the provider can not be evaluated", kind: "PersistentVolumeClaim", refusal: unconfigured("liqo-copies-claim"), there: true},
	{name: "the controller manager of the provider does not respond", kind: "ShadowPod", refusal: noEndpoints, there: true},
}

// TestRefusedDryRunsInGuide: the table of dry runs of page troubleshooting.md has what doctor prints. Each is the only problem that doctor finds.
func TestRefusedDryRunsInGuide(t *testing.T) {
	var want strings.Builder
	want.WriteString("| state | doctor's line | the cure |\n|---|---|---|\n")
	for _, state := range dryRunStates {
		facts := world(t)
		if runs := []DryRun{{"shop-rome", state.kind, state.refusal}}; state.there {
			facts.Local.Accesses[0].DryRuns = runs
		} else {
			runs[0].Namespace = "shop-milan"
			facts.Local.DryRuns = runs
		}
		found := slices.DeleteFunc(Examine(facts), func(f Finding) bool { return f.Level == OK })
		if len(found) != 1 || len(found[0].Consequences) > 0 {
			t.Errorf("%s: found %d problems, want one:\n%s", state.name, len(found), text(found, true))
			continue
		}
		fmt.Fprintf(&want, "| %s | %s | %s |\n", state.name, found[0].Evidence, found[0].Cure)
	}
	tableInGuide(t, "dry runs", want.String())
}
