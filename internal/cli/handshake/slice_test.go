package handshake

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

func TestCutRequests(t *testing.T) {
	cpu := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
	for name, c := range map[string]struct {
		asked, granted corev1.ResourceList
		want           bool
	}{
		"nothing asked": {nil, cpu("4"), false}, "all of it": {cpu("4"), cpu("4000m"), false}, "less": {cpu("4"), cpu("1800m"), true},
		"none": {cpu("4"), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			slice := &authv1beta1.ResourceSlice{
				Spec: authv1beta1.ResourceSliceSpec{Resources: c.asked}, Status: authv1beta1.ResourceSliceStatus{Resources: c.granted},
			}
			if got := cut(slice); got != c.want {
				t.Errorf("cut: %v, want %v", got, c.want)
			}
		})
	}
}
