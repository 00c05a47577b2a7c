package kinds

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/fieldtest"
)

var sliceOptions = EndpointSliceOptions{
	CopyOptions: CopyOptions{Origin: "rome", Destination: "milan"},
	AtTarget:    func(node string) bool { return node == "milan-node" },
}

func endpoint(address, node string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{address}, NodeName: &node, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "p-" + address}}
}

func slice(change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-abcde",
			Labels:      map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"},
			Annotations: map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z", "a": "1"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{endpoint("10.0.0.5", "n1")},
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	if change != nil {
		change(s)
	}
	return s
}

// TestEveryFieldOfAnEndpointHasARule walks over all fields of an Endpoint, those of later Kubernetes releases included.
func TestEveryFieldOfAnEndpointHasARule(t *testing.T) {
	const copied, changed, dropped = "copied", "changed", "dropped"
	rules := map[string]string{
		"Addresses": copied, "Conditions": copied, "Hostname": copied, "Zone": copied, "Hints": copied,
		"TargetRef": changed, "NodeName": changed,
		"DeprecatedTopology": dropped,
	}
	for field := range reflect.TypeFor[discoveryv1.Endpoint]().Fields() {
		t.Run(field.Name, func(t *testing.T) {
			rule, found := rules[field.Name]
			if !found {
				t.Fatal("a field without a rule: decide whether it travels")
			}
			e := discoveryv1.Endpoint{Addresses: []string{"10.0.0.5"}}
			fieldtest.Fill(reflect.ValueOf(&e).Elem().FieldByName(field.Name))
			if field.Name == "Conditions" {
				e.Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
			}
			in := slice(func(s *discoveryv1.EndpointSlice) { s.Endpoints = []discoveryv1.Endpoint{e} })
			before := in.DeepCopy()
			got, why, err := EndpointSlice(in, "shop-rome", sliceOptions)
			if got == nil || err != nil {
				t.Fatal(why, err)
			}
			out := reflect.ValueOf(got.Spec.Template.Endpoints[0]).FieldByName(field.Name)
			value := reflect.ValueOf(e).FieldByName(field.Name)
			switch rule {
			case copied:
				if !reflect.DeepEqual(out.Interface(), value.Interface()) {
					t.Errorf("not copied: %s", cmp.Diff(value.Interface(), out.Interface()))
				}
			case changed:
				if out.IsZero() || reflect.DeepEqual(out.Interface(), value.Interface()) {
					t.Errorf("unchanged: %v", out.Interface())
				}
			default:
				if !out.IsZero() {
					t.Errorf("not dropped: %v", out.Interface())
				}
			}
			if !reflect.DeepEqual(before, in) {
				t.Error("the local slice was changed")
			}
		})
		delete(rules, field.Name)
	}
	for name := range rules {
		t.Errorf("rule for %s, which no Endpoint has", name)
	}
}

// TestAnEmptySliceIsCopied: a Service without pods has no endpoints in the provider either. If all its pods are there, the provider has
// EndpointSlices of its own.
func TestAnEmptySliceIsCopied(t *testing.T) {
	got, why, err := EndpointSlice(slice(func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil }), "shop-rome", sliceOptions)
	if err != nil || got == nil || len(got.Spec.Template.Endpoints) != 0 || len(got.Spec.Template.Ports) != 1 {
		t.Errorf("an empty one: %v, %s, %v", got, why, err)
	}
	o := sliceOptions
	o.AtTarget = func(string) bool { return true }
	if got, _, err := EndpointSlice(slice(func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].NodeName = new("milan") }), "shop-rome", o); err != nil || got != nil {
		t.Errorf("one of pods that are there: %v, %v", got, err)
	}
}

func TestEndpointSlice(t *testing.T) {
	got, _, err := EndpointSlice(slice(nil), "shop-rome", sliceOptions)
	if err != nil {
		t.Fatal(err)
	}
	want := &offloadingv1beta1.ShadowEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop-rome", Name: "web-abcde",
			Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice.reflection.liqo.io",
				api.LabelOrigin: "rome", api.LabelDestination: "milan",
			},
			Annotations: map[string]string{
				"a": "1", AnnotationAnnotations: "a",
				AnnotationLabels: discoveryv1.LabelManagedBy + "," + discoveryv1.LabelServiceName,
			},
		},
		Spec: offloadingv1beta1.ShadowEndpointSliceSpec{Template: offloadingv1beta1.EndpointSliceTemplate{
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{"10.0.0.5"}, NodeName: new("rome"),
				TargetRef: &corev1.ObjectReference{Kind: "RemotePod", Namespace: "shop", Name: "p-10.0.0.5"},
			}},
			Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	later, _, _ := EndpointSlice(slice(func(s *discoveryv1.EndpointSlice) {
		s.Annotations["endpoints.kubernetes.io/last-change-trigger-time"] = "2027-01-01T00:00:00Z"
	}), "shop-rome", sliceOptions)
	if _, change := MergeEndpointSlice(got, later); change != Same {
		t.Error("the time of the last change travels, and costs a write")
	}
	moved, _, _ := EndpointSlice(slice(func(s *discoveryv1.EndpointSlice) {
		s.Endpoints, s.Annotations = []discoveryv1.Endpoint{endpoint("10.0.0.6", "n1")}, nil
	}), "shop-rome", sliceOptions)
	merged, change := MergeEndpointSlice(got, moved)
	if change != Update || merged.Spec.Template.Endpoints[0].Addresses[0] != "10.0.0.6" || merged.Annotations["a"] != "" {
		t.Errorf("change %d, %+v", change, merged)
	}
	if _, change := MergeEndpointSlice(merged, moved); change != Same {
		t.Error("it never settles")
	}
}

func TestEndpointsThatStay(t *testing.T) {
	unreachable := errors.New("nobody exposes it")
	translated := sliceOptions
	translated.Address = func(address, pod string) (string, error) {
		switch address {
		case "10.0.0.5":
			return address, nil
		case "192.0.2.9":
			return "10.70.0.9", nil
		case "10.50.0.1":
			return "", nil
		default:
			return "", unreachable
		}
	}
	for name, row := range map[string]struct {
		change  func(*discoveryv1.EndpointSlice)
		options EndpointSliceOptions
		want    []string
		problem error
	}{
		"one here":  {nil, sliceOptions, []string{"10.0.0.5"}, nil},
		"one there": {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].NodeName = new("milan-node") }, sliceOptions, nil, nil},
		"one here, one there": {func(s *discoveryv1.EndpointSlice) {
			s.Endpoints = append(s.Endpoints, endpoint("10.9.0.5", "milan-node"))
		}, sliceOptions, []string{"10.0.0.5"}, nil},
		"one at a third": {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0] = endpoint("10.9.0.5", "naples-node") }, sliceOptions, []string{"10.9.0.5"}, nil},
		"a reflected slice": {func(s *discoveryv1.EndpointSlice) {
			s.Labels[discoveryv1.LabelManagedBy] = offloadingv1beta1.EndpointSliceManager
		}, sliceOptions, nil, nil},
		"of no service":         {func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelServiceName) }, sliceOptions, nil, nil},
		"names":                 {func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN }, sliceOptions, nil, nil},
		"a pod, translated":     {nil, translated, []string{"10.0.0.5"}, nil},
		"a host that is known":  {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0] = endpoint("192.0.2.9", "n1") }, translated, []string{"10.70.0.9"}, nil},
		"one that waits":        {func(s *discoveryv1.EndpointSlice) { s.Endpoints = append(s.Endpoints, endpoint("10.50.0.1", "n1")) }, translated, []string{"10.0.0.5"}, nil},
		"a host that is not":    {func(s *discoveryv1.EndpointSlice) { s.Endpoints = append(s.Endpoints, endpoint("192.0.2.1", "n1")) }, translated, []string{"10.0.0.5"}, unreachable},
		"only one that is not":  {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0] = endpoint("192.0.2.1", "n1") }, translated, nil, unreachable},
		"no endpoint":           {func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil }, sliceOptions, nil, nil},
		"an address of several": {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"10.0.0.5", "10.50.0.1"} }, translated, []string{"10.0.0.5"}, nil},
	} {
		got, why, problem := EndpointSlice(slice(row.change), "shop-rome", row.options)
		var addresses []string
		if got != nil {
			for _, e := range got.Spec.Template.Endpoints {
				addresses = append(addresses, e.Addresses...)
			}
		}
		if !reflect.DeepEqual(addresses, row.want) || !errors.Is(problem, row.problem) || (got == nil) != (why != "") {
			t.Errorf("%s: %v (%q, %v), want %v", name, addresses, why, problem, row.want)
		}
	}
}
