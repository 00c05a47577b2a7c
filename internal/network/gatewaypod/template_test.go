package gatewaypod

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

func templateData() TemplateData {
	return TemplateData{
		Name: "milan", Namespace: "liqo-tenant-milan", GatewayUID: "u-1", ClusterID: "milan", SecretName: "gw-milan",
		Spec: map[string]any{"mtu": int64(1340), "endpoint": map[string]any{"port": int64(51840)}},
	}
}

func render(t *testing.T, text string) (*Rendered, error) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return Render(raw, templateData())
}

func TestRender(t *testing.T) {
	r, err := render(t, `
objectKind: {kind: ignored}
spec:
  metrics: {enabled: "{{ .Nothing }} of metrics is looked at"}
  service:
    metadata: {name: "{{ .Name }}", labels: {for: "{{ .ClusterID }}"}}
    spec:
      allocateLoadBalancerNodePorts: '{{ eq .Name "milan" }}'
      loadBalancerIP: "{{ .Spec.endpoint.loadBalancerIP }}"
      ports:
        - {protocol: UDP, port: "{{ .Spec.endpoint.port }}", targetPort: "{{ .Spec.endpoint.port }}", nodePort: "{{ .Spec.endpoint.nodePort }}"}
        - {name: other, port: 1, targetPort: "{{ .Name }}"}
  deployment:
    metadata: {namespace: "{{ .Namespace }}", annotations: {uid: "{{ .GatewayUID }}"}}
    spec:
      replicas: "{{ if .Spec.mtu }}2{{ end }}"
      template:
        spec:
          containers:
            - name: gateway
              args: ["--mtu={{ .Spec.mtu }}", "{{ with .Spec.secretRef }}--secret={{ . }}{{ end }}", "--name={{ .Name }}", "--plain"]
              securityContext: {runAsUser: "{{ len .Name }}", privileged: "true{{/* text that is one */}}"}
              resources: {limits: {memory: "{{ .Spec.mtu }}Mi"}}
              env: [{name: SECRET, value: "{{ .SecretName }}"}, {name: NUMBER, value: "{{ .Spec.mtu }}"}]
`)
	if err != nil {
		t.Fatal(err)
	}
	yes, user, replicas := true, int64(5), int32(2)
	if diff := cmp.Diff(map[string]string{"for": "milan"}, r.Service.Metadata.Labels); diff != "" {
		t.Error(diff)
	}
	want := corev1.ServiceSpec{
		AllocateLoadBalancerNodePorts: &yes,
		Ports: []corev1.ServicePort{
			{Protocol: corev1.ProtocolUDP, Port: 51840, TargetPort: intstr.FromInt32(51840)},
			{Name: "other", Port: 1, TargetPort: intstr.FromString("milan")},
		},
	}
	if diff := cmp.Diff(want, r.Service.Spec); diff != "" {
		t.Errorf("Service (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"uid": "u-1"}, r.Deployment.Metadata.Annotations); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&replicas, r.Deployment.Spec.Replicas); diff != "" {
		t.Error(diff)
	}
	c := r.Deployment.Spec.Template.Spec.Containers[0]
	if diff := cmp.Diff([]string{"--mtu=1340", "--name=milan", "--plain"}, c.Args); diff != "" {
		t.Errorf("an argument that comes out empty is left out (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(corev1.SecurityContext{RunAsUser: &user, Privileged: &yes}, *c.SecurityContext); diff != "" {
		t.Error(diff)
	}
	if got := c.Resources.Limits.Memory().String(); got != "1340Mi" {
		t.Errorf("memory %s", got)
	}
	if diff := cmp.Diff([]corev1.EnvVar{{Name: "SECRET", Value: "gw-milan"}, {Name: "NUMBER", Value: "1340"}}, c.Env); diff != "" {
		t.Errorf("what looks like a number stays text where text belongs (-want +got):\n%s", diff)
	}
}

func TestInvalidTemplates(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                   "spec.deployment is missing",
		`{spec: {deployment: {spec: "x{{ "}}}`: "parsing spec.template.spec.deployment.spec",
		`{spec: {deployment: {spec: {replicas: "{{ .Name }}"}}}}`:                                        `replicas renders to "milan": want a number`,
		`{spec: {deployment: {spec: {paused: "{{ .Name }}"}}}}`:                                          `paused renders to "milan": want true or false`,
		`{spec: {deployment: {spec: {template: {spec: {containers: [{args: ["{{ .Nothing }}"]}]}}}}}}`:   "containers[0].args[0]",
		`{spec: {deployment: {spec: {replcas: 1}}}}`:                                                     `unknown field`,
		`{spec: {deployment: {spec: {}}, service: {spec: {ports: [{port: "{{ .Spec.mtu }}0000000"}]}}}}`: "want a number",
	} {
		if _, err := render(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", text, err, want)
		}
	}
	if _, err := Render(nil, templateData()); err == nil {
		t.Error("a template that is not there was rendered")
	}
}

// FuzzRender: no template causes a panic, and the result can be encoded as JSON.
func FuzzRender(f *testing.F) {
	f.Add(`{"spec":{"deployment":{"spec":{"replicas":"{{ .Spec.mtu }}"}}}}`)
	f.Add(`{"spec":{"deployment":[],"service":{"metadata":{"labels":"{{ .Name }}"}}}}`)
	f.Add(`{"spec":{"deployment":{"metadata":"{{ .Spec.endpoint.port }}","spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":"{{ .Name }}"}}}]}}}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "range") || strings.Contains(text, "template") && strings.Contains(text, "define") || strings.Contains(text, "printf") {
			return // skip templates that could loop forever: administrators are responsible for their templates
		}
		r, err := Render([]byte(text), templateData())
		if err != nil {
			return
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}
