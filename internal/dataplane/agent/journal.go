package agent

import (
	"log/slog"
	"maps"
	"time"

	"liqo.io/liqo/internal/dataplane"
)

// repeated is how long a change must not have come again to be told of as new.
const repeated = time.Minute

// journal tells of changes, of each once: a client that dials a peer in vain makes the same ones every two seconds, for as long as that lasts.
type journal struct {
	log  *slog.Logger
	seen map[string]time.Time // when each change was last made
}

func (j *journal) tell(changes []dataplane.Change, now time.Time) {
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
		j.log.Info("Changed", "count", count, "changes", news)
	}
}

// identity is what a change is about. Where a client dials from and to is another one each time.
func identity(c dataplane.Change) string {
	switch {
	case c.Device != nil:
		c.Device = &dataplane.Device{Link: c.Device.Link}
	case c.Peer != nil:
		c.Peer = &dataplane.DevicePeer{Link: c.Peer.Link, Peer: dataplane.Peer{PublicKey: c.Peer.Peer.PublicKey}}
	}
	return c.String()
}
