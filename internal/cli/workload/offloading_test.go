package workload

import (
	"testing"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func TestStricter(t *testing.T) {
	local, remote, both := offloadingv1beta1.PodsLocal, offloadingv1beta1.PodsRemote, offloadingv1beta1.PodsLocalAndRemote
	for _, test := range []struct {
		before, after offloadingv1beta1.PodOffloadingStrategy
		want          bool
	}{
		{"", local, false}, {both, local, true}, {both, remote, true}, {local, remote, true}, {remote, local, true},
		{local, both, false}, {remote, both, false}, {both, both, false}, {remote, remote, false},
	} {
		if got := stricter(test.before, test.after); got != test.want {
			t.Errorf("%q to %q: %v", test.before, test.after, got)
		}
	}
}
