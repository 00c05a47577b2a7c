package network

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

func testConfiguration(pods, external []string) *networkingv1beta1.Configuration {
	c := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	c.Spec.Remote.CIDR = networkingv1beta1.CIDRs{Pod: pods, External: external}
	return c
}

func TestRemoteNetworks(t *testing.T) {
	got, err := RemoteNetworks(testConfiguration([]string{"10.42.7.1/16", "10.44.0.0/16"}, []string{"10.70.0.0/16"}))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range got {
		names = append(names, n.Name+" "+n.CIDR.String()+" "+n.Type)
	}
	if diff := cmp.Diff([]string{
		"milan-pod-10-42-0-0-16 10.42.0.0/16 pod", "milan-pod-10-44-0-0-16 10.44.0.0/16 pod", "milan-external-10-70-0-0-16 10.70.0.0/16 external",
	}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for want, c := range map[string]*networkingv1beta1.Configuration{
		"spec.remote.cidr.pod is empty":                                             testConfiguration(nil, []string{"10.70.0.0/16"}),
		"spec.remote.cidr.external is empty":                                        testConfiguration([]string{"10.42.0.0/16"}, nil),
		"spec.remote.cidr.external[0] is 10.42.0.0/15, which overlaps 10.42.0.0/16": testConfiguration([]string{"10.42.0.0/16"}, []string{"10.42.0.0/15"}),
		"spec.remote.cidr.pod[0] is 127.0.0.0/8":                                    testConfiguration([]string{"127.0.0.0/8"}, []string{"10.70.0.0/16"}),
		`spec.remote.cidr.pod[1] is "fd00::/48", want an IPv4`:                      testConfiguration([]string{"10.42.0.0/16", "fd00::/48"}, []string{"10.70.0.0/16"}),
		`spec.remote.cidr.external[0] is "10.0.0", want an IPv4`:                    testConfiguration([]string{"10.42.0.0/16"}, []string{"10.0.0"}),
	} {
		if _, err := RemoteNetworks(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func testNetwork(name, kind, cidr, problem string) *ipamv1alpha1.Network {
	n := &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name, Labels: map[string]string{ipamv1alpha1.LabelNetworkType: kind}},
		Status:     ipamv1alpha1.NetworkStatus{CIDR: cidr},
	}
	if problem != "" {
		n.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Exhausted", Message: problem}}
	}
	return n
}

func TestRemoteRanges(t *testing.T) {
	wanted, err := RemoteNetworks(testConfiguration([]string{"10.42.0.0/16", "10.44.0.0/16"}, []string{"10.70.0.0/16"}))
	if err != nil {
		t.Fatal(err)
	}
	first, second, external := wanted[0].Name, wanted[1].Name, wanted[2].Name
	for name, c := range map[string]struct {
		networks []*ipamv1alpha1.Network
		pods     []string
		status   metav1.ConditionStatus
		message  string
	}{
		"none yet": {nil, nil, metav1.ConditionFalse, first + ", " + second + ", " + external},
		"one waits": {[]*ipamv1alpha1.Network{testNetwork(first, "", "10.42.0.0/16", ""), testNetwork(second, "", "", ""), testNetwork(external, "", "10.71.0.0/16", "")},
			[]string{"10.42.0.0/16"}, metav1.ConditionFalse, "waiting for a range of Network " + second},
		"the first waits": {[]*ipamv1alpha1.Network{testNetwork(first, "", "", ""), testNetwork(second, "", "10.44.0.0/16", ""), testNetwork(external, "", "10.71.0.0/16", "")},
			nil, metav1.ConditionFalse, "waiting for a range of Network " + first},
		"no room": {[]*ipamv1alpha1.Network{testNetwork(first, "", "10.42.0.0/16", ""), testNetwork(second, "", "", "no free /16 in 10.0.0.0/8")},
			nil, metav1.ConditionFalse, "Network " + second + ": no free /16 in 10.0.0.0/8"},
		"all": {[]*ipamv1alpha1.Network{testNetwork(first, "", "10.61.0.0/16", ""), testNetwork(second, "", "10.44.0.0/16", ""), testNetwork(external, "", "10.71.0.0/16", "")},
			[]string{"10.61.0.0/16", "10.44.0.0/16"}, metav1.ConditionTrue, "every range"},
		"a collision that came later": {[]*ipamv1alpha1.Network{testNetwork(first, "", "10.61.0.0/16", "overlaps node a"), testNetwork(second, "", "10.44.0.0/16", ""), testNetwork(external, "", "10.71.0.0/16", "")},
			[]string{"10.61.0.0/16", "10.44.0.0/16"}, metav1.ConditionFalse, "overlaps node a"},
	} {
		t.Run(name, func(t *testing.T) {
			have := map[string]*ipamv1alpha1.Network{}
			for _, n := range c.networks {
				have[n.Name] = n
			}
			var status networkingv1beta1.ConfigurationStatus
			condition := RemoteRanges(wanted, have, &status)
			ranges := status.Remote
			if (ranges != nil) != (c.pods != nil) || condition.Status != c.status || !strings.Contains(condition.Message, c.message) || condition.Reason == "" {
				t.Errorf("%+v, %+v", ranges, condition)
			}
			if ranges != nil {
				want := networkingv1beta1.CIDRs{Pod: c.pods, External: []string{"10.71.0.0/16"}}
				if diff := cmp.Diff(want, ranges.CIDR); diff != "" {
					t.Errorf("not in the order of the specification (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestRangesAreMatchedByName: ranges with a view keep it whatever is added, removed or moved in the specification, before the controller has
// processed the change and while a range has no view.
func TestRangesAreMatchedByName(t *testing.T) {
	c := testConfiguration([]string{"10.42.7.1/16", "10.44.0.0/16"}, []string{"10.70.0.0/16"})
	c.Labels = map[string]string{api.LabelRemoteClusterID: "milan"}
	have := map[string]*ipamv1alpha1.Network{}
	pair := func(c *networkingv1beta1.Configuration) {
		t.Helper()
		wanted, err := RemoteNetworks(c)
		if err != nil {
			t.Fatal(err)
		}
		RemoteRanges(wanted, have, &c.Status)
	}
	for real, view := range map[string]string{"pod-10-42-0-0-16": "10.61.0.0/16", "pod-10-44-0-0-16": "10.62.0.0/16", "external-10-70-0-0-16": "10.71.0.0/16"} {
		have["milan-"+real] = testNetwork("milan-"+real, "", view, "")
	}
	pair(c)
	for name, step := range map[string]struct {
		pods []string
		want map[string]string
	}{
		"inserted at the front": {[]string{"10.40.0.0/16", "10.42.7.1/16", "10.44.0.0/16"}, map[string]string{"10.42.0.9": "10.61.0.9", "10.44.0.9": "10.62.0.9", "10.40.0.9": ""}},
		"the first removed":     {[]string{"10.44.0.0/16"}, map[string]string{"10.42.0.9": "", "10.44.0.9": "10.62.0.9"}},
		"turned round":          {[]string{"10.44.0.0/16", "10.42.0.0/16"}, map[string]string{"10.42.0.9": "10.61.0.9", "10.44.0.9": "10.62.0.9"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := c.DeepCopy()
			c.Spec.Remote.CIDR.Pod = step.pods
			for _, when := range []string{"before the controller saw it", "after"} {
				translation, problems, ok := GatherTranslation(&Objects{LiqoNamespace: "liqo", Configurations: []networkingv1beta1.Configuration{*c}}, "milan")
				if !ok {
					t.Fatalf("%s: the peer is down: %v", when, problems)
				}
				for told, want := range step.want {
					got, err := translation.ToView(addr(told))
					if (want == "") != (err != nil) || want != "" && got.String() != want {
						t.Errorf("%s: %s is seen as %s, %v, want %q", when, told, got, err, want)
					}
				}
				pair(c)
			}
		})
	}
}

func TestLocalRanges(t *testing.T) {
	pod := testNetwork("pod-cidr", ipamv1alpha1.NetworkTypePod, "10.42.0.0/16", "")
	external := testNetwork("external-cidr", ipamv1alpha1.NetworkTypeExternal, "10.70.0.0/16", "")
	service := testNetwork("service-cidr", ipamv1alpha1.NetworkTypeService, "10.96.0.0/16", "")
	late := testNetwork("external-cidr", ipamv1alpha1.NetworkTypeExternal, "", "no room for it")
	local, wait := LocalRanges([]ipamv1alpha1.Network{*service, *pod, *external})
	if diff := cmp.Diff(networkingv1beta1.CIDRs{Pod: []string{"10.42.0.0/16"}, External: []string{"10.70.0.0/16"}}, local.CIDR); diff != "" || wait != "" {
		t.Errorf("%q %s", wait, diff)
	}
	for want, networks := range map[string][]ipamv1alpha1.Network{
		"=pod-cidr":      {*external},
		"=external-cidr": {*pod},
		"no room for it": {*pod, *late},
	} {
		if _, wait := LocalRanges(networks); !strings.Contains(wait, want) {
			t.Errorf("%q, want %q in it", wait, want)
		}
	}
}

func TestSystemIPs(t *testing.T) {
	virtual := testNode("milan", true, "192.0.2.3")
	virtual.Labels = map[string]string{api.LabelType: api.TypeVirtualNode}
	leaving := testNode("old", true, "192.0.2.4")
	leaving.DeletionTimestamp = &metav1.Time{}
	leaving.DeletionTimestamp.Time = leaving.DeletionTimestamp.AddDate(2026, 0, 0)
	nodes := []corev1.Node{testNode("b", true, "192.0.2.2"), testNode("a", false, "192.0.2.1", "198.51.100.1"), testNode("none", true), virtual, leaving}
	apiServer := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "fd00::1", ClusterIPs: []string{"fd00::1", "10.96.0.1"}}}
	headless := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}
	door := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.9"}}
	got := SystemIPs(nodes, map[string]*corev1.Service{
		ipamv1alpha1.IPTypeAPIServer: apiServer, ipamv1alpha1.IPTypeAPIServerProxy: headless, ipamv1alpha1.IPTypeAuthentication: door,
	})
	want := []SystemIP{
		{Name: "api-server", Type: "api-server", Address: "10.96.0.1"}, {Name: "authentication", Type: "authentication", Address: "10.96.0.9"},
		{Name: "node-a", Type: "node", Address: "192.0.2.1"}, {Name: "node-b", Type: "node", Address: "192.0.2.2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ip := func(name, kind, address string) *ipamv1alpha1.IP {
		o := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: ipamv1alpha1.IPSpec{IP: address}}
		if kind != "" {
			o.Labels = map[string]string{ipamv1alpha1.LabelIPType: kind}
		}
		return o
	}
	for _, c := range []struct {
		ip    *ipamv1alpha1.IP
		stale bool
	}{
		{ip("node-a", "node", "192.0.2.1"), false},
		{ip("node-a", "node", "192.0.2.77"), true},
		{ip("node-gone", "node", "192.0.2.1"), true},
		{ip("mine", "", "192.0.2.77"), false},
		{ip("mine", "something", "192.0.2.77"), false},
	} {
		if got := StaleSystemIP(c.ip, want); got != c.stale {
			t.Errorf("%s %s: stale %v", c.ip.Name, c.ip.Spec.IP, got)
		}
	}
}
