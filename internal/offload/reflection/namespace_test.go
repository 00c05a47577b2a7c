package reflection

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

// told is an engine that receives Events of the provider about a pod and about a Service directly, without API servers.
type told struct {
	engine           *Engine
	pods             *reflector
	copies           *reflector
	events           *reflector
	watchedNamespace *watchedNamespace
	pod              *corev1.Pod
	shadow           *offloadingv1beta1.ShadowPod
	service          *corev1.Service
	there            *corev1.Service
	aboutPod         *corev1.Event
	aboutService     *corev1.Event
	copied           map[string]bool
}

func newTold(t *testing.T) *told {
	t.Helper()
	o := kinds.CopyOptions{Origin: "rome", Destination: "milan"}
	ours := map[string]string{api.LabelOrigin: "rome", api.LabelDestination: "milan"}
	meta := func(namespace, name, uid string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid), ResourceVersion: "2"}
	}
	w := &told{
		pod:     &corev1.Pod{ObjectMeta: meta("shop", "web", "pod"), Spec: corev1.PodSpec{NodeName: "milan"}},
		shadow:  &offloadingv1beta1.ShadowPod{ObjectMeta: meta("shop-rome", "web", "shadow")},
		service: &corev1.Service{ObjectMeta: meta("shop", "web", "service")}, there: &corev1.Service{ObjectMeta: meta("shop-rome", "web", "copy")},
		aboutPod:     &corev1.Event{ObjectMeta: meta("shop-rome", "web.pod", "1"), InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "web"}},
		aboutService: &corev1.Event{ObjectMeta: meta("shop-rome", "web.service", "2"), InvolvedObject: corev1.ObjectReference{Kind: "Service", Name: "web"}},
		copied:       map[string]bool{},
	}
	w.shadow.Annotations, w.there.Labels = map[string]string{kinds.AnnotationLocalUID: "pod"}, ours
	w.engine = New(Options{Namespace: "tenant", Map: "milan", Kinds: []Kind{
		Pods(1, func() podrules.Options { return podrules.Options{Origin: "rome", Destination: "milan", Node: "milan"} }),
		Services(1, func() kinds.ServiceOptions { return kinds.ServiceOptions{CopyOptions: o} }),
		Events(1, func() kinds.CopyOptions { return o }),
	}})
	w.pods, w.copies, w.events = w.engine.kinds[0], w.engine.kinds[1], w.engine.kinds[2]
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: meta("tenant", "milan", "map")}
	m.Spec.DesiredMapping = map[string]string{"shop": "shop-rome"}
	m.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}}
	list(t, w.engine.nsmap, m)
	w.watchedNamespace = w.engine.newWatchedNamespace("shop", "shop-rome")
	w.engine.namespaces["shop"] = w.watchedNamespace
	for _, r := range w.engine.kinds {
		for _, s := range append([]*store{r.store(w.watchedNamespace)}, w.watchedNamespace.stores[r]...) {
			list(t, s)
		}
	}
	w.look(t)
	return w
}

func list(t *testing.T, s *store, objects ...client.Object) {
	t.Helper()
	var items []any
	for _, o := range objects {
		items = append(items, o.DeepCopyObject())
	}
	if err := s.Replace(items, "1"); err != nil {
		t.Fatal(err)
	}
}

// look makes the engine decide about the waiting Events, and records which of them it would copy.
func (w *told) look(t *testing.T) {
	t.Helper()
	for w.events.queue.Len() > 0 {
		key, _ := w.events.queue.Get()
		facts, _ := w.events.facts(key)
		if step := w.events.Next(facts); step.Action == offload.CreateLocal {
			w.copied[key.Name] = true
		}
		w.events.queue.Done(key)
	}
}

func TestEventsWaitForTheirObject(t *testing.T) {
	watched := func(s *store, obj client.Object) error { return s.Update(obj.DeepCopyObject()) }
	steps := map[string]func(*told) error{
		"the pod":   func(w *told) error { return watched(w.pods.local, w.pod) },
		"its event": func(w *told) error { return watched(w.watchedNamespace.stores[w.events][0], w.aboutPod) },
		"the ShadowPod, by the answer": func(w *told) error {
			w.watchedNamespace.stores[w.pods][0].wrote(w.shadow.DeepCopy())
			return nil
		},
		"the ShadowPod, by the watch": func(w *told) error { return watched(w.watchedNamespace.stores[w.pods][0], w.shadow) },
		"the ShadowPod, by a list": func(w *told) error {
			return w.watchedNamespace.stores[w.pods][0].Replace([]any{w.shadow.DeepCopy()}, "3")
		},
		"an earlier pod": func(w *told) error {
			earlier := w.pod.DeepCopy()
			earlier.UID, earlier.ResourceVersion = "earlier", "1"
			return watched(w.pods.local, earlier)
		},
		"the service":       func(w *told) error { return watched(w.watchedNamespace.here[w.copies], w.service) },
		"the service there": func(w *told) error { return watched(w.watchedNamespace.stores[w.copies][0], w.there) },
		"the service's event": func(w *told) error {
			return watched(w.watchedNamespace.stores[w.events][0], w.aboutService)
		},
	}
	for _, row := range []struct{ event, order string }{
		{"web.pod", "the pod; the ShadowPod, by the answer; its event"},
		{"web.pod", "the pod; its event; the ShadowPod, by the answer"},
		{"web.pod", "the pod; its event; the ShadowPod, by the watch"},
		{"web.pod", "the pod; its event; the ShadowPod, by a list"},
		{"web.pod", "its event; the ShadowPod, by the watch; the pod"},
		{"web.pod", "an earlier pod; its event; the ShadowPod, by the watch; the pod"},
		{"web.service", "the service's event; the service; the service there"},
		{"web.service", "the service's event; the service there; the service"},
	} {
		t.Run(row.order, func(t *testing.T) {
			w := newTold(t)
			order := strings.Split(row.order, "; ")
			for i, what := range order {
				if len(w.copied) > 0 {
					t.Errorf("told before %s", what)
				}
				step := steps[what]
				if step == nil {
					t.Fatalf("no such step: %q", what)
				}
				if err := step(w); err != nil {
					t.Fatal(err)
				}
				w.look(t)
				if i == len(order)-1 && !w.copied[row.event] {
					t.Errorf("not told; told are %v", slices.Collect(maps.Keys(w.copied)))
				}
			}
		})
	}
}

func TestKnownEventsAreNotQueuedAgain(t *testing.T) {
	w := newTold(t)
	steps := []func() error{
		func() error { return w.pods.local.Update(w.pod.DeepCopy()) },
		func() error { return w.watchedNamespace.stores[w.pods][0].Update(w.shadow.DeepCopy()) },
		func() error { return w.watchedNamespace.stores[w.events][0].Update(w.aboutPod.DeepCopy()) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	w.look(t)
	w.pod.ResourceVersion, w.shadow.ResourceVersion = "3", "3"
	for _, step := range steps[:2] {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.events.queue.Len(); n > 0 {
		t.Errorf("%d Events are looked at for a change of what they are about", n)
	}
}

// TestNoStepWithAStaleCache: a process that may have been replaced leaves every step to its successor.
func TestNoStepWithAStaleCache(t *testing.T) {
	w := newTold(t)
	list(t, w.pods.store(w.watchedNamespace), w.pod)
	list(t, w.copies.store(w.watchedNamespace), w.service)
	stale := false
	w.engine.opts.Stale = func() bool { return stale }
	for _, r := range []*reflector{w.pods, w.copies} {
		for _, stale = range []bool{false, true} {
			facts, _ := r.facts(types.NamespacedName{Namespace: "shop", Name: "web"})
			if step := r.Next(facts); (step.Action == offload.Nothing) != stale {
				t.Errorf("%s, stale %v: %s (%s)", r.Name, stale, step.Action, step.Why)
			}
		}
	}
}

// TestReflectedObjectsAreCounted counts objects of this cluster in the provider, and no foreign objects of the same names.
func TestReflectedObjectsAreCounted(t *testing.T) {
	w := newTold(t)
	w.shadow.Labels = map[string]string{api.LabelOrigin: "rome", offloadingv1beta1.LabelNodeName: "milan"}
	foreign := w.there.DeepCopy()
	foreign.Name, foreign.Labels = "foreign", nil
	list(t, w.watchedNamespace.stores[w.pods][0], w.shadow)
	list(t, w.watchedNamespace.stores[w.copies][0], w.there, foreign)
	got := map[string]int{}
	w.engine.Reflected(func(kind, namespace string, count int) { got[namespace+" "+kind] = count })
	if want := map[string]int{"shop Pod": 1, "shop ServiceAccount": 0, "shop Service": 1}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	w.engine.namespaces = nil
	w.engine.Reflected(func(kind, namespace string, count int) {
		t.Errorf("without a remote namespace: %d %s in %s", count, kind, namespace)
	})
}

// TestResyncFindsDeletedPods: a pod that was deleted while no step was taken leaves nothing in the provider.
func TestResyncFindsDeletedPods(t *testing.T) {
	w := newTold(t)
	list(t, w.watchedNamespace.stores[w.pods][0], w.shadow)
	for _, r := range w.engine.kinds {
		for r.queue.Len() > 0 {
			key, _ := r.queue.Get()
			r.queue.Forget(key)
			r.queue.Done(key)
		}
	}
	w.engine.Resync(PodKind)
	if n := w.pods.queue.Len(); n != 1 {
		t.Errorf("%d pods are looked at, want that of the ShadowPod", n)
	}
}

// TestReflectionsAreCounted counts every create and patch in the other cluster, Events included, and no deletion.
func TestReflectionsAreCounted(t *testing.T) {
	w := newTold(t)
	w.engine.opts.Local = fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
	w.engine.opts.Remote = fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
	got := map[string]int{}
	w.engine.opts.Reflected = func(kind, namespace string) { got[namespace+" "+kind]++ }
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	service, event := w.there.DeepCopy(), w.aboutPod.DeepCopy()
	service.ResourceVersion, event.ResourceVersion, event.Namespace = "", "", "shop"
	for _, do := range []struct {
		r    *reflector
		step offload.Step
	}{
		{w.copies, offload.Step{Action: offload.CreateRemote, Object: service}},
		{w.copies, offload.Step{}},
		{w.copies, offload.Step{Action: offload.DeleteRemote, Object: service}},
		{w.events, offload.Step{Action: offload.CreateLocal, Object: event}},
	} {
		if err := do.r.do(t.Context(), w.watchedNamespace, key, nil, do.step); err != nil {
			t.Fatal(err)
		}
	}
	w.pods.count(offload.CreateRemote, &corev1.Secret{}, "shop")
	w.pods.count(offload.PatchRemote, w.shadow, "shop")
	w.pods.count(offload.PatchLocalStatus, w.pod, "shop")
	if want := map[string]int{"shop Service": 1, "shop Event": 1, "shop ServiceAccount": 1, "shop Pod": 2}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestTokensOfAnEarlierReleaseAreFound finds tokens with the names of an earlier release, and does not confuse them with a Secret of the user.
func TestTokensOfAnEarlierReleaseAreFound(t *testing.T) {
	w := newTold(t)
	former := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "web-token"}}
	tokens := former.DeepCopy()
	tokens.Labels = map[string]string{api.LabelOrigin: "rome", offloadingv1beta1.LabelNodeName: "milan", podrules.LabelServiceAccount: "app"}
	list(t, w.watchedNamespace.stores[w.pods][2], tokens)
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	facts, _ := w.pods.facts(key)
	if facts.Remote[2] == nil || facts.Remote[2].GetName() != "web-token" {
		t.Errorf("known: %v", facts.Remote[2])
	}
	for _, secret := range []*corev1.Secret{tokens, former} {
		w.engine.opts.Local = fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
		w.engine.opts.Remote = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(secret).Build()
		read, err := w.pods.read(t.Context(), w.watchedNamespace, key, facts)
		if err != nil || (read.Remote[2] != nil) != (secret == tokens) {
			t.Errorf("read, labels %v: %v, %v", secret.Labels, read.Remote[2], err)
		}
	}
	list(t, w.watchedNamespace.stores[w.pods][2])
	if facts, _ := w.pods.facts(key); facts.Remote[2] != nil {
		t.Errorf("the user's: %v", facts.Remote[2])
	}
}

// TestEveryChangeOfTokensReachesTheirPod: a changed Secret enqueues its pod, however long the pod's name is and whichever annotations the Secret has.
func TestEveryChangeOfTokensReachesTheirPod(t *testing.T) {
	for _, pod := range []string{"web", strings.Repeat("a", 253)} {
		w := newTold(t)
		w.pod.Name = pod
		secret := podrules.TokensSecret(w.pod, "shop-rome", podrules.Options{Origin: "rome", Node: "milan"})
		bare := secret.DeepCopy()
		bare.Annotations = nil
		s := w.watchedNamespace.stores[w.pods][2]
		taken(w.pods.queue)
		for _, event := range []struct {
			what string
			tell func() error
		}{
			{"it is there", func() error { return s.Update(secret.DeepCopy()) }},
			{"the engine looks again", func() error { w.engine.Resync(PodKind); return nil }},
			{"it has lost its annotations", func() error { return s.Update(bare.DeepCopy()) }},
			{"it has them again", func() error { return s.Update(secret.DeepCopy()) }},
			{"it is gone", func() error { return s.Delete(secret.DeepCopy()) }},
		} {
			if err := event.tell(); err != nil {
				t.Fatal(err)
			}
			if got := taken(w.pods.queue); !slices.Equal(got, []string{pod}) {
				t.Errorf("%s: pods %q are looked at, want %s", event.what, got, pod)
			}
		}
	}
}
