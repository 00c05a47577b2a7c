package controllers

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestFailedReportsPauseLonger: an API server that lists no pods is asked after pauses that double, until only the ticker of refusedRetry is left. A report that succeeds ends that: the next one
// that fails is tried again soon.
func TestFailedReportsPauseLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReporting(t)
		const plenty = 1000
		for _, message := range []string{"no class", "no quota"} {
			began := time.Now()
			r.unlisted = plenty
			r.Refuse(r.claim, message)
			var tries []time.Duration
			for last, now := plenty, time.Duration(0); now < refusedRetry-time.Second; now = time.Since(began) {
				synctest.Wait()
				for ; last > r.unlisted; last-- {
					tries = append(tries, time.Since(began).Truncate(time.Second))
				}
				time.Sleep(100 * time.Millisecond)
			}
			if want := []time.Duration{0, failedReport, 3 * failedReport, 7 * failedReport}; len(tries) != len(want) || tries[1] != want[1] || tries[2] != want[2] || tries[3] != want[3] {
				t.Errorf("%s: tried after %v, want %v", message, tries, want)
			}
			time.Sleep(10 * refusedRetry)
			before := r.unlisted
			time.Sleep(10 * refusedRetry)
			if tried := before - r.unlisted; tried < 10 || tried > 21 {
				t.Errorf("%s: tried %d times in %s", message, tried, 10*refusedRetry)
			}
			r.unlisted = 0
			// Go on just after a tick, so that none disturbs the next round. The retry is due at the same time, so there may be two reports and their pauses.
			time.Sleep(refusedRetry - time.Since(began)%refusedRetry + 3*reportPause)
		}
	})
}
