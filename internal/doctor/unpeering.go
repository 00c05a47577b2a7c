package doctor

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
)

// unpeerTime is how long the deletion of an object of a peering may take. After that, the doctor reports it as stuck.
const unpeerTime = 2 * time.Minute

// unpeerings checks for an unpeer that started and is stuck. For each provider, it reports the first object whose deletion takes too long.
func unpeerings(r *report) {
	reported := map[string]bool{}
	check := func(kind string, object *metav1.ObjectMeta, provider string) {
		since := object.DeletionTimestamp
		if since == nil || provider == "" || reported[provider] || r.now.Sub(since.Time) < unpeerTime {
			return
		}
		reported[provider] = true
		r.about(partUnpeering, provider)
		why := ""
		if len(object.Finalizers) > 0 {
			why = ", held by finalizers " + strings.Join(object.Finalizers, ", ")
		}
		r.fail(fmt.Sprintf("liqoctl unpeer %s resumes it when %s can be reached; if %s is gone for good: liqoctl force unpeer %s",
			provider, provider, provider, provider),
			"an unpeer of cluster %s is half done: %s %s in namespace %s is being deleted since %s%s", provider, kind, object.Name, object.Namespace,
			since.UTC().Format(time.RFC3339), why)
	}
	for i := range r.VirtualNodes {
		check("VirtualNode", &r.VirtualNodes[i].ObjectMeta, r.VirtualNodes[i].Spec.ClusterID)
	}
	for i := range r.Slices {
		check("ResourceSlice", &r.Slices[i].ObjectMeta, r.Slices[i].Labels[api.LabelRemoteID])
	}
	for i := range r.Identities {
		check("Identity", &r.Identities[i].ObjectMeta, r.Identities[i].Spec.ClusterID)
	}
}
