package peering

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

func TestGrants(t *testing.T) {
	for name, c := range map[string]struct {
		tenant authv1beta1.Tenant
		want   Grants
	}{
		"new":      {authv1beta1.Tenant{}, Grants{Access: true, More: true}},
		"active":   {authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{TenantCondition: "Active"}}, Grants{Access: true, More: true}},
		"cordoned": {authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{TenantCondition: "Cordoned"}}, Grants{Access: true}},
		"cordoned by annotation": {authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"liqo.io/cordon": "true"}}},
			Grants{Access: true}},
		"drained": {authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{TenantCondition: "Drained"}}, Grants{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := GrantsOf(&c.tenant); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
