package controllers

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// lawStep is one way, and the actors that act after it, once and in this order; nil means all until nothing is left to do.
type lawStep struct {
	way    string
	actors []int
}

func (s lawStep) String() string {
	if s.actors == nil {
		return s.way
	}
	return fmt.Sprintf("%s, then %v", s.way, s.actors)
}

// follow does the steps in new clusters, and returns what is lost, empty if that is nothing.
func follow(t *testing.T, steps []lawStep) string {
	t.Helper()
	w := newDataWorld(t)
	ways := w.ways()
	maps.Copy(ways, w.returns())
	maps.Copy(ways, w.requests())
	for _, s := range steps {
		w.done = append(w.done, s.String())
		w.permitted()
		ways[s.way]()
		if s.actors == nil {
			w.settle()
		} else {
			w.act(s.actors)
		}
		if lost := w.lost(); lost != "" {
			return lost
		}
	}
	w.settle()
	return w.lost()
}

// shorten returns a shorter sequence that loses data as well: no step and no actor can be left out of it.
func shorten(t *testing.T, steps []lawStep) []lawStep {
	t.Helper()
	for i := 0; i < len(steps); {
		without := slices.Delete(slices.Clone(steps), i, i+1)
		settled := slices.Clone(steps)
		settled[i].actors = nil
		switch {
		case follow(t, without) != "":
			steps, i = without, 0
		case steps[i].actors != nil && follow(t, settled) != "":
			steps, i = settled, 0
		default:
			i++
		}
	}
	for i := range steps {
		for a := 0; a < len(steps[i].actors); {
			fewer := slices.Clone(steps)
			if fewer[i].actors = slices.Delete(slices.Clone(steps[i].actors), a, a+1); follow(t, fewer) != "" {
				steps = fewer
				continue
			}
			a++
		}
	}
	return steps
}

// TestDataStaysUntilItsDeletionIsRequested: whatever ends, and in whatever order, the data in a provider stays. It goes only with an explicit request.
func TestDataStaysUntilItsDeletionIsRequested(t *testing.T) {
	w := newDataWorld(t)
	ways, returns, requests := slices.Sorted(maps.Keys(w.ways())), slices.Sorted(maps.Keys(w.returns())), slices.Sorted(maps.Keys(w.requests()))
	actors := len(w.actors())
	for seed := range uint64(lawSeeds) {
		random := rand.New(rand.NewPCG(seed, 1))
		// A sequence repeats a few ways, so that they meet each other often.
		some, back, asked := few(random, ways, 5), few(random, returns, 5), few(random, requests, 3)
		steps := make([]lawStep, 2+random.IntN(11))
		for i := range steps {
			s := &steps[i]
			switch kind := random.IntN(8); {
			case i == 0 && seed < uint64(len(ways)):
				s.way = ways[seed] // each way comes first once
			case kind == 0:
				s.way = asked[random.IntN(len(asked))]
			case kind < 4:
				s.way = back[random.IntN(len(back))]
			default:
				s.way = some[random.IntN(len(some))]
			}
			if random.IntN(2) == 0 {
				s.actors = []int{}
				for range random.IntN(6) {
					s.actors = append(s.actors, random.IntN(actors))
				}
			}
		}
		if follow(t, steps) != "" {
			if seed == 99999 {
				continue
			}
			steps = shorten(t, steps)
			t.Fatalf("seed %d: %s after: %v", seed, follow(t, steps), steps)
		}
	}
}

// few returns n of the names.
func few(random *rand.Rand, names []string, n int) []string {
	out := slices.Clone(names)
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:n]
}

// lawSeeds is the number of sequences that the law tries.
const lawSeeds = 200

// TestRequestedDeletionsOfDataComplete: after an explicit request, nothing keeps the data, so that a peering can end.
func TestRequestedDeletionsOfDataComplete(t *testing.T) {
	marked := func(w *dataWorld, c client.Client, o client.Object) {
		w.change(c, o, func() {
			metav1.SetMetaDataAnnotation(o.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta), api.AnnotationDeleteVolumes, api.True)
		})
		w.delete(c, o)
	}
	for name, request := range map[string]func(w *dataWorld){
		"the NamespaceOffloading": func(w *dataWorld) { marked(w, w.rome, w.offloading()) },
		"the VirtualNode": func(w *dataWorld) {
			marked(w, w.rome, w.node())
			w.delete(w.rome, w.slice()) // it would create the VirtualNode again
		},
		"the Tenant": func(w *dataWorld) { marked(w, w.milan, w.tenant()) },
		"the Tenant, drained": func(w *dataWorld) {
			w.ways()["the tenant is drained"]()
			w.settle()
			marked(w, w.milan, w.tenant())
		},
		"the Tenant, whose map was deleted": func(w *dataWorld) {
			w.ways()["the VirtualNode vanishes"]()
			w.ways()["the copy of the NamespaceMap is"]()
			w.settle()
			marked(w, w.milan, w.tenant())
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDataWorld(t)
			request(w)
			w.settle()
			if w.hasData() || w.read(w.milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lawRemote}}) {
				t.Error("the data is still there")
			}
		})
	}
}

// TestAnotherNamespaceMapDeletesNoData: a consumer that lost its NamespaceMap, and its offloadings, writes another one without the namespaces of the former. The
// provider keeps those with claims and reports them. The consumer gets the same namespace again when it offloads its namespace again. It does not know the volumes
// of before, so not even its permission to delete data ends that namespace. It ends once its claims are deleted.
func TestAnotherNamespaceMapDeletesNoData(t *testing.T) {
	for name, before := range map[string]func(w *dataWorld){
		"with a copy that names its source":  func(*dataWorld) {},
		"with a copy of an earlier release":  (*dataWorld).fromEarlierRelease,
		"for the second time":                (*dataWorld).reinstall,
		"after its NamespaceMap was deleted": func(w *dataWorld) { w.vanish(w.rome, lawMap(lawPeer)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newDataWorld(t)
			before(w)
			w.settle()
			w.reinstall()
			w.settle()
			if !w.hasData() {
				t.Fatal("the data is gone")
			}
			if text := <-w.events.Events; !strings.Contains(text, "VolumesKept namespace shop-rome stays") {
				t.Errorf("event %q", text)
			}
			w.must(w.rome.Create(t.Context(), w.offloading()))
			w.settle()
			m := lawMap(lawPeer)
			if w.read(w.rome, m); m.Status.CurrentMapping["shop"].Phase != offloadingv1beta1.MappingAccepted || !w.hasData() {
				t.Fatalf("not taken over: %+v, data: %t", m.Status, w.hasData())
			}
			o := w.offloading()
			w.change(w.rome, o, func() { o.Annotations = map[string]string{api.AnnotationDeleteVolumes: api.True} })
			w.delete(w.rome, o)
			w.settle()
			if !w.hasData() {
				t.Fatal("the data of the former NamespaceMap is gone")
			}
			w.must(w.milan.Delete(t.Context(), lawClaim(lawRemote)))
			w.settle()
			if w.read(w.milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lawRemote}}) {
				t.Error("the namespace stays without claims")
			}
		})
	}
}

// TestOffloadingsEndAfterAnUpgrade: a copy and a namespace that an earlier release marked are those of the same NamespaceMap as before, so that the end of the
// offloading deletes the namespace.
func TestOffloadingsEndAfterAnUpgrade(t *testing.T) {
	w := newDataWorld(t)
	w.fromEarlierRelease()
	o := w.offloading()
	w.change(w.rome, o, func() { o.Annotations = map[string]string{api.AnnotationDeleteVolumes: api.True} })
	w.delete(w.rome, o)
	w.settle()
	if w.hasData() {
		t.Error("the data is still there")
	}
}

// TestCopiesOfRemoteNamespacesStay: a copy of a remote namespace that a backup tool or an export creates has its annotations, too. Liqo deletes it neither with
// the NamespaceMap nor because the map lacks it, and takes it for no other one when the consumer requests its name.
func TestCopiesOfRemoteNamespacesStay(t *testing.T) {
	w := newDataWorld(t)
	remote := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lawRemote}}
	w.read(w.milan, remote)
	backup := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-backup", Labels: remote.Labels, Annotations: remote.Annotations}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-backup", Name: "data"}}
	w.must(w.milan.Create(t.Context(), backup))
	w.must(w.milan.Create(t.Context(), claim))
	w.settle()
	if !w.read(w.milan, claim) || !w.hasData() {
		t.Fatal("the data is gone")
	}
	copied := lawMap(lawTenant)
	w.change(w.milan, copied, func() { copied.Spec.DesiredMapping = map[string]string{"shop": lawRemote, "web": "shop-backup"} })
	w.run("namespacemap", copied)
	if w.read(w.milan, copied); copied.Status.CurrentMapping["web"].Phase != offloadingv1beta1.MappingCreationLoopBackOff {
		t.Errorf("the copy is taken for a remote namespace: %+v", copied.Status)
	}
}

// TestAReleaseIsNotForgotten: a requested end of data completes although the provider has to create the copy of the NamespaceMap again, whose status is empty until
// the controllers of the provider run.
func TestAReleaseIsNotForgotten(t *testing.T) {
	recreate := func(w *dataWorld) {
		w.vanish(w.milan, lawMap(lawTenant))
		w.settle()
	}
	request := func(w *dataWorld) {
		w.requests()["the NamespaceOffloading is deleted with its data"]()
		w.settle()
	}
	for name, steps := range map[string][]func(w *dataWorld){
		"before the release": {recreate, request},
		"during the release": {request, recreate},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDataWorld(t)
			w.stopped["milan"] = true
			for _, step := range steps {
				step(w)
			}
			w.stopped["milan"] = false
			w.settle()
			if w.hasData() || w.read(w.milan, w.remote()) {
				t.Error("the data is still there")
			}
			if m := lawMap(lawPeer); w.read(w.rome, m) && len(m.Spec.ReleasedMapping) > 0 {
				t.Errorf("the release stays: %v", m.Spec.ReleasedMapping)
			}
		})
	}
}

// TestAnEmptyStatusReleasesNoData: as long as a volume has data in a namespace that rome requests, the namespace is not released, also if the status of the NamespaceMap is
// empty because its copy was created again.
func TestAnEmptyStatusReleasesNoData(t *testing.T) {
	w := newDataWorld(t)
	w.stopped["milan"] = true
	w.vanish(w.milan, lawMap(lawTenant))
	w.settle()
	w.delete(w.rome, w.offloading())
	w.settle()
	m := lawMap(lawPeer)
	if w.read(w.rome, m); len(m.Status.CurrentMapping) > 0 || m.Spec.DesiredMapping["shop"] != lawRemote {
		t.Errorf("%+v %+v", m.Spec, m.Status)
	}
	w.stopped["milan"] = false
	w.settle()
	if lost := w.lost(); lost != "" {
		t.Error(lost)
	}
}
