package gateway

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBatch: the scheduling policy applies to all threads, also to those started later.
func TestBatch(t *testing.T) {
	if err := batch(); err != nil {
		t.Fatal(err)
	}
	var waiting sync.WaitGroup
	release := make(chan struct{})
	started := make(chan int)
	for range 8 {
		waiting.Go(func() {
			runtime.LockOSThread() // one for each, which ends with it
			started <- unix.Gettid()
			<-release
		})
	}
	threads := map[int]bool{}
	for range 8 {
		threads[<-started] = true
	}
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		id, err := strconv.Atoi(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		threads[id] = true
	}
	for id := range threads {
		if attributes, err := unix.SchedGetAttr(id, 0); err == nil && attributes.Policy != unix.SCHED_BATCH {
			t.Errorf("thread %d has policy %d, want %d", id, attributes.Policy, unix.SCHED_BATCH)
		}
	}
	close(release)
	waiting.Wait()
}
