package webhook

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// TestClaimsOfAllNamespacesOfAConsumerCount: the claims of all namespaces of a consumer together stay within its limits, whichever namespace the next one is in. Those of
// another consumer, and quotas of an administrator, do not count.
func TestClaimsOfAllNamespacesOfAConsumerCount(t *testing.T) {
	quota := func(consumer, namespace, name, storage string, claims int64) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: offload.RuntimeLabels(nil, consumer)},
			Status: corev1.ResourceQuotaStatus{Used: corev1.ResourceList{
				corev1.ResourceRequestsStorage: resource.MustParse(storage), corev1.ResourcePersistentVolumeClaims: *resource.NewQuantity(claims, resource.DecimalSI),
			}},
		}
	}
	namespace := func(name, consumer string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelRemoteClusterID: consumer}}}
	}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
		namespace("shop-rome", "rome"), namespace("blog-rome", "rome"), namespace("web-naples", "naples"),
		quota("rome", "shop-rome", offload.RemoteNamespaceQuota, "60Gi", 3), quota("rome", "blog-rome", offload.RemoteNamespaceQuota, "30Gi", 1),
		quota("rome", "blog-rome", "of-an-administrator", "500Gi", 50), quota("naples", "web-naples", offload.RemoteNamespaceQuota, "70Gi", 5),
	).Build()
	total := corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse("100Gi"), corev1.ResourcePersistentVolumeClaims: resource.MustParse("5")}
	claim := func(size string) runtime.RawExtension {
		data, err := json.Marshal(&corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: data}
	}
	for name, row := range map[string]struct {
		namespace, before, after, denied string
		total                            corev1.ResourceList
	}{
		"fits":                      {namespace: "shop-rome", after: "10Gi"},
		"fits in one namespace":     {namespace: "blog-rome", after: "11Gi", denied: "11Gi of requests.storage are wanted, 90Gi of 100Gi are used in all namespaces of the consumer: request less"},
		"of another consumer":       {namespace: "web-naples", after: "30Gi", denied: "1 of persistentvolumeclaims are wanted, 5 of 5 are used"},
		"grows":                     {namespace: "shop-rome", before: "10Gi", after: "20Gi"},
		"grows too much":            {namespace: "shop-rome", before: "10Gi", after: "21Gi", denied: "11Gi of requests.storage"},
		"another change, when full": {namespace: "web-naples", before: "40Gi", after: "40Gi", total: corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse("1Gi")}},
		"storage without a limit":   {namespace: "shop-rome", after: "10Ti", total: corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("5")}},
	} {
		h := &claims{decoder: admission.NewDecoder(c.Scheme()), live: c, total: total}
		if row.total != nil {
			h.total = row.total
		}
		request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: row.namespace, Object: claim(row.after)}}
		if row.before != "" {
			request.Operation, request.OldObject = admissionv1.Update, claim(row.before)
		}
		response := h.Handle(t.Context(), request)
		if response.Allowed != (row.denied == "") || !strings.Contains(fmt.Sprint(response.Result), row.denied) {
			t.Errorf("%s: allowed %t, %v; want %q", name, response.Allowed, response.Result, row.denied)
		}
	}
}
