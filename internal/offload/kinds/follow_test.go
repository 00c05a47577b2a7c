package kinds_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

// followOptions let all labels and annotations be copied.
var followOptions = kinds.CopyOptions{Origin: "rome", Destination: "milan", LabelsReflected: []string{"*"}, AnnotationsReflected: []string{"*"}}

// TestCopiesFollowTheirSource: after a change of any one field of its source, a copy equals one that is made of the changed source. Each field that a
// copy does not follow is in a list, with the reason. The law includes fields of later Kubernetes releases.
func TestCopiesFollowTheirSource(t *testing.T) {
	follow(t, "ConfigMap", func(c *corev1.ConfigMap) { c.Immutable = new(false) }, map[string]string{},
		func(c *corev1.ConfigMap) *corev1.ConfigMap {
			out, _ := kinds.ConfigMap(c, "there", followOptions)
			return out
		}, kinds.MergeConfigMap)
	follow(t, "Secret", func(s *corev1.Secret) { s.Immutable = new(false) }, map[string]string{
		"StringData": "no Secret that was read has it: the API server moves it to data",
	}, func(s *corev1.Secret) *corev1.Secret { out, _ := kinds.Secret(s, "there", followOptions); return out }, kinds.MergeSecret)
	follow(t, "Service", func(s *corev1.Service) {
		s.Spec.Type, s.Spec.IPFamilyPolicy = corev1.ServiceTypeLoadBalancer, new(corev1.IPFamilyPolicyRequireDualStack)
	}, map[string]string{
		"Status":                         "the provider has load balancers of its own",
		"Spec.ClusterIP":                 "the provider assigns it",
		"Spec.ClusterIPs":                "the provider assigns them",
		"Spec.ExternalIPs":               "they belong to nodes of this cluster",
		"Spec.LoadBalancerIP":            "it belongs to this cluster",
		"Spec.HealthCheckNodePort":       "the provider assigns it",
		"Spec.LoadBalancerClass removed": "the class stays while the type is LoadBalancer",
		"Spec.IPFamilies removed":        "the provider chooses the families then",
		"Spec.IPFamilyPolicy removed":    "the provider chooses the policy then",
		"Spec.IPFamilyPolicy":            "other policies than RequireDualStack copy no families, and the provider's stay",
		"Spec.Ports.NodePort":            "the provider assigns it",
	}, func(s *corev1.Service) *corev1.Service {
		out, _ := kinds.Service(s, "there", kinds.ServiceOptions{CopyOptions: followOptions})
		return out
	}, kinds.MergeService)
	follow(t, "Ingress", nil, map[string]string{
		"Status":                "the provider has load balancers of its own",
		"Spec.IngressClassName": "it is a name of this cluster",
	}, func(i *networkingv1.Ingress) *networkingv1.Ingress {
		out, _ := kinds.Ingress(i, "there", kinds.IngressOptions{CopyOptions: followOptions})
		return out
	}, kinds.MergeIngress)
	follow(t, "NetworkPolicy", nil, map[string]string{}, func(p *networkingv1.NetworkPolicy) *networkingv1.NetworkPolicy {
		out, _, _ := kinds.NetworkPolicy(p, "there", kinds.NetworkPolicyOptions{CopyOptions: followOptions})
		return out
	}, kinds.MergeNetworkPolicy)
	follow(t, "NetworkPolicy with namespaces", func(p *networkingv1.NetworkPolicy) {
		for _, peer := range []*networkingv1.NetworkPolicyPeer{&p.Spec.Ingress[0].From[0], &p.Spec.Egress[0].To[0]} {
			peer.IPBlock, peer.NamespaceSelector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "x"}}
		}
	}, map[string]string{}, func(p *networkingv1.NetworkPolicy) *networkingv1.NetworkPolicy {
		out, _, _ := kinds.NetworkPolicy(p, "there", kinds.NetworkPolicyOptions{CopyOptions: followOptions, RemoteNamespace: func(name string) (string, bool) { return name + "-rome", true }})
		return out
	}, kinds.MergeNetworkPolicy)
	follow(t, "PodDisruptionBudget", nil, map[string]string{
		"Spec.MinAvailable":     "status.desiredHealthy is computed from it",
		"Spec.MaxUnavailable":   "status.desiredHealthy is computed from it",
		"Status":                "it describes the pods of this cluster",
		"Status.DesiredHealthy": "",
	}, func(b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
		out, _, _ := kinds.PodDisruptionBudget(b, "there", 0, followOptions)
		return out
	}, kinds.MergePodDisruptionBudget)
	follow(t, "EndpointSlice", func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "web" }, map[string]string{
		"Endpoints.NodeName":           "the node of all endpoints is the virtual node of this cluster",
		"Endpoints.DeprecatedTopology": "it describes the nodes of this cluster",
	}, func(s *discoveryv1.EndpointSlice) *offloadingv1beta1.ShadowEndpointSlice {
		out, _, _ := kinds.EndpointSlice(s, "there", kinds.EndpointSliceOptions{CopyOptions: followOptions})
		return out
	}, kinds.MergeEndpointSlice)
	follow(t, "Event", nil, map[string]string{
		"ObjectMeta.Labels":      "they have no meaning in this cluster",
		"ObjectMeta.Annotations": "they have no meaning in this cluster",
		"InvolvedObject":         "the Event stays with the object that it was first copied for",
	}, func(e *corev1.Event) *corev1.Event {
		out, _ := kinds.Event(e, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}, &corev1.Pod{}, followOptions)
		return out
	}, kinds.MergeEvent)

	const immutable = "the API server lets it not change in a Pod"
	type pods struct {
		Local  *corev1.Pod
		Shadow *offloadingv1beta1.ShadowPod
	}
	podOptions := podrules.Options{Origin: "rome", Destination: "milan", Node: "milan", AnnotationsReflected: []string{"*"}}
	follow(t, "Pod", func(p *corev1.Pod) { p.Spec.EphemeralContainers, p.Status = nil, corev1.PodStatus{} }, map[string]string{
		"Status":                "the status comes from the provider",
		"Spec":                  immutable,
		"Spec.Containers.Image": "", "Spec.InitContainers.Image": "",
		"Spec.Containers.Resources.Limits": "", "Spec.InitContainers.Resources.Limits": "",
		"Spec.Containers.Resources.Requests": "", "Spec.InitContainers.Resources.Requests": "",
		"Spec.Containers.Resources.Limits removed": immutable, "Spec.InitContainers.Resources.Limits removed": immutable,
		"Spec.Containers.Resources.Requests removed": immutable, "Spec.InitContainers.Resources.Requests removed": immutable,
		"Spec.ActiveDeadlineSeconds decreased": "",
	}, func(p *corev1.Pod) *pods { return &pods{p.DeepCopy(), podrules.ShadowPod(p, "there", podOptions)} }, func(have, want *pods) (*pods, kinds.Change) {
		shadow, changed := podrules.ShadowPodMetadata(have.Shadow, want.Local, nil, podOptions)
		for {
			next, more := podrules.ChangeSpec(shadow, want.Local, nil, podOptions)
			if !more {
				break
			}
			shadow, changed = next.Shadow, true
		}
		if changed {
			return &pods{want.Local, shadow}, kinds.Update
		}
		return have, kinds.Same
	})
}

// follow checks the law for one kind. change adapts a source that has a value in every field. kept lists the fields that the copy does not follow: by
// their path, or by that of a struct that contains them; "removed", "added" or "decreased" after a path limits it to that change. An empty reason excepts a path.
func follow[S, C any](t *testing.T, kind string, change func(*S), kept map[string]string, forward func(*S) *C, merge func(have, want *C) (*C, kinds.Change)) {
	t.Run(kind, func(t *testing.T) {
		filled := func() *S {
			out := new(S)
			fillAll(reflect.ValueOf(out).Elem(), nil)
			if change != nil {
				change(out)
			}
			return out
		}
		source, have := filled(), forward(filled()) // a copy may share memory with its source
		if have == nil {
			t.Fatal("the source has no copy")
		}
		used := map[string]bool{}
		eachChange(reflect.ValueOf(source).Elem(), "", func(path string) {
			rule, why := ruleOf(path, kept)
			used[rule] = true
			want := forward(source)
			if want == nil { // the copy is deleted
				return
			}
			got, result := merge(have, want)
			follows := result == kinds.Replace || result == kinds.Update && equality.Semantic.DeepEqual(got, want)
			switch {
			case why == "" && !follows:
				t.Errorf("%s: the copy does not follow it: %s", path, cmp.Diff(want, got))
			case why != "" && follows:
				t.Errorf("%s: the copy follows it, although %s", path, why)
			}
		})
		for path := range kept {
			if !used[path] {
				t.Errorf("there is a rule for %s, but no such change", path)
			}
		}
	})
}

// identity are the fields of the metadata that identify an object. They never change.
var identity = map[string]bool{"Name": true, "Namespace": true, "UID": true}

// notCopied are fields of the metadata of all kinds.
var notCopied = map[string]string{"ObjectMeta": "it describes the object in its cluster", "ObjectMeta.Labels": "", "ObjectMeta.Annotations": ""}

// ruleOf returns the longest rule for a path, and its reason.
func ruleOf(path string, kept map[string]string) (rule, why string) {
	if why, found := kept[path]; found {
		return path, why
	}
	for prefix, _, _ := strings.Cut(path, " "); prefix != ""; prefix = prefix[:max(strings.LastIndexByte(prefix, '.'), 0)] {
		for _, rules := range []map[string]string{kept, notCopied} {
			if why, found := rules[prefix]; found {
				return prefix, why
			}
		}
	}
	return "", ""
}

// fillAll sets v to a value in which every field has a value, at any depth, except within a type that contains itself.
func fillAll(v reflect.Value, within []reflect.Type) {
	switch of := v.Addr().Interface().(type) {
	case *resource.Quantity:
		*of = resource.MustParse("1")
		return
	case *metav1.Time:
		*of = metav1.Unix(100, 0)
		return
	case *metav1.MicroTime:
		*of = metav1.NewMicroTime(time.Unix(100, 0))
		return
	case *intstr.IntOrString:
		*of = intstr.FromInt32(7)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillAll(v.Elem(), within)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillAll(v.Index(0), within)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillAll(key, within)
		fillAll(value, within)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Struct:
		for _, t := range within {
			if t == v.Type() {
				return
			}
		}
		within = append(within, v.Type())
		for i := range v.NumField() {
			switch v.Type().Field(i).Name {
			case "TypeMeta", "ManagedFields": // the API server's own
			default:
				fillAll(v.Field(i), within)
			}
		}
	default:
		panic(fmt.Sprintf("a field of kind %s", v.Kind()))
	}
}

// eachChange changes each value in v: to another value, to none, and for lists and maps by one more element. It calls do after each change, with a path
// that names the value by its field, and undoes the change.
func eachChange(v reflect.Value, path string, do func(path string)) {
	try := func(path string, value any) {
		before := reflect.New(v.Type()).Elem()
		before.Set(v)
		v.Set(reflect.ValueOf(value).Convert(v.Type()))
		do(path)
		v.Set(before)
	}
	none := reflect.Zero(v.Type()).Interface()
	switch v.Interface().(type) {
	case resource.Quantity:
		try(path, resource.MustParse("2"))
		return
	case metav1.Time:
		try(path, metav1.Unix(200, 0))
		return
	case metav1.MicroTime:
		try(path, metav1.NewMicroTime(time.Unix(200, 0)))
		return
	case intstr.IntOrString:
		try(path, intstr.FromString("8"))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		try(path+" removed", none)
		eachChange(v.Elem(), path, do)
	case reflect.Slice:
		if v.Len() == 0 {
			return
		}
		try(path+" removed", none)
		try(path+" added", reflect.Append(v, v.Index(0)).Interface())
		eachChange(v.Index(0), path, do)
	case reflect.Map:
		if v.Len() == 0 {
			return
		}
		try(path+" removed", none)
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			added := reflect.New(key.Type()).Elem()
			added.SetString(key.String() + "y")
			try(path+" added", with(v, added, v.MapIndex(key)))
			value := reflect.New(v.Type().Elem()).Elem() // values of a map cannot be changed in place
			value.Set(v.MapIndex(key))
			eachChange(value, path, func(path string) { try(path, with(v, key, value)) })
		}
	case reflect.String:
		try(path, v.String()+"y")
	case reflect.Bool:
		try(path, !v.Bool())
	case reflect.Int32, reflect.Int64:
		try(path, v.Int()+1)
		try(path+" decreased", v.Int()-1)
	case reflect.Uint8:
		try(path, v.Uint()+1)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Name == "TypeMeta" || f.Name == "ManagedFields" || path == "ObjectMeta" && identity[f.Name] {
				continue
			}
			eachChange(v.Field(i), strings.TrimPrefix(path+"."+f.Name, "."), do)
		}
	}
}

// with returns a copy of a map with one more value.
func with(m, key, value reflect.Value) any {
	out := reflect.MakeMap(m.Type())
	for _, k := range m.MapKeys() {
		out.SetMapIndex(k, m.MapIndex(k))
	}
	out.SetMapIndex(key, value)
	return out.Interface()
}
