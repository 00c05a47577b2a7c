package offload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// data is a volume of claim demo/data in milan.
func data(changes ...func(*Volume)) Volume {
	v := Volume{Name: "pvc-1", Namespace: "demo", Claim: "data", Cluster: "milan", Size: "1Gi"}
	for _, change := range changes {
		change(&v)
	}
	return v
}

// TestDataHoldsItsRemoteNamespace: a NamespaceOffloading that is deleted, or no longer selects a cluster, keeps the remote namespace while it holds data, and
// says so. Data that a user has deleted or abandoned does not keep it.
func TestDataHoldsItsRemoteNamespace(t *testing.T) {
	type change = func(*offloadingv1beta1.NamespaceOffloading)
	deleted := func(o *offloadingv1beta1.NamespaceOffloading) { o.DeletionTimestamp = &noon }
	shrunk := func(o *offloadingv1beta1.NamespaceOffloading) { o.Spec = inRegion("nowhere") }
	givenUp := func(o *offloadingv1beta1.NamespaceOffloading) {
		o.Annotations = map[string]string{api.AnnotationDeleteVolumes: "true"}
	}
	nodes := []offloadingv1beta1.VirtualNode{virtualNode("milan", "milan", nil), virtualNode("turin", "turin", nil)}
	for name, c := range map[string]struct {
		changes   []change
		volumes   []Volume
		protected bool
		unmapped  bool
		kept      bool
		renamed   bool
	}{
		"deleted":                        {changes: []change{deleted}, volumes: []Volume{data()}, kept: true},
		"the selector shrinks":           {changes: []change{shrunk}, volumes: []Volume{data()}, kept: true},
		"given up":                       {changes: []change{deleted, givenUp}, volumes: []Volume{data()}},
		"no volumes":                     {changes: []change{deleted}},
		"data of another namespace":      {changes: []change{deleted}, volumes: []Volume{data(func(v *Volume) { v.Namespace = "other" })}},
		"data in another cluster":        {changes: []change{deleted}, volumes: []Volume{data(func(v *Volume) { v.Cluster = "turin" })}},
		"the claim is deleted":           {changes: []change{deleted}, volumes: []Volume{data(func(v *Volume) { v.Released = true })}},
		"the claim is deleted, not data": {changes: []change{deleted}, volumes: []Volume{data(func(v *Volume) { v.Released, v.Retain = true, true })}, kept: true},
		"the namespace is deleted":       {changes: []change{deleted}, volumes: []Volume{data(func(v *Volume) { v.Ending = true })}},
		"the namespace is, and not data": {changes: []change{deleted}, volumes: []Volume{data(func(v *Volume) { v.Ending, v.Retain = true, true })}, kept: true},
		"a protected namespace":          {volumes: []Volume{data()}, protected: true, kept: true},
		"a protected one, deleted":       {changes: []change{deleted}, volumes: []Volume{data()}, protected: true, kept: true},
		"a protected one, given up":      {changes: []change{givenUp}, volumes: []Volume{data()}, protected: true},
		"it was not offloaded there":     {changes: []change{shrunk}, volumes: []Volume{data()}, unmapped: true},
		"selected, with another name":    {volumes: []Volume{data()}, kept: true},
		"the same, given up":             {changes: []change{givenUp}, volumes: []Volume{data()}, renamed: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := offloading("demo", offloadingv1beta1.NamespaceOffloadingSpec{})
			for _, change := range c.changes {
				change(&o)
			}
			protected, why := map[string]string{}, ""
			if c.protected {
				why = "it is"
				protected["demo"] = why
			}
			before, want := map[string]string{"demo": "demo-former"}, map[string]string{}
			if c.unmapped {
				before = nil
			}
			if c.kept {
				want["demo"] = "demo-former"
			} else if c.renamed {
				want["demo"] = "demo-rome"
			}
			got := DesiredMapping([]offloadingv1beta1.NamespaceOffloading{o}, nodes[:1], nil, protected, "rome", before, c.volumes)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			current := map[string]map[string]offloadingv1beta1.RemoteNamespaceStatus{}
			if !c.unmapped {
				current["milan"] = map[string]offloadingv1beta1.RemoteNamespaceStatus{"demo": at("demo-former", offloadingv1beta1.MappingAccepted)}
			}
			conditions := Compile(&o, nodes, nil, current, c.volumes, why, "rome", noon).RemoteNamespacesConditions["milan"]
			says := conditions[0].Reason == offloadingv1beta1.ReasonVolumesKept
			if says != (want["demo"] == "demo-former") {
				t.Errorf("conditions %+v", conditions)
			}
			if says && (conditions[1].Reason != offloadingv1beta1.ReasonNamespaceCreated ||
				!strings.Contains(conditions[0].Message, "kubectl annotate namespaceoffloading offloading --namespace demo liqo.io/delete-volumes=true")) {
				t.Errorf("conditions %+v", conditions)
			}
		})
	}
}

// TestDataHoldsTheLastVirtualNode: data keeps the last VirtualNode of a provider, because the remote namespaces are deleted with it.
func TestDataHoldsTheLastVirtualNode(t *testing.T) {
	gone := &corev1beta1.ForeignCluster{}
	gone.Annotations = map[string]string{annotationUnreachable: "true"}
	for name, c := range map[string]struct {
		sibling  string
		deleting bool
		givenUp  bool
		alive    bool
		foreign  *corev1beta1.ForeignCluster
		want     int
	}{
		"the only one":                 {want: 1},
		"of a cluster that is unknown": {foreign: &corev1beta1.ForeignCluster{}, want: 1},
		"another one stays":            {sibling: "milan"},
		"another one ends as well":     {sibling: "milan", deleting: true, want: 1},
		"one of another cluster stays": {sibling: "turin", want: 1},
		"given up":                     {givenUp: true},
		"given up, but not deleted":    {givenUp: true, alive: true, want: 1},
		"the cluster is gone for good": {foreign: gone},
	} {
		t.Run(name, func(t *testing.T) {
			node := virtualNode("milan", "milan", nil)
			node.UID, node.DeletionTimestamp = types.UID("1"), &noon
			if c.givenUp {
				node.Annotations = map[string]string{api.AnnotationDeleteVolumes: "true"}
			}
			if c.alive {
				node.DeletionTimestamp = nil
			}
			nodes := []offloadingv1beta1.VirtualNode{node}
			if c.sibling != "" {
				sibling := virtualNode("sibling", c.sibling, nil)
				if sibling.UID = "2"; c.deleting {
					sibling.DeletionTimestamp = &noon
				}
				nodes = append(nodes, sibling)
			}
			volumes := []Volume{data(), data(func(v *Volume) { v.Cluster = "turin" }), data(func(v *Volume) { v.Released = true })}
			if got := NodeVolumes(&node, nodes, volumes, c.foreign); len(got) != c.want {
				t.Errorf("held by %+v", got)
			}
		})
	}
}

// TestHasRemoteNamespace: the NamespaceMap of this cluster for the provider counts, also while the provider deletes the namespace.
func TestHasRemoteNamespace(t *testing.T) {
	asked := offloadingv1beta1.NamespaceMap{Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"asked": "asked-rome"}}}
	asked.Name = "milan"
	held := offloadingv1beta1.NamespaceMap{}
	held.Name = "milan"
	held.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"held": {}}
	foreign := *replica(map[string]string{"foreign": "foreign"})
	foreign.Labels[api.LabelReplicated] = api.True
	maps := []offloadingv1beta1.NamespaceMap{asked, held, foreign}
	for namespace, want := range map[string]bool{"asked": true, "held": true, "foreign": false, "other": false} {
		if got := HasRemoteNamespace(maps, "milan", namespace); got != want {
			t.Errorf("%s: %t", namespace, got)
		}
	}
	if HasRemoteNamespace(maps, "turin", "asked") {
		t.Error("another provider")
	}
}

// TestAVolumeOfAnUnknownClusterIsKeptInAll: if the cluster of a volume is unknown, the volume counts in each cluster that has a remote namespace for it, and
// the message names the cure.
func TestAVolumeOfAnUnknownClusterIsKeptInAll(t *testing.T) {
	mapOf := func(cluster, namespace string) offloadingv1beta1.NamespaceMap {
		m := offloadingv1beta1.NamespaceMap{Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{namespace: namespace}}}
		m.Name = cluster
		return m
	}
	unknown := data(func(v *Volume) { v.Cluster, v.Problem = "", "remove the annotation" })
	elsewhere := data(func(v *Volume) { v.Cluster = "naples" })
	maps := []offloadingv1beta1.NamespaceMap{mapOf("milan", "demo"), mapOf("naples", "other"), mapOf("turin", "demo")}
	var got []string
	for _, v := range Located([]Volume{data(), unknown, elsewhere}, maps) {
		got = append(got, v.String())
	}
	if diff := cmp.Diff([]string{
		"PersistentVolumeClaim demo/data (1Gi, cluster milan)", "PersistentVolumeClaim demo/data (1Gi, maybe cluster milan: remove the annotation)",
		"PersistentVolumeClaim demo/data (1Gi, maybe cluster turin: remove the annotation)",
	}, got); diff != "" {
		t.Error(diff)
	}
}

func TestVolumesMessage(t *testing.T) {
	var kept []Volume
	for i := range 22 {
		kept = append(kept, data(func(v *Volume) { v.Claim = fmt.Sprintf("data-%02d", i) }))
	}
	kept[1].Released = true
	got := VolumesMessage(kept, "virtualnode", "liqo-tenant-milan", "milan")
	for _, want := range []string{
		"PersistentVolumeClaim demo/data-00 (1Gi, cluster milan), PersistentVolume pvc-1 of deleted claim demo/data-01 (1Gi, cluster milan)", "data-19", "and 2 more;",
		"delete the claims (of deleted claims: set spec.persistentVolumeReclaimPolicy", "kubectl annotate virtualnode milan --namespace liqo-tenant-milan liqo.io/delete-volumes=true",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if strings.Contains(got, "data-20") {
		t.Errorf("%q lists all", got)
	}
}

// TestAbandonmentUsed: the annotation that abandons data has served its purpose when a cluster that was left out has released the remote namespace, also one under
// another name, and none is left that has to.
func TestAbandonmentUsed(t *testing.T) {
	conditions := func(required, has bool) []offloadingv1beta1.RemoteNamespaceCondition {
		out := []offloadingv1beta1.RemoteNamespaceCondition{condition(offloadingv1beta1.RemoteNamespaceRequired, required, "", "")}
		if has {
			out = append(out, condition(offloadingv1beta1.RemoteNamespaceReady, true, "", ""))
		}
		return out
	}
	required, left, released := conditions(true, true), conditions(false, true), conditions(false, false)
	const has = "demo-rome"
	for name, c := range map[string]struct {
		before, now     []offloadingv1beta1.RemoteNamespaceCondition
		asked, held     string
		turin           string // what a second cluster that is left out has
		deleting, unset bool
		want            bool
	}{
		"released":                          {before: left, now: released, want: true},
		"released, and the cluster is gone": {before: left, want: true},
		"released between two passes":       {before: required, now: released, want: true},
		"no annotation":                     {before: left, now: released, unset: true},
		"the object is deleted":             {before: left, now: released, deleting: true},
		"still asked for":                   {before: left, now: released, asked: has},
		"still held":                        {before: left, now: left, held: has},
		"another cluster has not released":  {before: left, now: released, turin: has},
		"nothing is left out":               {before: required, now: required, asked: has, held: has},
		"nothing was left out before":       {before: released, now: released},
		"selected again":                    {before: left, now: required, asked: has, held: has, want: true},
		"another name, not yet":             {before: left, now: required, asked: has, held: "former"},
		"another name, not asked for yet":   {before: left, now: required, asked: "former", held: "former"},
	} {
		t.Run(name, func(t *testing.T) {
			o := offloading("demo", offloadingv1beta1.NamespaceOffloadingSpec{})
			if !c.unset {
				o.Annotations = map[string]string{api.AnnotationDeleteVolumes: "true"}
			}
			if c.deleting {
				o.DeletionTimestamp = &noon
			}
			o.Status = offloadingv1beta1.NamespaceOffloadingStatus{RemoteNamespaceName: has}
			maps := []offloadingv1beta1.NamespaceMap{{}, {}}
			maps[0].Name, maps[1].Name = "milan", "turin"
			for i, held := range []string{c.held, c.turin} {
				if held != "" {
					maps[i].Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"demo": at(held, offloadingv1beta1.MappingAccepted)}
				}
			}
			if c.asked != "" {
				maps[0].Spec.DesiredMapping = map[string]string{"demo": c.asked}
			}
			var before offloadingv1beta1.NamespaceOffloadingStatus
			before.RemoteNamespacesConditions = map[string][]offloadingv1beta1.RemoteNamespaceCondition{"milan": c.before}
			if c.now != nil {
				o.Status.RemoteNamespacesConditions = map[string][]offloadingv1beta1.RemoteNamespaceCondition{"milan": c.now}
			}
			if got := AbandonmentUsed(&o, before, maps); got != c.want {
				t.Errorf("used: %t", got)
			}
		})
	}
}
