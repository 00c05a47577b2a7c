package offload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func TestCompile(t *testing.T) {
	nodes := []offloadingv1beta1.VirtualNode{
		virtualNode("naples", "naples", map[string]string{"region": "south"}), virtualNode("turin", "turin", map[string]string{"region": "north"}),
		virtualNode("bari", "bari", map[string]string{"region": "south"}),
	}
	mapped := func(phase offloadingv1beta1.MappingPhase) map[string]offloadingv1beta1.RemoteNamespaceStatus {
		return map[string]offloadingv1beta1.RemoteNamespaceStatus{"demo": {RemoteNamespace: "demo-rome", Phase: phase}}
	}
	accepted, backoff, terminating := mapped(offloadingv1beta1.MappingAccepted), mapped(offloadingv1beta1.MappingCreationLoopBackOff), mapped(offloadingv1beta1.MappingTerminating)
	type current map[string]map[string]offloadingv1beta1.RemoteNamespaceStatus
	for name, c := range map[string]struct {
		spec     offloadingv1beta1.NamespaceOffloadingSpec
		nodes    []offloadingv1beta1.VirtualNode
		current  current
		deleting bool
		phase    offloadingv1beta1.OffloadingPhase
		// want holds, by cluster, the reasons of the conditions; a "!" stands before those with status False.
		want map[string]string
	}{
		"no virtual node": {phase: offloadingv1beta1.PhaseNoClusterSelected, want: map[string]string{}},
		"none selected": {spec: inRegion("west"), nodes: nodes, phase: offloadingv1beta1.PhaseNoClusterSelected,
			want: map[string]string{"naples": "!ClusterNotSelected", "turin": "!ClusterNotSelected", "bari": "!ClusterNotSelected"}},
		"ready": {spec: inRegion("north"), nodes: nodes, current: current{"turin": accepted}, phase: offloadingv1beta1.PhaseReady,
			want: map[string]string{"naples": "!ClusterNotSelected", "turin": "ClusterSelected NamespaceCreated", "bari": "!ClusterNotSelected"}},
		"in progress": {spec: inRegion("south"), nodes: nodes, current: current{"naples": accepted}, phase: offloadingv1beta1.PhaseInProgress,
			want: map[string]string{"naples": "ClusterSelected NamespaceCreated", "turin": "!ClusterNotSelected", "bari": "ClusterSelected !Creating"}},
		"some failed": {spec: inRegion("south"), nodes: nodes, current: current{"naples": accepted, "bari": backoff}, phase: offloadingv1beta1.PhaseSomeFailed,
			want: map[string]string{"naples": "ClusterSelected NamespaceCreated", "turin": "!ClusterNotSelected", "bari": "ClusterSelected !CreationLoopBackOff"}},
		"all failed": {spec: inRegion("south"), nodes: nodes, current: current{"naples": backoff, "bari": backoff}, phase: offloadingv1beta1.PhaseAllFailed,
			want: map[string]string{"naples": "ClusterSelected !CreationLoopBackOff", "turin": "!ClusterNotSelected", "bari": "ClusterSelected !CreationLoopBackOff"}},
		"an earlier remote namespace is being deleted": {spec: inRegion("north"), nodes: nodes, current: current{"turin": terminating}, phase: offloadingv1beta1.PhaseInProgress,
			want: map[string]string{"naples": "!ClusterNotSelected", "turin": "ClusterSelected !Terminating", "bari": "!ClusterNotSelected"}},
		"no longer selected": {spec: inRegion("north"), nodes: nodes, current: current{"turin": accepted, "naples": terminating}, phase: offloadingv1beta1.PhaseReady,
			want: map[string]string{"naples": "!ClusterNotSelected !Terminating", "turin": "ClusterSelected NamespaceCreated", "bari": "!ClusterNotSelected"}},
		"the virtual node is deleted, the remote namespace not yet": {current: current{"naples": accepted}, phase: offloadingv1beta1.PhaseNoClusterSelected,
			want: map[string]string{"naples": "!ClusterNotSelected !Terminating"}},
		"deleting": {nodes: nodes[:1], current: current{"naples": accepted}, deleting: true, phase: offloadingv1beta1.PhaseTerminating,
			want: map[string]string{"naples": "!ClusterNotSelected !Terminating"}},
		"another remote name": {spec: offloadingv1beta1.NamespaceOffloadingSpec{NamespaceMappingStrategy: offloadingv1beta1.EnforceSameName}, nodes: nodes[:1],
			current: current{"naples": accepted}, phase: offloadingv1beta1.PhaseInProgress, want: map[string]string{"naples": "ClusterSelected !Creating"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := offloading("demo", c.spec)
			if c.deleting {
				o.DeletionTimestamp = &noon
			}
			got := Compile(&o, c.nodes, nil, c.current, nil, "", "rome", noon)
			if got.OffloadingPhase != c.phase || got.ObservedGeneration != 4 {
				t.Errorf("phase %s, observed generation %d", got.OffloadingPhase, got.ObservedGeneration)
			}
			reasons := map[string]string{}
			for id, conditions := range got.RemoteNamespacesConditions {
				var list []string
				for _, condition := range conditions {
					sign := ""
					if condition.Status == "False" {
						sign = "!"
					}
					list = append(list, sign+condition.Reason)
				}
				reasons[id] = strings.Join(list, " ")
			}
			if diff := cmp.Diff(c.want, reasons); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompileKeepsTimesAndSettles(t *testing.T) {
	nodes := []offloadingv1beta1.VirtualNode{virtualNode("naples", "naples", nil)}
	o := offloading("demo", offloadingv1beta1.NamespaceOffloadingSpec{})
	o.Status = Compile(&o, nodes, nil, nil, nil, "", "rome", midnight)
	if diff := cmp.Diff(o.Status, Compile(&o, nodes, nil, nil, nil, "", "rome", noon)); diff != "" {
		t.Errorf("nothing changed, but the status did:\n%s", diff)
	}
	o.Status = Compile(&o, nodes, nil, map[string]map[string]offloadingv1beta1.RemoteNamespaceStatus{
		"naples": {"demo": {RemoteNamespace: "demo-rome", Phase: offloadingv1beta1.MappingAccepted}},
	}, nil, "", "rome", noon)
	conditions := o.Status.RemoteNamespacesConditions["naples"]
	if conditions[0].LastTransitionTime != midnight || conditions[1].LastTransitionTime != noon {
		t.Errorf("only the condition that changed gets a new time: %+v", conditions)
	}
}

// TestTimeOfReasonWithoutRemoteNamespace: condition RemoteNamespaceReady shows since when its reason is the reason, though it was False before.
func TestTimeOfReasonWithoutRemoteNamespace(t *testing.T) {
	nodes := []offloadingv1beta1.VirtualNode{virtualNode("naples", "naples", nil)}
	o := offloading("demo", offloadingv1beta1.NamespaceOffloadingSpec{})
	o.Status = Compile(&o, nodes, nil, map[string]map[string]offloadingv1beta1.RemoteNamespaceStatus{
		"naples": {"demo": {RemoteNamespace: "demo-rome", Phase: offloadingv1beta1.MappingTerminating}},
	}, nil, "", "rome", midnight)
	o.Status = Compile(&o, nodes, nil, nil, nil, "", "rome", noon)
	ready := o.Status.RemoteNamespacesConditions["naples"][1]
	if ready.Reason != offloadingv1beta1.ReasonCreating || ready.LastTransitionTime != noon {
		t.Errorf("since noon, %s is the reason: %+v", offloadingv1beta1.ReasonCreating, ready)
	}
}
