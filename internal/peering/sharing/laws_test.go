package sharing

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/peering"
)

func sortedNames(l corev1.ResourceList) []corev1.ResourceName { return slices.Sorted(maps.Keys(l)) }

// anyMarket makes up a provider whose pods fit on its nodes, as those of every scheduler do.
func anyMarket(r *rand.Rand) *market {
	m := newMarket("cpu", fmt.Sprintf("%dm", r.IntN(64000)), "memory", fmt.Sprintf("%dMi", r.IntN(64000)), "pods", "250", "nvidia.com/gpu", fmt.Sprint(r.IntN(9)))
	m.policy = Policy{Percentage: r.IntN(101), Threshold: r.IntN(3) * 5, SliceLimit: r.IntN(2) * 3}
	if r.IntN(3) == 0 {
		m.policy.Defaults = list("cpu", fmt.Sprint(r.IntN(8)))
	}
	left := m.facts.Nodes[0].Status.Allocatable.DeepCopy()
	for c := range 1 + r.IntN(4) {
		consumer := fmt.Sprintf("c%d", c)
		for s := range r.IntN(5) {
			name := fmt.Sprintf("%s/s%d", consumer, s)
			slice := m.slice(name)
			if r.IntN(2) == 0 {
				slice.Spec.Resources = list("cpu", fmt.Sprintf("%dm", r.IntN(20000)-100), "memory", fmt.Sprintf("%dKi", r.IntN(1<<24)))
			}
			if r.IntN(4) == 0 {
				slice.Spec.Resources = list("nvidia.com/gpu", fmt.Sprintf("%dm", r.IntN(4000)))
			}
			if r.IntN(2) == 0 {
				m.had(name, "cpu", fmt.Sprintf("%dm", r.IntN(32000)), "memory", fmt.Sprintf("%dMi", r.IntN(32000)))
			}
			if r.IntN(2) == 0 {
				m.fit(left, name, list("cpu", fmt.Sprintf("%dm", r.IntN(16000)), "memory", fmt.Sprintf("%dKi", r.IntN(1<<23)), "nvidia.com/gpu", fmt.Sprint(r.IntN(3))))
			}
		}
		if r.IntN(3) == 0 {
			m.offer(consumer, "cpu", fmt.Sprintf("%dm", r.IntN(32000)), "nvidia.com/gpu", fmt.Sprint(r.IntN(3)))
		}
	}
	for range r.IntN(3) {
		m.fit(left, "", list("cpu", fmt.Sprintf("%dm", r.IntN(16000)), "memory", fmt.Sprintf("%dKi", r.IntN(1<<23))))
	}
	return m
}

// fit runs a pod if there is room for it.
func (m *market) fit(left corev1.ResourceList, owner string, requests corev1.ResourceList) {
	requests = requests.DeepCopy()
	for name, q := range requests {
		if have := left[name]; have.Cmp(q) < 0 {
			delete(requests, name)
			continue
		}
		rest := left[name]
		rest.Sub(q)
		left[name] = rest
	}
	m.pod(owner)
	m.facts.Pods[len(m.facts.Pods)-1].Spec.Containers[0].Resources.Requests = requests
}

// free returns the resources that the provider's own pods do not use.
func (m *market) free() corev1.ResourceList {
	free := m.facts.Nodes[0].Status.Allocatable.DeepCopy()
	for i := range m.facts.Pods {
		if pod := &m.facts.Pods[i]; pod.Labels[offloadingv1beta1.LabelCreatorUser] == "" {
			for name, q := range PodUse(pod) {
				rest := free[name]
				rest.Sub(q)
				free[name] = rest
			}
		}
	}
	return free
}

func TestShareLaws(t *testing.T) {
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 5)) //nolint:gosec // made-up worlds that can be made up again
		m := anyMarket(r)
		shares := Shares(m.policy, m.facts)
		fail := func(law string, args ...any) {
			t.Helper()
			t.Errorf("seed %d: %s\nmarket: %+v\nshares: %v", seed, fmt.Sprintf(law, args...), m.policy, m.shares())
		}

		// Shares are not negative, devices are whole, and no share exceeds the provider's resources, the request or the offer.
		sums, each := corev1.ResourceList{}, map[string]corev1.ResourceList{}
		for i := range m.facts.Slices {
			slice := &m.facts.Slices[i]
			share := shares[keyOf(slice.Namespace+"/"+slice.Name)]
			if each[slice.Namespace] == nil {
				each[slice.Namespace] = corev1.ResourceList{}
			}
			api.AddResources(sums, share.Resources)
			api.AddResources(each[slice.Namespace], share.Resources)
			for name, q := range share.Resources {
				if q.Sign() < 0 {
					fail("%s gets %s of %s", slice.Name, q.String(), name)
				}
				if whole := resource.NewQuantity(q.Value(), resource.DecimalSI); device(name) && whole.Cmp(q) != 0 {
					fail("%s gets %s of %s", slice.Name, q.String(), name)
				}
				if asked, named := slice.Spec.Resources[name]; named && asked.Sign() >= 0 && q.Cmp(asked) > 0 {
					fail("%s asked for %s of %s and gets %s", slice.Name, asked.String(), name, q.String())
				}
			}
		}
		free := m.free()
		for name, q := range sums {
			if limit := free[name]; q.Cmp(limit) > 0 {
				fail("%s of %s are free and %s are shared", limit.String(), name, q.String())
			}
		}
		for consumer, limits := range capsOf(m.facts.Offers) {
			for name, limit := range limits {
				if q := each[consumer][name]; q.Cmp(limit) > 0 {
					fail("%s is offered %s of %s and gets %s", consumer, limit.String(), name, q.String())
				}
			}
		}

		// The order in which objects are observed does not matter.
		other := m.facts
		other.Slices, other.Pods, other.Offers, other.Tenants = slices.Clone(other.Slices), slices.Clone(other.Pods), slices.Clone(other.Offers), slices.Clone(other.Tenants)
		r.Shuffle(len(other.Slices), func(i, j int) { other.Slices[i], other.Slices[j] = other.Slices[j], other.Slices[i] })
		r.Shuffle(len(other.Pods), func(i, j int) { other.Pods[i], other.Pods[j] = other.Pods[j], other.Pods[i] })
		r.Shuffle(len(other.Offers), func(i, j int) { other.Offers[i], other.Offers[j] = other.Offers[j], other.Offers[i] })
		r.Shuffle(len(other.Tenants), func(i, j int) { other.Tenants[i], other.Tenants[j] = other.Tenants[j], other.Tenants[i] })
		if diff := cmp.Diff(shares, Shares(m.policy, other)); diff != "" {
			fail("in another order (-first +second):\n%s", diff)
		}

		// It settles: the next division grants exactly the same shares.
		for i := range m.facts.Slices {
			slice := &m.facts.Slices[i]
			slice.Status.Resources = shares[keyOf(slice.Namespace+"/"+slice.Name)].Resources
		}
		if diff := cmp.Diff(shares, Shares(m.policy, m.facts)); diff != "" {
			fail("decided again (-first +second):\n%s", diff)
		}

		// Pods within a share change no share, apart from shares that were kept because of their usage.
		if len(m.facts.Slices) == 0 {
			continue
		}
		m.policy.Threshold = 0
		shares = Shares(m.policy, m.facts)
		slice := &m.facts.Slices[r.IntN(len(m.facts.Slices))]
		name := slice.Namespace + "/" + slice.Name
		rest := shares[keyOf(name)].Resources.DeepCopy()
		if pods := rest[corev1.ResourcePods]; pods.CmpInt64(3) < 0 {
			continue // there is no room for a pod
		}
		for i := range m.facts.Pods {
			if pod := &m.facts.Pods[i]; pod.Labels[offloadingv1beta1.LabelCreatorUser] == peering.ResourceSliceSubject(slice.Name, slice.Namespace).User {
				for resourceName, q := range PodUse(pod) {
					have := rest[resourceName]
					have.Sub(q)
					rest[resourceName] = have
				}
			}
		}
		for resourceName, q := range rest {
			if q.Sign() <= 0 || resourceName == corev1.ResourcePods {
				delete(rest, resourceName)
			}
		}
		m.pod(name)
		m.facts.Pods[len(m.facts.Pods)-1].Spec.Containers[0].Resources.Requests = rest
		if diff := cmp.Diff(shares, Shares(m.policy, m.facts)); diff != "" {
			fail("with a pod of %s more (-before +after):\n%s", name, diff)
		}
		if t.Failed() {
			return
		}
	}
}

// TestAllSharedResourcesAreGranted: no resource stays unused while a consumer requests more of it.
func TestAllSharedResourcesAreGranted(t *testing.T) {
	m := newMarket("cpu", "10", "memory", "1000Mi").asks("rome/a").asks("rome/b").asks("paris/a").asks("milan/a", "cpu", "1", "memory", "100Mi")
	sums := corev1.ResourceList{}
	for _, share := range Shares(m.policy, m.facts) {
		api.AddResources(sums, share.Resources)
	}
	for name, want := range list("cpu", "9", "memory", "900Mi") {
		if got := sums[name]; got.Cmp(want) != 0 {
			t.Errorf("%s of %s are given, want %s", got.String(), name, want.String())
		}
	}
}
