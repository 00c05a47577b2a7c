package sharing

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	sharingv1alpha1 "liqo.io/liqo/api/sharing/v1alpha1"
	"liqo.io/liqo/internal/peering"
)

// market is a provider under construction.
type market struct {
	policy Policy
	facts  Facts
}

func newMarket(allocatable ...string) *market {
	m := &market{policy: Policy{Percentage: 90}}
	return m.node("one", allocatable...)
}

func (m *market) node(name string, allocatable ...string) *market {
	m.facts.Nodes = append(m.facts.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Allocatable: list(allocatable...), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}})
	return m
}

// pod runs on the first node. The owner is "consumer/slice", or empty for one of the provider's own.
func (m *market) pod(owner string, requests ...string) *market {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", len(m.facts.Pods))}, Spec: corev1.PodSpec{
		NodeName: "one", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list(requests...)}}},
	}}
	if key := keyOf(owner); owner != "" {
		pod.Labels = map[string]string{
			offloadingv1beta1.LabelManagedBy:   offloadingv1beta1.ManagedByShadowPod,
			offloadingv1beta1.LabelCreatorUser: peering.ResourceSliceSubject(key.Name, key.Namespace).User,
		}
	}
	m.facts.Pods = append(m.facts.Pods, pod)
	return m
}

// slice returns ResourceSlice "consumer/slice" with these requests. Each is younger than the previous one.
func (m *market) slice(name string, requests ...string) *authv1beta1.ResourceSlice {
	key := keyOf(name)
	if m.tenant(key.Namespace) == nil {
		m.facts.Tenants = append(m.facts.Tenants, authv1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Namespace}, Spec: authv1beta1.TenantSpec{ClusterID: key.Namespace},
		})
	}
	m.facts.Slices = append(m.facts.Slices, authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, CreationTimestamp: at(time.Duration(len(m.facts.Slices)) * time.Minute)},
		Spec:       authv1beta1.ResourceSliceSpec{Resources: list(requests...)},
	})
	return &m.facts.Slices[len(m.facts.Slices)-1]
}

func (m *market) asks(name string, requests ...string) *market {
	m.slice(name, requests...)
	return m
}

// had was granted to a slice before.
func (m *market) had(name string, resources ...string) *market {
	for i := range m.facts.Slices {
		if s := &m.facts.Slices[i]; s.Namespace+"/"+s.Name == name {
			s.Status.Resources = list(resources...)
			accept(&s.Status, "", at(0))
		}
	}
	return m
}

func (m *market) offer(consumer string, limits ...string) *market {
	m.facts.Offers = append(m.facts.Offers, sharingv1alpha1.ResourceOffer{Spec: sharingv1alpha1.ResourceOfferSpec{
		ClusterID: consumer, Resources: sharingv1alpha1.OfferedResources{Limits: list(limits...)},
	}})
	return m
}

func (m *market) tenant(consumer string) *authv1beta1.Tenant {
	for i := range m.facts.Tenants {
		if m.facts.Tenants[i].Name == consumer {
			return &m.facts.Tenants[i]
		}
	}
	return nil
}

// with changes something.
func (m *market) with(change func(*market)) *market {
	change(m)
	return m
}

func keyOf(name string) types.NamespacedName {
	for i, r := range name {
		if r == '/' {
			return types.NamespacedName{Namespace: name[:i], Name: name[i+1:]}
		}
	}
	return types.NamespacedName{}
}

// shares of the market as text: "cpu=1 memory=1Gi" by slice, what was cut after " | ", what was refused after "! ".
func (m *market) shares() map[string]string {
	out := map[string]string{}
	for key, share := range Shares(m.policy, m.facts) {
		text := ""
		for _, name := range sortedNames(share.Resources) {
			q := share.Resources[name]
			text += " " + string(name) + "=" + q.String()
		}
		if text != "" {
			text = text[1:]
		}
		if share.Cut != "" {
			text += " | " + share.Cut
		}
		if share.Refused != "" {
			text += "! " + share.Refused
		}
		out[key.String()] = text
	}
	return out
}

func TestShares(t *testing.T) {
	free := " (the provider shares 90% of what it has free among its consumers)"
	for name, c := range map[string]struct {
		market *market
		want   map[string]string
	}{
		"90% of an empty cluster": {newMarket("cpu", "100", "memory", "100Gi", "pods", "110").asks("rome/a"),
			map[string]string{"rome/a": "cpu=90 memory=90Gi pods=99"}},
		"90% of what is free": {newMarket("cpu", "100").pod("", "cpu", "50").asks("rome/a"),
			map[string]string{"rome/a": "cpu=45"}},
		"the cluster grows": {newMarket("cpu", "100").node("two", "cpu", "100").asks("rome/a"),
			map[string]string{"rome/a": "cpu=180"}},
		"its own pods do not shrink it": {newMarket("cpu", "100").pod("rome/a", "cpu", "80").asks("rome/a"),
			map[string]string{"rome/a": "cpu=90"}},
		"a pod that says it is somebody's and is not": {newMarket("cpu", "100").pod("rome/a", "cpu", "50").asks("rome/a").with(func(m *market) {
			delete(m.facts.Pods[0].Labels, offloadingv1beta1.LabelManagedBy)
		}), map[string]string{"rome/a": "cpu=45"}},
		"two consumers share evenly": {newMarket("cpu", "100").asks("rome/a").asks("paris/a"),
			map[string]string{"rome/a": "cpu=45", "paris/a": "cpu=45"}},
		"not by the number of their slices": {newMarket("cpu", "100").asks("rome/a").asks("paris/a").asks("paris/b").asks("paris/c"),
			map[string]string{"rome/a": "cpu=45", "paris/a": "cpu=15", "paris/b": "cpu=15", "paris/c": "cpu=15"}},
		"who asks for less leaves the rest to others": {newMarket("cpu", "100").asks("rome/a").asks("paris/a", "cpu", "10"),
			map[string]string{"rome/a": "cpu=80", "paris/a": "cpu=10"}},
		"what runs stays": {newMarket("cpu", "100").pod("rome/a", "cpu", "80").asks("rome/a").asks("paris/a"),
			map[string]string{"rome/a": "cpu=80", "paris/a": "cpu=10"}},
		"what runs stays when the provider itself needs more": {newMarket("cpu", "100").pod("rome/a", "cpu", "80").pod("", "cpu", "15").asks("rome/a").asks("paris/a"),
			map[string]string{"rome/a": "cpu=80", "paris/a": "cpu=0"}},
		"a request that fits is granted as written": {newMarket("cpu", "100", "memory", "10Gi").asks("rome/a", "cpu", "1500m", "memory", "1000k"),
			map[string]string{"rome/a": "cpu=1500m memory=1M"}},
		"a request that does not fit is cut": {newMarket("cpu", "2", "memory", "10Gi").asks("rome/a", "cpu", "4", "memory", "8Gi"),
			map[string]string{"rome/a": "cpu=1800m memory=8Gi | 1800m of 4 cpu" + free}},
		"less than nothing is nothing": {newMarket("cpu", "2").asks("rome/a", "cpu", "-1"), map[string]string{"rome/a": "cpu=0"}},
		"more than can be counted": {newMarket("cpu", "2").asks("rome/a", "cpu", "1e40").asks("paris/a", "cpu", "9E"),
			map[string]string{"rome/a": "cpu=900m | 900m of 10e39 cpu" + free, "paris/a": "cpu=900m | 900m of 9E cpu" + free}},
		"what is not here": {newMarket("cpu", "10").asks("rome/a", "cpu", "1", "nvidia.com/gpu", "2"),
			map[string]string{"rome/a": "cpu=1 nvidia.com/gpu=0 | 0 of 2 nvidia.com/gpu (no node of the provider that accepts pods has any)"}},
		"a single device is shared whole": {newMarket("nvidia.com/gpu", "1").asks("rome/a"), map[string]string{"rome/a": "nvidia.com/gpu=1"}},
		"devices are whole":               {newMarket("nvidia.com/gpu", "8").asks("rome/a"), map[string]string{"rome/a": "nvidia.com/gpu=7"}},
		"one device for two: the older one has it": {newMarket("nvidia.com/gpu", "1").asks("rome/a").asks("paris/a"),
			map[string]string{"rome/a": "nvidia.com/gpu=1", "paris/a": "nvidia.com/gpu=0"}},
		"unless it runs already": {newMarket("nvidia.com/gpu", "1").pod("paris/a", "nvidia.com/gpu", "1").asks("rome/a").asks("paris/a"),
			map[string]string{"rome/a": "nvidia.com/gpu=0", "paris/a": "nvidia.com/gpu=1"}},
		"half a device": {newMarket("nvidia.com/gpu", "2").asks("rome/a", "nvidia.com/gpu", "1500m"),
			map[string]string{"rome/a": "nvidia.com/gpu=1 | 1 of 1500m nvidia.com/gpu (only whole units are shared)"}},
		"who names something gets devices by name only": {newMarket("cpu", "10", "memory", "10Gi", "nvidia.com/gpu", "1").asks("rome/a", "cpu", "1"),
			map[string]string{"rome/a": "cpu=1 memory=9Gi"}},
		"huge pages are whole": {newMarket("hugepages-2Mi", "10Mi").asks("rome/a"), map[string]string{"rome/a": "hugepages-2Mi=8Mi"}},
		"what is not asked for by pods": {newMarket("cpu", "10", "attachable-volumes-csi-x", "39").asks("rome/a"),
			map[string]string{"rome/a": "cpu=9"}},
		"defaults": {newMarket("cpu", "100", "memory", "100Gi", "nvidia.com/gpu", "1").asks("rome/a", "memory", "1Gi").with(func(m *market) {
			m.policy.Defaults = list("cpu", "4", "memory", "8Gi")
		}), map[string]string{"rome/a": "cpu=4 memory=1Gi"}},
		"an offer caps the consumer, not the slice": {newMarket("cpu", "100").asks("rome/a").asks("rome/b").asks("paris/a").offer("rome", "cpu", "10").offer("rome", "cpu", "20"),
			map[string]string{"rome/a": "cpu=5", "rome/b": "cpu=5", "paris/a": "cpu=80"}},
		"an offer cuts a request": {newMarket("cpu", "100").asks("rome/a", "cpu", "12").offer("rome", "cpu", "10"),
			map[string]string{"rome/a": "cpu=10 | 10 of 12 cpu (a ResourceOffer limits cluster rome)"}},
		"what runs beyond an offer is nobody's": {newMarket("cpu", "100").pod("rome/a", "cpu", "30").asks("rome/a").asks("paris/a").offer("rome", "cpu", "10"),
			map[string]string{"rome/a": "cpu=10", "paris/a": "cpu=62"}},
		"the administrator promises more": {newMarket("cpu", "10").asks("rome/a").asks("paris/a").with(func(m *market) { m.policy.Percentage = 200 }),
			map[string]string{"rome/a": "cpu=10", "paris/a": "cpu=10"}},
		"an autoscaler makes more": {newMarket("cpu", "10").asks("rome/a").with(func(m *market) { m.policy.Ceiling = list("cpu", "100", "nvidia.com/gpu", "4") }),
			map[string]string{"rome/a": "cpu=90 nvidia.com/gpu=4"}},
		"nothing is shared": {newMarket("cpu", "10").asks("rome/a").with(func(m *market) { m.policy.Percentage = 0 }), map[string]string{"rome/a": "cpu=0"}},
		"one slice too many": {newMarket("cpu", "10").asks("rome/a").asks("rome/b").asks("paris/a").with(func(m *market) { m.policy.SliceLimit = 1 }),
			map[string]string{"rome/a": "cpu=4500m", "rome/b": "! " + refusedByLimit(1), "paris/a": "cpu=4500m"}},
		"another class gets none and takes none": {newMarket("cpu", "10").asks("rome/a").asks("paris/a").with(func(m *market) {
			m.facts.Slices[1].Spec.Class = "gold"
		}), map[string]string{"rome/a": "cpu=9", "paris/a": ""}},
		"cordoned: no more than before": {newMarket("cpu", "100").asks("rome/a", "cpu", "50").had("rome/a", "cpu", "20").with(func(m *market) {
			m.tenant("rome").Spec.TenantCondition = authv1beta1.TenantCordoned
		}), map[string]string{"rome/a": "cpu=20"}},
		"cordoned before anything was granted": {newMarket("cpu", "100").asks("rome/a").with(func(m *market) {
			m.tenant("rome").Spec.TenantCondition = authv1beta1.TenantCordoned
		}), map[string]string{"rome/a": ""}},
		"drained: its pods take what they take": {newMarket("cpu", "100").pod("rome/a", "cpu", "50").asks("rome/a").asks("paris/a").with(func(m *market) {
			m.tenant("rome").Spec.TenantCondition = authv1beta1.TenantDrained
		}), map[string]string{"rome/a": "", "paris/a": "cpu=45"}},
		"without tenant": {newMarket("cpu", "100").asks("rome/a").with(func(m *market) { m.facts.Tenants = nil }), map[string]string{"rome/a": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.market.shares()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodesThatCount(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   string
	}{
		"as it is":   {func(*corev1.Node) {}, "cpu=9 nvidia.com/gpu=1"},
		"not ready":  {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, "cpu=0 nvidia.com/gpu=0"},
		"cordoned":   {func(n *corev1.Node) { n.Spec.Unschedulable = true }, "cpu=0 nvidia.com/gpu=0"},
		"going away": {func(n *corev1.Node) { now := at(0); n.DeletionTimestamp = &now }, "cpu=0 nvidia.com/gpu=0"},
		"virtual":    {func(n *corev1.Node) { n.Labels = map[string]string{"liqo.io/type": "virtual-node"} }, ""},
		"tainted": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}}
		}, "cpu=0 nvidia.com/gpu=0"},
		"disliked": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectPreferNoSchedule}}
		}, "cpu=9 nvidia.com/gpu=1"},
		"kept for those who ask for devices": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}
		}, "cpu=9 nvidia.com/gpu=1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMarket("cpu", "10", "nvidia.com/gpu", "1").asks("rome/a")
			c.change(&m.facts.Nodes[0])
			if got := m.shares()["rome/a"]; got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestPodsThatCount(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	requests := func(cpu string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: list("cpu", cpu)}
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"running":                {func(*corev1.Pod) {}, "cpu=81 pods=98"},
		"starting":               {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, "cpu=81 pods=98"},
		"without a node":         {func(p *corev1.Pod) { p.Spec.NodeName = "" }, "cpu=90 pods=99"},
		"on a virtual node":      {func(p *corev1.Pod) { p.Spec.NodeName = "paris" }, "cpu=90 pods=99"},
		"finished":               {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, "cpu=90 pods=99"},
		"failed":                 {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, "cpu=90 pods=99"},
		"with an init container": {func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Resources: requests("20")}} }, "cpu=72 pods=98"},
		"with a sidecar": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{RestartPolicy: &always, Resources: requests("10")}}
		}, "cpu=72 pods=98"},
		"with overhead": {func(p *corev1.Pod) { p.Spec.Overhead = list("cpu", "10") }, "cpu=72 pods=98"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMarket("cpu", "100", "pods", "110").pod("", "cpu", "10").asks("rome/a")
			c.change(&m.facts.Pods[0])
			if got := m.shares()["rome/a"]; got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestSmallChangesOfSharesAreIgnored(t *testing.T) {
	for name, c := range map[string]struct {
		market *market
		want   string
	}{
		"a little less":              {newMarket("cpu", "100").pod("", "cpu", "2").asks("rome/a").had("rome/a", "cpu", "90"), "cpu=90"},
		"a little more":              {newMarket("cpu", "100").asks("rome/a").had("rome/a", "cpu", "88"), "cpu=88"},
		"much less":                  {newMarket("cpu", "100").pod("", "cpu", "6").asks("rome/a").had("rome/a", "cpu", "90"), "cpu=84600m"},
		"much more":                  {newMarket("cpu", "100").asks("rome/a").had("rome/a", "cpu", "85"), "cpu=90"},
		"more than is free":          {newMarket("cpu", "100").pod("", "cpu", "2").asks("rome/a").had("rome/a", "cpu", "99").with(func(m *market) { m.policy.Percentage = 100 }), "cpu=98"},
		"the request changed":        {newMarket("cpu", "100").asks("rome/a", "cpu", "51").had("rome/a", "cpu", "50"), "cpu=51"},
		"the request is lowered":     {newMarket("cpu", "100").asks("rome/a", "cpu", "49").had("rome/a", "cpu", "50"), "cpu=49"},
		"an offer is lowered":        {newMarket("cpu", "100").asks("rome/a").had("rome/a", "cpu", "50").offer("rome", "cpu", "49"), "cpu=49"},
		"each device counts":         {newMarket("nvidia.com/gpu", "100").asks("rome/a").had("rome/a", "nvidia.com/gpu", "89"), "nvidia.com/gpu=90"},
		"what was whole stays whole": {newMarket("cpu", "10").pod("", "cpu", "200m").asks("rome/a", "cpu", "9").had("rome/a", "cpu", "9"), "cpu=9"},
	} {
		t.Run(name, func(t *testing.T) {
			c.market.policy.Threshold = 5
			if got := c.market.shares()["rome/a"]; got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestRefusedSliceGetsFreedRoom: a ResourceSlice that was refused because there were too many is accepted as soon as there is room. One that was
// refused for another reason stays refused.
func TestRefusedSliceGetsFreedRoom(t *testing.T) {
	m := newMarket("cpu", "10").asks("rome/first").asks("rome/second", "cpu", "1")
	m.policy.SliceLimit = 1
	second := &m.facts.Slices[1]
	share := Shares(m.policy, m.facts)[keyOf("rome/second")]
	if share.Refused == "" || !Moved(second, share) {
		t.Fatalf("beyond the limit: %+v", share)
	}
	SetAuthentication(&second.Status, nil, TooMany(share.Refused), at(0))
	DecideResources(second, peering.Grants{Access: true, More: true}, Offer{Enabled: true}, share, at(0))
	if Moved(second, share) {
		t.Error("told of again, without news")
	}
	m.facts.Slices = m.facts.Slices[1:]
	second = &m.facts.Slices[0]
	share = Shares(m.policy, m.facts)[keyOf("rome/second")]
	if share.Refused != "" || share.Resources.Cpu().Value() != 1 || !Moved(second, share) {
		t.Errorf("with room for it: %+v, told of: %v", share, Moved(second, share))
	}
	SetAuthentication(&second.Status, nil, errors.New("the request is not the consumer's"), at(0))
	if share = Shares(m.policy, m.facts)[keyOf("rome/second")]; len(share.Resources) > 0 {
		t.Errorf("without an identity it gets %v", share.Resources)
	}
}
