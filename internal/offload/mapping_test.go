package offload

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

var (
	noon     = metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	midnight = metav1.NewTime(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))
)

func offloading(namespace string, spec offloadingv1beta1.NamespaceOffloadingSpec) offloadingv1beta1.NamespaceOffloading {
	return offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: offloadingv1beta1.NamespaceOffloadingName, Generation: 4}, Spec: spec,
	}
}

func inRegion(region string) offloadingv1beta1.NamespaceOffloadingSpec {
	return offloadingv1beta1.NamespaceOffloadingSpec{ClusterSelector: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{term(requirement("region", corev1.NodeSelectorOpIn, region))},
	}}
}

func TestDesiredMapping(t *testing.T) {
	deleted := offloading("deleted", offloadingv1beta1.NamespaceOffloadingSpec{})
	deleted.DeletionTimestamp = &noon
	misnamed := offloading("misnamed", offloadingv1beta1.NamespaceOffloadingSpec{})
	misnamed.Name = "other"
	offloadings := []offloadingv1beta1.NamespaceOffloading{
		deleted, misnamed,
		offloading("all", offloadingv1beta1.NamespaceOffloadingSpec{}),
		offloading("south", inRegion("south")),
		offloading("north", inRegion("north")),
		offloading("same", offloadingv1beta1.NamespaceOffloadingSpec{NamespaceMappingStrategy: offloadingv1beta1.EnforceSameName, PodOffloadingStrategy: offloadingv1beta1.PodsLocal}),
	}
	got := DesiredMapping(offloadings, []offloadingv1beta1.VirtualNode{
		virtualNode("naples-1", "naples", nil), virtualNode("naples-2", "naples", map[string]string{"region": "south"}),
	}, nil, nil, "rome", nil, nil)
	want := map[string]string{"all": "all-rome", "south": "south-rome", "same": "same"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func replica(desired map[string]string) *offloadingv1beta1.NamespaceMap {
	return &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan", Labels: map[string]string{api.LabelOriginID: "rome"}},
		Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: desired},
	}
}

func at(remote string, phase offloadingv1beta1.MappingPhase) offloadingv1beta1.RemoteNamespaceStatus {
	return offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: phase}
}

// world returns the metadata of namespaces. The argument maps each name to the local name for a remote namespace, or to "" for a foreign namespace. A leading
// "-" marks a namespace that is being deleted.
func world(namespaces map[string]string) map[string]metav1.ObjectMeta {
	result := map[string]metav1.ObjectMeta{}
	for name, local := range namespaces {
		meta := metav1.ObjectMeta{Name: name}
		if local != "" && local[0] == '-' {
			meta.DeletionTimestamp, local = &noon, local[1:]
		}
		if local != "" {
			MarkNamespace(&meta, replica(nil), "rome", NamespacePair{Local: local})
		}
		result[name] = meta
	}
	return result
}

var policy = NamespacePolicy{LiqoNamespace: "liqo", Chosen: []string{"*"}, Refused: []string{"*-system", "openshift-*"}, Limit: 3}

func TestEnforce(t *testing.T) {
	accepted, backoff, terminating := offloadingv1beta1.MappingAccepted, offloadingv1beta1.MappingCreationLoopBackOff, offloadingv1beta1.MappingTerminating
	type phases map[string]offloadingv1beta1.RemoteNamespaceStatus
	for name, c := range map[string]struct {
		desired  map[string]string
		existing map[string]string
		deleting bool
		want     Enforcement
	}{
		"nothing": {want: Enforcement{Status: phases{}}},
		"new": {desired: map[string]string{"a": "a-rome"}, existing: map[string]string{"other": ""},
			want: Enforcement{Ensure: []NamespacePair{{Local: "a", Remote: "a-rome"}}, Status: phases{"a": at("a-rome", accepted)}}},
		"kept": {desired: map[string]string{"a": "a-rome"}, existing: map[string]string{"a-rome": "a"},
			want: Enforcement{Ensure: []NamespacePair{{Local: "a", Remote: "a-rome"}}, Status: phases{"a": at("a-rome", accepted)}}},
		"foreign is left alone": {desired: map[string]string{"a": "a"}, existing: map[string]string{"a": ""},
			want: Enforcement{Status: phases{"a": at("a", backoff)}}},
		"foreign on its way out is waited for": {desired: map[string]string{"a": "a"}, existing: map[string]string{"a": "-"},
			want: Enforcement{Status: phases{"a": at("a", backoff)}}},
		"no longer wanted": {existing: map[string]string{"a-rome": "a"},
			want: Enforcement{Delete: []string{"a-rome"}, Remaining: []string{"a-rome"}, Status: phases{"a": at("a-rome", terminating)}}},
		"being deleted": {existing: map[string]string{"a-rome": "-a"},
			want: Enforcement{Remaining: []string{"a-rome"}, Status: phases{"a": at("a-rome", terminating)}}},
		"wanted again while being deleted": {desired: map[string]string{"a": "a-rome"}, existing: map[string]string{"a-rome": "-a"},
			want: Enforcement{Status: phases{"a": at("a-rome", terminating)}}},
		"another name": {desired: map[string]string{"a": "new"}, existing: map[string]string{"old": "a"},
			want: Enforcement{Ensure: []NamespacePair{{Local: "a", Remote: "new"}}, Delete: []string{"old"}, Remaining: []string{"old"}, Status: phases{"a": at("new", accepted)}}},
		"two want one name: the first": {desired: map[string]string{"b": "x", "a": "x"},
			want: Enforcement{Ensure: []NamespacePair{{Local: "a", Remote: "x"}}, Status: phases{"a": at("x", accepted), "b": at("x", backoff)}}},
		"two want one name: who has it": {desired: map[string]string{"a": "x", "b": "x"}, existing: map[string]string{"x": "b"},
			want: Enforcement{Ensure: []NamespacePair{{Local: "b", Remote: "x"}}, Status: phases{"b": at("x", accepted), "a": at("x", backoff)}}},
		"reserved": {desired: map[string]string{"a": "liqo-tenant-turin", "b": "kube-b", "c": "liqo"},
			want: Enforcement{Status: phases{"a": at("liqo-tenant-turin", backoff), "b": at("kube-b", backoff), "c": at("liqo", backoff)}}},
		"kept back": {desired: map[string]string{"a": "istio-system", "b": "openshift-b", "c": "system", "d": "a-system-rome"},
			want: Enforcement{Ensure: []NamespacePair{{Local: "c", Remote: "system"}, {Local: "d", Remote: "a-system-rome"}}, Status: phases{
				"a": at("istio-system", backoff), "b": at("openshift-b", backoff), "c": at("system", accepted), "d": at("a-system-rome", accepted)}}},
		"kept back after it was given": {desired: map[string]string{"a": "istio-system"}, existing: map[string]string{"istio-system": "a"},
			want: Enforcement{Ensure: []NamespacePair{{Local: "a", Remote: "istio-system"}}, Status: phases{"a": at("istio-system", accepted)}}},
		"too many": {desired: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}, existing: map[string]string{"3": "c", "4": "d"},
			want: Enforcement{Ensure: []NamespacePair{{Local: "a", Remote: "1"}, {Local: "c", Remote: "3"}, {Local: "d", Remote: "4"}}, Status: phases{
				"a": at("1", accepted), "b": at("2", backoff), "c": at("3", accepted), "d": at("4", accepted)}}},
		"those that go count": {desired: map[string]string{"a": "1"}, existing: map[string]string{"2": "-b", "3": "-c", "4": "-d"},
			want: Enforcement{Remaining: []string{"2", "3", "4"}, Status: phases{
				"a": at("1", backoff), "b": at("2", terminating), "c": at("3", terminating), "d": at("4", terminating)}}},
		"map being deleted": {desired: map[string]string{"a": "a-rome", "b": "b"}, existing: map[string]string{"a-rome": "a", "b": ""}, deleting: true,
			want: Enforcement{Delete: []string{"a-rome"}, Remaining: []string{"a-rome"}, Status: phases{"a": at("a-rome", terminating)}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := replica(c.desired)
			if c.deleting {
				m.DeletionTimestamp = &noon
			}
			if diff := cmp.Diff(c.want, Enforce(m, world(c.existing), nil, policy)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestEnforceSettles: from any state, executing the plan leads to a state with an empty plan. No foreign namespace is ever changed.
func TestEnforceSettles(t *testing.T) {
	desires := []map[string]string{nil, {"a": "x"}, {"a": "x", "b": "x"}, {"a": "y", "b": "x"}, {"a": "kube-system"}}
	worlds := []map[string]string{nil, {"x": ""}, {"x": "a"}, {"x": "b", "y": "a"}, {"x": "a", "y": ""}, {"x": "-a", "y": "-b"}, {"z": "a", "x": "-"}}
	for _, desired := range desires {
		for _, start := range worlds {
			existing := world(start)
			var plan Enforcement
			for round := 0; ; round++ {
				plan = Enforce(replica(desired), existing, nil, policy)
				if round == 5 {
					t.Fatalf("desired %v from %v does not settle: %+v", desired, start, plan)
				}
				if quiet(plan, existing) {
					break
				}
				for _, name := range plan.Remaining { // deleted and, after a while, gone
					if start[name] == "" {
						t.Fatalf("desired %v from %v deletes foreign namespace %s", desired, start, name)
					}
					delete(existing, name)
				}
				for name, meta := range existing {
					if meta.DeletionTimestamp != nil {
						delete(existing, name)
					}
				}
				for _, pair := range plan.Ensure {
					meta := existing[pair.Remote]
					MarkNamespace(&meta, replica(nil), "rome", pair)
					existing[pair.Remote] = meta
				}
			}
			for name, local := range start {
				if _, there := existing[name]; local == "" && !there {
					t.Errorf("desired %v from %v lost foreign namespace %s", desired, start, name)
				}
			}
		}
	}
}

func quiet(plan Enforcement, existing map[string]metav1.ObjectMeta) bool {
	for _, pair := range plan.Ensure {
		if _, there := existing[pair.Remote]; !there {
			return false
		}
	}
	for _, meta := range existing {
		if meta.DeletionTimestamp != nil {
			return false
		}
	}
	return len(plan.Remaining) == 0
}

func TestMappingOf(t *testing.T) {
	m := &offloadingv1beta1.NamespaceMap{
		Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"a": "a-rome", "b": "b-rome", "c": "c-rome", "d": "d-rome", "other": "other-rome"}},
		Status: offloadingv1beta1.NamespaceMapStatus{CurrentMapping: map[string]offloadingv1beta1.RemoteNamespaceStatus{
			"a": {RemoteNamespace: "a-rome", Phase: offloadingv1beta1.MappingAccepted}, "b": {RemoteNamespace: "b-rome", Phase: offloadingv1beta1.MappingTerminating},
			"c":      {RemoteNamespace: "c-rome", Phase: offloadingv1beta1.MappingCreationLoopBackOff},
			"secret": {RemoteNamespace: "x", Phase: offloadingv1beta1.MappingAccepted}, "other": {RemoteNamespace: "other", Phase: offloadingv1beta1.MappingAccepted},
		}},
	}
	for namespace, want := range map[string]Mapping{
		"a": {State: Mapped, Namespace: "a-rome"}, "b": {State: MappingTerminating, Namespace: "b-rome"}, "d": {State: MappingWanted}, "e": {State: Unmapped},
		// A namespace counts only if the spec requests it under the name in the status.
		"secret": {State: MappingTerminating, Namespace: "x"}, "other": {State: MappingTerminating, Namespace: "other"},
	} {
		if got := MappingOf(m, namespace); got != want {
			t.Errorf("%s: %+v", namespace, got)
		}
	}
	if got := MappingOf(m, "c"); got.State != MappingWanted || got.Namespace != "" || got.Problem == "" {
		t.Errorf("c: %+v", got)
	}
	if got := MappingOf(nil, "a"); got.State != MappingWanted {
		t.Errorf("without a map: %+v", got)
	}
}

// TestReportedNamespacesMustBeRequested: a pod that was not offloaded does not become so because its provider has a ShadowPod in a namespace that was
// not requested.
func TestReportedNamespacesMustBeRequested(t *testing.T) {
	env := Env{Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, RemoteSynced: true, Now: stepNow, Pod: stepPod}
	local := localPod("u1", nil)
	shadow, _ := Next(local, nil, nil, env).Object.(*offloadingv1beta1.ShadowPod)
	env.Mapping.State = MappingTerminating
	for name, s := range map[string]*offloadingv1beta1.ShadowPod{"with a ShadowPod": shadow, "without": nil} {
		step := Next(local, s, nil, env)
		if shown, _ := step.Object.(*corev1.Pod); step.Action != PatchLocalStatus || shown == nil || shown.Status.Reason != offloadingv1beta1.PodOffloadingBackOff {
			t.Errorf("%s: %s (%s)", name, step.Action, step.Why)
		}
	}
	// A running pod is shown as not ready while the provider is unreachable and its cache is incomplete.
	env.RemoteSynced, env.Pod.Unavailable = false, true
	ready := localPod("u1", func(p *corev1.Pod) {
		labelled(p)
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	if step := Next(ready, nil, nil, env); step.Action != PatchLocalStatus {
		t.Errorf("out of reach: %s (%s)", step.Action, step.Why)
	}
}

// TestNamespacesThatWereTakenOverKeepTheirData: a consumer that lost its NamespaceMap offloads the same namespace again. It does not know the volumes of the claims
// there any more, so the end of that offloading deletes the namespace only once it has no claims.
func TestNamespacesThatWereTakenOverKeepTheirData(t *testing.T) {
	of := func(uid types.UID, desired map[string]string) *offloadingv1beta1.NamespaceMap {
		m := replica(desired)
		m.UID = uid
		return m
	}
	meta := metav1.ObjectMeta{Name: "shop-rome"}
	MarkNamespace(&meta, of("former", nil), "rome", NamespacePair{Local: "shop", Remote: "shop-rome"})
	existing := map[string]metav1.ObjectMeta{"shop-rome": meta}
	again, ended := of("new", map[string]string{"shop": "shop-rome"}), of("new", nil)
	takeOver := func(claims bool) {
		t.Helper()
		plan := Enforce(again, existing, map[string]bool{"shop-rome": claims}, NamespacePolicy{})
		if len(plan.Ensure) != 1 || plan.Ensure[0].Inherited != claims {
			t.Fatalf("claims %t: %+v", claims, plan)
		}
		MarkNamespace(&meta, again, "rome", plan.Ensure[0])
	}
	for range 3 {
		takeOver(true)
	}
	plan := Enforce(ended, existing, map[string]bool{"shop-rome": true}, NamespacePolicy{})
	if len(plan.Delete)+len(plan.Remaining) > 0 || len(plan.Retained) != 1 || plan.Retained[0].Local != "shop" {
		t.Errorf("the data of the former map: %+v", plan)
	}
	if plan = Enforce(ended, existing, nil, NamespacePolicy{}); len(plan.Delete) != 1 {
		t.Errorf("the claims are deleted: %+v", plan)
	}
	takeOver(false)
	existing["shop-rome"] = meta
	released := ended.DeepCopy()
	released.Spec.ReleasedMapping = again.Spec.DesiredMapping
	if plan = Enforce(released, existing, map[string]bool{"shop-rome": true}, NamespacePolicy{}); len(plan.Delete) != 1 {
		t.Errorf("claims since then are those of the new map: %+v", plan)
	}
}

// TestARestoredMapDeletesNoData: a consumer was restored from a backup of its NamespaceMap that does not contain a namespace. It has not released the namespace, so the
// namespace stays while it has claims, also if the map is deleted or requests another remote name.
func TestARestoredMapDeletesNoData(t *testing.T) {
	shop := map[string]string{"shop": "shop-rome"}
	for name, c := range map[string]struct {
		desired, released map[string]string
		deleting          bool
		want              []string
	}{
		"restored":                          {},
		"restored, and deleted":             {deleting: true},
		"restored with another remote name": {desired: map[string]string{"shop": "shop"}},
		"another namespace is released":     {released: map[string]string{"bank": "shop-rome", "shop": "shop"}},
		"deleted with the namespace":        {desired: shop, deleting: true},
		"requested again":                   {desired: shop, released: shop},
		"released":                          {released: shop, want: []string{"shop-rome"}},
		"released for another remote name":  {desired: map[string]string{"shop": "shop"}, released: shop, want: []string{"shop-rome"}},
		"released, and deleted":             {released: shop, deleting: true, want: []string{"shop-rome"}},
	} {
		m := replica(c.desired)
		if m.Spec.ReleasedMapping = c.released; c.deleting {
			m.DeletionTimestamp = &noon
		}
		existing := world(map[string]string{"shop-rome": "shop"})
		if plan := Enforce(m, existing, map[string]bool{"shop-rome": true}, NamespacePolicy{}); !slices.Equal(plan.Delete, c.want) {
			t.Errorf("%s: %+v", name, plan)
		}
		if plan := Enforce(m, existing, nil, NamespacePolicy{}); !slices.Equal(plan.Delete, []string{"shop-rome"}) && (c.deleting || c.desired["shop"] != "shop-rome") {
			t.Errorf("%s, without claims: %+v", name, plan)
		}
	}
}

// TestReleasedMapping: a namespace is released from the moment at which it is no longer requested until the provider, which has read the release, has deleted it, and
// not if it is requested again. An empty status, as that of a copy that was created again, ends no release.
func TestReleasedMapping(t *testing.T) {
	shop, other := map[string]string{"shop": "shop-rome"}, map[string]string{"shop": "shop"}
	for name, c := range map[string]struct {
		before, released, desired map[string]string
		// current and read are the report of the provider.
		current string
		read    map[string]string
		want    map[string]string
	}{
		"requested":                         {before: shop, desired: shop, current: "shop-rome"},
		"no longer requested":               {before: shop, current: "shop-rome", want: shop},
		"no longer requested, no report":    {before: shop, want: shop},
		"until it is read":                  {released: shop, want: shop},
		"until it is gone":                  {released: shop, current: "shop-rome", read: shop, want: shop},
		"gone":                              {released: shop, read: shop},
		"requested again":                   {released: shop, desired: shop, current: "shop-rome", read: shop},
		"under another name":                {before: shop, desired: other, current: "shop-rome", want: shop},
		"the other name exists":             {before: other, released: shop, desired: other, current: "shop", read: shop},
		"the other name, before it is read": {before: other, released: shop, desired: other, want: shop},
		"another release was read":          {released: shop, read: other, want: shop},
		"released for the second time":      {before: shop, read: shop, want: shop},
		"the report of the provider":        {current: "bank-rome", read: other},
	} {
		m := replica(c.before)
		m.Spec.ReleasedMapping, m.Status.ReleasedMapping = c.released, c.read
		if c.current != "" {
			m.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": at(c.current, offloadingv1beta1.MappingAccepted)}
		}
		if diff := cmp.Diff(c.want, ReleasedMapping(m, c.desired)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
