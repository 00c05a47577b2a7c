package gatewaypod

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

func testOwner() *Owner {
	return &Owner{Namespace: "liqo-tenant-milan", Name: "milan", UID: "u-1", ClusterID: "milan", Labels: map[string]string{api.LabelManaged: "true"}}
}

func TestGatewayDeployment(t *testing.T) {
	r, err := render(t, `
spec:
  deployment:
    metadata: {labels: {mine: "1", networking.liqo.io/component: other}}
    spec:
      replicas: 2
      selector: {matchLabels: {mine: "1"}}
      template:
        metadata: {labels: {mine: "1"}}
        spec: {serviceAccountName: somebody, containers: [{name: gateway, image: x}]}
`)
	if err != nil {
		t.Fatal(err)
	}
	o := testOwner()
	d := o.Deployment(r)
	if d.Name != "gw-milan" || d.Spec.Template.Spec.ServiceAccountName != "gw-milan" || *d.Spec.Replicas != 2 {
		t.Errorf("Deployment %s as %s, %d replicas", d.Name, d.Spec.Template.Spec.ServiceAccountName, *d.Spec.Replicas)
	}
	if diff := cmp.Diff(o.Selector(), d.Spec.Selector.MatchLabels); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
	for _, labels := range []map[string]string{d.Labels, d.Spec.Template.Labels} {
		if labels["mine"] != "1" || labels[networkingv1beta1.LabelComponent] != networkingv1beta1.ComponentGateway || labels[api.LabelManaged] != "true" {
			t.Errorf("labels %v", labels)
		}
	}
}

func TestUpdatesSettle(t *testing.T) {
	r, err := render(t, `{spec: {deployment: {spec: {replicas: 1, template: {spec: {nodeSelector: {a: b}, containers: [
  {name: g, image: "x:1", resources: {requests: {cpu: 1000m}}, securityContext: {allowPrivilegeEscalation: false}, readinessProbe: {httpGet: {path: /, port: 1}, periodSeconds: 2}}
]}}}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := testOwner().Deployment(r)
	have := &appsv1.Deployment{}
	UpdateDeployment(have, want)
	// Defaults of the API server and additions of others stay.
	have.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	have.Spec.Template.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
	have.Spec.Template.Spec.Containers[0].ReadinessProbe.TimeoutSeconds = 1
	have.Spec.Template.Spec.Containers[0].ReadinessProbe.HTTPGet.Scheme = corev1.URISchemeHTTP
	have.Labels["theirs"] = "1"
	settled := have.DeepCopy()
	UpdateDeployment(have, want)
	if diff := cmp.Diff(settled, have); diff != "" {
		t.Errorf("a second pass changed something:\n%s", diff)
	}
	yes := true
	for what, change := range map[string]func(*corev1.PodSpec){
		"an image":             func(s *corev1.PodSpec) { s.Containers[0].Image = "y:1" },
		"a container":          func(s *corev1.PodSpec) { s.Containers = append(s.Containers, corev1.Container{Name: "more"}) },
		"a right":              func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.AllowPrivilegeEscalation = &yes },
		"something taken away": func(s *corev1.PodSpec) { s.Containers[0].SecurityContext = nil },
		"a number":             func(s *corev1.PodSpec) { s.Containers[0].ReadinessProbe.PeriodSeconds = 3 },
	} {
		change(&have.Spec.Template.Spec)
		UpdateDeployment(have, want)
		if diff := cmp.Diff(want.Spec.Template.Spec, have.Spec.Template.Spec); diff != "" {
			t.Errorf("changed by hand, %s stays (-want +got):\n%s", what, diff)
		}
	}
	// The annotation of kubectl rollout restart is not ours. Removing it would restart the pods again.
	have.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
	more := want.DeepCopy()
	two := int32(2)
	more.Spec.Replicas = &two
	for _, wanted := range []*appsv1.Deployment{want, more} {
		if UpdateDeployment(have, wanted); have.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] != "now" || *have.Spec.Replicas != *wanted.Spec.Replicas {
			t.Errorf("%d replicas, annotations %v", *have.Spec.Replicas, have.Spec.Template.Annotations)
		}
	}
	// Values that were removed from the template are removed from the object.
	less := want.DeepCopy()
	less.Spec.Template.Spec.NodeSelector = nil
	UpdateDeployment(have, less)
	if have.Spec.Template.Spec.NodeSelector != nil {
		t.Error("what the template took back stays")
	}
}

func TestGatewayService(t *testing.T) {
	empty, err := render(t, `{spec: {deployment: {spec: {}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	spec := &networkingv1beta1.GatewayServerSpec{
		Endpoint:      networkingv1beta1.ServerEndpoint{Port: 4500, NodePort: 30500, ServiceType: corev1.ServiceTypeNodePort, LoadBalancerIP: "192.0.2.9"},
		ServiceLabels: map[string]string{"l": "1"}, ServiceAnnotations: map[string]string{"a": "1"},
	}
	s := testOwner().Service(spec, empty)
	if p := s.Spec.Ports[0]; s.Name != "gw-milan" || s.Spec.Type != corev1.ServiceTypeNodePort || s.Spec.LoadBalancerIP != "" || p.Port != 4500 ||
		p.NodePort != 30500 || p.TargetPort.IntVal != 51840 || p.Protocol != corev1.ProtocolUDP || s.Labels["l"] != "1" || s.Annotations["a"] != "1" {
		t.Errorf("Service %+v", s)
	}
	spec.Endpoint.ServiceType = corev1.ServiceTypeLoadBalancer
	if s = testOwner().Service(spec, empty); s.Spec.LoadBalancerIP != "192.0.2.9" {
		t.Errorf("Service %+v", s.Spec)
	}
	// Addresses and ports that were given stay when something else changes.
	spec.Endpoint.NodePort = 0
	have := &corev1.Service{}
	UpdateService(have, testOwner().Service(spec, empty))
	have.Spec.ClusterIP, have.Spec.ClusterIPs, have.Spec.Ports[0].NodePort = "10.96.0.7", []string{"10.96.0.7"}, 31000
	settled := have.DeepCopy()
	UpdateService(have, testOwner().Service(spec, empty))
	if diff := cmp.Diff(settled, have); diff != "" {
		t.Errorf("a second pass changed something:\n%s", diff)
	}
	spec.Endpoint.Port = 51841
	UpdateService(have, testOwner().Service(spec, empty))
	if p := have.Spec.Ports[0]; have.Spec.ClusterIP != "10.96.0.7" || p.NodePort != 31000 || p.Port != 51841 {
		t.Errorf("Service %+v", have.Spec)
	}
}

// TestServiceUpdates: a setting removed from the GatewayServer is removed from the Service. Settings of others stay.
func TestServiceUpdates(t *testing.T) {
	empty, err := render(t, `{spec: {deployment: {spec: {}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	spec := &networkingv1beta1.GatewayServerSpec{
		Endpoint:           networkingv1beta1.ServerEndpoint{Port: 4500, ServiceType: corev1.ServiceTypeLoadBalancer},
		ServiceAnnotations: map[string]string{"pool": "a", "internal": "true"}, ServiceLabels: map[string]string{"tier": "edge"},
	}
	have := &corev1.Service{}
	update := func(change func()) {
		change()
		UpdateService(have, testOwner().Service(spec, empty))
	}
	update(func() {})
	class, dual := "example.org/default", corev1.IPFamilyPolicyPreferDualStack
	have.Spec.LoadBalancerClass = &class // as a load balancer controller does
	have.Annotations["theirs"], have.Labels["theirs"] = "1", "1"
	update(func() {
		spec.Endpoint.Port, spec.ServiceAnnotations, spec.ServiceLabels = 4501, map[string]string{"pool": "b"}, nil
	})
	_, gone := have.Annotations["internal"]
	_, goneToo := have.Labels["tier"]
	if have.Annotations["pool"] != "b" || have.Annotations["theirs"] != "1" || have.Labels["theirs"] != "1" || gone || goneToo {
		t.Errorf("annotations %v, labels %v", have.Annotations, have.Labels)
	}
	if have.Spec.LoadBalancerClass == nil || *have.Spec.LoadBalancerClass != class || have.Spec.Ports[0].Port != 4501 {
		t.Errorf("an immutable class was taken away: %+v", have.Spec)
	}
	empty.Service.Spec.IPFamilyPolicy = &dual
	if update(func() {}); have.Spec.IPFamilyPolicy == nil || *have.Spec.IPFamilyPolicy != dual {
		t.Error("the families that the template asks for are not asked for")
	}
	settled := have.DeepCopy()
	update(func() {})
	if diff := cmp.Diff(settled, have); diff != "" {
		t.Errorf("a second pass changed something:\n%s", diff)
	}
	if update(func() { spec.Endpoint.ServiceType = corev1.ServiceTypeNodePort }); have.Spec.LoadBalancerClass != nil {
		t.Error("a Service without load balancer has the class of one")
	}
}

func TestNamesOfGateways(t *testing.T) {
	o := testOwner()
	if err := o.Check(); err != nil {
		t.Error(err)
	}
	o.Name = strings.Repeat("a", 61)
	if err := o.Check(); err == nil || !strings.Contains(err.Error(), "63 characters") {
		t.Errorf("error %v", err)
	}
	o = testOwner()
	o.ClusterID = ""
	if err := o.Check(); err == nil || !strings.Contains(err.Error(), api.LabelRemoteClusterID) {
		t.Errorf("error %v", err)
	}
}
