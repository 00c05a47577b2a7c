package metrics

import (
	"net/http"
	"runtime"
	runtimemetrics "runtime/metrics"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// leastGarbage is the amount of garbage, in bytes, below which Sweep starts no collection.
const leastGarbage = 256 << 10

// Sweep starts no collection while the garbage is at most the live heap divided by liveShare.
const liveShare = 128

// Several paths are often scraped one right after the other, six of them for a virtual kubelet. Each may start a collection. Beyond that, collections are a pause
// apart, so that clients who scrape all the time do not keep a program busy.
const (
	pause = 200 * time.Millisecond
	burst = 6
)

// garbage is the number of bytes that scrapes have allocated since Sweep last started a collection. limiter limits the rate of collections.
var (
	garbage atomic.Uint64
	limiter = rate.NewLimiter(rate.Every(pause), burst)
)

// Sweep returns a handler that calls next and then collects the garbage of the scrape. A scrape allocates more memory than most programs do between
// two scrapes. By itself, Go collects garbage only after the heap has grown by a part of its size, or every two minutes.
func Sweep(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before, _ := heap()
		next.ServeHTTP(w, r)
		after, live := heap()
		if made := garbage.Add(after - before); made >= max(leastGarbage, live/liveShare) && limiter.Allow() && garbage.CompareAndSwap(made, 0) {
			go runtime.GC() // the response does not wait for it
		}
	})
}

// heap returns the number of bytes allocated since the start of the program, and the number of bytes in use after the last collection.
func heap() (allocated, live uint64) {
	samples := [...]runtimemetrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	runtimemetrics.Read(samples[:])
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}
