package node

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

func TestCertificateRequestsBackOff(t *testing.T) {
	if first, second := signingDelay(0), signingDelay(1); first != signingRetry || second != 2*signingRetry {
		t.Errorf("%s, then %s", first, second)
	}
	for _, many := range []int{20, 1 << 30} {
		if got := signingDelay(many); got != signingLastRetry {
			t.Errorf("after %d failures: %s", many, got)
		}
	}
}

// TestFirstClientGetsTheSignedCertificate: an API server that verifies kubelets does not fail during the second that signing takes.
func TestFirstClientGetsTheSignedCertificate(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1000, 0))
	c, err := NewCertificate(&Node{opts: Options{Name: "milan", IP: "127.0.0.1", Clock: clock}})
	if err != nil {
		t.Fatal(err)
	}
	own := c.current.Load()
	ask := func() <-chan *tls.Certificate {
		got := make(chan *tls.Certificate, 1)
		go func() {
			served, err := c.serving(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- served
		}()
		return got
	}
	first := ask()
	signed := &tls.Certificate{}
	c.take(signed)
	if served := <-first; served != signed {
		t.Error("who called first did not get the certificate that was signed a moment later")
	}

	if c, err = NewCertificate(c.node); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.serving(gone); err == nil {
		t.Error("who is gone is waited for")
	}
	clock.Step(signingWait)
	if served := <-ask(); served == nil || served == own || served == signed {
		t.Error("where nobody signs the self-signed one serves after a while")
	}
}
