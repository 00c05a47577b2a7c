package dashboard

import (
	"cmp"
	"slices"

	"liqo.io/liqo/internal/doctor"
)

// diagnosisDocument holds the findings of `liqoctl doctor`.
type diagnosisDocument struct {
	// Done is false until the first diagnosis.
	Done     bool             `json:"done"`
	Findings []doctor.Finding `json:"findings"`
}

func diagnosisOf(state *State) diagnosisDocument {
	findings := state.Findings
	if findings == nil {
		findings = []doctor.Finding{}
	}
	return diagnosisDocument{Done: state.Diagnosed, Findings: findings}
}

// finding identifies a finding across diagnoses. It has no level, because a cause takes the level of its worst consequence, which may differ.
type finding struct{ cluster, check, evidence string }

func identify(f *doctor.Finding) finding { return finding{f.Cluster, f.Check, f.Evidence} }

// MergeFindings combines the diagnoses of several pairs of clusters: each finding once, the worst first. A finding that is a consequence in any
// of them is listed under its cause, with its own consequences. No finding is lost.
func MergeFindings(runs ...[]doctor.Finding) []doctor.Finding {
	all := slices.Concat(runs...)
	cause := map[finding]finding{}
	for i := range all {
		for j := range all[i].Consequences {
			cause[identify(&all[i].Consequences[j])] = identify(&all[i])
		}
	}
	var out []doctor.Finding
	at := map[finding]int{}
	for i := range all {
		id := identify(&all[i])
		if _, consequence := cause[id]; consequence {
			continue
		}
		if first, there := at[id]; there {
			out[first].Level = worseLevel(out[first].Level, all[i].Level)
			continue
		}
		at[id] = len(out)
		root := all[i]
		root.Consequences = nil
		out = append(out, root)
	}
	listed := map[finding]bool{}
	for i := range all {
		for _, consequence := range all[i].Consequences {
			id := identify(&consequence)
			if listed[id] {
				continue
			}
			listed[id] = true
			root := id
			for range cause { // at most one step per entry, so that a cycle can't loop forever
				above, more := cause[root]
				if !more {
					break
				}
				root = above
			}
			if of, there := at[root]; there {
				out[of].Consequences = append(out[of].Consequences, consequence)
				out[of].Level = worseLevel(out[of].Level, consequence.Level)
			} else {
				out = append(out, consequence)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b doctor.Finding) int { return cmp.Compare(severity(b.Level), severity(a.Level)) })
	return out
}

// severity ranks the levels: the higher, the worse.
func severity(level doctor.Level) int {
	return slices.Index([]doctor.Level{doctor.OK, doctor.Warn, doctor.Fail}, level)
}

func worseLevel(a, b doctor.Level) doctor.Level {
	if severity(b) > severity(a) {
		return b
	}
	return a
}
