package agent

import (
	"log/slog"
	"maps"
	"time"

	"liqo.io/liqo/internal/dataplane"
)

// repeated is the time without a recurrence after which the journal logs a change again.
const repeated = time.Minute

// journal logs changes, but not repeated ones: a client that fails to reach a peer makes the same changes every two seconds until it
// succeeds.
type journal struct {
	log  *slog.Logger
	seen map[string]time.Time // last time of each change, by identity
}

func (j *journal) record(changes []dataplane.Change, now time.Time) {
	maps.DeleteFunc(j.seen, func(_ string, at time.Time) bool { return now.Sub(at) >= repeated })
	if j.seen == nil {
		j.seen = make(map[string]time.Time, len(changes))
	}
	var news []string
	count := 0
	for _, c := range changes {
		key := identity(c)
		if _, known := j.seen[key]; !known {
			count++
			if len(news) < listed {
				news = append(news, c.String())
			}
		}
		j.seen[key] = now
	}
	if count > len(news) {
		news = append(news, "...")
	}
	if count > 0 {
		j.log.Info("Changed the network configuration", "count", count, "changes", news)
	}
}

// identity returns the key of a change in the journal. It keeps only the link of a device and the public key of a peer, because a client
// that redials uses another port and endpoint each time.
func identity(c dataplane.Change) string {
	switch {
	case c.Device != nil:
		c.Device = &dataplane.Device{Link: c.Device.Link}
	case c.Peer != nil:
		c.Peer = &dataplane.DevicePeer{Link: c.Peer.Link, Peer: dataplane.Peer{PublicKey: c.Peer.Peer.PublicKey}}
	}
	return c.String()
}
