package explain

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
)

// TestInstallationOfDumps: objects that were written to files tell in which namespace Liqo was installed.
func TestInstallationOfDumps(t *testing.T) {
	network := func(namespace, of string) ipamv1alpha1.Network {
		n := ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
		if of != "" {
			n.Labels = map[string]string{ipamv1alpha1.LabelNetworkType: of}
		}
		return n
	}
	for want, networks := range map[string][]ipamv1alpha1.Network{
		"liqo-system": {network("liqo-tenant-milan", ""), network("liqo-system", ipamv1alpha1.NetworkTypePod)},
		"liqo":        {network("liqo-tenant-milan", "")},
	} {
		if got := installationOf(networks); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
