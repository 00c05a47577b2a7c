package kinds

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/fieldtest"
)

var serviceOptions = ServiceOptions{CopyOptions: CopyOptions{Origin: "rome", Destination: "milan"}}

func service(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1", Labels: map[string]string{"app": "web"}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": "web"}, ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7"},
			Ports:           []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
			SessionAffinity: corev1.ServiceAffinityNone, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

// TestEveryFieldOfAServiceHasARule walks over all fields of a ServiceSpec, those of later Kubernetes releases included.
func TestEveryFieldOfAServiceHasARule(t *testing.T) {
	const copied, dropped = "copied", "dropped"
	rules := map[string]string{
		"Type": copied, "Selector": copied, "ExternalName": copied, "AllocateLoadBalancerNodePorts": copied, "ExternalTrafficPolicy": copied,
		"InternalTrafficPolicy": copied, "IPFamilyPolicy": copied, "LoadBalancerSourceRanges": copied, "PublishNotReadyAddresses": copied,
		"SessionAffinity": copied, "SessionAffinityConfig": copied, "TrafficDistribution": copied, "LoadBalancerClass": copied,
		"Ports": "copied, without node ports",

		"ClusterIP": dropped, "ClusterIPs": dropped, "ExternalIPs": dropped, "LoadBalancerIP": dropped, "HealthCheckNodePort": dropped,
		"IPFamilies": "dropped, unless two are demanded",
	}
	for field := range reflect.TypeFor[corev1.ServiceSpec]().Fields() {
		t.Run(field.Name, func(t *testing.T) {
			rule, found := rules[field.Name]
			if !found {
				t.Fatal("a field without a rule: decide whether it travels")
			}
			in := service(func(s *corev1.Service) {
				s.Spec = corev1.ServiceSpec{}
				fieldtest.Fill(reflect.ValueOf(&s.Spec).Elem().FieldByName(field.Name))
			})
			before := in.DeepCopy()
			got, why := Service(in, "shop-rome", serviceOptions)
			if got == nil {
				t.Fatal(why)
			}
			out, value := reflect.ValueOf(got.Spec).FieldByName(field.Name).Interface(), reflect.ValueOf(in.Spec).FieldByName(field.Name).Interface()
			switch rule {
			case copied:
				if !reflect.DeepEqual(out, value) {
					t.Errorf("not copied: %s", cmp.Diff(value, out))
				}
			case "copied, without node ports":
				want := in.DeepCopy().Spec.Ports
				want[0].NodePort = 0
				if !reflect.DeepEqual(out, want) {
					t.Errorf("ports: %s", cmp.Diff(want, out))
				}
			default:
				if !reflect.ValueOf(out).IsZero() {
					t.Errorf("not dropped: %v", out)
				}
			}
			if !reflect.DeepEqual(before, in) {
				t.Error("the local service was changed")
			}
		})
		delete(rules, field.Name)
	}
	for name := range rules {
		t.Errorf("rule for %s, which no ServiceSpec has", name)
	}
}

func TestService(t *testing.T) {
	ports := func(node int32) []corev1.ServicePort {
		return []corev1.ServicePort{{Name: "http", Port: 80, NodePort: node, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}}
	}
	for name, row := range map[string]struct {
		change  func(*corev1.Service)
		options func(*ServiceOptions)
		check   func(*corev1.Service) any
		want    any
	}{
		"headless stays headless": {func(s *corev1.Service) { s.Spec.ClusterIP = "None" }, nil, func(s *corev1.Service) any { return s.Spec.ClusterIP }, "None"},
		"node ports are each cluster's own": {
			func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports = corev1.ServiceTypeNodePort, ports(30080) }, nil,
			func(s *corev1.Service) any { return s.Spec.Ports }, ports(0),
		},
		"unless they are wanted": {
			func(s *corev1.Service) {
				s.Spec.Type, s.Spec.Ports, s.Annotations = corev1.ServiceTypeNodePort, ports(30080), map[string]string{AnnotationForceNodePort: "true"}
			}, nil,
			func(s *corev1.Service) any { return s.Spec.Ports }, ports(30080),
		},
		"families that are preferred are each cluster's own": {
			func(s *corev1.Service) {
				s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = new(corev1.IPFamilyPolicyPreferDualStack), []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
			}, nil,
			func(s *corev1.Service) any {
				return fmt.Sprint(*s.Spec.IPFamilyPolicy, s.Spec.IPFamilies)
			}, "PreferDualStack[]",
		},
		"families that are demanded": {
			func(s *corev1.Service) {
				s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = new(corev1.IPFamilyPolicyRequireDualStack), []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
			}, nil,
			func(s *corev1.Service) any { return s.Spec.IPFamilies }, []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol},
		},
		"class of load balancers as it is": {
			func(s *corev1.Service) {
				s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new("a")
			}, nil,
			func(s *corev1.Service) any { return *s.Spec.LoadBalancerClass }, "a",
		},
		"class of load balancers of the provider": {
			func(s *corev1.Service) {
				s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new("a")
			},
			func(o *ServiceOptions) { o.LoadBalancerClass = "b" },
			func(s *corev1.Service) any { return *s.Spec.LoadBalancerClass }, "b",
		},
		"labels": {
			func(s *corev1.Service) { s.Labels["secret"] = "x" }, func(o *ServiceOptions) { o.LabelsNotReflected = []string{"sec*"} },
			func(s *corev1.Service) any { return s.Labels },
			map[string]string{"app": "web", api.LabelOrigin: "rome", api.LabelDestination: "milan"},
		},
		"annotations": {
			func(s *corev1.Service) {
				s.Annotations = map[string]string{"a": "1", "b": "2", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
			},
			func(o *ServiceOptions) { o.AnnotationsNotReflected = []string{"b"} },
			func(s *corev1.Service) any { return s.Annotations },
			map[string]string{"a": "1", AnnotationLabels: "app", AnnotationAnnotations: "a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := serviceOptions
			if row.options != nil {
				row.options(&o)
			}
			got, why := Service(service(row.change), "shop-rome", o)
			if got == nil {
				t.Fatal(why)
			}
			if diff := cmp.Diff(row.want, row.check(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestObjectsThatAreNotReflected(t *testing.T) {
	skip, allow := map[string]string{AnnotationSkip: ""}, map[string]string{AnnotationAllow: "no matter what"}
	for name, row := range map[string]struct {
		annotations map[string]string
		kind        offloadingv1beta1.ReflectionType
		stays       bool
	}{
		"by default":               {nil, "", false},
		"deny list":                {nil, offloadingv1beta1.DenyList, false},
		"deny list, skipped":       {skip, offloadingv1beta1.DenyList, true},
		"deny list, allowed":       {allow, offloadingv1beta1.DenyList, false},
		"allow list":               {nil, offloadingv1beta1.AllowList, true},
		"allow list, allowed":      {allow, offloadingv1beta1.AllowList, false},
		"allow list, skipped only": {skip, offloadingv1beta1.AllowList, true},
	} {
		o := serviceOptions
		o.Type = row.kind
		got, why := Service(service(func(s *corev1.Service) { s.Annotations = row.annotations }), "shop-rome", o)
		if (got == nil) != row.stays || (why != "") != row.stays {
			t.Errorf("%s: %v, %q", name, got, why)
		}
	}
	if got, _ := Service(service(func(s *corev1.Service) { s.Namespace, s.Name = "default", "kubernetes" }), "x", serviceOptions); got != nil {
		t.Error("the service of the API server was copied")
	}
}

// accepted returns a new copy with the fields that the provider's API server sets.
func accepted(s *corev1.Service) *corev1.Service {
	out := s.DeepCopy()
	out.UID = "r1"
	if out.Spec.Type == corev1.ServiceTypeExternalName {
		return out
	}
	if out.Spec.ClusterIP == "" {
		out.Spec.ClusterIP, out.Spec.ClusterIPs = "10.200.0.9", []string{"10.200.0.9"}
	} else {
		out.Spec.ClusterIPs = []string{out.Spec.ClusterIP}
	}
	out.Spec.IPFamilies, out.Spec.IPFamilyPolicy = []corev1.IPFamily{corev1.IPv4Protocol}, new(corev1.IPFamilyPolicySingleStack)
	for i := range out.Spec.Ports {
		if out.Spec.Type != corev1.ServiceTypeClusterIP && out.Spec.Ports[i].NodePort == 0 {
			out.Spec.Ports[i].NodePort = 31000 + int32(i)
		}
	}
	return out
}

func TestMergeService(t *testing.T) {
	forward := func(s *corev1.Service) *corev1.Service {
		out, why := Service(s, "shop-rome", serviceOptions)
		if out == nil {
			t.Fatal(why)
		}
		return out
	}
	balanced := func(class *string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, class }
	}
	for name, row := range map[string]struct {
		before, after func(*corev1.Service) // changes of the local Service before and after the first copy
		theirs        func(*corev1.Service) // changes that the provider made to the copy in between
		want          Change
		check         func(*corev1.Service) bool
	}{
		"nothing": {},
		"nothing, of a node port": {
			before: func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort },
			after:  func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort },
		},
		"a port": {
			after: func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 },
			want:  Update, check: func(s *corev1.Service) bool { return s.Spec.Ports[0].Port == 81 && s.Spec.ClusterIP == "10.200.0.9" },
		},
		"a label that goes": {
			after: func(s *corev1.Service) { s.Labels = nil },
			want:  Update, check: func(s *corev1.Service) bool { _, found := s.Labels["app"]; return !found },
		},
		"an annotation that goes": {
			before: func(s *corev1.Service) { s.Annotations = map[string]string{"a": "1"} },
			want:   Update, check: func(s *corev1.Service) bool { _, found := s.Annotations["a"]; return !found },
		},
		"what the provider adds stays": {
			theirs: func(s *corev1.Service) {
				s.Labels["policy"], s.Annotations["checked"] = "x", "y"
				s.Spec.ExternalIPs, s.Finalizers = []string{"203.0.113.1"}, []string{"service.kubernetes.io/load-balancer-cleanup"}
			},
		},
		"what the provider changes comes back": {
			theirs: func(s *corev1.Service) {
				s.Spec.Selector = map[string]string{"app": "other"}
				s.Labels["app"] = "other"
			},
			want: Update, check: func(s *corev1.Service) bool { return s.Spec.Selector["app"] == "web" && s.Labels["app"] == "web" },
		},
		"a class that the provider chose stays": {
			before: balanced(nil), after: balanced(nil), theirs: func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("theirs") },
		},
		"a class that goes stays": {before: balanced(new("a")), after: balanced(nil)},
		"another class":           {before: balanced(new("a")), after: balanced(new("b")), want: Replace},
		"a first class":           {before: balanced(nil), after: balanced(new("b")), want: Replace},
		"a load balancer that comes, with its class": {
			after: balanced(new("b")),
			want:  Update, check: func(s *corev1.Service) bool { return *s.Spec.LoadBalancerClass == "b" },
		},
		"a load balancer that goes, with its class": {
			before: balanced(new("a")),
			want:   Update, check: func(s *corev1.Service) bool { return s.Spec.LoadBalancerClass == nil },
		},
		"headless is from birth": {after: func(s *corev1.Service) { s.Spec.ClusterIP = "None" }, want: Replace},
		"and for life":           {before: func(s *corev1.Service) { s.Spec.ClusterIP = "None" }, want: Replace},
		"a node port to nothing": {
			before: func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort },
			want:   Update, check: func(s *corev1.Service) bool { return s.Spec.Ports[0].NodePort == 0 },
		},
		"a node port that stays": {
			before: func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort },
			after:  func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort; s.Spec.Ports[0].Name = "web" },
			want:   Update, check: func(s *corev1.Service) bool { return s.Spec.Ports[0].NodePort == 31000 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			have := accepted(forward(service(row.before)))
			if row.theirs != nil {
				row.theirs(have)
			}
			before, want := have.DeepCopy(), forward(service(row.after))
			got, change := MergeService(have, want)
			if change != row.want {
				t.Fatalf("change %d, want %d: %s", change, row.want, cmp.Diff(have, got))
			}
			if row.check != nil && !row.check(got) {
				t.Errorf("%s", cmp.Diff(have, got))
			}
			if diff := cmp.Diff(before, have); diff != "" {
				t.Errorf("what is there was changed: %s", diff)
			}
			if change == Update {
				if again, change := MergeService(got, want); change != Same {
					t.Errorf("it never settles: %s", cmp.Diff(got, again))
				}
			}
		})
	}
}

// TestServicesThatAreBoundToNodes: a Warning names the field by which clients do not reach pods of the other cluster.
func TestServicesThatAreBoundToNodes(t *testing.T) {
	local := corev1.ServiceInternalTrafficPolicyLocal
	for name, test := range map[string]struct {
		spec corev1.ServiceSpec
		want []string
	}{
		"a load balancer":         {corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: "Local"}, []string{"spec.externalTrafficPolicy Local", "cluster milan", "set it to Cluster"}},
		"a node port":             {corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ExternalTrafficPolicy: "Local"}, []string{"spec.externalTrafficPolicy Local"}},
		"clients inside":          {corev1.ServiceSpec{InternalTrafficPolicy: &local}, []string{"spec.internalTrafficPolicy Local", "set it to Cluster"}},
		"both":                    {corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ExternalTrafficPolicy: "Local", InternalTrafficPolicy: &local}, []string{"spec.externalTrafficPolicy", "spec.internalTrafficPolicy"}},
		"policy Cluster":          {corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: "Cluster"}, nil},
		"no clients from outside": {corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}, nil},
	} {
		err := ServiceProblem(&corev1.Service{Spec: test.spec}, ServiceOptions{CopyOptions: CopyOptions{Destination: "milan"}})
		if (err != nil) != (test.want != nil) {
			t.Errorf("%s: %v", name, err)
		}
		for _, part := range test.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", name, err, part)
			}
		}
	}
}
