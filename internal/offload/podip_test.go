package offload

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
)

func TestPodIP(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		return localPod("u1", func(p *corev1.Pod) {
			labelled(p)
			p.Status.PodIP = "10.71.0.5"
			if change != nil {
				change(p)
			}
		})
	}
	views := []netip.Prefix{netip.MustParsePrefix("10.72.0.0/16"), netip.MustParsePrefix("10.71.0.0/16")}
	action, want := PodIP(pod(nil), views, nil)
	if action != IPCreate {
		t.Fatalf("action %d", action)
	}
	if diff := cmp.Diff(&ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", Labels: map[string]string{"offloading.liqo.io/pod-name": "web", "offloading.liqo.io/pod-namespace": "shop"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "u1", Controller: new(true)}},
		},
		Spec: ipamv1alpha1.IPSpec{IP: "10.71.0.5"},
	}, want); diff != "" {
		t.Error(diff)
	}
	given := func(change func(*ipamv1alpha1.IP)) *ipamv1alpha1.IP {
		out := want.DeepCopy()
		out.Status.IP = "10.70.0.9"
		if change != nil {
			change(out)
		}
		return out
	}
	users := given(func(ip *ipamv1alpha1.IP) { ip.OwnerReferences = nil })
	for name, row := range map[string]struct {
		pod  *corev1.Pod
		have *ipamv1alpha1.IP
		want IPAction
	}{
		"right":                      {pod(nil), given(nil), IPKeep},
		"no address yet":             {pod(func(p *corev1.Pod) { p.Status.PodIP = "" }), nil, IPKeep},
		"an address that is none":    {pod(func(p *corev1.Pod) { p.Status.PodIP = "x" }), nil, IPKeep},
		"an IPv6 address":            {pod(func(p *corev1.Pod) { p.Status.PodIP = "fd00::1" }), nil, IPKeep},
		"an address of this cluster": {pod(func(p *corev1.Pod) { p.Status.PodIP = "192.0.2.10" }), nil, IPKeep},
		"another, of this cluster":   {pod(func(p *corev1.Pod) { p.Status.PodIP = "192.0.2.10" }), given(func(ip *ipamv1alpha1.IP) { ip.Spec.IP = "192.0.2.10" }), IPDelete},
		"the label alone":            {pod(func(p *corev1.Pod) { p.Annotations = nil }), nil, IPKeep},
		"another address":            {pod(func(p *corev1.Pod) { p.Status.PodIP = "10.71.0.6" }), given(nil), IPDelete},
		"no address any more":        {pod(func(p *corev1.Pod) { p.Status.PodIP = "" }), given(nil), IPDelete},
		"ended":                      {pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), given(nil), IPDelete},
		"ended, none":                {pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), nil, IPKeep},
		"being deleted":              {pod(deleting), given(nil), IPKeep},
		"being deleted, none":        {pod(deleting), nil, IPKeep},
		"of an earlier pod":          {pod(nil), given(func(ip *ipamv1alpha1.IP) { ip.OwnerReferences[0].UID = "u0" }), IPDelete},
		"already on its way out":     {pod(nil), given(func(ip *ipamv1alpha1.IP) { ip.DeletionTimestamp = &metav1.Time{Time: stepNow} }), IPKeep},
		"a user's":                   {pod(nil), users, IPForeign},
		"a user's, of a pod without": {pod(func(p *corev1.Pod) { p.Status.PodIP = "" }), users, IPKeep},
	} {
		if got, _ := PodIP(row.pod, views, row.have); got != row.want {
			t.Errorf("%s: %d, want %d", name, got, row.want)
		}
	}
	if got, _ := PodIP(pod(nil), nil, given(nil)); got != IPDelete {
		t.Errorf("a provider that is disconnected: %d", got)
	}
	if got, _ := PodIP(pod(nil), nil, nil); got != IPKeep {
		t.Errorf("a provider that is not connected: %d", got)
	}
}

func TestExposedAddress(t *testing.T) {
	ip := func(name, spec, status string) *ipamv1alpha1.IP {
		return &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: ipamv1alpha1.IPSpec{IP: spec}, Status: ipamv1alpha1.IPStatus{IP: status}}
	}
	aged := func(ip *ipamv1alpha1.IP, age int) *ipamv1alpha1.IP {
		ip.CreationTimestamp = metav1.Time{Time: stepNow.Add(time.Duration(age) * time.Second)}
		return ip
	}
	leaving := func(ip *ipamv1alpha1.IP) *ipamv1alpha1.IP {
		ip.DeletionTimestamp = &metav1.Time{Time: stepNow}
		return ip
	}
	withheld := func(ip *ipamv1alpha1.IP) *ipamv1alpha1.IP {
		ip.Labels = map[string]string{"networking.liqo.io/host-unreachable": "true"}
		return ip
	}
	unready := func(ip *ipamv1alpha1.IP, reason string) *ipamv1alpha1.IP {
		ip.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: reason}}
		return ip
	}
	for name, row := range map[string]struct {
		pod  string
		ips  []*ipamv1alpha1.IP
		want string
		bad  bool
	}{
		"nobody exposes it":           {"", nil, "", true},
		"a pod that nobody exposes":   {"web", nil, "", false},
		"one that waits":              {"", []*ipamv1alpha1.IP{ip("a", "192.0.2.9", "")}, "", false},
		"one":                         {"", []*ipamv1alpha1.IP{ip("a", "192.0.2.9", "10.70.0.4")}, "10.70.0.4", false},
		"of several the first":        {"", []*ipamv1alpha1.IP{ip("b", "192.0.2.9", "10.70.0.5"), ip("a", "192.0.2.9", "10.70.0.4")}, "10.70.0.4", false},
		"the first that has one":      {"", []*ipamv1alpha1.IP{ip("b", "192.0.2.9", "10.70.0.5"), ip("a", "192.0.2.9", "")}, "10.70.0.5", false},
		"the older one first":         {"", []*ipamv1alpha1.IP{aged(ip("a", "192.0.2.9", "10.70.0.4"), 2), aged(ip("b", "192.0.2.9", "10.70.0.5"), 1)}, "10.70.0.5", false},
		"not one that leaves":         {"", []*ipamv1alpha1.IP{leaving(ip("a", "192.0.2.9", "10.70.0.4")), ip("b", "192.0.2.9", "10.70.0.5")}, "10.70.0.5", false},
		"not one kept from peers":     {"", []*ipamv1alpha1.IP{withheld(ip("a", "192.0.2.9", "10.70.0.4")), ip("b", "192.0.2.9", "10.70.0.5")}, "10.70.0.5", false},
		"kept from peers":             {"", []*ipamv1alpha1.IP{withheld(ip("a", "192.0.2.9", "10.70.0.4"))}, "", true},
		"one passed over":             {"", []*ipamv1alpha1.IP{unready(ip("a", "192.0.2.9", "10.70.0.4"), "Duplicate")}, "", true},
		"a pod's, passed over":        {"web", []*ipamv1alpha1.IP{unready(ip("a", "192.0.2.9", "10.70.0.4"), "Duplicate")}, "", false},
		"one whose Service is late":   {"", []*ipamv1alpha1.IP{unready(ip("a", "192.0.2.9", "10.70.0.4"), "ServiceTaken")}, "10.70.0.4", false},
		"not that of another address": {"web", []*ipamv1alpha1.IP{ip("a", "192.0.2.8", "10.70.0.4")}, "", false},
	} {
		if got, err := ExposedAddress("192.0.2.9", row.pod, row.ips); got != row.want || (err != nil) != row.bad {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
