package peering

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

var toMilan = Link{Own: "rome", Remote: "milan", RemoteNamespace: "liqo-tenant-rome"}

func namespaceMaps() Kind {
	for _, k := range Kinds() {
		if k.Name == "NamespaceMap" {
			return k
		}
	}
	panic("NamespaceMap is replicated")
}

func sourceMap(change ...func(*offloadingv1beta1.NamespaceMap)) *offloadingv1beta1.NamespaceMap {
	m := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "liqo-tenant-milan", Name: "milan", UID: "source", CreationTimestamp: at(time.Second), Finalizers: []string{FinalizerReplicated},
			Labels: map[string]string{"liqo.io/replication": "true", "liqo.io/remoteID": "milan", "liqo.io/remote-cluster-id": "milan", "team": "a"},
		},
		Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"shop": "shop-rome"}},
	}
	for _, f := range change {
		f(m)
	}
	return m
}

func copyMap(change ...func(*offloadingv1beta1.NamespaceMap)) *offloadingv1beta1.NamespaceMap {
	m := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "liqo-tenant-rome", Name: "milan", Annotations: map[string]string{"liqo.io/source-uid": "source"},
			Labels: map[string]string{
				"liqo.io/replication": "false", "liqo.io/replicated": "true", "liqo.io/originID": "rome", "liqo.io/remote-cluster-id": "rome", "team": "a",
			},
		},
		Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"shop": "shop-rome"}},
	}
	for _, f := range change {
		f(m)
	}
	return m
}

func deleted(m *offloadingv1beta1.NamespaceMap) { now := at(0); m.DeletionTimestamp = &now }

func mapped(m *offloadingv1beta1.NamespaceMap) {
	m.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-rome", Phase: "Accepted"}}
}

func TestReplicationSteps(t *testing.T) {
	withdrawn := toMilan
	withdrawn.Withdrawn = true
	foreign := func(m *offloadingv1beta1.NamespaceMap) { m.Labels = map[string]string{"owner": "milan"} }
	other := func(m *offloadingv1beta1.NamespaceMap) {
		m.Spec.DesiredMapping = map[string]string{"bank": "bank-rome"}
	}
	unselected := func(m *offloadingv1beta1.NamespaceMap) { m.Labels["liqo.io/replication"] = "false" }
	unheld := func(m *offloadingv1beta1.NamespaceMap) { m.Finalizers = nil }
	provider := func(m *offloadingv1beta1.NamespaceMap) {
		m.Annotations["milan"], m.Finalizers = "own", []string{"milan"}
	}
	ofAnother := func(m *offloadingv1beta1.NamespaceMap) { m.Annotations["liqo.io/source-uid"] = "former" }
	unnamed := func(created time.Duration) func(m *offloadingv1beta1.NamespaceMap) {
		return func(m *offloadingv1beta1.NamespaceMap) {
			m.Annotations, m.CreationTimestamp = nil, at(created*time.Second)
		}
	}
	named := func(m *offloadingv1beta1.NamespaceMap) {
		m.Annotations = map[string]string{"liqo.io/source-uid": "source"}
	}
	const gone = "the deletion of the copy in cluster milan"
	for name, c := range map[string]struct {
		link         Link
		source, copy *offloadingv1beta1.NamespaceMap
		want         Step
	}{
		"no copy yet":                          {toMilan, sourceMap(), nil, Step{Create: copyMap()}},
		"in step":                              {toMilan, sourceMap(), copyMap(), Step{}},
		"what the provider adds stays":         {toMilan, sourceMap(), copyMap(provider), Step{}},
		"the spec flows out":                   {toMilan, sourceMap(other), copyMap(provider), Step{Update: copyMap(provider, other)}},
		"the status flows back":                {toMilan, sourceMap(), copyMap(mapped), Step{Status: sourceMap(mapped)}},
		"both":                                 {toMilan, sourceMap(other), copyMap(mapped), Step{Update: copyMap(mapped, other), Status: sourceMap(other, mapped)}},
		"a foreign object is not touched":      {toMilan, sourceMap(), copyMap(foreign), Step{Refuse: "NamespaceMap liqo-tenant-rome/milan in cluster milan exists and was not created by this cluster"}},
		"a copy being deleted is waited for":   {toMilan, sourceMap(), copyMap(deleted), Step{Wait: "the deletion of the former copy in cluster milan, before it is created again"}},
		"the source goes: first the copy":      {toMilan, sourceMap(deleted), copyMap(), Step{Delete: true, Wait: gone}},
		"the source goes, with another spec":   {toMilan, sourceMap(deleted, other), copyMap(provider), Step{Update: copyMap(provider, other), Delete: true, Wait: gone}},
		"the source goes, the copy is leaving": {toMilan, sourceMap(deleted), copyMap(deleted), Step{Wait: gone}},
		"the source goes, the copy is gone":    {toMilan, sourceMap(deleted), nil, Step{Release: true}},
		"the source goes, a foreign one stays": {toMilan, sourceMap(deleted), copyMap(foreign), Step{Release: true}},
		"the identity goes: first the copy":    {withdrawn, sourceMap(), copyMap(), Step{Delete: true, Wait: gone}},
		"the identity goes, the copy is gone":  {withdrawn, sourceMap(), nil, Step{Release: true}},
		"the identity goes, never replicated":  {withdrawn, sourceMap(unheld), nil, Step{}},
		"another source takes the copy over":   {toMilan, sourceMap(other), copyMap(ofAnother), Step{Update: copyMap(other)}},
		"another source goes":                  {toMilan, sourceMap(deleted, other), copyMap(ofAnother), Step{Update: copyMap(other), Delete: true, Wait: gone}},
		"a copy of an earlier release":         {toMilan, sourceMap(other), copyMap(unnamed(2)), Step{Update: copyMap(unnamed(2), other)}},
		"such a copy, older than the source":   {toMilan, sourceMap(other), copyMap(unnamed(0)), Step{Update: copyMap(unnamed(0), named, other)}},
		"no longer to be replicated":           {toMilan, sourceMap(unselected), copyMap(), Step{Delete: true, Wait: gone}},
	} {
		t.Run(name, func(t *testing.T) {
			var present Object
			if c.copy != nil {
				present = c.copy
			}
			got := namespaceMaps().Plan(c.link, c.source, present)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSlicesWaitForTheirRequest(t *testing.T) {
	slice := &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "gold", Labels: map[string]string{"liqo.io/replication": "true", "liqo.io/remoteID": "milan"}},
		Spec:       authv1beta1.ResourceSliceSpec{ConsumerClusterID: "rome", ProviderClusterID: "milan"},
	}
	kind := Kinds()[0]
	if step := kind.Plan(toMilan, slice, nil); step.Create != nil || step.Wait == "" {
		t.Errorf("replicated without its request: %+v", step)
	}
	slice.Spec.CSR = []byte("x")
	if step := kind.Plan(toMilan, slice, nil); step.Create == nil {
		t.Errorf("not replicated: %+v", step)
	}
}

// TestReplicationSettles: from every pair of states, executing the steps reaches a state without further steps, and leaves no copy behind when the
// source is deleted.
func TestReplicationSettles(t *testing.T) {
	sources := []func(*offloadingv1beta1.NamespaceMap){
		func(*offloadingv1beta1.NamespaceMap) {}, deleted, mapped,
		func(m *offloadingv1beta1.NamespaceMap) { m.Labels["liqo.io/replication"] = "false" },
		func(m *offloadingv1beta1.NamespaceMap) { m.Spec.DesiredMapping["bank"] = "bank-rome" },
	}
	copies := []func(*offloadingv1beta1.NamespaceMap){nil, func(*offloadingv1beta1.NamespaceMap) {}, deleted, mapped,
		func(m *offloadingv1beta1.NamespaceMap) { m.Labels["team"] = "b" },
		func(m *offloadingv1beta1.NamespaceMap) { m.Spec.DesiredMapping = nil },
	}
	for _, withdraw := range []bool{false, true} {
		for i, forSource := range sources {
			for j, forCopy := range copies {
				link := toMilan
				link.Withdrawn = withdraw
				var source Object = sourceMap(forSource)
				var copy Object
				if forCopy != nil {
					copy = copyMap(forCopy)
				}
				leaving := withdraw || !Selected(source) || source.GetDeletionTimestamp() != nil
				released := false
				for range 6 {
					step := namespaceMaps().Plan(link, source, copy)
					if step.Create != nil {
						copy = step.Create
					}
					if step.Update != nil {
						copy = step.Update
					}
					if step.Status != nil {
						source = step.Status
					}
					if step.Delete || (copy != nil && copy.GetDeletionTimestamp() != nil) {
						copy = nil // the provider did its part
					}
					released = step.Release
				}
				switch {
				case leaving && (copy != nil || !released):
					t.Errorf("source %d, copy %d, withdrawn %t: left %v, released %t", i, j, withdraw, copy, released)
				case !leaving && copy == nil:
					t.Errorf("source %d, copy %d: no copy", i, j)
				case !leaving && !cmp.Equal(namespaceMaps().Plan(link, source, copy), Step{}):
					t.Errorf("source %d, copy %d: never settles", i, j)
				}
			}
		}
	}
}
