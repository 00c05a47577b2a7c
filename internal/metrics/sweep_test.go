package metrics

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// collections returns the number of garbage collections that the program has requested.
func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumForcedGC
}

// collected waits for the end of a collection later than before, a result of collections.
func collected(t *testing.T, before uint32) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); collections() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the garbage of scrapes is not collected")
		}
	}
}

// TestGarbageOfScrapesIsCollected: a collection starts before much garbage accumulates, but not after each scrape.
func TestGarbageOfScrapesIsCollected(t *testing.T) {
	var kept []byte
	scrape := func(size int) {
		Sweep(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { kept = make([]byte, size) })).ServeHTTP(httptest.NewRecorder(), nil)
	}
	runtime.GC()
	_, live := heap()
	most := int(max(leastGarbage, live/liveShare))
	limit(t, rate.NewLimiter(rate.Every(pause), burst))
	before := collections()
	scrape(most / 4)
	scrape(most / 4)
	time.Sleep(50 * time.Millisecond)
	if n := collections() - before; n != 0 {
		t.Errorf("%d collections for half of the garbage that is left to Go", n)
	}
	scrape(2 * most)
	collected(t, before)
	if left := garbage.Load(); left != 0 {
		t.Errorf("%d bytes count for the next collection, too", left)
	}
	runtime.KeepAlive(kept)
}

// TestSweepsPause: paths that are scraped one after the other each start a collection. Scrapes that go on do not keep the program busy with collections. Their
// garbage counts for the next one, after the pause.
func TestSweepsPause(t *testing.T) {
	var kept []byte
	_, live := heap()
	size := 2 * int(max(leastGarbage, live/liveShare))
	scrape := func() {
		Sweep(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { kept = make([]byte, size) })).ServeHTTP(httptest.NewRecorder(), nil)
	}
	limit(t, rate.NewLimiter(rate.Every(time.Hour), burst)) // an hour, so that the pause does not end during the test, however slow the machine is
	for range burst {
		before := collections()
		scrape()
		collected(t, before)
	}
	before := collections()
	for range 10 {
		scrape()
	}
	if made := garbage.Load(); collections() != before || made < uint64(10*size) {
		t.Errorf("a collection began within the pause: %d bytes wait for one, want %d", made, 10*size)
	}
	limiter.SetLimit(rate.Inf)
	scrape()
	collected(t, before)
	if left := garbage.Load(); left >= uint64(size) {
		t.Errorf("no collection began after the pause: %d bytes wait for one", left)
	}
	runtime.KeepAlive(kept)
}

// limit sets the limiter of collections for a test that begins without garbage.
func limit(t *testing.T, l *rate.Limiter) {
	usual := limiter
	t.Cleanup(func() { limiter = usual })
	limiter = l
	garbage.Store(0)
}
