package api

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEphemeralClaims: only a claim that Kubernetes created for an ephemeral volume of its owner counts as ephemeral.
func TestEphemeralClaims(t *testing.T) {
	yes, no := true, false
	owner := func(change func(*metav1.OwnerReference)) []metav1.OwnerReference {
		o := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "job", UID: "1", Controller: &yes, BlockOwnerDeletion: &yes}
		change(&o)
		return []metav1.OwnerReference{o}
	}
	same := func(*metav1.OwnerReference) {}
	job := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "job", UID: "1"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		{Name: "exec-1", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "job-exec-1"}}},
	}}}
	for name, test := range map[string]struct {
		claim    string
		owners   []metav1.OwnerReference
		looks    bool
		ofTheJob bool
	}{
		"of Kubernetes":                    {"job-scratch", owner(same), true, true},
		"of another pod of that name":      {"job-scratch", owner(func(o *metav1.OwnerReference) { o.UID = "2" }), true, false},
		"of an executor of the job":        {"job-exec-1", owner(same), true, false},
		"of a pod with another name":       {"exec-1-data", owner(same), false, false},
		"without a name of a volume":       {"job-", owner(same), false, false},
		"of a program":                     {"job-exec-1", owner(func(o *metav1.OwnerReference) { o.BlockOwnerDeletion = nil }), false, false},
		"of a program that does not block": {"job-exec-1", owner(func(o *metav1.OwnerReference) { o.BlockOwnerDeletion = &no }), false, false},
		"of a pod that is no controller":   {"job-exec-1", owner(func(o *metav1.OwnerReference) { o.Controller = nil }), false, false},
		"of a StatefulSet":                 {"job-exec-1", owner(func(o *metav1.OwnerReference) { o.APIVersion, o.Kind = "apps/v1", "StatefulSet" }), false, false},
		"of a Pod of another group":        {"job-exec-1", owner(func(o *metav1.OwnerReference) { o.APIVersion = "example.org/v1" }), false, false},
		"without an owner":                 {"job-scratch", nil, false, false},
	} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: test.claim, OwnerReferences: test.owners}}
		if got := Ephemeral(claim); got != test.looks {
			t.Errorf("%s: it looks ephemeral: %v", name, got)
		}
		if got := EphemeralOf(claim, job); got != test.ofTheJob {
			t.Errorf("%s: it is an ephemeral volume of the job: %v", name, got)
		}
	}
}
