package offload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
)

var copyOptions = kinds.CopyOptions{Origin: "rome", Destination: "milan"}

// copied describes a kind for the tests of the guarantees of NextCopy: how to create an object, its rules, and what an API server changes in it.
type copied struct {
	make   func(variant int) Object
	rules  func() CopyRules
	accept func(Object)
	// worlds is the number of random histories to test.
	worlds uint64
}

func servicesTried() copied {
	return copied{
		make: func(variant int) Object {
			s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"v": fmt.Sprint(variant)}}}
			s.Spec.Ports = []corev1.ServicePort{{Port: int32(80 + variant), Protocol: corev1.ProtocolTCP}}
			s.Spec.Type, s.Spec.ClusterIP = corev1.ServiceTypeClusterIP, "10.96.0.7"
			switch variant {
			case 1:
				s.Spec.ClusterIP = "None"
			case 2:
				s.Annotations = map[string]string{kinds.AnnotationSkip: "yes"}
			case 3:
				s.Spec.Type = corev1.ServiceTypeNodePort
			}
			return s
		},
		rules: func() CopyRules {
			return CopyRules{
				Options: copyOptions,
				Copy: func(local Object, namespace string) Copy {
					s, _ := local.(*corev1.Service)
					want, why := kinds.Service(s, namespace, kinds.ServiceOptions{CopyOptions: copyOptions})
					if want == nil {
						return Copy{Why: why}
					}
					return Copy{Want: want}
				},
				Merge: func(have, want Object) (Object, kinds.Change) {
					h, _ := have.(*corev1.Service)
					w, _ := want.(*corev1.Service)
					return kinds.MergeService(h, w)
				},
			}
		},
		accept: func(obj Object) {
			s, _ := obj.(*corev1.Service)
			if s.Spec.ClusterIP == "" {
				s.Spec.ClusterIP = "10.200.0.1"
			}
			for i := range s.Spec.Ports {
				if s.Spec.Type == corev1.ServiceTypeNodePort && s.Spec.Ports[i].NodePort == 0 {
					s.Spec.Ports[i].NodePort = 31000
				}
			}
		},
		worlds: 2000,
	}
}

func slicesTried() copied {
	return copied{
		make: func(variant int) Object {
			s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "web", Labels: map[string]string{discoveryv1.LabelServiceName: "web", "v": fmt.Sprint(variant)},
			}, AddressType: discoveryv1.AddressTypeIPv4}
			for i := range variant { // variant 0 has no endpoints
				s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.0.0.%d", i+1)}})
			}
			return s
		},
		rules: func() CopyRules {
			return CopyRules{
				Options: copyOptions,
				Copy: func(local Object, namespace string) Copy {
					s, _ := local.(*discoveryv1.EndpointSlice)
					want, why, problem := kinds.EndpointSlice(s, namespace, kinds.EndpointSliceOptions{CopyOptions: copyOptions})
					if want == nil {
						return Copy{Why: why, Problem: problem}
					}
					return Copy{Want: want, Problem: problem}
				},
				Merge: func(have, want Object) (Object, kinds.Change) {
					h, _ := have.(*offloadingv1beta1.ShadowEndpointSlice)
					w, _ := want.(*offloadingv1beta1.ShadowEndpointSlice)
					return kinds.MergeEndpointSlice(h, w)
				},
			}
		},
		accept: func(Object) {},
		worlds: 2000,
	}
}

// tried returns the description of a kind without special rules. forward and differ are the copy and merge functions of the kind. change turns an object into
// the given variant.
func tried[T interface {
	Object
	comparable
}](empty func() T, change func(obj T, variant int), forward func(T, string, kinds.CopyOptions) (T, string), differ func(have, want T) (T, kinds.Change)) copied {
	return copied{
		make: func(variant int) Object {
			obj := empty()
			obj.SetNamespace("shop")
			obj.SetName("web")
			obj.SetLabels(map[string]string{"v": fmt.Sprint(variant)})
			if variant == 2 {
				obj.SetAnnotations(map[string]string{kinds.AnnotationSkip: "yes"})
			}
			change(obj, variant)
			return obj
		},
		rules: func() CopyRules {
			return CopyRules{
				Options: copyOptions,
				Copy: func(local Object, namespace string) Copy {
					want, why := forward(local.(T), namespace, copyOptions)
					if why != "" {
						return Copy{Why: why}
					}
					return Copy{Want: want}
				},
				Merge: func(have, want Object) (Object, kinds.Change) {
					out, change := differ(have.(T), want.(T))
					return out, change
				},
			}
		},
		accept: func(obj Object) {
			if ingress, ok := obj.(*networkingv1.Ingress); ok && ingress.Spec.IngressClassName == nil {
				ingress.Spec.IngressClassName = new("default")
			}
		},
		worlds: 600, // fewer than for other kinds, since the kinds without special rules are similar
	}
}

func configMapsTried() copied {
	return tried(func() *corev1.ConfigMap { return &corev1.ConfigMap{} }, func(c *corev1.ConfigMap, variant int) {
		c.Data = map[string]string{"k": fmt.Sprint(variant)}
		if variant == 3 {
			c.Immutable = new(true)
		}
	}, kinds.ConfigMap, kinds.MergeConfigMap)
}

func secretsTried() copied {
	return tried(func() *corev1.Secret { return &corev1.Secret{} }, func(s *corev1.Secret, variant int) {
		s.Data, s.Type = map[string][]byte{"k": {byte(variant)}}, corev1.SecretTypeOpaque
		switch variant {
		case 1:
			s.Type = corev1.SecretTypeTLS
		case 3:
			s.Immutable = new(true)
		}
	}, kinds.Secret, kinds.MergeSecret)
}

func ingressesTried() copied {
	return tried(func() *networkingv1.Ingress { return &networkingv1.Ingress{} }, func(i *networkingv1.Ingress, variant int) {
		i.Spec.IngressClassName = new("ours")
		i.Spec.Rules = []networkingv1.IngressRule{{Host: fmt.Sprint(variant)}}
	}, func(local *networkingv1.Ingress, namespace string, o kinds.CopyOptions) (*networkingv1.Ingress, string) {
		return kinds.Ingress(local, namespace, kinds.IngressOptions{CopyOptions: o})
	}, kinds.MergeIngress)
}

func budgetsTried() copied {
	return tried(func() *policyv1.PodDisruptionBudget { return &policyv1.PodDisruptionBudget{} }, func(b *policyv1.PodDisruptionBudget, variant int) {
		b.Spec.Selector, b.Status.DesiredHealthy = &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(variant)}}, int32(variant)
	}, func(local *policyv1.PodDisruptionBudget, namespace string, o kinds.CopyOptions) (*policyv1.PodDisruptionBudget, string) {
		out, why, _ := kinds.PodDisruptionBudget(local, namespace, 1, o)
		return out, why
	}, kinds.MergePodDisruptionBudget)
}

func policiesTried() copied {
	return tried(func() *networkingv1.NetworkPolicy { return &networkingv1.NetworkPolicy{} }, func(p *networkingv1.NetworkPolicy, variant int) {
		p.Spec.PodSelector.MatchLabels = map[string]string{"app": fmt.Sprint(variant)}
	}, func(local *networkingv1.NetworkPolicy, namespace string, o kinds.CopyOptions) (*networkingv1.NetworkPolicy, string) {
		out, why, _ := kinds.NetworkPolicy(local, namespace, kinds.NetworkPolicyOptions{CopyOptions: o})
		return out, why
	}, kinds.MergeNetworkPolicy)
}

// TestCopyLawsInRandomWorlds runs the engine at any moment of a random history of an object and its copy, then lets everything settle. The engine
// settles, makes no change twice, leaves nothing behind, and never changes foreign objects.
func TestCopyLawsInRandomWorlds(t *testing.T) {
	for name, kind := range map[string]copied{
		"Service": servicesTried(), "EndpointSlice": slicesTried(), "ConfigMap": configMapsTried(), "Secret": secretsTried(), "Ingress": ingressesTried(),
		"NetworkPolicy": policiesTried(), "PodDisruptionBudget": budgetsTried(),
	} {
		t.Run(name, func(t *testing.T) {
			writes := 0
			for seed := range kind.worlds {
				w := &copyWorld{t: t, r: rand.New(rand.NewPCG(seed, 2)), kind: kind, up: true, mapping: Mapping{State: Mapped, Namespace: "shop-rome"}}
				w.note("seed %d", seed)
				for range 40 {
					w.event()
					for range w.r.IntN(3) {
						w.obey(w.next())
					}
				}
				writes += w.writes
				w.rest()
			}
			if writes < int(kind.worlds) {
				t.Errorf("only %d writes in all worlds", writes)
			}
		})
	}
}

type copyWorld struct {
	t             *testing.T
	r             *rand.Rand
	kind          copied
	local, remote Object
	mapping       Mapping
	up            bool
	uids, writes  int
	history       []string
}

func (w *copyWorld) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

func (w *copyWorld) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nhistory: %q", fmt.Sprintf(format, args...), w.history)
}

func (w *copyWorld) uid() types.UID { w.uids++; return types.UID(fmt.Sprint("u", w.uids)) }

func (w *copyWorld) event() {
	switch w.r.IntN(9) {
	case 0, 1, 2:
		variant := w.r.IntN(4)
		var uid types.UID
		if w.local != nil {
			uid = w.local.GetUID()
		} else {
			uid = w.uid()
		}
		w.local = w.kind.make(variant)
		w.local.SetUID(uid)
		w.note("user writes variant %d", variant)
	case 3:
		w.local = nil
		w.note("user deletes it")
	case 4:
		w.up = !w.up
		w.note("link up: %v", w.up)
	case 5:
		if w.remote != nil {
			w.remote = nil
			w.note("the provider loses the copy")
		}
	case 6:
		if w.remote == nil && w.mapping.State == Mapped && w.r.IntN(2) == 0 {
			w.remote = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "web", UID: w.uid(), Labels: map[string]string{api.LabelOrigin: "naples", api.LabelDestination: "milan"}}}
			w.note("somebody else takes the name")
		} else if w.foreign() {
			w.remote = nil
			w.note("somebody else gives the name back")
		}
	case 7:
		if w.remote != nil && !w.foreign() {
			labels := w.remote.GetLabels()
			labels["v"], labels["theirs"] = "drifted", "x"
			w.note("the provider changes the copy")
		}
	default:
		if w.r.IntN(4) == 0 {
			if w.mapping.State == Mapped {
				w.mapping, w.remote = Mapping{State: Unmapped}, nil
			} else {
				w.mapping = Mapping{State: Mapped, Namespace: "shop-rome"}
			}
			w.note("mapping %d", w.mapping.State)
		}
	}
}

func (w *copyWorld) foreign() bool { return w.remote != nil && !kinds.Owns(w.remote, copyOptions) }

func (w *copyWorld) next() Step {
	synced := w.up && w.mapping.State == Mapped
	remote := w.remote
	if !synced {
		remote = nil
	}
	var localBefore, remoteBefore any
	if w.local != nil {
		localBefore = w.local.DeepCopyObject()
	}
	if remote != nil {
		remoteBefore = remote.DeepCopyObject()
	}
	step := NextCopy(w.local, remote, w.mapping, synced, w.kind.rules())
	if w.local != nil && !equality.Semantic.DeepEqual(localBefore, w.local) || remote != nil && !equality.Semantic.DeepEqual(remoteBefore, remote) {
		w.fatal("a decision changed what it was about: %s", step.Why)
	}
	if again := NextCopy(w.local, remote, w.mapping, synced, w.kind.rules()); !equality.Semantic.DeepEqual(step, again) {
		w.fatal("the same facts, another step: %v, %v", step, again)
	}
	return step
}

func (w *copyWorld) obey(step Step) {
	if step.Action == Nothing {
		return
	}
	w.writes++
	w.note("STEP %s: %s", step.Action, step.Why)
	switch step.Action {
	case CreateRemote:
		if w.remote != nil {
			w.fatal("made over another")
		}
		step.Object.SetUID(w.uid())
		w.kind.accept(step.Object)
		w.remote = step.Object
	case PatchRemote:
		if w.foreign() || w.remote.GetUID() != step.Object.GetUID() {
			w.fatal("a foreign object was changed")
		}
		if equality.Semantic.DeepEqual(w.remote, step.Object) {
			w.fatal("a write that changes nothing")
		}
		w.kind.accept(step.Object)
		w.remote = step.Object
	case DeleteRemote:
		if w.foreign() || w.remote.GetUID() != step.Object.GetUID() || !step.Confirm {
			w.fatal("a foreign object was deleted, or one on hearsay")
		}
		w.remote = nil
	default:
		w.fatal("no business of a copy: %s", step.Action)
	}
}

// rest lets the world settle and checks it.
func (w *copyWorld) rest() {
	w.up, w.mapping = true, Mapping{State: Mapped, Namespace: "shop-rome"}
	if w.foreign() {
		if step := w.next(); w.local != nil && w.kind.rules().Copy(w.local, "x").Want != nil && (step.Warning == "" || step.After == 0) {
			w.fatal("the user does not hear that the name is taken, or nobody looks again: %v", step)
		}
		w.remote = nil
	}
	for range 4 {
		w.obey(w.next())
	}
	if step := w.next(); step.Action != Nothing {
		w.fatal("it does not settle: %s, %s", step.Action, step.Why)
	}
	wanted := w.local != nil && w.kind.rules().Copy(w.local, "shop-rome").Want != nil
	if wanted != (w.remote != nil) {
		w.fatal("there is a copy: %v, wanted: %v", w.remote != nil, wanted)
	}
	if wanted && w.remote.GetLabels()["v"] != w.local.GetLabels()["v"] {
		w.fatal("the copy is not right: %v", w.remote.GetLabels())
	}
}

// TestCopyWaits: no step is taken while facts are unknown.
func TestCopyWaits(t *testing.T) {
	kind := servicesTried()
	local, mapped := kind.make(0), Mapping{State: Mapped, Namespace: "shop-rome"}
	have := kind.rules().Copy(local, "shop-rome").Want
	kind.accept(have)
	for name, row := range map[string]struct {
		local, remote Object
		mapping       Mapping
		synced        bool
		waiting       string
	}{
		"nobody told of the map":                {local, nil, Mapping{}, false, ""},
		"no remote namespace":                   {local, nil, Mapping{State: Unmapped}, false, ""},
		"the remote namespace is being deleted": {nil, have, Mapping{State: MappingTerminating, Namespace: "shop-rome"}, true, ""},
		"not synced":                            {local, nil, mapped, false, ""},
		"another one does it":                   {local, nil, mapped, true, "another one does it"},
		"another one does it, orphan":           {nil, have, mapped, true, "another one does it"},
	} {
		rules := kind.rules()
		rules.Options.Waiting = row.waiting
		if step := NextCopy(row.local, row.remote, row.mapping, row.synced, rules); step.Action != Nothing || step.Warning != "" {
			t.Errorf("%s: %+v", name, step)
		}
	}
	dying := local.DeepCopyObject().(Object)
	dying.SetDeletionTimestamp(&metav1.Time{Time: stepNow})
	if step := NextCopy(dying, have, mapped, true, kind.rules()); step.Action != DeleteRemote {
		t.Errorf("of an object that is being deleted: %+v", step)
	}
	going := have.DeepCopyObject().(Object)
	going.SetDeletionTimestamp(&metav1.Time{Time: stepNow})
	if step := NextCopy(local, going, mapped, true, kind.rules()); step.Action != Nothing {
		t.Errorf("of a copy that is being deleted: %+v", step)
	}
	rules := kind.rules()
	rules.Copy = func(Object, string) Copy { return Copy{Want: have, Problem: errors.New("an endpoint is left out")} }
	if step := NextCopy(local, have, mapped, true, rules); step.Warning != "an endpoint is left out" {
		t.Errorf("the user does not hear of a problem: %+v", step)
	}
}
