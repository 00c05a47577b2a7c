package node

import "testing"

func TestRequestsForCertificatesGetRarer(t *testing.T) {
	if first, second := signingDelay(0), signingDelay(1); first != signingRetry || second != 2*signingRetry {
		t.Errorf("%s, then %s", first, second)
	}
	for _, many := range []int{20, 1 << 30} {
		if got := signingDelay(many); got != signingLastRetry {
			t.Errorf("after %d failures: %s", many, got)
		}
	}
}
