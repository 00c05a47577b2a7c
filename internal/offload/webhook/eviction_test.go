package webhook

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/test/apitest"
)

// TestEvictionPolicyOnAPIServer: Kubernetes does not evict the pods of an unreachable provider.
func TestEvictionPolicyOnAPIServer(t *testing.T) {
	admin := apitest.APIServer(t)
	c := apitest.Client(t, admin)
	for _, policy := range chart(t, values(), "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding") {
		if err := c.Create(t.Context(), policy); err != nil {
			t.Fatalf("creating %s %s: %v", policy.GetKind(), policy.GetName(), err)
		}
	}
	as := func(user string) client.Client {
		config := rest.CopyConfig(admin)
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
		return apitest.Client(t, config)
	}
	evictor, owner := as("system:serviceaccount:kube-system:node-controller"), as("system:serviceaccount:kube-system:replicaset-controller")

	seconds := func(n int64) []corev1.Toleration {
		var tolerations []corev1.Toleration
		for _, key := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
			tolerations = append(tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &n})
		}
		return tolerations
	}
	pod := func(name string, tolerations []corev1.Toleration, mark func(*corev1.Pod) string) *corev1.Pod {
		t.Helper()
		no := int64(0)
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"liqo.io/shadowPod": "true"}},
			Spec: corev1.PodSpec{
				NodeName: "milan", Containers: []corev1.Container{{Name: "web", Image: "web:1"}}, Tolerations: tolerations,
				TerminationGracePeriodSeconds: &no, AutomountServiceAccountToken: new(bool),
			},
		}
		if err := c.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		p.Annotations = map[string]string{podrules.AnnotationOffloaded: mark(p)}
		if err := c.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	itself := func(p *corev1.Pod) string { return string(p.UID) }
	other := func(*corev1.Pod) string { return "the one it was copied from" }

	kept := pod("kept", seconds(300), itself)
	apitest.InForce(t, c)
	apitest.Eventually(t, within, "the policy to be in force", func() error {
		probe := pod("probe", seconds(300), itself)
		if err := evictor.Delete(t.Context(), probe); err == nil {
			return errors.New("not yet")
		}
		return c.Delete(t.Context(), probe)
	})
	if err := evictor.Delete(t.Context(), kept); err == nil || !strings.Contains(err.Error(), "pod kept runs in another cluster") {
		t.Errorf("evicting an offloaded pod: %v", err)
	}
	if err := owner.Delete(t.Context(), kept); err != nil {
		t.Errorf("its owner deletes it: %v", err)
	}
	if err := evictor.Delete(t.Context(), pod("impatient", seconds(30), itself)); err != nil {
		t.Errorf("evicting a pod that asked for it: %v", err)
	}
	if err := evictor.Delete(t.Context(), pod("local", seconds(300), other)); err != nil {
		t.Errorf("evicting a pod that only looks like one: %v", err)
	}
}
