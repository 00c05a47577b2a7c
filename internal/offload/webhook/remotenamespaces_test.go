package webhook

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/apitest"
)

// TestProvidersDeployNothingByAccidentOnAPIServer: a consumer reads the Secrets of its remote namespaces and executes commands in the pods there. So a provider
// creates neither there unless it says that it means to.
func TestProvidersDeployNothingByAccidentOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	for _, object := range chart(t, values(), "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding") {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	of := func(labels ...string) map[string]string {
		all := map[string]string{api.LabelRemoteClusterID: "rome"}
		for _, label := range labels {
			all[label] = api.True
		}
		return all
	}
	namespace(t, admin, "prod", of())
	namespace(t, admin, "liqo-tenant-rome", of(api.LabelTenantNamespace))
	namespace(t, admin, "local", nil)
	shared := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shared", Labels: of(), Annotations: map[string]string{api.AnnotationShareWithConsumer: api.True}}}
	if err := admin.Create(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	as := func(user string, groups ...string) client.Client {
		other := rest.CopyConfig(config)
		other.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:masters")}
		return apitest.Client(t, other)
	}
	flux, rome := as("system:serviceaccount:flux-system:kustomize-controller"), as("pool-0a1b2c3d4e5f", "rome")
	manager, replicaSets := as("system:serviceaccount:liqo:liqo-controller-manager"), as("system:serviceaccount:kube-system:replicaset-controller")

	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}, AutomountServiceAccountToken: new(bool)}
	labels := map[string]string{"app": "web"}
	template, selector := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}, &metav1.LabelSelector{MatchLabels: labels}
	once := *template.DeepCopy()
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	meta := metav1.ObjectMeta{Namespace: "prod", Name: "web"}
	kinds := map[string]client.Object{
		"Secret":                &corev1.Secret{ObjectMeta: meta},
		"Pod":                   &corev1.Pod{ObjectMeta: meta, Spec: spec},
		"ReplicationController": &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: labels, Template: &template}},
		"Deployment":            &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}},
		"ReplicaSet":            &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}},
		"StatefulSet":           &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}},
		"DaemonSet":             &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}},
		"Job":                   &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: once}},
		"CronJob":               &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "0 0 * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: once}}}},
	}
	create := func(c client.Client, kind string, change func(client.Object)) error {
		object := kinds[kind].DeepCopyObject().(client.Object)
		if change != nil {
			change(object)
		}
		return c.Create(t.Context(), object, client.DryRunAll)
	}
	apitest.InForce(t, admin)
	apitest.Eventually(t, within, "the policies to be in force", func() error {
		if create(flux, "Secret", nil) == nil {
			return errors.New("a Secret of the provider is admitted")
		}
		return nil
	})
	in := func(namespace string) func(client.Object) { return func(o client.Object) { o.SetNamespace(namespace) } }
	owned := func(kind string) func(client.Object) {
		return func(o client.Object) {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: kind, Name: "web", UID: "1", Controller: new(true)}})
		}
	}
	for kind := range kinds {
		err := create(flux, kind, nil)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "namespace prod belongs to cluster 'rome'") || !strings.Contains(err.Error(), "liqo.io/share-with-consumer=true") {
			t.Errorf("a %s of the provider in a remote namespace: %v", kind, err)
		}
		for what, change := range map[string]func(client.Object){
			"in a tenant namespace":           in("liqo-tenant-rome"),
			"in a local namespace":            in("local"),
			"in a namespace that is shared":   in("shared"),
			"that is shared":                  func(o client.Object) { o.SetAnnotations(map[string]string{api.AnnotationShareWithConsumer: api.True}) },
			"that is a copy, from a backup":   func(o client.Object) { o.SetLabels(map[string]string{api.LabelOrigin: "rome", "app": "web"}) },
			"of a workload that was admitted": owned("ReplicaSet"),
		} {
			if err := create(flux, kind, change); err != nil {
				t.Errorf("a %s of the provider %s: %v", kind, what, err)
			}
		}
	}
	if err := create(flux, "StatefulSet", owned("Postgres")); err == nil {
		t.Error("a StatefulSet of an operator is admitted in a remote namespace")
	}
	// Earlier releases of liqoctl test network created it there, in the network of the nodes.
	if err := create(flux, "DaemonSet", func(o client.Object) { o.SetName("network-test-host") }); !apierrors.IsForbidden(err) {
		t.Errorf("a DaemonSet of the provider in the network of its nodes: %v, want a refusal", err)
	}
	if err := create(replicaSets, "Pod", owned("ReplicaSet")); err != nil {
		t.Errorf("a pod of an admitted ReplicaSet: %v", err)
	}
	if err := create(manager, "Pod", nil); err != nil {
		t.Errorf("a pod of a ShadowPod: %v", err)
	}
	// The policy for copies decides on it, with another reason.
	if err := create(rome, "Secret", nil); err == nil || strings.Contains(err.Error(), "share-with-consumer") {
		t.Errorf("a Secret of the consumer without labels: %v", err)
	}

	// Quotas count the pods with this label as those of a consumer.
	counted := func(namespace, label string) func(client.Object) {
		return func(o client.Object) {
			o.SetNamespace(namespace)
			o.SetLabels(map[string]string{offloadingv1beta1.LabelManagedBy: label, offloadingv1beta1.LabelCreatorUser: "pool-0a1b2c3d4e5f"})
		}
	}
	if err := create(flux, "Pod", counted("local", offloadingv1beta1.ManagedByShadowPod)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "Namespace local has no such pods: remove the label") {
		t.Errorf("a pod of this cluster that would count as one of a consumer: %v", err)
	}
	if err := create(flux, "Pod", counted("local", "another")); err != nil {
		t.Errorf("a pod with another value of the label: %v", err)
	}
	if err := create(manager, "Pod", counted("prod", offloadingv1beta1.ManagedByShadowPod)); err != nil {
		t.Errorf("a pod of a ShadowPod with its labels: %v", err)
	}
	if err := create(manager, "Pod", counted("local", offloadingv1beta1.ManagedByShadowPod)); err != nil {
		t.Errorf("a pod of a ShadowPod in a remote namespace that lost its label: %v", err)
	}
	plain := kinds["Pod"].DeepCopyObject().(*corev1.Pod)
	plain.Namespace = "local"
	if err := flux.Create(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	counted("local", offloadingv1beta1.ManagedByShadowPod)(plain)
	if err := flux.Update(t.Context(), plain); !apierrors.IsForbidden(err) {
		t.Errorf("a pod of this cluster gets the label later: %v", err)
	}
}
