package facts

import (
	"log/slog"

	"liqo.io/liqo/internal/network"
)

// ProblemLog logs each problem once, when it appears.
type ProblemLog struct {
	Log  *slog.Logger
	told map[string]bool
}

// Tell logs the problems that were not in the previous call.
func (l *ProblemLog) Tell(problems []network.Problem) {
	now := make(map[string]bool, len(problems))
	for _, p := range problems {
		text := p.String()
		now[text] = true
		switch {
		case l.told[text]:
		case p.Waiting:
			l.Log.Info("Waiting", "cluster", p.ClusterID, "for", text)
		default:
			l.Log.Warn("An object has no effect", "cluster", p.ClusterID, "problem", text)
		}
	}
	l.told = now
}
