package controllers

import (
	"crypto/rand"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	sharingv1alpha1 "liqo.io/liqo/api/sharing/v1alpha1"
	"liqo.io/liqo/internal/peering"
)

// consumer admits a cluster that the administrator of milan vouches for.
func (c *cluster) consumer(t *testing.T, id string) *cluster {
	t.Helper()
	other := &cluster{id: id}
	c.create(t, c.tenantNamespace(other))
	c.create(t, &authv1beta1.Tenant{ObjectMeta: c.meta(other, id), Spec: authv1beta1.TenantSpec{ClusterID: id, AuthzPolicy: authv1beta1.TolerateNoHandshake}})
	return other
}

// copied makes the copy of a consumer's ResourceSlice, as its replication does.
func (c *cluster) copied(t *testing.T, consumer *cluster, name, class string, asked ...string) *authv1beta1.ResourceSlice {
	t.Helper()
	_, _, key := newKey(t)
	request, err := peering.NewRequest(rand.Reader, key, peering.ResourceSliceSubject(name, consumer.id))
	if err != nil {
		t.Fatal(err)
	}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: c.meta(consumer, name, api.LabelReplicated), Spec: authv1beta1.ResourceSliceSpec{
		ConsumerClusterID: consumer.id, ProviderClusterID: c.id, CSR: request, Class: class, Resources: resources(asked...),
	}}
	slice.Labels[api.LabelOriginID], slice.Labels[api.LabelReplication] = consumer.id, api.False
	c.create(t, slice)
	return slice
}

// gets waits until a ResourceSlice and its Quota have that much CPU, and returns the message of the condition.
func (c *cluster) gets(t *testing.T, slice *authv1beta1.ResourceSlice, cpu string) string {
	t.Helper()
	want := resource.MustParse(cpu)
	user := peering.ResourceSliceSubject(slice.Name, slice.Spec.ConsumerClusterID).User
	eventually(t, c, slice, cpu+" of cpu granted", func(s *authv1beta1.ResourceSlice) bool { return s.Status.Resources.Cpu().Cmp(want) == 0 })
	quota := &offloadingv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: user}}
	eventually(t, c, quota, cpu+" of cpu granted", func(q *offloadingv1beta1.Quota) bool { return q.Spec.Resources.Cpu().Cmp(want) == 0 })
	for _, condition := range slice.Status.Conditions {
		if condition.Type == authv1beta1.ResourceSliceResources {
			return condition.Message
		}
	}
	return ""
}

// TestSharesOnAPIServer: shares follow nodes, pods, other consumers and ResourceOffers while these change.
func TestSharesOnAPIServer(t *testing.T) {
	milan := newCluster(t, "milan")
	milan.run(t)
	rome := milan.consumer(t, "rome")
	big := milan.copied(t, rome, "big", "", "cpu", "60")
	if message := milan.gets(t, big, "57600m"); !strings.Contains(message, "57600m of 60 cpu (the provider shares 90% of what it has free") {
		t.Errorf("what was cut is told as %q", message)
	}

	milan.create(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "own"},
		Spec: corev1.PodSpec{NodeName: "one", Containers: []corev1.Container{{
			Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: resources("cpu", "44")},
		}}},
	})
	milan.gets(t, big, "18")
	milan.node(t, "two", "cpu", "20")
	milan.gets(t, big, "36")
	paris := milan.consumer(t, "paris")
	other := milan.copied(t, paris, "other", "", "cpu", "30")
	milan.gets(t, big, "18")
	milan.gets(t, other, "18")

	offer := &sharingv1alpha1.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "rome"},
		Spec:       sharingv1alpha1.ResourceOfferSpec{ClusterID: "rome", Resources: sharingv1alpha1.OfferedResources{Limits: resources("cpu", "10")}},
	}
	milan.create(t, offer)
	if message := milan.gets(t, big, "10"); !strings.Contains(message, "a ResourceOffer limits cluster rome") {
		t.Errorf("what was cut is told as %q", message)
	}
	milan.gets(t, other, "26")
	eventually(t, milan, offer, "ready", func(o *sharingv1alpha1.ResourceOffer) bool {
		return apimeta.IsStatusConditionTrue(o.Status.Conditions, "Ready")
	})
	milan.delete(t, offer)
	milan.gets(t, big, "18")

	// ResourceSlices of other classes belong to other controllers, but count for the limit. Beyond the limit, the oldest ones are granted.
	gold := milan.copied(t, rome, "gold", "gold", "cpu", "1")
	milan.copied(t, rome, "third", "", "cpu", "1")
	milan.copied(t, rome, "fourth", "", "cpu", "1")
	eventually(t, milan, gold, "authenticated, and nothing else", func(s *authv1beta1.ResourceSlice) bool {
		return peering.ConditionOf(&s.Status, authv1beta1.ResourceSliceAuthentication) == authv1beta1.ResourceSliceAccepted &&
			peering.ConditionOf(&s.Status, authv1beta1.ResourceSliceResources) == "" && s.Status.Resources == nil
	})
	fifth := milan.copied(t, rome, "z-fifth", "", "cpu", "1")
	eventually(t, milan, fifth, "refused", func(s *authv1beta1.ResourceSlice) bool {
		return peering.ConditionOf(&s.Status, authv1beta1.ResourceSliceResources) == authv1beta1.ResourceSliceDenied &&
			strings.Contains(s.Status.Conditions[0].Message, "4 ResourceSlices") && s.Status.AuthParams == nil
	})
	milan.delete(t, gold)
	milan.gets(t, fifth, "1")
}
