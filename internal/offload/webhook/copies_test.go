package webhook

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/apitest"
)

// TestCopiesPolicyOnAPIServer tries, with the groups and permissions of a consumer, what the consumer may do with objects other than pods.
func TestCopiesPolicyOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	public := values()
	public["offloading"] = map[string]any{"servicePolicy": map[string]any{"externalNames": []any{"*"}}}
	for _, object := range chart(t, public, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRole") {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	namespace(t, admin, "shop-rome", map[string]string{api.LabelRemoteClusterID: "rome"})
	namespace(t, admin, "shop-turin", map[string]string{api.LabelRemoteClusterID: "turin"})
	namespace(t, admin, "local", nil)
	for consumer, in := range map[string]string{"rome": "shop-rome", "turin": "shop-turin"} {
		ref, subjects := offload.RemoteNamespaceRights(consumer)
		if err := admin.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "twin"}, RoleRef: ref, Subjects: subjects}); err != nil {
			t.Fatal(err)
		}
	}
	consumer := rest.CopyConfig(config)
	consumer.Impersonate = rest.ImpersonationConfig{UserName: "pool-0a1b2c3d4e5f", Groups: []string{"rome", "system:authenticated"}}
	rome := apitest.Client(t, consumer)

	made := 0
	name := func() string { made++; return fmt.Sprintf("web-%d", made) }
	ours := func() map[string]string {
		return map[string]string{api.LabelOrigin: "rome", api.LabelDestination: "milan"}
	}
	service := func(change func(*corev1.Service)) client.Object {
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: name(), Labels: ours()},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": "web"}},
		}
		if change != nil {
			change(s)
		}
		return s
	}
	external := func(name string) client.Object {
		return service(func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: name}
		})
	}
	slice := func(change func(*offloadingv1beta1.ShadowEndpointSlice)) client.Object {
		s := &offloadingv1beta1.ShadowEndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: name(), Labels: ours()},
			Spec: offloadingv1beta1.ShadowEndpointSliceSpec{Template: offloadingv1beta1.EndpointSliceTemplate{
				AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.5"}}},
			}},
		}
		if change != nil {
			change(s)
		}
		return s
	}
	ingress := func(host string) client.Object {
		backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}}
		return &networkingv1.Ingress{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: name(), Labels: ours()},
			Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: backend}}},
			}}}},
		}
	}
	apitest.InForce(t, admin)
	for what, row := range map[string]struct {
		obj  client.Object
		says string
	}{
		"a service":                      {service(nil), ""},
		"a service of type LoadBalancer": {service(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }), ""},
		"a slice":                        {slice(nil), ""},
		"a finalizer of a slice": {slice(func(s *offloadingv1beta1.ShadowEndpointSlice) {
			s.Labels["kubernetes.io/service-name"], s.Finalizers = "web", []string{"example.org/mine"}
		}), "metadata.finalizers are refused"},
		"a slice with labels": {slice(func(s *offloadingv1beta1.ShadowEndpointSlice) {
			s.Labels["kubernetes.io/service-name"], s.Finalizers = "web", []string{"foregroundDeletion"}
		}), ""},
		"a port of every node": {service(func(s *corev1.Service) {
			s.Spec.Type, s.Spec.Ports = corev1.ServiceTypeLoadBalancer, []corev1.ServicePort{{Name: "web", Port: 80}, {Name: "shell", Port: 22}}
		}), "port 22 of a Service of type LoadBalancer is refused by the provider (chart value offloading.servicePolicy.refusedLoadBalancerPorts)"},
		"such a port in the cluster":    {service(func(s *corev1.Service) { s.Spec.Ports[0].Port = 6443 }), ""},
		"no address":                    {service(func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }), ""},
		"a chosen address":              {service(func(s *corev1.Service) { s.Spec.ClusterIP = "10.0.0.10" }), "spec.clusterIPs 10.0.0.10 is refused by the provider"},
		"external IPs":                  {service(func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} }), "externalIPs are refused"},
		"an address of a load balancer": {service(func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.1" }), "loadBalancerIP is refused"},
		"an address by annotation": {service(func(s *corev1.Service) {
			s.Annotations = map[string]string{"a": "b", "metallb.io/loadBalancerIPs": "192.0.2.1"}
		}), "annotation metallb.io/loadBalancerIPs is refused"},
		"an annotation that nobody here knows": {service(func(s *corev1.Service) {
			s.Annotations = map[string]string{"controller.example/of-tomorrow": "x"}
		}), "annotation controller.example/of-tomorrow is refused by the provider (chart value offloading.acceptedMetadata.annotations.services)"},
		"a host, which webhook ingress.validate.liqo.io checks": {ingress("shop.example"), ""},
		"all hosts": {ingress(""), ""},
		"a label that nobody here knows": {service(func(s *corev1.Service) { s.Labels["argocd.argoproj.io/instance"] = "x" }),
			"label argocd.argoproj.io/instance is refused by the provider (chart value offloading.acceptedMetadata.labels)"},
		"labels that users have": {service(func(s *corev1.Service) {
			s.Labels["app.kubernetes.io/name"], s.Labels["helm.sh/chart"], s.Labels["team"] = "x", "y", "z"
		}), ""},

		"a name":                       {external("db.example.org."), ""},
		"a name of the search path":    {external("vault.vault"), "spec.externalName vault.vault does not end with a dot"},
		"a pod of the search path":     {external("vault-0.vault.vault"), "does not end with a dot"},
		"a name with svc in it":        {external("svc.example.org."), ""},
		"its own Service":              {external("store.shop-rome.svc.cluster.local"), ""},
		"its own Service, another way": {external("store.shop-rome.svc"), ""},
		"its own Service, host":        {external("db-0.store.shop-rome.svc.milan.example"), ""},
		"another consumer's Service":   {external("store.shop-turin.svc.cluster.local"), "in a namespace that does not belong to cluster rome"},
		"a Service of the provider":    {external("vault.local.svc"), "in a namespace that does not belong to cluster rome"},
		"the API server":               {external("kubernetes.default.svc.milan.example"), "in a namespace that does not belong to cluster rome"},
		"a namespace that is hidden":   {external("x.shop-rome.svc.local.svc.cluster.local"), "is the name of an address"},
		"a pod by its address":         {external("10-0-0-1.shop-rome.pod.milan.example"), "is the name of an address"},
		"an address by name":           {external("169.254.169.254"), "is an address"},
		"an address in short":          {external("127.1"), "is an address"},
		"an address as a number":       {external("0x7f000001"), "is an address"},
		"a metadata service":           {external("metadata.google.internal"), "is private to the provider or its network"},
		"a metadata service, short":    {external("metadata"), "is private to the provider or its network"},
		"the node":                     {external("localhost"), "is private to the provider or its network"},
		"a printer":                    {external("printer.office.local"), "is private to the provider or its network"},
		"a name by annotation": {service(func(s *corev1.Service) {
			s.Annotations = map[string]string{"external-dns.alpha.kubernetes.io/hostname": "bank.example"}
		}), "external-dns.alpha.kubernetes.io/hostname is refused"},
		"a cloud's load balancer": {service(func(s *corev1.Service) {
			s.Annotations = map[string]string{"service.kubernetes.io/loadbalancer-id": "lb-1"}
		}), "loadbalancer-id is refused"},
		"harmless annotations": {service(func(s *corev1.Service) {
			s.Annotations = map[string]string{"service.kubernetes.io/topology-mode": "Auto", "offloading.liqo.io/labels": "app"}
		}), ""},
		"a node port by number":              {service(func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30017 }), ""},
		"another's origin":                   {service(func(s *corev1.Service) { s.Labels[api.LabelOrigin] = "turin" }), "is 'turin', but the namespace belongs to cluster 'rome'"},
		"no origin":                          {slice(func(s *offloadingv1beta1.ShadowEndpointSlice) { s.Labels = nil }), "belongs to cluster 'rome'"},
		"a finalizer":                        {slice(func(s *offloadingv1beta1.ShadowEndpointSlice) { s.Finalizers = []string{"example.org/never"} }), "finalizers are refused"},
		"a finalizer on a service":           {service(func(s *corev1.Service) { s.Finalizers = []string{"example.org/never"} }), "finalizers are refused"},
		"in another consumer's namespace":    {service(func(s *corev1.Service) { s.Namespace = "shop-turin" }), "cannot create resource"},
		"in a namespace of the provider":     {slice(func(s *offloadingv1beta1.ShadowEndpointSlice) { s.Namespace = "local" }), "cannot create resource"},
		"endpoints without the provider":     {&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "x"}, AddressType: discoveryv1.AddressTypeIPv4}, "cannot create resource"},
		"endpoints without it, the old kind": {&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "x"}}, "cannot create resource"}, //nolint:staticcheck // an API server still takes it
	} {
		err := rome.Create(t.Context(), row.obj)
		if (row.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", what, err, row.says)
		}
	}

	// The group of all control planes does not count as the origin of an object, whatever the user is called.
	both := rest.CopyConfig(config)
	both.Impersonate = rest.ImpersonationConfig{UserName: "rome", Groups: []string{"rome", peering.OrganizationControlPlane, "system:authenticated"}}
	err := apitest.Client(t, both).Create(t.Context(), service(func(s *corev1.Service) { s.Labels[api.LabelOrigin] = peering.OrganizationControlPlane }))
	if err == nil || !strings.Contains(err.Error(), "is 'liqo.io', but the namespace belongs to cluster 'rome'") {
		t.Errorf("the group of control planes as origin: %v", err)
	}

	t.Run("updates", func(t *testing.T) {
		mine := service(nil)
		theirs := service(func(s *corev1.Service) { s.Labels = map[string]string{"app": "theirs"} })
		for c, obj := range map[client.Client]client.Object{rome: mine, admin: theirs} {
			if err := c.Create(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
		patch := func(obj client.Object, change func(*corev1.Service)) error {
			changed := obj.DeepCopyObject().(*corev1.Service)
			change(changed)
			return rome.Patch(t.Context(), changed, client.MergeFrom(obj))
		}
		for what, row := range map[string]struct {
			obj    client.Object
			change func(*corev1.Service)
			says   string
		}{
			"a label": {mine, func(s *corev1.Service) { s.Labels["a"] = "b" }, ""},
			"a port of every node": {mine, func(s *corev1.Service) {
				s.Spec.Type, s.Spec.Ports[0].Port = corev1.ServiceTypeLoadBalancer, 10250
			}, "port 10250 of a Service of type LoadBalancer is refused"},
			"external IPs": {mine, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} }, "externalIPs are refused"},
			"an address":   {mine, func(s *corev1.Service) { s.Annotations = map[string]string{"metallb.io/loadBalancerIPs": "192.0.2.1"} }, "metallb.io/loadBalancerIPs is refused"},
			"a name of others": {mine, func(s *corev1.Service) {
				s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "vault.local.svc.cluster.local"}
			}, "does not belong to cluster rome"},
			"a finalizer":       {mine, func(s *corev1.Service) { s.Finalizers = []string{"example.org/never"} }, "finalizers are refused"},
			"the origin":        {mine, func(s *corev1.Service) { delete(s.Labels, api.LabelOrigin) }, "belongs to cluster 'rome'"},
			"what is not its":   {theirs, func(s *corev1.Service) { s.Spec.Selector = nil }, ""},
			"what is not its 2": {theirs, func(s *corev1.Service) { s.Labels[api.LabelOrigin] = "rome" }, "was not made by cluster rome"},
		} {
			err := patch(row.obj, row.change)
			if row.obj == theirs && err == nil {
				t.Errorf("%s: it was changed", what)
			}
			if row.obj == mine && (row.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), row.says) {
				t.Errorf("%s: %v, want %q", what, err, row.says)
			}
		}
		if err := rome.Delete(t.Context(), theirs); err == nil || !strings.Contains(err.Error(), "was not made by cluster rome") {
			t.Errorf("deleting what is not its: %v", err)
		}
		if err := rome.Status().Patch(t.Context(), mine.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json",
			[]byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`))); err == nil || !strings.Contains(err.Error(), "cannot patch resource") {
			t.Errorf("the status: %v", err)
		}
		kept := slice(nil)
		if err := rome.Create(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
		if err := rome.Delete(t.Context(), kept, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err == nil || !strings.Contains(err.Error(), "together with it") {
			t.Errorf("orphaned: %v", err)
		}
		if err := rome.Delete(t.Context(), kept, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			t.Errorf("deleted in the foreground: %v", err)
		}
		if err := rome.Delete(t.Context(), mine); err != nil {
			t.Errorf("deleting its own: %v", err)
		}
		// A Service of type ExternalName has no address until its type changes.
		named := external("db.example.org.")
		if err := rome.Create(t.Context(), named); err != nil {
			t.Fatal(err)
		}
		addressed := func(address string) func(*corev1.Service) {
			return func(s *corev1.Service) {
				s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: address, Ports: []corev1.ServicePort{{Port: 80}}}
			}
		}
		if err := patch(named, addressed("10.0.0.10")); err == nil || !strings.Contains(err.Error(), "spec.clusterIPs 10.0.0.10 is refused") {
			t.Errorf("a chosen address for a name: %v", err)
		}
		unrecorded := named.DeepCopyObject().(*corev1.Service)
		addressed("10.0.0.10")(unrecorded)
		unrecorded.ManagedFields = []metav1.ManagedFieldsEntry{{}}
		if err := rome.Update(t.Context(), unrecorded); err == nil || !strings.Contains(err.Error(), "spec.clusterIPs 10.0.0.10 is refused") {
			t.Errorf("a chosen address without a record: %v", err)
		}
		if err := patch(named, addressed("")); err != nil {
			t.Errorf("an assigned address for a name: %v", err)
		}
		// A load balancer's finalizer, and what an administrator of the provider added, do not stand in the consumer's way.
		balanced := service(nil).(*corev1.Service)
		if err := rome.Create(t.Context(), balanced); err != nil {
			t.Fatal(err)
		}
		before := balanced.DeepCopy()
		balanced.Annotations = map[string]string{"metallb.io/ip-allocated-from-pool": "public"}
		balanced.Finalizers, balanced.Spec.ExternalIPs = []string{"service.kubernetes.io/load-balancer-cleanup"}, []string{"203.0.113.1"}
		if err := admin.Patch(t.Context(), balanced, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		if err := patch(balanced, func(s *corev1.Service) { s.Labels["a"] = "b" }); err != nil {
			t.Errorf("a label of one with a finalizer and external IPs of the provider's: %v", err)
		}
	})
	// An annotation that this cluster refuses as a provider is not sent to other providers either: their policies are probably the same, and would refuse the
	// whole Service.
	skipped, _, err := unstructured.NestedStringSlice(chart(t, values(), "VkOptionsTemplate")[0].Object, "spec", "annotationsNotReflected")
	if err != nil || !slices.Contains(skipped, "cloud.google.com/neg") {
		t.Errorf("annotations that stay here: %v, %v", skipped, err)
	}
	// An administrator may refuse more, and existing objects stay as they are.
	enforce := func(t *testing.T, policy map[string]any) {
		t.Helper()
		strict := values()
		strict["offloading"] = map[string]any{"servicePolicy": policy}
		for _, object := range chart(t, strict, "ValidatingAdmissionPolicy") {
			if object.GetName() != "liqo-copies-service" {
				continue
			}
			now := object.DeepCopy()
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), now); err != nil {
				t.Fatal(err)
			}
			object.SetResourceVersion(now.GetResourceVersion())
			if err := admin.Update(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("refused by type", func(t *testing.T) {
		before := map[string]client.Object{
			"LoadBalancer": service(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }),
			"NodePort":     service(func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30018 }),
		}
		for kind, obj := range before {
			if err := rome.Create(t.Context(), obj); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
		}
		enforce(t, map[string]any{"refuse": []any{"LoadBalancer", "NodePort", "nodePorts"}, "externalNames": []any{"db.example.org", "*.example.net"}})
		refused := map[string]func(*corev1.Service){
			"Services of type LoadBalancer are refused": func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer },
			"Services of type NodePort are refused":     func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort },
		}
		for says, change := range refused {
			apitest.Eventually(t, within, says, func() error {
				obj := service(change)
				err := rome.Create(t.Context(), obj)
				if err == nil {
					return errors.Join(errors.New("not yet"), admin.Delete(t.Context(), obj))
				}
				if !strings.Contains(err.Error(), says) {
					return err
				}
				return nil
			})
		}
		for target, says := range map[string]string{
			"db.example.org.": "", "a.example.net.": "", "store.shop-rome.svc.cluster.local": "", "store.shop-rome.svc": "",
			"example.net.": "is refused by the provider, whose chart value offloading.servicePolicy.externalNames does not list it", "x.shop-rome.svc.evil.example.": "servicePolicy.externalNames",
			// Its owner may let it lead to any address.
			"169-254-169-254.nip.io.": "servicePolicy.externalNames",
		} {
			err := rome.Create(t.Context(), external(target))
			if (says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", target, err, says)
			}
		}
		for kind, obj := range before {
			changed := obj.DeepCopyObject().(*corev1.Service)
			changed.Labels["a"] = "b"
			if err := rome.Patch(t.Context(), changed, client.MergeFrom(obj)); err != nil {
				t.Errorf("a label of the %s of before: %v", kind, err)
			}
			chosen := changed.DeepCopy()
			chosen.Spec.Ports[0].NodePort = 30000
			if err := rome.Patch(t.Context(), chosen, client.MergeFrom(changed)); err == nil || !strings.Contains(err.Error(), "node ports chosen by number are refused") {
				t.Errorf("a chosen node port of the %s of before: %v", kind, err)
			}
		}
	})
	// A consumer can't choose the ports that the API server assigns.
	t.Run("refused by number", func(t *testing.T) {
		balancer := func(change func(*corev1.ServiceSpec)) client.Object {
			return service(func(s *corev1.Service) {
				s.Spec.Type, s.Spec.Ports[0].Port = corev1.ServiceTypeLoadBalancer, 8080
				s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
				change(&s.Spec)
			})
		}
		before := balancer(func(s *corev1.ServiceSpec) { s.Ports[0].Port, s.HealthCheckNodePort = 80, 30001 })
		if err := admin.Create(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		enforce(t, map[string]any{"refuse": []any{"nodePorts"}, "refusedLoadBalancerPorts": []any{80}})
		assigned := service(func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].Name = corev1.ServiceTypeNodePort, "web" }).(*corev1.Service)
		apitest.Eventually(t, within, "node ports to be assigned", func() error { return rome.Create(t.Context(), assigned) })
		for what, row := range map[string]struct {
			obj  client.Object
			says string
		}{
			"a node port": {service(func(s *corev1.Service) {
				s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30002
			}), "node ports chosen by number are refused"},
			"assigned ports": {balancer(func(*corev1.ServiceSpec) {}), ""},
			"a port of health": {balancer(func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = 30003 }),
				"spec.healthCheckNodePort 30003 chosen by number is refused"},
			"a refused port":        {balancer(func(s *corev1.ServiceSpec) { s.Ports[0].Port = 80 }), "port 80 of a Service of type LoadBalancer is refused"},
			"one refused otherwise": {balancer(func(s *corev1.ServiceSpec) { s.Ports[0].Port = 22 }), ""},
		} {
			err := rome.Create(t.Context(), row.obj)
			if (row.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), row.says) {
				t.Errorf("%s: %v, want %q", what, err, row.says)
			}
		}
		labelled := before.DeepCopyObject().(*corev1.Service)
		labelled.Labels["a"] = "b"
		if err := rome.Patch(t.Context(), labelled, client.MergeFrom(before)); err != nil {
			t.Errorf("a label of the one of before: %v", err)
		}
		for port, says := range map[int32]string{30004: "node ports chosen by number are refused", 0: ""} {
			more := assigned.DeepCopy()
			more.Spec.Ports = append(more.Spec.Ports, corev1.ServicePort{Name: "more", Port: 81, NodePort: port})
			err := rome.Patch(t.Context(), more, client.MergeFrom(assigned))
			if (says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("another port with node port %d: %v, want %q", port, err, says)
			}
		}
	})
}
