package api_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/apitest"
)

// TestManagedFieldsOfShadowPodsOnAPIServer: metadata.managedFields of a ShadowPod does not name each field of the pod. Only server-side
// apply needs these names, and no client applies ShadowPods. They would be computed, stored and sent with each ShadowPod. ShadowPods of an earlier definition work as before.
func TestManagedFieldsOfShadowPodsOnAPIServer(t *testing.T) {
	c := apitest.Client(t, apitest.APIServer(t))
	key := client.ObjectKey{Name: "shadowpods.offloading.liqo.io"}
	define := func(change func(field *apiextensionsv1.JSONSchemaProps)) {
		t.Helper()
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(t.Context(), key, crd); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"spec", "status"} {
			parent := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[part]
			field := parent.Properties["pod"]
			change(&field)
			parent.Properties["pod"] = field
		}
		if err := c.Update(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
	}
	named := func(sp *offloadingv1beta1.ShadowPod) bool {
		return strings.Contains(fieldsOf(sp), "f:containers")
	}
	created := func(name string, granular bool) *offloadingv1beta1.ShadowPod {
		t.Helper()
		var sp *offloadingv1beta1.ShadowPod
		apitest.Eventually(t, 20*time.Second, "the definition to apply", func() error {
			sp = shadow(name)
			if err := c.Create(t.Context(), sp, client.DryRunAll); err != nil {
				return err
			}
			if named(sp) != granular {
				return errors.New("metadata.managedFields: " + fieldsOf(sp))
			}
			return nil
		})
		sp = shadow(name)
		if err := c.Create(t.Context(), sp); err != nil {
			t.Fatal(err)
		}
		t.Logf("ShadowPod %s: %d bytes, without managedFields %d", name, size(t, sp, true), size(t, sp, false))
		return sp
	}
	now := created("now", false)
	define(func(field *apiextensionsv1.JSONSchemaProps) { field.XMapType = nil })
	before := created("before", true)
	define(func(field *apiextensionsv1.JSONSchemaProps) { field.XMapType = new("atomic") })
	created("after", false)

	for _, sp := range []*offloadingv1beta1.ShadowPod{now, before} {
		old := sp.DeepCopy()
		sp.Spec.Pod.Containers[0].Image = "web:2"
		if err := c.Patch(t.Context(), sp, client.MergeFrom(old), client.FieldOwner("patch")); err != nil {
			t.Fatalf("ShadowPod %s: %v", sp.Name, err)
		}
		sp.Spec.Pod.ActiveDeadlineSeconds = new(int64(60))
		if err := c.Update(t.Context(), sp, client.FieldOwner("update")); err != nil {
			t.Fatalf("ShadowPod %s: %v", sp.Name, err)
		}
		raw := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Failed","pod":{"reason":"Evicted"}}}`))
		if err := c.Status().Patch(t.Context(), sp, raw, client.FieldOwner("status")); err != nil {
			t.Fatalf("ShadowPod %s: %v", sp.Name, err)
		}
		pod := sp.Spec.Pod
		if pod.Containers[0].Image != "web:2" || pod.Containers[0].Env[0].Value != "info" || *pod.ActiveDeadlineSeconds != 60 || pod.RestartPolicy != corev1.RestartPolicyAlways {
			t.Errorf("ShadowPod %s after a merge patch and an update: %+v", sp.Name, pod)
		}
		if sp.Status.Pod == nil || sp.Status.Pod.Reason != "Evicted" || sp == now && named(sp) {
			t.Errorf("ShadowPod %s: status %+v, metadata.managedFields: %s", sp.Name, sp.Status, fieldsOf(sp))
		}
	}
}

func fieldsOf(sp *offloadingv1beta1.ShadowPod) string {
	var all []string
	for _, entry := range sp.ManagedFields {
		all = append(all, entry.FieldsV1.GetRawString())
	}
	return strings.Join(all, " ")
}

func size(t *testing.T, sp *offloadingv1beta1.ShadowPod, managed bool) int {
	t.Helper()
	if sp = sp.DeepCopy(); !managed {
		sp.ManagedFields = nil
	}
	data, err := json.Marshal(sp)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

// shadow returns a ShadowPod with the fields that a pod of a Deployment usually has.
func shadow(name string) *offloadingv1beta1.ShadowPod {
	probe := &corev1.Probe{PeriodSeconds: 10, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	return &offloadingv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web", "offloading.liqo.io/origin": "rome"}},
		Spec: offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, TerminationGracePeriodSeconds: new(int64(30)),
			AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true)},
			HostAliases: []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{"kubernetes.default"}}},
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
			Volumes:     []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "token"}}}},
			Containers: []corev1.Container{{
				Name: "web", Image: "web:1", Env: []corev1.EnvVar{{Name: "LOG", Value: "info"}}, LivenessProbe: probe, ReadinessProbe: probe,
				Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
				VolumeMounts: []corev1.VolumeMount{{Name: "token", MountPath: "/token", ReadOnly: true}},
			}},
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
			}}}}},
		}},
	}
}
