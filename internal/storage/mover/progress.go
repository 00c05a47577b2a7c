package mover

import (
	"encoding/json"
	"io"
	"time"
)

// progress prints the amount of data that was read or written. It uses the format of restic and prints at most once a second.
type progress struct {
	out         io.Writer
	done, total int64
	printed     time.Time
}

// status is a line of progress. Its type is "status" as in restic, or "verify" while a checksum is computed.
type status struct {
	Type       string `json:"message_type"`
	BytesDone  int64  `json:"bytes_done"`
	TotalBytes int64  `json:"total_bytes,omitempty"`
}

func newProgress(out io.Writer, total int64) *progress { return &progress{out: out, total: total} }

func (p *progress) add(n int, kind string) {
	p.done += int64(n)
	if now := time.Now(); now.Sub(p.printed) >= time.Second {
		p.printed = now
		// Progress is informational, so errors are ignored.
		_ = json.NewEncoder(p.out).Encode(status{Type: kind, BytesDone: p.done, TotalBytes: p.total})
	}
}

// counter counts the bytes that are written to a device.
type counter struct {
	progress *progress
	to       io.Writer
}

// Write writes to the device.
func (c *counter) Write(data []byte) (int, error) {
	n, err := c.to.Write(data)
	c.progress.add(n, "status")
	return n, err
}
