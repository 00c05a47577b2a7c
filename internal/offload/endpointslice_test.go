package offload

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func shadowSlice(change func(*offloadingv1beta1.ShadowEndpointSlice)) *offloadingv1beta1.ShadowEndpointSlice {
	s := &offloadingv1beta1.ShadowEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "web-abcde", UID: "s1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Spec: offloadingv1beta1.ShadowEndpointSliceSpec{Template: offloadingv1beta1.EndpointSliceTemplate{
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{"10.0.0.5"}, NodeName: new("rome"), Zone: new("z"), Hostname: new("h"),
				Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
				TargetRef:  &corev1.ObjectReference{Kind: "RemotePod", Name: "p"},
			}},
			Ports: []discoveryv1.EndpointPort{{Port: new(int32(80))}},
		}},
	}
	if change != nil {
		change(s)
	}
	return s
}

// seen translates addresses as a Configuration would: 10.0.0.0/16 becomes 10.71.0.0/16, and other addresses are refused.
func seen(a netip.Addr) (netip.Addr, error) {
	if !netip.MustParsePrefix("10.0.0.0/16").Contains(a) {
		return netip.Addr{}, errors.New("it is not in a range of that cluster")
	}
	bytes := a.As4()
	bytes[1] = 71
	return netip.AddrFrom4(bytes), nil
}

func TestEndpointSliceOfConsumer(t *testing.T) {
	facts := EndpointFacts{Consumer: "rome", Reachable: true, Translate: seen}
	got, refused := EndpointSlice(shadowSlice(nil), facts)
	if len(refused) > 0 {
		t.Error(refused)
	}
	want := []discoveryv1.Endpoint{{
		Addresses: []string{"10.71.0.5"}, NodeName: new("rome"), Zone: new("z"), Hostname: new("h"),
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
		TargetRef:  &corev1.ObjectReference{Kind: "RemotePod", Name: "p"},
	}}
	if diff := cmp.Diff(want, got.Endpoints); diff != "" {
		t.Error(diff)
	}
	labels := map[string]string{
		discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice.reflection.liqo.io", "liqo.io/managed-by": "shadowendpointslice",
	}
	if diff := cmp.Diff(labels, got.Labels); diff != "" {
		t.Error(diff)
	}
	if owner := metav1.GetControllerOf(got); owner == nil || owner.UID != "s1" {
		t.Errorf("owner %v", owner)
	}
	facts.Reachable = false
	away, _ := EndpointSlice(shadowSlice(nil), facts)
	want[0].Conditions.Ready = new(false)
	if diff := cmp.Diff(want, away.Endpoints); diff != "" {
		t.Errorf("while the consumer is out of reach: %s", diff)
	}
	facts = EndpointFacts{Consumer: "rome", Reachable: true}
	asIs, _ := EndpointSlice(shadowSlice(nil), facts)
	if asIs.Endpoints[0].Addresses[0] != "10.0.0.5" {
		t.Errorf("without a network of ours: %v", asIs.Endpoints)
	}
}

// TestHostileEndpoints: whatever a consumer writes, its EndpointSlices in the provider contain only its own addresses.
func TestHostileEndpoints(t *testing.T) {
	own := []netip.Prefix{netip.MustParsePrefix("10.200.0.0/16"), netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("192.0.2.10/32")}
	everything := func(a netip.Addr) (netip.Addr, error) { return a, nil }
	identities := map[string]func(netip.Addr) (netip.Addr, error){"translated": seen, "as they are": nil, "by a Configuration that claims everything": everything}
	for _, address := range []string{
		"127.0.0.1", "127.255.0.1", "0.0.0.0", "0.1.2.3", "169.254.169.254", "224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255",
		"10.200.0.7", "10.96.0.1", "10.111.255.254", "192.0.2.10", "::1", "::", "fe80::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.5", "fe80::1%eth0",
		"localhost", "", "10.0.0.5/32", "010.0.0.5", "10.0.0.5:80", "0x7f000001", "10.0.0.5 ",
	} {
		for how, translate := range identities {
			for _, kind := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN, ""} {
				s := shadowSlice(func(s *offloadingv1beta1.ShadowEndpointSlice) {
					s.Spec.Template.AddressType = kind
					s.Spec.Template.Endpoints[0].Addresses = []string{address}
				})
				got, refused := EndpointSlice(s, EndpointFacts{Consumer: "rome", Reachable: true, Translate: translate, Own: own})
				if len(got.Endpoints) != 0 || len(refused) != 1 || !strings.Contains(refused[0], fmt.Sprintf("%q", address)) {
					t.Errorf("%q, %s, %s: %v, %v", address, kind, how, got.Endpoints, refused)
				}
			}
		}
	}
	// If no IPv6 range of the provider is known, any IPv6 address may be the provider's own. The addresses of its nodes do not show the ranges of its
	// pods and Services.
	sixth := shadowSlice(func(s *offloadingv1beta1.ShadowEndpointSlice) {
		s.Spec.Template.AddressType, s.Spec.Template.Endpoints[0].Addresses = discoveryv1.AddressTypeIPv6, []string{"fd00:20::5"}
	})
	for ranges, want := range map[string]int{"": 0, "2001:db8::1/128": 0, "fd00:10::/56": 1, "fd00::/16": 0} {
		f := EndpointFacts{Consumer: "rome", Reachable: true, Own: own}
		if ranges != "" {
			f.Own = append(slices.Clone(own), netip.MustParsePrefix(ranges))
		}
		if got, refused := EndpointSlice(sixth, f); len(got.Endpoints) != want || len(refused) != 1-want {
			t.Errorf("an IPv6 endpoint where %q is known: %v, %v", ranges, got.Endpoints, refused)
		}
	}
	if got, refused := EndpointSlice(shadowSlice(nil), EndpointFacts{Consumer: "rome", Reachable: true, Waiting: "status.remote is empty", Own: own}); len(got.Endpoints) != 0 || len(refused) != 1 || !strings.Contains(refused[0], "status.remote is empty") {
		t.Errorf("while the place of the consumer is not known: %v, %v", got.Endpoints, refused)
	}
	good := shadowSlice(func(s *offloadingv1beta1.ShadowEndpointSlice) {
		e := &s.Spec.Template.Endpoints[0]
		e.Addresses = []string{"127.0.0.1", "10.0.0.5"}
		e.NodeName, e.TargetRef, e.DeprecatedTopology = new("master-0"), &corev1.ObjectReference{Kind: "Pod", Namespace: "kube-system", Name: "etcd"}, map[string]string{"a": "b"}
		s.Labels[discoveryv1.LabelManagedBy] = "endpointslice-controller.k8s.io"
		s.Labels[offloadingv1beta1.LabelManagedBy] = "somebody"
	})
	got, refused := EndpointSlice(good, EndpointFacts{Consumer: "rome", Reachable: true, Translate: seen, Own: own})
	if len(refused) != 1 || len(got.Endpoints) != 1 {
		t.Fatalf("%v, %v", got.Endpoints, refused)
	}
	e := got.Endpoints[0]
	if len(e.Addresses) != 1 || *e.NodeName != "rome" || e.TargetRef.Kind != "RemotePod" || e.DeprecatedTopology != nil {
		t.Errorf("%+v", e)
	}
	if got.Labels[discoveryv1.LabelManagedBy] != offloadingv1beta1.EndpointSliceManager || got.Labels[offloadingv1beta1.LabelManagedBy] != offloadingv1beta1.ManagedByShadowEndpointSlice {
		t.Errorf("labels %v", got.Labels)
	}
}

func TestShadowEndpoints(t *testing.T) {
	facts := EndpointFacts{Consumer: "rome", Reachable: true}
	shadow := shadowSlice(nil)
	want, _ := EndpointSlice(shadow, facts)
	with := func(change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
		out := want.DeepCopy()
		change(out)
		return out
	}
	dying := shadowSlice(func(s *offloadingv1beta1.ShadowEndpointSlice) { s.DeletionTimestamp = &metav1.Time{Time: stepNow} })
	for name, row := range map[string]struct {
		shadow *offloadingv1beta1.ShadowEndpointSlice
		have   *discoveryv1.EndpointSlice
		want   EndpointSliceAction
	}{
		"none":                     {shadow, nil, EndpointSliceCreate},
		"right":                    {shadow, want.DeepCopy(), EndpointSliceKeep},
		"the shadow goes":          {dying, want.DeepCopy(), EndpointSliceKeep},
		"another endpoint":         {shadow, with(func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"10.0.0.6"} }), EndpointSliceUpdate},
		"another port":             {shadow, with(func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = new(int32(81)) }), EndpointSliceUpdate},
		"another label":            {shadow, with(func(s *discoveryv1.EndpointSlice) { s.Labels["x"] = "y" }), EndpointSliceUpdate},
		"another kind of address":  {shadow, with(func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeIPv6 }), EndpointSliceDelete},
		"of an earlier shadow":     {shadow, with(func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].UID = "s0" }), EndpointSliceDelete},
		"being deleted":            {shadow, with(func(s *discoveryv1.EndpointSlice) { s.DeletionTimestamp = &metav1.Time{Time: stepNow} }), EndpointSliceKeep},
		"foreign, with our labels": {shadow, with(func(s *discoveryv1.EndpointSlice) { s.OwnerReferences = nil }), EndpointSliceForeign},
		"foreign, of a Service":    {shadow, with(func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].Kind = "Service" }), EndpointSliceForeign},
		"foreign, a namesake kind": {shadow, with(func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].APIVersion = "other.io/v1" }), EndpointSliceForeign},
	} {
		if got := ShadowEndpoints(row.shadow, row.have, want); got != row.want {
			t.Errorf("%s: %d, want %d", name, got, row.want)
		}
	}
}

func TestPeerReachable(t *testing.T) {
	condition := func(kind corev1beta1.ConditionType, status corev1beta1.ConditionStatus, since time.Duration) corev1beta1.Condition {
		return corev1beta1.Condition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(stepNow.Add(-since))}
	}
	peer := func(networking bool, conditions ...corev1beta1.Condition) *corev1beta1.ForeignCluster {
		f := &corev1beta1.ForeignCluster{}
		f.Status.Modules.Networking.Enabled = networking
		for _, c := range conditions {
			if c.Type == corev1beta1.APIServerStatus {
				f.Status.Conditions = append(f.Status.Conditions, c)
			} else {
				f.Status.Modules.Networking.Conditions = append(f.Status.Modules.Networking.Conditions, c)
			}
		}
		return f
	}
	api, network := corev1beta1.APIServerStatus, corev1beta1.NetworkConnectionStatus
	for name, row := range map[string]struct {
		peer  *corev1beta1.ForeignCluster
		want  bool
		after time.Duration
	}{
		"unknown":                        {nil, false, 0},
		"nothing said":                   {peer(false), true, 0},
		"all is well":                    {peer(true, condition(api, corev1beta1.StatusEstablished, 0), condition(network, corev1beta1.StatusEstablished, 0)), true, 0},
		"its API is away":                {peer(false, condition(api, corev1beta1.StatusError, time.Minute)), false, 0},
		"its API is away for a moment":   {peer(false, condition(api, corev1beta1.StatusError, 2*time.Second)), true, 3 * time.Second},
		"no identity there":              {peer(false, condition(api, corev1beta1.StatusNone, time.Minute)), true, 0},
		"the network is down":            {peer(true, condition(network, corev1beta1.StatusError, time.Minute)), false, 0},
		"the network is not up yet":      {peer(true, condition(network, corev1beta1.StatusPending, time.Minute)), false, 0},
		"the network fails over":         {peer(true, condition(network, corev1beta1.StatusPending, time.Second)), true, 4 * time.Second},
		"a network that is not in use":   {peer(false, condition(network, corev1beta1.StatusError, time.Minute)), true, 0},
		"a gateway of several is away":   {peer(true, condition(corev1beta1.NetworkGatewayServerStatus, corev1beta1.StatusNotReady, time.Minute)), true, 0},
		"a clock that runs ahead of us":  {peer(true, condition(network, corev1beta1.StatusError, -time.Hour)), true, 5 * time.Second},
		"both, one of them for a moment": {peer(true, condition(api, corev1beta1.StatusError, time.Minute), condition(network, corev1beta1.StatusError, 0)), false, 5 * time.Second},
	} {
		if got, after := PeerReachable(row.peer, stepNow); got != row.want || after != row.after {
			t.Errorf("%s: %v, %s", name, got, after)
		}
	}
}
