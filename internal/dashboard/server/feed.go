package server

import (
	"sync"

	"liqo.io/liqo/internal/dashboard"
)

// Feed holds the newest documents, and wakes the streams when there are newer ones. A slow stream skips documents that are outdated by the time
// it reads.
type Feed struct {
	mu        sync.Mutex
	documents dashboard.Documents
	newer     chan struct{}
}

// NewFeed returns a feed without documents.
func NewFeed() *Feed { return &Feed{newer: make(chan struct{})} }

// Publish replaces the documents. They must not be changed afterwards.
func (f *Feed) Publish(documents dashboard.Documents) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.documents = documents
	close(f.newer)
	f.newer = make(chan struct{})
}

// Latest returns the newest documents, and a channel that is closed when there are newer ones. The documents are nil before the first ones.
func (f *Feed) Latest() (documents dashboard.Documents, newer <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.documents, f.newer
}
