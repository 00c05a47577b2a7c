package trigger

import "testing"

func TestManySignalsAreOne(t *testing.T) {
	trigger := New()
	for range 3 {
		trigger.Fire()
	}
	<-trigger
	select {
	case <-trigger:
		t.Error("received a second signal, want one for all")
	default:
	}
}
