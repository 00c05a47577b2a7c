package facts

import (
	"log/slog"

	"liqo.io/liqo/internal/network"
)

// ProblemLog logs each problem once, when it appears.
type ProblemLog struct {
	Log    *slog.Logger
	logged map[string]bool
}

// Report logs the problems that were not in the previous call.
func (l *ProblemLog) Report(problems []network.Problem) {
	now := make(map[string]bool, len(problems))
	for _, p := range problems {
		text := p.String()
		now[text] = true
		switch {
		case l.logged[text]:
		case p.Waiting:
			l.Log.Info("Waiting for an object", "clusterID", p.ClusterID, "reason", text)
		default:
			l.Log.Warn("Ignoring an invalid object", "clusterID", p.ClusterID, "reason", text)
		}
	}
	l.logged = now
}
